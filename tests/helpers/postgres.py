"""A real PostgreSQL server, started when the first test asks for one and stopped with the test process."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from functools import cache
from itertools import count
from pathlib import Path

import pytest

_NUMBERS = count()
_MEMORY = Path("/dev/shm")


@cache
def _server() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a runtime folder of the desktop, which servers and containers lack
        pgserver = pytest.importorskip("pgserver", exc_type=ImportError)
    # Not below pytest's folders, which are closed to others: for root the server runs under a user of its own.
    folder = Path(tempfile.mkdtemp(prefix="causalbald-pg-", dir=_fast_folder()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # Functions registered later run earlier: the server stops, then its folder goes.
    address: str = pgserver.get_server(folder / "data", cleanup_mode="stop").get_uri()
    return address


def _fast_folder() -> Path | None:
    """Return a folder in memory if there is room; a server has thousands of small files, slow to make and to delete."""
    roomy = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 2**30
    return _MEMORY if roomy else None


def campaign_url() -> str:
    """Return the address of a campaign that nobody has created yet."""
    return f"{_server()}#campaign-{next(_NUMBERS)}"


def database_url() -> str:
    """Return the address of an empty database, for tests that change tables."""
    import psycopg

    name = f"database_{next(_NUMBERS)}"
    with psycopg.connect(_server(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return _server().replace("/postgres?", f"/{name}?")
