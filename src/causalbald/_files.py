"""Files that appear when they are complete, or never, and are no more open than the files that they come from."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from uuid import uuid4

from causalbald.errors import InputError

# What files held when a command looked at them, before its work. People may type into them until the command ends.
_content_before: dict[Path, Hashable] = {}


@contextmanager
def replacing(path: Path, *sources: Path | None) -> Iterator[Path]:
    """Yield the path of a draft next to ``path``, and move the draft to ``path`` when it is complete and on disk.

    The draft gets the permissions of the file that it replaces. A new file is no more open than any of its ``sources``.
    If the file has changed since :func:`check_place` looked at it, it stays: the draft gets another name, which
    InputError tells.
    """
    if path.exists() and not path.is_file():  # such as /dev/stdout, which can only be written to
        yield path
        return
    has_changed = _change_of(path)
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        mode = create_closed(draft, *sources, replaces=path)
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        set_mode(draft, mode)
        if has_changed():
            other = _create_free(path)
            draft.replace(other)
            raise InputError(
                f"{str(path)!r} was changed while this command ran, and is left as it is. What was to replace it is in "
                f"{str(other)!r}."
            )
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def create_closed(path: Path, *sources: Path | None, replaces: Path | None = None) -> int:
    """Create an empty file that only its owner can read; return the permissions to set when the file is complete.

    These are the permissions of the file that it ``replaces``. For a new file, they are the permissions that the umask
    allows and that all ``sources`` have. Raises FileExistsError if there is a file.
    """
    before = None if replaces is None else _status(replaces)
    origins = [before] if before else [status for s in sources if s is not None and (status := _status(s))]
    # As narrow at first as in the end: who opens a file in a moment when it is open can read it for good.
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
            # The file has another group than its source: that group may do no more than everybody.
            mode &= ~stat.S_IRWXG | (origin.st_mode & stat.S_IRWXO) << 3
    return mode & 0o777


def set_mode(path: Path, mode: int) -> None:
    """Set the permissions of a file, on systems that have POSIX permissions."""
    if os.name == "posix":
        with suppress(PermissionError):  # a disk without permissions, such as a camera's
            path.chmod(mode)


def _status(path: Path) -> os.stat_result | None:
    """Return what the system records about a file; None if there is no regular file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _change_of(path: Path) -> Callable[[], bool]:
    """Return a function that says whether a file has changed since :func:`check_place` looked at it.

    The answer is no if :func:`check_place` did not look at it, and if the file is gone.
    """
    place = path.absolute()
    if place not in _content_before:
        return lambda: False
    before = _content_before.pop(place)
    return lambda: _content(path) not in (before, None)


def _content(path: Path) -> Hashable:
    """Return a digest of a file's content; None if there is no regular file."""
    from hashlib import blake2b, file_digest

    if (status := _status(path)) is None:
        return None
    try:
        with path.open("rb") as file:
            return file_digest(file, blake2b).digest()
    except OSError:  # one may be allowed to replace a file without reading it
        return status.st_ino, status.st_size, status.st_mtime_ns


def _create_free(path: Path) -> Path:
    """Create an empty file next to ``path``, under the first free name such as ``batch-2.csv``; return its path."""
    for number in count(2):
        with suppress(FileExistsError):
            free = path.with_name(f"{path.stem}-{number}{path.suffix}")
            free.open("xb").close()
            return free
    raise AssertionError("numbers do not end")


def check_place(path: Path | None, *, remember: bool = True) -> None:
    """Raise InputError, before the work, if no file can be written at ``path``.

    With ``remember``, the file's present content is recorded: :func:`replacing` keeps the file if it changes during the
    work.
    """
    if path is None:
        return
    if not path.parent.is_dir():
        raise InputError(f"folder {str(path.parent)!r} does not exist: create it first, or choose another name.")
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder: choose another name, or one in it.")
    if remember:
        _content_before[path.absolute()] = _content(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock: other processes that ask for the lock of the same file wait until this one is done, or dies.

    On systems without such locks (Windows, some network folders), nobody waits.
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
