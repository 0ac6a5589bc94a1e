"""Files that appear when they are whole, or never, and that nobody reads who may not read what they come from."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from uuid import uuid4

from causalbald.errors import InputError

# What files held when a command looked at them, before its work. Between then and the end people may type into them.
_checked: dict[Path, Hashable] = {}


@contextmanager
def replacing(path: Path, *sources: Path | None) -> Iterator[Path]:
    """Yield the path of a file to write beside ``path``, and put it in its place when it is whole and on disk.

    It keeps the permissions of the file it replaces; a new one is no more open than any of its ``sources``. A file that
    has changed since :func:`check_place` looked at it stays: the new one gets another name, and InputError says so.
    """
    if path.exists() and not path.is_file():  # such as /dev/stdout, which can only be written to
        yield path
        return
    has_changed = _change_of(path)
    beside = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        mode = create_closed(beside, *sources, replaces=path)
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        set_mode(beside, mode)
        if has_changed():
            kept = _free_name(path)
            beside.replace(kept)
            raise InputError(
                f"{str(path)!r} was changed while this command ran, and is left as it is. What was to replace it is in "
                f"{str(kept)!r}."
            )
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def create_closed(path: Path, *sources: Path | None, replaces: Path | None = None) -> int:
    """Create an empty file that its owner alone can read; return the permissions to set when it is whole.

    They are those of the file that it ``replaces``. If there is none, they are those that the umask leaves to a new
    file and that all ``sources`` have, too.
    """
    before = None if replaces is None else _status(replaces)
    origins = [before] if before else [status for s in sources if s is not None and (status := _status(s))]
    # As narrow from the start as in the end: what is open for a moment could be held open for good.
    mode = 0o600 if before else 0o666
    for origin in origins:
        mode &= origin.st_mode | stat.S_IRWXU
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    try:
        created = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if os.name != "posix":
        return stat.S_IMODE(created.st_mode)
    set_mode(path, 0o600)
    group = created.st_gid
    if before:
        with suppress(OSError):
            os.chown(path, before.st_uid if os.geteuid() == 0 else -1, before.st_gid)
            group = before.st_gid
    mode = stat.S_IMODE(before.st_mode if before else created.st_mode)
    for origin in origins:
        if origin.st_gid != group:
            # Another group may do no more than everybody.
            mode &= ~stat.S_IRWXG | (origin.st_mode & stat.S_IRWXO) << 3
    return mode & 0o777


def set_mode(path: Path, mode: int) -> None:
    """Set the permissions of a file, where the system has such."""
    if os.name == "posix":
        with suppress(PermissionError):  # of a disk without permissions, such as a camera's
            path.chmod(mode)


def _status(path: Path) -> os.stat_result | None:
    """Return what the system knows of a file, None if there is no regular file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _change_of(path: Path) -> Callable[[], bool]:
    """Return a function that says whether a file has changed since it was checked; it has not if nobody did."""
    place = path.absolute()
    if place not in _checked:
        return lambda: False
    before = _checked.pop(place)
    return lambda: _content(path) not in (before, None)


def _content(path: Path) -> Hashable:
    """Return what tells a file's content from any other, None if there is no regular file."""
    from hashlib import blake2b, file_digest

    if (status := _status(path)) is None:
        return None
    try:
        with path.open("rb") as file:
            return file_digest(file, blake2b).digest()
    except OSError:  # it may be replaced by who may not read it
        return status.st_ino, status.st_size, status.st_mtime_ns


def _free_name(path: Path) -> Path:
    """Create an empty file beside ``path``, under the first free name, and return its path."""
    for number in count(2):
        with suppress(FileExistsError):
            free = path.with_name(f"{path.stem}-{number}{path.suffix}")
            free.open("xb").close()
            return free
    raise AssertionError("numbers do not end")


def check_place(path: Path | None, *, remember: bool = True) -> None:
    """Refuse a name under which no file can be written, before the work.

    ``remember`` what the file holds, so that :func:`replacing` leaves it alone if it changes during the work.
    """
    if path is None:
        return
    if not path.parent.is_dir():
        raise InputError(f"folder {str(path.parent)!r} does not exist: create it first, or choose another name.")
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder: choose another name, or one in it.")
    if remember:
        _checked[path.absolute()] = _content(path)


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
