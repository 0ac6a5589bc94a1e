"""Where campaigns are kept: in memory, in a SQLite file, in a PostgreSQL database.

The database's driver is imported when a campaign is opened, not before.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from causalbald._addresses import masked
from causalbald.campaign.storage._base import Decide, Draft, Event, Storage
from causalbald.campaign.storage._memory import MemoryStorage
from causalbald.errors import InputError, StorageError

_FORMS = "a path, sqlite:///path or postgresql://user@host/database#campaign"
# Texts that are meant as addresses of a database and would be taken for names of files.
_MISTYPED = re.compile(r"\s*postgres(?:ql)?:", re.IGNORECASE)

__all__ = ["Decide", "Draft", "Event", "MemoryStorage", "Storage", "open_storage"]


def open_storage(where: str | os.PathLike[str] | Storage, source: Path | None = None) -> Storage:
    """Return the storage at an address. There need not be a campaign yet: ``Storage.create`` makes it.

    Nothing is read or connected to before a method of the storage is called. Called by ``Campaign``.

    Parameters
    ----------
    where : str, path or Storage
        A path or ``sqlite:///path`` is a SQLite file, which holds one campaign. ``postgresql://user@host/database#name``
        is one campaign of many in a PostgreSQL database; without ``#name`` it is called "study". A storage is returned
        as it is.
    source : path, optional
        File that the units of a new campaign come from. A new SQLite file gets no more permissions than this file has.

    Returns
    -------
    Storage

    Raises
    ------
    InputError
        If the address has an unknown form, or cannot be the name of a file or a campaign.
    StorageError
        If a PostgreSQL database is asked for and its driver is not installed.

    Examples
    --------
    >>> from causalbald.campaign.storage import open_storage
    >>> open_storage("study.db").file.name
    'study.db'
    """
    if isinstance(where, Storage):
        return where
    scheme = re.match(r"([A-Za-z][\w+.-]*)://", where) if isinstance(where, str) else None
    if scheme is None:
        return _sqlite_storage(os.fsdecode(where), source)
    if scheme[1] == "sqlite":
        return _sqlite_storage(_path_of(os.fsdecode(where)), source)
    if scheme[1] in ("postgresql", "postgres"):
        return _postgres_storage(os.fsdecode(where))
    raise InputError(f"campaigns cannot be kept at {scheme[0]}…: give {_FORMS}.")


def _path_of(url: str) -> str:
    """Return the path in an address ``sqlite:///path``; raises InputError for an address of another form."""
    if not url.startswith("sqlite:///"):
        raise InputError(
            f"{masked(url)!r} names no file: write sqlite:///study.db, or sqlite:////srv/study.db from the root."
        )
    return url.removeprefix("sqlite:///")


def _sqlite_storage(path: str, source: Path | None) -> Storage:
    """Return the storage of a SQLite file. Raises InputError if ``path`` is empty or looks like a database's address.

    A file that exists may have any name. ``source`` is described at :func:`open_storage`.
    """
    from causalbald.campaign.storage._sql import SqlStorage
    from causalbald.campaign.storage._sqlite import SqliteFile

    if (_MISTYPED.match(path) or masked(path) != path) and not os.path.exists(path):
        raise InputError(f"{masked(path)!r} is no file and no address of a database: give {_FORMS}.")
    return SqlStorage(SqliteFile(path, source))


def _postgres_storage(url: str) -> Storage:
    """Return the storage of a campaign in a PostgreSQL database, without connecting to it.

    Raises StorageError if the driver is not installed, InputError for an address of another form.
    """
    from causalbald.campaign.storage._sql import SqlStorage

    try:
        from causalbald.campaign.storage._postgres import PostgresDatabase
    except ImportError as error:
        raise StorageError(
            f'PostgreSQL needs a driver ({error}): install it with `pip install "causalbald[postgres]"`.'
        ) from None
    return SqlStorage(PostgresDatabase(url))
