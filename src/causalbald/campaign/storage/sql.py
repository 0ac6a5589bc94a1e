"""Campaigns in SQL databases: one implementation for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, insert, select
from sqlalchemy.exc import IntegrityError

from causalbald.campaign.events import Draft, Event
from causalbald.campaign.storage import schema
from causalbald.campaign.storage.base import Decide, Storage
from causalbald.campaign.storage.records import Row, require_known, require_part, require_whole, to_rows
from causalbald.campaign.storage.schema import CAMPAIGNS, EVENTS, PARTS
from causalbald.errors import CampaignExistsError, StorageError

if TYPE_CHECKING:
    from causalbald.campaign.storage.postgres import PostgresDatabase
    from causalbald.campaign.storage.sqlite import SqliteFile


class SqlStorage(Storage):
    """A campaign in a database. Threads may share it, and nothing stays open between calls.

    Parameters
    ----------
    place : SqliteFile or PostgresDatabase
        Which database, and which campaign in it.
    """

    def __init__(self, place: SqliteFile | PostgresDatabase) -> None:
        self._place = place
        self._upgraded = False

    def create(self, parts: Iterable[tuple[str, bytes]], events: Sequence[Draft]) -> list[Event]:
        """Create the campaign."""
        with self._place.creation() as connection:
            schema.prepare(connection, self._place.label)
            created = datetime.now(UTC).isoformat(timespec="milliseconds")
            try:
                connection.execute(insert(CAMPAIGNS).values(name=self._place.campaign, created=created))
            except IntegrityError:
                raise CampaignExistsError(self._place.taken) from None
            for name, data in parts:
                self._write_part(connection, name, data)
            return self._write_events(connection, events, 0)

    def part(self, name: str) -> bytes:
        """Return one part as it was written."""
        with self._transaction() as connection:
            own = PARTS.c.campaign == self._place.campaign
            data = connection.execute(select(PARTS.c.data).where(own, PARTS.c.name == name)).scalar()
            if data is None:
                names = connection.execute(select(PARTS.c.name).where(own).order_by(PARTS.c.name)).scalars()
                raise StorageError(f"{self._place.label} has no part {name!r}: it has {', '.join(names) or 'none'}.")
        return bytes(data)

    def events(self, after: int = 0) -> list[Event]:
        """Return the events with a number above ``after``, in order."""
        with self._transaction() as connection:
            return self._read_events(connection, after)

    def append(self, after: int, decide: Decide) -> list[Event]:
        """Record what ``decide`` returns; return all events above ``after``."""
        with self._transaction(write=True) as connection:
            last = select(func.coalesce(func.max(EVENTS.c.number), 0)).where(EVENTS.c.campaign == self._place.campaign)
            number = connection.execute(last).scalar_one()
            require_known(after, number, self._place.label)
            known = self._read_events(connection, after)
            return known + self._write_events(connection, decide(list(known)), number)

    def check(self) -> None:
        """Raise StorageError unless the database is whole and event numbers run from 1 without gaps."""
        with self._transaction() as connection:
            self._place.check(connection)
            require_whole([event.number for event in self._read_events(connection, 0)], self._place.label)

    def close(self) -> None:
        """Do nothing: every call opens a connection and closes it, which survives forks and restarts of a server."""

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Connection]:
        """Run a block in one transaction; if it writes, then alone: others wait for its end."""
        if not self._upgraded:
            self._upgrade()
        with self._place.transaction(write=write) as connection:
            # Again each time: a newer release may have changed the tables since.
            schema.version(connection, self._place.label)
            # On PostgreSQL the campaign's row is the lock; on SQLite the file is, and `FOR UPDATE` is left out.
            row = select(CAMPAIGNS).where(CAMPAIGNS.c.name == self._place.campaign)
            if connection.execute(row.with_for_update() if write else row).first() is None:
                others = connection.execute(select(CAMPAIGNS.c.name).order_by(CAMPAIGNS.c.name)).scalars()
                raise StorageError(self._place.missing(list(others)))
            yield connection

    def _upgrade(self) -> None:
        with self._place.transaction(write=False) as connection:
            if not schema.has_tables(connection):
                raise StorageError(self._place.missing([]))
            found = schema.version(connection, self._place.label)
        if found < schema.SCHEMA:
            with self._place.transaction(write=True) as connection:
                schema.migrate(connection, self._place.label)
        self._upgraded = True

    def _write_part(self, connection: Connection, name: str, data: bytes) -> None:
        require_part(name, data)
        try:
            connection.execute(insert(PARTS).values(campaign=self._place.campaign, name=name, data=data))
        except IntegrityError:
            raise StorageError(f"part {name!r} is given twice: give every part a name of its own.") from None

    def _write_events(self, connection: Connection, drafts: Sequence[Draft], last: int) -> list[Event]:
        rows = to_rows(drafts, last)
        if rows:
            connection.execute(insert(EVENTS), [{"campaign": self._place.campaign, **asdict(row)} for row in rows])
        return [row.event() for row in rows]

    def _read_events(self, connection: Connection, after: int) -> list[Event]:
        columns = (EVENTS.c.number, EVENTS.c.time, EVENTS.c.kind, EVENTS.c.body)
        wanted = (EVENTS.c.campaign == self._place.campaign, EVENTS.c.number > after)
        return [Row(*row).event() for row in connection.execute(select(*columns).where(*wanted).order_by("number"))]
