"""Files about people are no more open than the file that the people come from, or the file that is replaced."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from causalbald import _files
from causalbald._files import replacing
from causalbald.campaign.storage._sqlite import SqliteFile
from causalbald.tables import read_table, write_table
from tests.helpers.cli_campaigns import NEW, ROLES, STUDY, measure, run, write_patients

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path | str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def made(path: Path, permissions: int) -> Path:
    path.write_bytes(b"old")
    path.chmod(permissions)
    return path


def replaced(path: Path, *sources: Path | None) -> int:
    with replacing(path, *sources) as beside:
        assert mode(beside) == 0o600
        beside.write_bytes(b"new")
    assert path.read_bytes() == b"new"
    return mode(path)


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    for permissions in (0o600, 0o640, 0o644, 0o400, 0o664):
        assert replaced(made(tmp_path / "t.csv", permissions), made(tmp_path / "source", 0o600)) == permissions
        (tmp_path / "t.csv").unlink()


def test_a_new_file_is_no_more_open_than_what_it_comes_from(tmp_path: Path) -> None:
    closed, to_group, open_ = (made(tmp_path / f"{m:o}", m) for m in (0o600, 0o640, 0o666))
    assert replaced(tmp_path / "a") == 0o644
    assert replaced(tmp_path / "b", open_, None) == 0o644
    assert replaced(tmp_path / "c", to_group, open_) == 0o640
    assert replaced(tmp_path / "d", to_group, closed) == 0o600
    assert replaced(tmp_path / "e", made(tmp_path / "read-only", 0o400)) == 0o600
    assert replaced(tmp_path / "f", tmp_path / "nowhere") == 0o644


def test_the_umask_still_narrows(tmp_path: Path) -> None:
    os.umask(0o077)
    assert replaced(tmp_path / "a", made(tmp_path / "open", 0o666)) == 0o600


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files to other groups")
def test_another_group_may_do_no_more_than_everybody(tmp_path: Path) -> None:
    source = made(tmp_path / "source", 0o640)
    os.chown(source, -1, 12345)
    assert replaced(tmp_path / "new", source) == 0o600
    assert replaced(source) == 0o640
    assert source.stat().st_gid == 12345


def test_a_file_that_was_made_by_somebody_else_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        _files.create_closed(made(tmp_path / "there", 0o644))


def test_a_campaign_is_closed_while_it_is_written(tmp_path: Path) -> None:
    pool = made(tmp_path / "pool.csv", 0o640)
    with SqliteFile(str(tmp_path / "study.db"), pool).creation() as connection:
        # More than the cache holds, so that SQLite begins its journal.
        connection.execute("CREATE TABLE big (data BLOB)")
        connection.executemany("INSERT INTO big VALUES (?)", [(b"0" * 100_000,)] * 100)
        drafts = list(tmp_path.glob(".study.db.*"))
        assert drafts
        assert {mode(path) for path in drafts} == {0o600}
    assert mode(tmp_path / "study.db") == 0o640


def test_the_journal_of_a_campaign_is_no_more_open(tmp_path: Path) -> None:
    pool = made(tmp_path / "pool.csv", 0o600)
    place = SqliteFile(str(tmp_path / "study.db"), pool)
    with place.creation():
        pass
    with place.transaction(write=True) as connection:
        connection.execute("CREATE TABLE more (data BLOB)")
        assert mode(tmp_path / "study.db-journal") == 0o600


def test_everything_that_commands_write_about_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_patients(Path("patients.csv"), "name")
    Path("patients.csv").chmod(0o600)
    run("new", "study.db", *NEW, "--model", "gp", "--picture", "overlap.svg")
    run("ask", "study.db", "-n", "12", "-o", "batch.csv")
    measure("batch.csv", "batch.csv")
    run("tell", "study.db", "batch.csv")
    run("ask", "study.db", "-n", "3", "-o", "second.parquet")
    for command in ("effects", "policy", "score", "history", "pending"):
        run(command, "study.db", "-o", f"{command}.csv")
    run("subgroups", "study.db", "--by", "sex", "-o", "subgroups.csv")
    run("predict", "study.db", "patients.csv", "-o", "predicted.csv")
    run("report", "study.db", "-o", "report.html")
    run("export", "study.db", "-o", "export.jsonl")
    run("import", "copy.db", "export.jsonl")
    assert {path.name: f"{mode(path):o}" for path in Path().iterdir() if mode(path) != 0o600} == {}
    assert len([*Path().iterdir()]) == 15
    Path("report.html").chmod(0o640)
    run("report", "study.db", "-o", "report.html")
    assert mode("report.html") == 0o640


def test_a_batch_from_a_pool_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from causalbald.cli._app import app

    monkeypatch.chdir(tmp_path)
    STUDY.drop(columns=["name", "cd4"]).to_parquet("pool.parquet", index=False)
    Path("pool.parquet").chmod(0o600)
    STUDY[["patient", "cd4"]].head(20).to_csv("results.csv", index=False)
    options = ["pool.parquet", "--measured", "results.csv", *ROLES]
    for arguments in (["choose", *options, "-n", "5", "-o", "batch.csv"], ["score", *options, "-o", "scores.parquet"]):
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert mode(arguments[-1]) == 0o600


def test_a_table_for_which_nothing_is_a_source(tmp_path: Path) -> None:
    write_table(pa.table({"a": np.arange(3)}), tmp_path / "t.csv")
    assert mode(tmp_path / "t.csv") == 0o644
    assert read_table(tmp_path / "t.csv").data.num_rows == 3
