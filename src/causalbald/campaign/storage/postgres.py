"""A PostgreSQL database that holds any number of campaigns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool

from causalbald.errors import InputError, StorageError

_WAIT_SECONDS = 60
_FORM = "postgresql://user:password@host/database#campaign"
_LOCK_NOT_AVAILABLE = "55P03"


class PostgresDatabase:
    """One campaign in a database, named by what follows ``#`` in the address; "study" if nothing does."""

    def __init__(self, url: str) -> None:
        address, _, campaign = url.partition("#")
        self.campaign = campaign or "study"
        # Nothing of the address is repeated here: it may be a password.
        if not re.fullmatch(r"[\w.-]{1,100}", self.campaign):
            raise InputError(
                f"the name of a campaign, after # in {_FORM}, may have letters, digits, '.', '-' and '_'; "
                "write a # in a password as %23."
            )
        self._url = _parse(address)
        self.label = f"{_without_secrets(self._url)}#{self.campaign}"
        self.taken = f"there is a campaign at {self.label} already: open it, or give another name after #."

    def missing(self, others: list[str]) -> str:
        """Return the message for a database without this campaign."""
        hint = f"; those that exist are {', '.join(others)}" if others else ""
        return f"there is no campaign at {self.label}: create it, or check the name after #{hint}."

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """Run a block in one transaction."""
        with self._connect() as connection, self._explained(), connection.begin():
            if write:
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_WAIT_SECONDS}s'")
            yield connection

    @contextmanager
    def creation(self) -> Iterator[Connection]:
        """Run the block that creates the campaign."""
        with self.transaction(write=True) as connection:
            yield connection

    def check(self, connection: Connection) -> None:
        """Do nothing: a server watches over its own files."""

    @cached_property
    def _engine(self) -> Engine:
        try:
            # Once the campaign's row is locked, the next statement must see what others recorded before; a stricter
            # level would show the state at the start of the transaction.
            return create_engine(self._url, isolation_level="READ COMMITTED", poolclass=NullPool, hide_parameters=True)
        except ImportError as error:
            raise StorageError(
                f'PostgreSQL needs a driver ({error}): install it with `pip install "causalbald[postgres]"`.'
            ) from None

    def _connect(self) -> Connection:
        try:
            return self._engine.connect()
        except DBAPIError as error:
            raise StorageError(
                f"cannot reach {self.label} ({self._words(error)}): check that the server runs, and address, user and "
                "password."
            ) from None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            words = self._words(error)
            if error.connection_invalidated:
                remedy = "look at what was recorded before you repeat anything"
                raise StorageError(f"lost the connection to {self.label} ({words}): {remedy}.") from None
            if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
                reason = f"has been in use by another program for {_WAIT_SECONDS} seconds: try again when it is done"
                raise StorageError(f"{self.label} {reason}.") from None
            raise StorageError(f"{self.label} refused ({words}): show this to whoever runs the database.") from None

    def _words(self, error: DBAPIError) -> str:
        words = " ".join(str(error.orig).split())
        for secret in (self._url.password, self._url.query.get("password")):
            if isinstance(secret, str) and secret:
                words = words.replace(secret, "***").replace(quote(secret, safe=""), "***")
        return words


def _parse(address: str) -> URL:
    try:
        url = make_url(address)
        if "@" in (url.host or ""):
            raise ValueError
    except (ArgumentError, ValueError):
        # What the parser says may contain the password.
        raise InputError(f"this is no address of a database: write {_FORM}, and @ in a password as %40.") from None
    defaults = {"connect_timeout": "10", "application_name": "causalbald"}
    return url.set(drivername="postgresql+psycopg", query={**defaults, **url.query})


def _without_secrets(url: URL) -> str:
    address = URL.create("postgresql", url.username, host=url.host, port=url.port, database=url.database)
    return address.render_as_string()
