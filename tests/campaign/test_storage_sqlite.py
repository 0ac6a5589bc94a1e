"""SQLite files: one file a campaign, whole or not there; and a reason for everything that can go wrong."""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from causalbald.campaign.storage import Draft, Event, Storage, _sqlite, open_storage
from causalbald.errors import CampaignExistsError
from tests.helpers.storages import PARTS, START, created, note, refused


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A SQLite file with a campaign."""
    path = tmp_path / "study.db"
    created(path)
    return path


def test_a_campaign_is_one_file_that_can_be_moved(study: Path, tmp_path: Path) -> None:
    open_storage(study).append(1, note)
    assert [path.name for path in tmp_path.iterdir()] == ["study.db"]
    moved = study.rename(tmp_path / "moved")
    assert len(open_storage(moved).events()) == 2
    assert open_storage(moved).part("table") == PARTS[0][1]


def test_sqlite_is_told_to_be_durable_and_to_let_one_write(study: Path) -> None:
    def decide(_known: list[Event]) -> list[Draft]:
        with closing(sqlite3.connect(study, timeout=0)) as other:
            assert other.execute("SELECT count(*) FROM causalbald_events").fetchone() == (1,)
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
        return []

    open_storage(study).append(0, decide)
    with _sqlite.SqliteFile(str(study)).transaction(write=True) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 3
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        assert connection.execute("PRAGMA busy_timeout").fetchone()[0] == 60_000


def unable(*_: object) -> NoReturn:
    raise OSError("not here")


@pytest.mark.parametrize("links", [True, False])
def test_creation_never_overwrites(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not links:
        monkeypatch.setattr(os, "link", unable)
    path = tmp_path / "study.db"

    def parts() -> Iterator[tuple[str, bytes]]:
        yield from PARTS
        open_storage(path).create([("table", b"faster")], [])

    with refused("study.db", "open it", error=CampaignExistsError):
        open_storage(path).create(parts(), START)
    assert open_storage(path).part("table") == b"faster"
    assert [path.name for path in tmp_path.iterdir()] == ["study.db"]


def test_creation_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def parts() -> Iterator[tuple[str, bytes]]:
        yield from PARTS
        raise FileExistsError("not the campaign's")

    with pytest.raises(FileExistsError, match="not the campaign's"):
        open_storage(tmp_path / "study.db").create(parts(), START)
    monkeypatch.setattr(os, "link", unable)
    monkeypatch.setattr(os, "open", unable)
    with refused("cannot write", "another folder"):
        created(tmp_path / "study.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["-journal", "-wal"])
def test_rests_of_another_file_are_not_mixed_in(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"study.db{ending}").write_bytes(b"rest")
    with refused(f"study.db{ending}", "move it away"):
        created(tmp_path / "study.db")


def test_creation_needs_a_folder(tmp_path: Path) -> None:
    with refused("no folder", "make it first"):
        created(tmp_path / "folder" / "study.db")
    with refused("exists already", error=CampaignExistsError):
        created(tmp_path)


def spoil(study: Path, how: str) -> None:
    content = study.read_bytes()
    study.unlink()
    if how == "folder":
        study.mkdir()
    elif how == "pipe":
        os.mkfifo(study)
    elif how == "other database":
        with closing(sqlite3.connect(study)) as connection:
            connection.execute("CREATE TABLE t (x)")
    elif how != "missing":
        keep = {"empty": 0, "header": 50, "pages": 8192, "last page": -100}
        study.write_bytes(content[: keep[how]] if how in keep else b"id,age\n1,2\n" * 100)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("missing", ("no file", "check the name")),
        ("empty", ("is empty", "copy")),
        ("header", ("cut short", "copy")),
        ("table", ("SQLite", "check the name")),
        ("pages", ("cut short", "copy")),
        ("last page", ("cut short", "copy")),
        ("folder", ("folder", "name of a file")),
        ("pipe", ("device", "name of a file")),
        ("other database", ("without a campaign", "check the name")),
    ],
)
@pytest.mark.parametrize("call", ["events", "append", "check"])
def test_files_that_are_no_campaign(how: str, words: tuple[str, ...], call: str, study: Path) -> None:
    spoil(study, how)
    before = sorted(study.parent.iterdir())
    with refused("study.db", *words):
        use(open_storage(study), call)
    assert sorted(study.parent.iterdir()) == before


def use(storage: Storage, call: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "events": storage.events,
        "append": lambda: storage.append(0, note),
        "check": storage.check,
    }
    calls[call]()


def test_a_path_through_a_file_or_too_long(study: Path) -> None:
    with refused("no file"):
        open_storage(study / "inside").events()
    with refused("cannot open"):
        open_storage(study.with_name("x" * 300)).events()


@contextmanager
def ordinary_user() -> Iterator[Path]:
    """Give a folder in which permissions count, even if the tests run as root."""
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
        try:
            if root:
                os.setresuid(65534, 65534, 0)
            yield Path(folder)
        finally:
            if root:
                os.setresuid(0, 0, 0)
            os.chmod(folder, stat.S_IRWXU)


def test_permissions() -> None:
    with ordinary_user() as folder:
        locked = folder / "own"
        locked.mkdir()
        path = locked / "study.db"
        created(path)
        path.chmod(0o444)
        storage = open_storage(path)
        storage.check()
        assert storage.part("model") == b"abc"
        with refused("cannot be changed", "writable"):
            storage.append(0, note)
        path.chmod(0)
        with refused("not allowed to read", "permission"):
            open_storage(path).events()
        path.chmod(0o644)
        locked.chmod(0o555)
        assert len(open_storage(path).events()) == 1
        with refused("cannot be changed", "folder writable"):
            open_storage(path).append(0, note)
        with refused("new.db", "cannot be opened", "folder writable"):
            created(locked / "new.db")
        locked.chmod(0)
        with refused("cannot open", "permissions"):
            open_storage(path).events()
        locked.chmod(0o755)
        assert len(open_storage(path).append(0, note)) == 2


def test_a_file_in_use_is_waited_for_and_then_named(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sqlite, "_WAIT_SECONDS", 0.01)
    with closing(sqlite3.connect(study, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert len(open_storage(study).events()) == 1
        with refused("in use", "try again"):
            open_storage(study).append(0, note)


def change(study: Path, statement: str) -> None:
    with closing(sqlite3.connect(study)) as connection:
        connection.execute(statement)
        connection.commit()


def test_check_finds_damage(study: Path) -> None:
    storage = open_storage(study)
    storage.append(0, lambda _: [Draft("note", {"k": k}) for k in range(3)])
    storage.check()
    change(study, "DELETE FROM causalbald_events WHERE number = 3")
    with refused("event 3 is missing", "copy"):
        storage.check()
    change(study, "UPDATE causalbald_events SET number = 3, body = '{' WHERE number = 4")
    with refused("event 3 is damaged", "copy"):
        storage.check()
    change(study, "UPDATE causalbald_events SET body = '{}' WHERE number = 3")
    storage.check()
    content = bytearray(study.read_bytes())
    content[-4096:-4090] = b"\xff" * 6
    study.write_bytes(content)
    with refused("damaged", "copy"):
        storage.check()


def test_other_errors_of_sqlite_are_passed_on(study: Path) -> None:
    storage = open_storage(study)
    storage.check()
    change(study, "DROP TABLE causalbald_parts")
    with refused("study.db", "no such table", "SQLite"):
        storage.part("table")
