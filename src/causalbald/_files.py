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
    """Yield the path of a draft next to ``path``, and move the draft to ``path`` once it is complete and on disk.

    The draft gets the permissions of the file that it replaces. A new file is no more open than any of its ``sources``.
    If the block raises, the draft is deleted. If ``path`` has changed since :func:`check_place` looked at it, ``path``
    is kept, the draft is saved under a free name, and InputError names it. A device such as /dev/stdout is yielded
    itself.
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

    The returned permissions are those of the file that it ``replaces``. For a new file, they are the permissions that
    the umask allows and that all ``sources`` have. If the new file has another group than such a file, its group may do
    no more than everybody. Sources that are None or missing do not count.

    Owner and group of the replaced file are taken over where the system permits it. Raises FileExistsError if there is
    a file at ``path``. The caller sets the permissions with :func:`set_mode`.
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
    """Set the permissions of a file; do nothing on systems and disks that have no POSIX permissions."""
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
    """Return a function that says whether the file at ``path`` has changed since :func:`check_place` looked at it.

    It returns False if :func:`check_place` did not look at the file, or if the file is gone. The recorded content is
    forgotten: it serves for one write. Called by ``replacing``.
    """
    place = path.absolute()
    if place not in _content_before:
        return lambda: False
    before = _content_before.pop(place)
    return lambda: _content(path) not in (before, None)


def _content(path: Path) -> Hashable:
    """Return a digest of a file's content; None if there is no regular file.

    A file that this process may not read gets its inode number, size and time of change instead of a digest.
    """
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
    """Raise InputError if ``path`` is a folder, or if its folder does not exist. Called before the work.

    None passes, and permissions are not checked. With ``remember``, a digest of the file's present content is recorded.
    If the file changes during the work, :func:`replacing` then keeps it.
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
    """Hold the lock of the file at ``path`` within the context. Other processes wait for it until this one is done.

    The file is created if needed, and stays. A process that dies gives up its lock. On systems without such locks
    (Windows, some network folders), nobody waits.
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
