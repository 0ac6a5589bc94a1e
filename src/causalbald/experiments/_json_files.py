"""Small JSON files that are written whole or not at all, while others read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from causalbald._files import replacing
from causalbald.errors import InputError


def read_all(paths: Iterable[Path]) -> list[Any]:
    """Return the contents of the files that still exist."""
    return [record for record in map(read_json, paths) if record is not None]


def read_json(path: Path) -> Any:
    """Return the content of a file; None if it does not exist, or no longer, as workers may finish at any time.

    Raises InputError if the file is damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise InputError(f"{str(path)!r} is damaged ({error}): delete it, and its trial will be run again.") from error


def write_json(path: Path, content: Any) -> None:
    """Replace a file, whole or not at all."""
    with replacing(path) as beside:
        beside.write_bytes(json.dumps(content).encode())
