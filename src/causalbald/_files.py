"""Files that appear when they are whole, or never."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a file to write beside ``path``, and put it in its place when it is whole and on disk."""
    beside = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
