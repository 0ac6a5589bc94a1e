"""The tables of a database, how SQLite and PostgreSQL differ, and how older tables are brought up to date."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from causalbald.errors import StorageError

SCHEMA = 1

# Names carry the package's, because a PostgreSQL database may hold other tables.
_TABLES = """
causalbald_schema (version INTEGER NOT NULL);
causalbald_campaigns (name TEXT NOT NULL, created TEXT NOT NULL, PRIMARY KEY (name));
causalbald_parts (campaign TEXT NOT NULL, name TEXT NOT NULL, data {blob} NOT NULL, PRIMARY KEY (campaign, name));
causalbald_events (campaign TEXT NOT NULL, number INTEGER NOT NULL, time TEXT NOT NULL, kind TEXT NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (campaign, number))
"""


class Connection(Protocol):
    """A connection within a transaction; in statements ``?`` stands for a parameter."""

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Any:
        """Run a statement, and return a cursor with its rows."""

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]], /) -> Any:
        """Run a statement once for each row of parameters."""


# From a version to the function that brings the tables of the version before it up to it, such as {2: add_column}. A
# change of the tables above needs an entry here and a higher SCHEMA.
MIGRATIONS: dict[int, Callable[[Connection], None]] = {}


@dataclass(frozen=True)
class Dialect:
    """SQL that differs between databases. A lock is "" if a transaction of the database locks everything anyway.

    ``blob`` is the type of bytes. ``has_tables`` selects a row if the tables exist. ``lock_row``, at a query's end,
    locks its rows. ``queue`` makes other processes that prepare tables wait. ``lock_tables`` makes all others wait.
    """

    blob: str
    has_tables: str
    lock_row: str = ""
    queue: str = ""
    lock_tables: str = ""


SQLITE = Dialect("BLOB", "SELECT 1 FROM sqlite_master WHERE name = 'causalbald_schema'")
POSTGRESQL = Dialect(
    "BYTEA",
    "SELECT 1 WHERE to_regclass('causalbald_schema') IS NOT NULL",
    lock_row="FOR UPDATE",
    # Of two processes that make or change tables at once, one or both would fail; the second waits here and finds the
    # work done. Any number will do, as long as no other program takes the same.
    queue=f"SELECT pg_advisory_xact_lock({0x63_61_75_73_61_6C})",
    # Every transaction reads this table first, so that none runs while the others change.
    lock_tables="LOCK TABLE causalbald_schema IN ACCESS EXCLUSIVE MODE",
)


def has_tables(connection: Connection, dialect: Dialect) -> bool:
    """Return whether the database has the tables for campaigns; they may be empty."""
    return connection.execute(dialect.has_tables).fetchone() is not None


def version(connection: Connection, place: str) -> int:
    """Return the version of the tables. Raises StorageError if it is missing, or newer than this release knows.

    ``place`` is the name of the storage in the message.
    """
    number: int | None = connection.execute("SELECT max(version) FROM causalbald_schema").fetchone()[0]
    if number is None:
        raise StorageError(f"{place} is damaged, its version is missing: restore it from a copy.")
    if number > SCHEMA:
        raise StorageError(
            f"{place} was written by a newer release (version {number}, this one knows {SCHEMA}): "
            "upgrade with `pip install --upgrade causalbald`."
        )
    return number


def prepare(connection: Connection, dialect: Dialect, place: str) -> None:
    """Make the tables if there are none, and bring older tables up to date.

    The caller commits. On a server it calls this in a separate transaction, because others wait for its end. Raises
    StorageError if a newer release wrote the tables. ``place`` is the name of the storage in the message.
    """
    if dialect.queue:
        connection.execute(dialect.queue)
    if not has_tables(connection, dialect):
        for table in _TABLES.format(blob=dialect.blob).split(";"):
            connection.execute(f"CREATE TABLE {table.strip()}")
        connection.execute("INSERT INTO causalbald_schema (version) VALUES (?)", (SCHEMA,))
    current = version(connection, place)
    if dialect.lock_tables and current < SCHEMA:
        connection.execute(dialect.lock_tables)
    for step in range(current + 1, SCHEMA + 1):
        MIGRATIONS[step](connection)
        connection.execute("UPDATE causalbald_schema SET version = ?", (step,))
