"""Campaigns in SQL databases: one implementation for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from causalbald.campaign.storage import _schema
from causalbald.campaign.storage._base import Decide, Draft, Event, Storage
from causalbald.campaign.storage._records import Row, require_known, require_part, require_whole, to_rows
from causalbald.campaign.storage._schema import Connection
from causalbald.errors import CampaignExistsError, StorageError

if TYPE_CHECKING:
    from causalbald.campaign.storage._postgres import PostgresDatabase
    from causalbald.campaign.storage._sqlite import SqliteFile


class SqlStorage(Storage):
    """A campaign in a database. Threads may share it, and nothing stays open between calls.

    Parameters
    ----------
    place : SqliteFile or PostgresDatabase
        Which database, and which campaign in it.
    """

    def __init__(self, place: SqliteFile | PostgresDatabase) -> None:
        self._place = place
        self._campaign = (place.campaign,)
        self.file = place.path
        self._upgraded = False

    def create(self, parts: Iterable[tuple[str, bytes]], events: Sequence[Draft]) -> list[Event]:
        """Create the campaign, with tables if there are none; return its first events. See :meth:`Storage.create`."""
        with self._place.creation() as connection:
            _schema.version(connection, self._place.label)
            created = datetime.now(UTC).isoformat(timespec="milliseconds")
            insert = "INSERT INTO causalbald_campaigns (name, created) VALUES (?, ?) ON CONFLICT DO NOTHING"
            if not connection.execute(insert, (*self._campaign, created)).rowcount:
                raise CampaignExistsError(self._place.taken)
            for name, data in parts:
                self._write_part(connection, name, data)
            return self._write_events(connection, events, 0)

    def part(self, name: str) -> bytes:
        """Return the bytes of one part; raises StorageError for an unknown name."""
        with self._transaction() as connection:
            select = "SELECT data FROM causalbald_parts WHERE campaign = ? AND name = ?"
            row = connection.execute(select, (*self._campaign, name)).fetchone()
            if row is None:
                select = "SELECT name FROM causalbald_parts WHERE campaign = ? ORDER BY name"
                names = ", ".join(other[0] for other in connection.execute(select, self._campaign))
                raise StorageError(f"{self._place.label} has no part {name!r}: it has {names or 'none'}.")
        return bytes(row[0])

    def events(self, after: int = 0) -> list[Event]:
        """Return the events with a number above ``after``, in order."""
        with self._transaction() as connection:
            return self._read_events(connection, after)

    def append(self, after: int, decide: Decide) -> list[Event]:
        """Record the events that ``decide`` returns; return all events above ``after``. See :meth:`Storage.append`.

        Other processes that write to the campaign wait until ``decide`` has returned.
        """
        with self._transaction(write=True) as connection:
            select = "SELECT coalesce(max(number), 0) FROM causalbald_events WHERE campaign = ?"
            last = connection.execute(select, self._campaign).fetchone()[0]
            require_known(after, last, self._place.label)
            unseen = self._read_events(connection, after)
            return unseen + self._write_events(connection, decide(list(unseen)), last)

    def check(self) -> None:
        """Raise StorageError unless the database is whole and event numbers run from 1 without gaps."""
        with self._transaction() as connection:
            self._place.check(connection)
            require_whole([event.number for event in self._read_events(connection, 0)], self._place.label)

    def close(self) -> None:
        """Do nothing: each call opens and closes its own connection. So forks and restarts of a server do no harm."""

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Connection]:
        """Run a block in one transaction on the campaign. If the block is to ``write``, other writers wait for its end.

        Brings the tables up to date first, if this was not done yet. Raises StorageError if there is no such campaign,
        or a newer release wrote it.
        """
        if not self._upgraded:
            self._upgrade()
        with self._place.transaction(write=write) as connection:
            # Again each time: a newer release may have changed the tables since.
            _schema.version(connection, self._place.label)
            # On PostgreSQL the campaign's row is the lock; on SQLite the file is.
            lock = self._place.dialect.lock_row if write else ""
            select = f"SELECT name FROM causalbald_campaigns WHERE name = ? {lock}"
            if connection.execute(select, self._campaign).fetchone() is None:
                others = connection.execute("SELECT name FROM causalbald_campaigns ORDER BY name")
                raise StorageError(self._place.missing([row[0] for row in others]))
            yield connection

    def _upgrade(self) -> None:
        """Bring the database's tables up to date, and note that this is done. Called by ``_transaction``.

        Nothing is written if they are up to date. Raises StorageError if there are no tables.
        """
        with self._place.transaction(write=False) as connection:
            if not _schema.has_tables(connection, self._place.dialect):
                raise StorageError(self._place.missing([]))
            version = _schema.version(connection, self._place.label)
        if version < _schema.SCHEMA:
            with self._place.transaction(write=True) as connection:
                _schema.prepare(connection, self._place.dialect, self._place.label)
        self._upgraded = True

    def _write_part(self, connection: Connection, name: str, data: bytes) -> None:
        """Insert one part. Raises StorageError if there is a part of this name, InputError if it cannot be stored."""
        require_part(name, data)
        insert = "INSERT INTO causalbald_parts (campaign, name, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        if not connection.execute(insert, (*self._campaign, name, data)).rowcount:
            raise StorageError(f"part {name!r} is given twice: give every part a name of its own.")

    def _write_events(self, connection: Connection, drafts: Sequence[Draft], last: int) -> list[Event]:
        """Insert events with the numbers that follow ``last``, and return them as ``events`` would return them."""
        rows = to_rows(drafts, last)
        insert = "INSERT INTO causalbald_events (campaign, number, time, kind, body) VALUES (?, ?, ?, ?, ?)"
        connection.executemany(insert, [(*self._campaign, *astuple(row)) for row in rows])
        return [row.event() for row in rows]

    def _read_events(self, connection: Connection, after: int) -> list[Event]:
        """Return the events with a number above ``after``, in order."""
        columns = "SELECT number, time, kind, body FROM causalbald_events"
        rows = connection.execute(
            f"{columns} WHERE campaign = ? AND number > ? ORDER BY number", (*self._campaign, after)
        )
        return [Row(*row).event() for row in rows]
