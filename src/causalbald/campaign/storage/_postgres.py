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
# The + after the group's ? is possessive: text that was matched as user and password is never tried again as host or
# database, which messages show.
_ADDRESS = re.compile(
    r"\w+://(?:(?P<user>[^:/@]*)(?::(?P<password>[^@]*))?@)?+"
    r"(?P<shown>(?P<host>\[[^]/?@]*]|[^:/?@]*)(?::(?P<port>\d*))?(?:/(?P<dbname>[^?@]*))?)(?:\?(?P<others>[^@]*))?"
)


class PostgresDatabase:
    """One campaign in a PostgreSQL database. Nothing is connected before a method is called.

    The text after ``#`` in the address ``url`` is the campaign's name. Without it the name is "study". Raises
    InputError for an address or a name of another form. The message does not repeat the address, which may hold a
    password.

    ``label`` is the address for messages, without the password. ``taken`` is the message for a campaign that exists
    already.
    """

    dialect = _schema.POSTGRESQL
    path = None

    def __init__(self, url: str) -> None:
        """Take the address apart; nothing is connected."""
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
        """Return the message for a database without this campaign; ``others`` are the names of its campaigns."""
        hint = f"; those that exist are {', '.join(others)}" if others else ""
        return f"there is no campaign at {self.label}: create it, or check the name after #{hint}."

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """Run a block in one transaction, on a connection of its own, which is closed at the end.

        The block's changes are committed at its end, and undone if it raises. If it is to ``write``, it waits for locks
        for at most ``_WAIT_SECONDS``. Errors of the server become StorageError.
        """
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
        """Run the block that creates the campaign, in one transaction, after a first one that makes the tables."""
        # The tables are made in a transaction of their own. Otherwise everybody who creates a campaign would wait until
        # the pool of another campaign is sent.
        with self.transaction(write=True) as connection:
            _schema.prepare(connection, self.dialect, self.label)
        with self.transaction(write=True) as connection:
            yield connection

    def check(self, connection: Connection) -> None:
        """Do nothing: a server watches over its own files."""

    def _connect(self) -> psycopg.Connection:
        """Return an open connection. Raises StorageError if the server cannot be reached; it has no password in it."""
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
        """Return the message for an error of the server, with what to do and without the password.

        If the connection is ``lost``, nobody knows whether the transaction was recorded, and the message says so.
        """
        words = self._words(error)
        if lost:
            remedy = "look at what was recorded before you repeat anything"
            return f"lost the connection to {self.label} ({words}): {remedy}."
        if error.sqlstate == _LOCK_NOT_AVAILABLE:
            reason = f"has been in use by another program for {_WAIT_SECONDS} seconds: try again when it is done"
            return f"{self.label} {reason}."
        return f"{self.label} refused ({words}): show this to whoever runs the database."

    def _words(self, error: psycopg.Error) -> str:
        """Return the server's message in one line, without the password."""
        return without_passwords(" ".join(str(error).split()), [self._url])


class _Translated:
    """A psycopg connection whose statements have ``?`` for a parameter, as SQLite's have."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> psycopg.Cursor:
        """Run a statement, and return a cursor with its rows."""
        # As text, bytes take twice the room, which a server does not have for more than half a gigabyte.
        return self._connection.execute(_translated(statement), parameters or None, binary=True)

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]], /) -> None:
        """Run a statement once for each row of parameters."""
        self._connection.cursor().executemany(_translated(statement), rows)


def _translated(statement: str) -> bytes:
    """Return a statement with psycopg's sign for a parameter in place of each ``?``."""
    return statement.replace("?", "%s").encode()


def _options(address: re.Match[str]) -> dict[str, str]:
    """Return the options with which the driver connects, from a match of ``_ADDRESS``.

    Options after ``?`` in the address override its other parts and the defaults. A password of ``***`` is left out.
    """
    fields = {name: unquote(address[name] or "") for name in ("user", "password", "host", "port", "dbname")}
    fields["host"] = fields["host"].strip("[]")
    named = {name: value for name, value in fields.items() if value}
    defaults = {"connect_timeout": "10", "application_name": "causalbald"}
    options = defaults | named | dict(parse_qsl(address["others"] or ""))
    # An address as it was printed, without its password: the driver looks for one in PGPASSWORD and ~/.pgpass.
    return {name: value for name, value in options.items() if value != MASK}
