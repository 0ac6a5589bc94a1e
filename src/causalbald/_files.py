"""Files that appear when they are whole, or never."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from causalbald.errors import InputError


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


def check_place(path: Path | None) -> None:
    """Refuse a name under which no file can be written, before the work."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise InputError(f"folder {str(path.parent)!r} does not exist: create it first, or choose another name.")
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder: choose another name, or one in it.")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes that ask for the same lock waiting; they are let in when this one is done, or dies.

    Where the system has no such locks (Windows, some network folders), nobody waits.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("ab") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
