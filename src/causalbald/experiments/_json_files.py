"""Small JSON files that are written whole or not at all, while others read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from causalbald._files import replacing
from causalbald.errors import InputError


def read_all(paths: Iterable[Path]) -> list[Any]:
    """Return the contents of the files in their order, without files that no longer exist.

    Raises InputError if a file is damaged.
    """
    return [record for record in map(read_json, paths) if record is not None]


def read_json(path: Path) -> Any:
    """Return the content of a JSON file, or None if there is no such file.

    A worker may delete the file at any time. Raises InputError if the file is damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise InputError(f"{str(path)!r} is damaged ({error}): delete it, and its trial will be run again.") from error


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as JSON to ``path``, whole or not at all. A file that exists is replaced."""
    with replacing(path) as beside:
        beside.write_bytes(json.dumps(content).encode())
