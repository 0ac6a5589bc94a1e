"""The tables of a database, and how older ones are brought up to date."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)

from causalbald.errors import StorageError

SCHEMA = 1

# What brings a database of the version before to this version, such as {2: add_column}. A change of the tables below
# needs an entry here and a higher SCHEMA.
MIGRATIONS: dict[int, Callable[[Connection], None]] = {}

# Names carry the package's, because a PostgreSQL database may hold other tables.
_METADATA = MetaData()
_SCHEMA = Table("causalbald_schema", _METADATA, Column("version", Integer, nullable=False))
CAMPAIGNS = Table(
    "causalbald_campaigns",
    _METADATA,
    Column("name", Text, primary_key=True),
    Column("created", Text, nullable=False),
)
PARTS = Table(
    "causalbald_parts",
    _METADATA,
    Column("campaign", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
EVENTS = Table(
    "causalbald_events",
    _METADATA,
    Column("campaign", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("time", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
)

# Any number will do, as long as no other program takes the same.
_ADVISORY_LOCK = 0x63_61_75_73_61_6C


def has_tables(connection: Connection) -> bool:
    """Return whether there may be campaigns in this database."""
    return inspect(connection).has_table(_SCHEMA.name)


def version(connection: Connection, place: str) -> int:
    """Return the version of the tables; raises StorageError if this release does not know it."""
    found: int | None = connection.execute(select(func.max(_SCHEMA.c.version))).scalar()
    if found is None:
        raise StorageError(f"{place} is damaged, its version is missing: restore it from a copy.")
    if found > SCHEMA:
        raise StorageError(
            f"{place} was written by a newer release (version {found}, this one knows {SCHEMA}): "
            "upgrade with `pip install --upgrade causalbald`."
        )
    return found


def prepare(connection: Connection, place: str) -> None:
    """Make the tables, unless they are there, and bring them up to date."""
    if not has_tables(connection):
        if connection.dialect.name == "postgresql":
            # Two processes that make the same tables at once would both fail; the second waits here and finds them.
            connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        _METADATA.create_all(connection)
        if connection.execute(select(_SCHEMA.c.version)).first() is None:
            connection.execute(insert(_SCHEMA).values(version=SCHEMA))
    migrate(connection, place)


def migrate(connection: Connection, place: str) -> None:
    """Bring older tables up to date, in the caller's transaction."""
    if connection.dialect.name == "postgresql" and version(connection, place) < SCHEMA:
        # Every transaction reads this table first, so that none runs while the others change.
        connection.execute(text(f"LOCK TABLE {_SCHEMA.name} IN ACCESS EXCLUSIVE MODE"))
    for step in range(version(connection, place) + 1, SCHEMA + 1):
        MIGRATIONS[step](connection)
        connection.execute(update(_SCHEMA).values(version=step))
