"""A file that somebody changes while a command runs is never replaced, and the command's own table is not lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from causalbald import _files
from causalbald._files import check_place, replacing
from causalbald.errors import InputError
from tests.helpers.cli_campaigns import finished_study, run, work_on_copy


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_study(tmp_path_factory.mktemp("study"))


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, str], None]:
    """Return a function that has a file changed after all checks, as soon as something is written beside it."""

    def type_into(path: Path, text: str) -> None:
        create = _files.create_closed

        def typed(*arguments: Any, **options: Any) -> int:
            path.write_text(text)
            return create(*arguments, **options)

        monkeypatch.setattr(_files, "create_closed", typed)

    return type_into


def test_outcomes_typed_while_ask_fits_stay(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typing: Callable[[Path, str], None]
) -> None:
    work_on_copy(finished, tmp_path, monkeypatch)
    batch = Path("second.csv")
    form = pd.read_csv(batch)
    filled = form.assign(cd4=[5.0, 6.0, 7.0]).to_csv(index=False)
    typing(batch, filled)
    with pytest.raises(InputError, match=r"'second.csv' was changed while this command ran.*'second-2.csv'"):
        run("ask", "study.db", "-n", "2", "-o", "second.csv")
    assert batch.read_text() == filled
    new = pd.read_csv("second-2.csv")
    assert new["round"].tolist() == [3, 3]
    assert not set(new["patient"]) & set(form["patient"])
    run("tell", "study.db", "second.csv")


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (["pending"], "out.csv"),
        (["history"], "out.csv"),
        (["effects"], "out.parquet"),
        (["score"], "out.csv"),
        (["policy"], "out.csv"),
        (["predict", "patients.csv"], "out.csv"),
        (["subgroups", "--by", "sex"], "out.csv"),
        (["report"], "out.html"),
        (["export"], "out.jsonl"),
    ],
)
def test_whatever_was_typed_into_an_output_stays(
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    typing: Callable[[Path, str], None],
    command: list[str],
    file: str,
) -> None:
    work_on_copy(finished, tmp_path, monkeypatch)
    call = [command[0], "study.db", *command[1:], "-o", file]
    run(*call)
    expected = Path(file).read_bytes()
    run(*call)
    typing(Path(file), "typed")
    with pytest.raises(InputError, match="was changed while this command ran"):
        run(*call)
    assert Path(file).read_text() == "typed"
    other_name = Path(file).with_stem("out-2")
    assert len(other_name.read_bytes()) == pytest.approx(len(expected), rel=0.01)


def test_a_file_that_appears_meanwhile_stays_and_one_that_goes_does_not_matter(tmp_path: Path) -> None:
    target = tmp_path / "t.csv"
    check_place(target)
    target.write_text("theirs")
    for name in ("t-2.csv", "t-3.csv"):
        with pytest.raises(InputError, match=name), replacing(target) as beside:
            beside.write_text("ours")
        assert (tmp_path / name).read_text() == "ours"
        check_place(target)
        target.write_text("theirs again")
    target.unlink()
    with replacing(target) as beside:
        beside.write_text("ours")
    assert target.read_text() == "ours"
    check_place(target)
    target.write_text("ours")  # saved again as it was
    with replacing(target) as beside:
        beside.write_text("new")
    assert target.read_text() == "new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t-2.csv", "t-3.csv", "t.csv"]
