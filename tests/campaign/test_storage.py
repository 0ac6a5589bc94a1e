"""Storages: the same contract in memory, in a file and on a server; and a reason for everything that can go wrong."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from causalbald.campaign.storage import (
    Event,
    MemoryStorage,
    Storage,
    _postgres,
    _records,
    _schema,
    _sqlite,
    open_storage,
)
from causalbald.campaign.storage._base import Decide
from causalbald.campaign.storage._schema import Connection
from causalbald.errors import InputError
from causalbald.testing._storage import Opener, check_storage
from tests.helpers.postgres import campaign_url, database_url
from tests.helpers.storages import PARTS, START, created, note, refused


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    if request.param == "memory":
        storages: dict[str, Storage] = {}
        return lambda name: storages.setdefault(name, MemoryStorage())
    if request.param == "sqlite":
        return lambda name: open_storage(tmp_path / f"{name}.db")
    url = campaign_url()
    return lambda name: open_storage(f"{url}-{name}")


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Address of a database that a test may spoil."""
    return str(tmp_path / "study.db") if request.param == "sqlite" else database_url()


def test_every_storage_keeps_the_contract(opener: Opener) -> None:
    check_storage(opener)


class CountsFromZero(MemoryStorage):
    def events(self, after: int = 0) -> list[Event]:
        return [Event(e.number - 1, e.time, e.kind, e.body) for e in super().events(after)]


class DecidesInTheDark(MemoryStorage):
    def append(self, after: int, decide: Decide) -> list[Event]:
        return super().append(after, lambda _events: decide([]))


class RecordsBeforeItDecides(MemoryStorage):
    def append(self, after: int, decide: Decide) -> list[Event]:
        super().append(0, note)
        return super().append(after, decide)


class CreatesAgain(MemoryStorage):
    def create(self, *arguments: Any) -> list[Event]:
        self._parts = None
        return super().create(*arguments)


@pytest.mark.parametrize("broken", [CountsFromZero, DecidesInTheDark, RecordsBeforeItDecides, CreatesAgain])
def test_the_suite_finds_broken_storages(broken: type[MemoryStorage]) -> None:
    storages: dict[str, Storage] = {}
    with pytest.raises(AssertionError):
        check_storage(lambda name: storages.setdefault(name, broken()))


def test_a_part_beyond_the_limit_is_refused(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_records, "PART_LIMIT", 9_999)
    with refused("10,000 bytes", "split", error=InputError):
        opener("study").create(PARTS, START)
    monkeypatch.undo()
    opener("study").create(PARTS, START)


def test_an_address_touches_nothing(tmp_path: Path) -> None:
    open_storage(tmp_path / "folder" / "study.db").close()
    open_storage("postgresql://nobody@nowhere.invalid/none#x").close()
    assert list(tmp_path.iterdir()) == []


def test_addresses_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    created("sqlite:///a study?#1 100%.db")
    storage = open_storage("a study?#1 100%.db")
    assert open_storage(f"sqlite:///{tmp_path}/a study?#1 100%.db").events() == storage.events()
    monkeypatch.chdir("/")
    assert len(storage.events()) == 1


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("mysql://u:secret@host/db", ("mysql://", "sqlite:///", "postgresql://")),
        ("postgresql+psycopg2://u:secret@host/db", ("postgresql://",)),
        ("sqlite://", ("sqlite:///study.db",)),
        ("", ("path",)),
        ("a\0b", ("path",)),
        ("postgresql://u:my#secret@host/db", ("%23",)),
        ("postgresql://u:my@secret@host/db", ("%40",)),
        ("postgresql://u:1@host:secret/db", ("postgresql://",)),
        ("postgresql://host/db#a b", ("letters",)),
    ],
)
def test_addresses_that_cannot_be(where: str, words: tuple[str, ...]) -> None:
    with refused(*words, error=InputError, without="secret"):
        open_storage(where)


def test_imports_are_light(tmp_path: Path) -> None:
    script = """
import sys
from causalbald.campaign.storage import Draft, open_storage
open_storage(sys.argv[1]).create([], [Draft("start", {})])
heavy = {"torch", "sklearn", "pandas", "sqlalchemy", "psycopg"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script, tmp_path / "study.db"], check=True)


def set_version(where: str, version: int | None) -> None:
    place = _postgres.PostgresDatabase(where) if "://" in where else _sqlite.SqliteFile(where)
    with place.transaction(write=True) as connection:
        connection.execute("DELETE FROM causalbald_schema")
        if version is not None:
            connection.execute(f"INSERT INTO causalbald_schema VALUES ({version})")


def test_a_newer_version_says_so(where: str) -> None:
    storage = created(where)
    storage.check()
    set_version(where, _schema.SCHEMA + 1)
    for handle in (storage, open_storage(where)):
        with refused("newer", "pip install --upgrade causalbald"):
            handle.events()
    set_version(where, None)
    with refused("damaged"):
        open_storage(where).events()


def test_an_older_version_is_brought_up_to_date(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    created(where)

    def add_column(connection: Connection) -> None:
        connection.execute("ALTER TABLE causalbald_events ADD COLUMN who TEXT DEFAULT 'nobody'")

    def rename_kind(connection: Connection) -> None:
        connection.execute("UPDATE causalbald_events SET kind = 'begin' WHERE who = 'nobody'")

    monkeypatch.setattr(_schema, "SCHEMA", 3)
    monkeypatch.setattr(_schema, "MIGRATIONS", {2: add_column, 3: rename_kind})
    with ThreadPoolExecutor(4) as pool:
        kinds = list(pool.map(lambda _: open_storage(where).append(0, note)[0].kind, range(4)))
    assert kinds == ["begin"] * 4
    storage = open_storage(where)
    storage.check()
    assert len(storage.events()) == 5
    assert storage.part("table") == PARTS[0][1]


def test_a_migration_that_fails_changes_nothing(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    created(where)

    def drop(connection: Connection) -> None:
        connection.execute("DROP TABLE causalbald_parts")

    def fail(connection: Connection) -> None:
        connection.execute("DROP TABLE nothing_of_this_name")

    with monkeypatch.context() as patch:
        patch.setattr(_schema, "SCHEMA", 3)
        patch.setattr(_schema, "MIGRATIONS", {2: drop, 3: fail})
        with refused("nothing_of_this_name"):
            open_storage(where).events()
    storage = open_storage(where)
    storage.check()
    assert storage.part("table") == PARTS[0][1]
