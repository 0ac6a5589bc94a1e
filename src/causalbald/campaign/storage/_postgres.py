"""A PostgreSQL database that holds any number of campaigns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote

import psycopg
from psycopg.conninfo import make_conninfo

from causalbald._addresses import MASK, without_passwords
from causalbald.campaign.storage import _schema
from causalbald.campaign.storage._schema import Connection
from causalbald.errors import InputError, StorageError

_WAIT_SECONDS = 60
_FORM = "postgresql://user:password@host/database#campaign"
_LOCK_NOT_AVAILABLE = "55P03"
# The question mark's plus: what was taken for user and password is never tried as host or database, which are shown.
_ADDRESS = re.compile(
    r"\w+://(?:(?P<user>[^:/@]*)(?::(?P<password>[^@]*))?@)?+"
    r"(?P<shown>(?P<host>\[[^]/?@]*]|[^:/?@]*)(?::(?P<port>\d*))?(?:/(?P<dbname>[^?@]*))?)(?:\?(?P<others>[^@]*))?"
)


class PostgresDatabase:
    """One campaign in a database, named by what follows ``#`` in the address; "study" if nothing does."""

    dialect = _schema.POSTGRESQL
    path = None

    def __init__(self, url: str) -> None:
        address, _, campaign = url.partition("#")
        self.campaign = campaign or "study"
        # Nothing of the address is repeated here: it may be a password.
        if not re.fullmatch(r"[\w.-]{1,100}", self.campaign):
            raise InputError(
                f"the name of a campaign, after # in {_FORM}, may have letters, digits, '.', '-' and '_'; "
                "write a # in a password as %23."
            )
        parts = _ADDRESS.fullmatch(address)
        if parts is None:
            raise InputError(f"this is no address of a database: write {_FORM}, and any other @ as %40.")
        self._url, self._options = url, _options(parts)
        user = f"{parts['user']}@" if parts["user"] else ""
        self.label = f"postgresql://{user}{parts['shown']}#{self.campaign}"
        self.taken = f"there is a campaign at {self.label} already: open it, or give another name after #."

    def missing(self, others: list[str]) -> str:
        """Return the message for a database without this campaign."""
        hint = f"; those that exist are {', '.join(others)}" if others else ""
        return f"there is no campaign at {self.label}: create it, or check the name after #{hint}."

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """Run a block in one transaction."""
        # A connection that is closed before it has committed changes nothing.
        with closing(self._connect()) as connection:
            try:
                if write:
                    connection.execute(f"SET LOCAL lock_timeout = '{_WAIT_SECONDS}s'".encode())
                yield _Translated(connection)
                connection.commit()
            except psycopg.Error as error:
                raise StorageError(self._explained(error, lost=connection.closed)) from None

    @contextmanager
    def creation(self) -> Iterator[Connection]:
        """Run the block that creates the campaign."""
        # Apart, so that nobody who creates a campaign waits until another one's table is sent.
        with self.transaction(write=True) as connection:
            _schema.prepare(connection, self.dialect, self.label)
        with self.transaction(write=True) as connection:
            yield connection

    def check(self, connection: Connection) -> None:
        """Do nothing: a server watches over its own files."""

    def _connect(self) -> psycopg.Connection:
        """Return an open connection; raises StorageError, without the password, if the server cannot be reached."""
        try:
            connection = psycopg.connect(make_conninfo(**self._options))
        except psycopg.Error as error:
            raise StorageError(
                f"cannot reach {self.label} ({self._words(error)}): check that the server runs, and address, user and "
                "password, which may also stand in PGPASSWORD or ~/.pgpass."
            ) from None
        # Once the campaign's row is locked, the next statement must see what others recorded before; a stricter level
        # would show the state at the start of the transaction.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection

    def _explained(self, error: psycopg.Error, *, lost: bool) -> str:
        """Return the message for an error of the server, without the password, with what to do."""
        words = self._words(error)
        if lost:
            remedy = "look at what was recorded before you repeat anything"
            return f"lost the connection to {self.label} ({words}): {remedy}."
        if error.sqlstate == _LOCK_NOT_AVAILABLE:
            reason = f"has been in use by another program for {_WAIT_SECONDS} seconds: try again when it is done"
            return f"{self.label} {reason}."
        return f"{self.label} refused ({words}): show this to whoever runs the database."

    def _words(self, error: psycopg.Error) -> str:
        return without_passwords(" ".join(str(error).split()), [self._url])


class _Translated:
    """A connection that takes ``?`` for a parameter, as SQLite's does."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> psycopg.Cursor:
        # As text, bytes take twice the room, which a server does not have for more than half a gigabyte.
        return self._connection.execute(_translated(statement), parameters or None, binary=True)

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]], /) -> None:
        self._connection.cursor().executemany(_translated(statement), rows)


def _translated(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


def _options(address: re.Match[str]) -> dict[str, str]:
    """Return the options of the driver that an address names."""
    fields = {name: unquote(address[name] or "") for name in ("user", "password", "host", "port", "dbname")}
    fields["host"] = fields["host"].strip("[]")
    named = {name: value for name, value in fields.items() if value}
    defaults = {"connect_timeout": "10", "application_name": "causalbald"}
    options = defaults | named | dict(parse_qsl(address["others"] or ""))
    # An address as it was printed, without its password: the driver looks for one in PGPASSWORD and ~/.pgpass.
    return {name: value for name, value in options.items() if value != MASK}
