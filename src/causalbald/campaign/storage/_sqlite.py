"""A SQLite file that holds one campaign."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

from causalbald._addresses import masked
from causalbald._files import create_closed, set_mode
from causalbald.campaign.storage import _schema
from causalbald.campaign.storage._schema import Connection
from causalbald.errors import CampaignExistsError, InputError, StorageError

_WAIT_SECONDS = 60

_REASONS = {
    sqlite3.SQLITE_BUSY: f"has been in use by another program for {_WAIT_SECONDS} seconds: try again when it is done",
    sqlite3.SQLITE_READONLY: "cannot be changed: make the file and its folder writable for you, or work on a copy",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: make the file and its folder writable for you, or work on a copy",
    sqlite3.SQLITE_CORRUPT: "is damaged or was cut short: restore it from a copy",
    sqlite3.SQLITE_NOTADB: "is no campaign, not even a SQLite file: check the name",
    sqlite3.SQLITE_FULL: "cannot be changed, because the disk is full: make room and repeat; nothing was recorded",
    sqlite3.SQLITE_IOERR: "cannot be read or written, the disk fails: check the disk and the connection to it",
}


class SqliteFile:
    """A campaign in one file, which can be copied and moved while nobody writes to it.

    With a rollback journal, all data are in that one file between transactions. ``synchronous=EXTRA`` makes a change
    durable before a call returns, even if the power fails. ``BEGIN IMMEDIATE`` lets one process write at a time, and
    other processes wait.

    A new file gets no more permissions than ``source``, the file that its units come from. Raises InputError if
    ``path`` cannot be the name of a file. Nothing is opened before a method is called.
    """

    campaign = "study"
    dialect = _schema.SQLITE

    def __init__(self, path: str, source: Path | None = None) -> None:
        """Check the name; nothing is opened."""
        if not path or "\0" in path:
            raise InputError(f"{path!r} cannot be the name of a file: give a path such as study.db.")
        self.path, self._source = Path(path).absolute(), source
        self.label = repr(masked(path))
        self.taken = f"{self.label} exists already: open it, or create the campaign under another name."

    def missing(self, _others: list[str]) -> str:
        """Return the message for a file without a campaign. A file has no other campaigns to name."""
        return f"{self.label} is a SQLite file without a campaign: check the name, or create one under another."

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """Run a block in one transaction on the file. Raises StorageError if there is no file, or it is damaged.

        The block's changes are committed at its end, and undone if it raises. If it is to ``write``, it first waits for
        other writers, for at most ``_WAIT_SECONDS``. Errors of SQLite become StorageError.
        """
        self._require_file()
        # "rw" never makes a file. It falls back to reading alone where writing is not allowed; "ro" would refuse a file
        # whose writer was killed, because such a file is repaired when it is opened.
        with self._explained(), _begin(self.path, "rw", write=write) as connection:
            self._require_whole_pages(connection)
            yield connection

    @contextmanager
    def creation(self) -> Iterator[Connection]:
        """Run a block on a new file with empty tables. The file gets its name when it is whole and on disk.

        If the block raises, no file is left. Raises CampaignExistsError if there is a file of that name, at the start
        or at the end, and StorageError if none can be made.
        """
        self._require_free()
        draft = self.path.with_name(f".{self.path.name}.{uuid4().hex}.part")
        try:
            mode = self._begin_draft(draft)
            # SQLite gives its journal the permissions of the file.
            with self._explained(), _begin(draft, "rw", write=True) as connection:
                _schema.prepare(connection, self.dialect, self.label)
                yield connection
            set_mode(draft, mode)
            self._put_in_place(draft)
        finally:
            for leftover in (draft, draft.with_name(draft.name + "-journal")):
                leftover.unlink(missing_ok=True)

    def check(self, connection: Connection) -> None:
        """Raise StorageError if SQLite's check of the whole file finds damage."""
        verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
        if verdict != "ok":
            raise StorageError(f"{self.label} is damaged ({' '.join(verdict.split())}): restore it from a copy.")

    def _require_file(self) -> None:
        """Raise StorageError unless the path is a regular file that this user may read and that is not empty."""
        try:
            status = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise StorageError(f"there is no file {self.label}: check the name, or create a campaign there.") from None
        except OSError as error:
            raise StorageError(f"cannot open {self.label} ({error.strerror}): check name and permissions.") from None
        if not stat.S_ISREG(status.st_mode):
            raise StorageError(f"{self.label} is a folder or a device: give the name of a file.")
        # Never by opening it: closing the file would take away the locks that SQLite holds on it in this process.
        if not os.access(self.path, os.R_OK):
            raise StorageError(f"you are not allowed to read {self.label}: ask its owner for permission.")
        if status.st_size == 0:
            raise StorageError(f"{self.label} is empty: restore it from a copy, or delete it and create it again.")

    def _require_free(self) -> None:
        """Raise CampaignExistsError if there is anything at the path, StorageError if a new file has no place there.

        A new file needs a folder, and must not have another file's journal next to it.
        """
        if os.path.lexists(self.path):
            raise CampaignExistsError(self.taken)
        if not self.path.parent.is_dir():
            raise StorageError(f"there is no folder {str(self.path.parent)!r}: make it first, or check the name.")
        for ending in ("-journal", "-wal"):
            # SQLite would take the leftover for a journal of the new file, and mix both files.
            if os.path.lexists(f"{self.path}{ending}"):
                leftover = f"{self.path.name}{ending}"
                raise StorageError(f"{leftover!r}, left over from another file, is next to {self.label}: move it away.")

    def _begin_draft(self, draft: Path) -> int:
        """Create an empty file that only its owner can read; return the permissions to set when the file is complete.

        Raises StorageError if the folder or the disk does not allow it.
        """
        try:
            return create_closed(draft, self._source)
        except PermissionError:
            raise StorageError(f"{self.label} {_REASONS[sqlite3.SQLITE_CANTOPEN]}.") from None
        except OSError as error:
            raise self._unwritable(error) from None

    def _put_in_place(self, draft: Path) -> None:
        """Give a finished file its name. Raises CampaignExistsError if another process has made a file of that name.

        Raises StorageError if the folder or the disk does not allow it.
        """
        try:
            _rename(draft, self.path)
        except FileExistsError:
            raise CampaignExistsError(self.taken) from None
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> StorageError:
        """Return the error for a file that the system did not allow to be made. Nothing is raised here."""
        return StorageError(f"cannot write {self.label} ({error.strerror}): choose another folder.")

    def _require_whole_pages(self, connection: Connection) -> None:
        """Raise StorageError if the file was cut short within its last page: SQLite would silently fill in zeros."""
        # Reading takes the lock, so that nobody changes the size meanwhile.
        connection.execute("PRAGMA schema_version").fetchall()
        page = connection.execute("PRAGMA page_size").fetchone()[0]
        if self.path.stat().st_size % page:
            raise StorageError(f"{self.label} {_REASONS[sqlite3.SQLITE_CORRUPT]}.")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors in the block into StorageError with the reason and what to do."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            # The lowest byte is the kind of error; the others say more than anybody can act on.
            reason = _REASONS.get(code & 0xFF, f"cannot be read or written, SQLite says «{error}»: restore a copy")
            raise StorageError(f"{self.label} {reason}.") from None


@contextmanager
def _begin(path: Path, mode: str, *, write: bool) -> Iterator[sqlite3.Connection]:
    """Run a block in one transaction, which is committed at the block's end and undone if the block raises.

    ``mode`` is SQLite's, such as "rw" for a file that must exist. With ``write``, other writers are waited for first.
    Errors of SQLite are not translated.
    """
    # Without an isolation level the driver begins no transactions, and those below are the only ones.
    address = f"{path.as_uri()}?mode={mode}"
    with closing(sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=EXTRA")
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        with connection:
            yield connection


def _rename(draft: Path, path: Path) -> None:
    """Move a finished file to ``path``; raises FileExistsError if there is a file. Called by ``_put_in_place``.

    On POSIX systems, the new name is on disk when the function returns. With hard links, ``draft`` remains, too.
    """
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links: claim the name first, so that nothing is ever overwritten.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        os.replace(draft, path)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
