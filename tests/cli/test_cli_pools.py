"""``causalbald choose`` and ``score``: what they write, what they refuse, and what they never write over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from causalbald.cli._app import app
from causalbald.errors import InputError
from causalbald.models import GaussianProcess
from causalbald.pools import ParquetRound
from tests.pools.test_pool_input import changed
from tests.pools.test_pools_on_disk import PEOPLE, UNITS, WHO, open_pool, results, small, write

OPTIONS = ["--id", "person", "--treatment", "drug", "--control", "placebo", "--exclude", "site", "--outcome", "outcome"]


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    results().to_csv(tmp_path / "results.csv", index=False)
    return write(tmp_path / "pool.parquet", rows=64), tmp_path / "results.csv"


def test_rounds_from_the_command_line(tables: tuple[Path, Path], tmp_path: Path) -> None:
    pool, measured = tables
    batch = tmp_path / "batch.csv"
    done = run("choose", pool, "--measured", measured, *OPTIONS, "-n", 7, "-o", batch, "--json")
    expected = ParquetRound(open_pool(pool), results(), outcome="outcome").choose(7).to_pandas()
    shown = pd.DataFrame(json.loads(done.stdout))
    pd.testing.assert_frame_equal(shown, expected)
    form = pd.read_csv(batch)
    assert form["person"].tolist() == expected["person"].tolist()
    assert form["outcome"].isna().all()
    assert "600 people, 4 covariates as 6 numbers; 40 are measured, 5 asked for." in done.stderr
    assert "Left out" not in done.stderr
    constant = write(tmp_path / "constant.parquet", changed(clinic=1.0))
    assert "Left out: clinic (constant)." in run("choose", constant, "--measured", measured, *OPTIONS, "-n", 2).stderr
    filled = form.assign(outcome=[1.0] * 6 + [np.nan])
    filled.to_csv(batch, index=False)
    again = run("choose", pool, "--measured", measured, "--measured", batch, *OPTIONS, "-n", 3, "--batch", "softmax")
    assert "46 are measured, 6 asked for." in again.stderr
    rows = again.stdout.splitlines()
    assert rows[0] == "person,drug,score,effect,lower,upper,outcome"
    assert len(rows) == 4
    assert not {row.partition(",")[0] for row in rows} & set(form["person"])


def test_scores_from_the_command_line(tables: tuple[Path, Path], tmp_path: Path) -> None:
    pool, measured = tables
    target = tmp_path / "scores.parquet"
    done = run("score", pool, "--measured", measured, *OPTIONS, "--acquisition", "mu-bald", "-o", target, "--json")
    scores = pd.read_parquet(target)
    expected = ParquetRound(open_pool(pool), results(), outcome="outcome").scores("mu-bald")
    np.testing.assert_array_equal(scores["score"], expected)
    assert json.loads(done.stdout)["highest"] == expected.max()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--outcome", "weight"], "no column 'weight' for the outcome"),
        (["--acquisition", "mu-rho"], "unknown acquisition 'mu-rho'"),
        (["-o", "{folder}/batch.xlsx"], "ends with"),
        (["-o", "{folder}/results.csv"], "is read by this command"),
        (["-o", "{folder}/none/batch.csv"], "does not exist"),
        (["-o", "{folder}/pool.parquet"], "lies in the pool"),
        (["--model", "gpp"], "unknown model 'gpp'"),
        (["--weight", "dose", "--acquisition", "mu-rho-bald"], "'mu-rho-bald' asks neither who matters nor"),
        (["-n", "900"], "900 units asked for"),
        (["-n", "556"], "556 units asked for, but only 555 can be chosen; 5 without an outcome"),
        (["--temperature", "-1"], "temperature must be at least 0"),
        (["--temperature", "nan"], "temperature must be a number, got nan"),
        (["-o", "{folder}"], "is a folder: choose another name, or one in it"),
        (["--acquisition", "qhte"], "'qhte' looks at all of a pool at once"),
        (["--weight", "zz"], "no column 'zz' for the weight"),
        (["--weight", "drug"], "'drug' cannot be the weight"),
        (["--ray-address", "head:6379"], "add --backend ray"),
        (["--backend", "ray", "--ray-address", "localhost:9"], "no Ray cluster at 'localhost:9'"),
        (["-o", "{folder}/mine.csv"], "is a table, and not one of ours"),
        (["--outcome", "person"], "cannot be the outcome"),
        (["--categorical", "dose", "--numeric", "dose"], "cannot be both"),
    ],
)
def test_mistakes_change_nothing_on_disk(
    tables: tuple[Path, Path], tmp_path: Path, change: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GaussianProcess, "fit", None)  # all is checked before
    PEOPLE.to_csv(tmp_path / "mine.csv", index=False)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    options = [part.format(folder=tmp_path) for part in change]
    result = CliRunner().invoke(
        app, ["choose", str(tables[0]), "--measured", str(tables[1]), *OPTIONS, "-o", str(tmp_path / "b.csv"), *options]
    )
    assert message in str(result.exception)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_nothing_is_written_into_the_pool_or_over_outcomes(tables: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "pool"
    folder.mkdir()
    write(folder / "a.parquet")
    asked = ["--measured", tables[1], *OPTIONS, "-o"]
    for command, name in (("score", "a.parquet"), ("score", "scores.parquet"), ("choose", "batch.csv")):
        with pytest.raises(InputError, match="lies in the pool: choose another --output"):
            run(command, folder, *asked, folder / name)
    batch = tmp_path / "batch.csv"
    run("choose", folder, *asked, batch, "-n", 4)
    empty = batch.read_text()
    with pytest.raises(InputError, match="holds people who may have been asked for: give it to --measured"):
        run("choose", folder, *asked, batch, "-n", 4)
    assert batch.read_text() == empty
    pd.read_csv(batch).assign(outcome=[1.0, 2.0, np.nan, np.nan]).to_csv(batch, index=False)
    filled = batch.read_text()
    with pytest.raises(InputError, match="holds 2 outcomes: give it to --measured and choose another --output"):
        run("choose", folder, *asked, batch, "-n", 4)
    assert batch.read_text() == filled
    pd.read_csv(batch).assign(outcome=["<0.5", "2", "3", ""]).to_csv(batch, index=False)
    with pytest.raises(InputError, match="holds 3 outcomes"):
        run("choose", folder, *asked, batch, "-n", 4)
    batch.write_text("person,outcome\n1,2,5\n")
    with pytest.raises(InputError, match="may hold outcomes: choose another --output"):
        run("choose", folder, *asked, batch, "-n", 4)
    batch.write_text("")
    run("choose", folder, *asked, batch, "-n", 4)
    assert batch.read_text() == empty
    assert [p.name for p in folder.iterdir()] == ["a.parquet"]


def test_tables_that_are_not_ours_of_the_same_kind_are_not_replaced(tables: tuple[Path, Path], tmp_path: Path) -> None:
    asked = [tables[0], "--measured", tables[1], *OPTIONS, "-o"]
    run("score", *asked, tmp_path / "s.parquet")
    changed(score=1.0).to_parquet(tmp_path / "backup.parquet", index=False)
    pd.DataFrame({"score": [3], "team": "A"}).to_csv(tmp_path / "league.csv", index=False)
    run("choose", *asked, tmp_path / "batch.parquet", "-n", 2)
    pd.read_parquet(tmp_path / "batch.parquet").drop(columns="outcome").to_csv(tmp_path / "plain.csv", index=False)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    mistakes = [("choose", name) for name in ("s.parquet", "backup.parquet", "league.csv")]
    for command, name in [*mistakes, ("score", "backup.parquet")]:
        with pytest.raises(InputError, match="is a table, and not one of ours of the same kind"):
            run(command, *asked, tmp_path / name)
    with pytest.raises(InputError, match="holds people who may have been asked for"):
        run("score", *asked, tmp_path / "batch.parquet")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    run("score", *asked, tmp_path / "s.parquet")
    run("choose", *asked, tmp_path / "plain.csv", "-n", 2)
    assert list(pd.read_csv(tmp_path / "plain.csv"))[-1] == "outcome"


@pytest.mark.parametrize("kind", ["float64", "decimal"])
def test_ids_that_are_whole_numbers_come_back_as_such(tmp_path: Path, kind: str) -> None:
    """pandas makes numbers of a column with gaps floating, databases write them as decimals; spreadsheets add .0."""
    numbers = {name: k for k, name in enumerate(PEOPLE["person"])}
    table = pa.Table.from_pandas(changed(person=PEOPLE["person"].map(numbers)), preserve_index=False)
    kind_of_ids = pa.decimal128(20, 0) if kind == "decimal" else pa.float64()
    pool = tmp_path / "pool.parquet"
    pq.write_table(table.set_column(0, "person", table["person"].cast(kind_of_ids)), pool)
    results_file = tmp_path / "known.csv"
    results().assign(person=lambda t: t["person"].map(numbers).astype(float)).to_csv(results_file, index=False)
    assert ".0," in results_file.read_text()
    batch, scores = tmp_path / "batch.csv", tmp_path / "scores.parquet"
    run("choose", pool, "--measured", results_file, *OPTIONS, "-n", 4, "-o", batch)
    form = pd.read_csv(batch)
    assert pd.api.types.is_integer_dtype(form["person"])
    form.assign(outcome=1.0).to_csv(batch, index=False)
    done = run("score", pool, "--measured", results_file, "--measured", batch, *OPTIONS, "-o", scores)
    assert "44 are measured, 5 asked for." in done.stderr
    assert pd.read_parquet(scores)["person"].tolist() == list(range(UNITS))


def test_a_weight_may_be_a_covariate_too(tmp_path: Path) -> None:
    people, results_file = changed(size=np.arange(UNITS) % 3), tmp_path / "known.csv"
    results().to_csv(results_file, index=False)
    pool = write(tmp_path / "pool.parquet", people)
    asked = ["choose", pool, "--measured", results_file, *OPTIONS, "-n", 2, "--weight", "size"]
    assert "4 covariates" in run(*asked).stderr
    assert "2 covariates" in run(*asked, "--covariate", "size", "--covariate", "dose").stderr


def test_units_masked_by_scores_are_never_chosen(tables: tuple[Path, Path]) -> None:
    round_, seen = ParquetRound(open_pool(tables[0]), results(), outcome="outcome", model=small()), []
    scores = round_.scores("mu-rho-bald")
    few = np.setdiff1d(np.argsort(scores), WHO)[:7]
    masked = np.full(UNITS, -np.inf)
    masked[few] = scores[few]
    chosen = round_.choose(5, "mu-rho-bald", scores=list(masked), picked=lambda *done: seen.append(done))
    assert set(chosen["person"].to_pylist()) <= set(PEOPLE["person"].iloc[few])
    assert seen == [(k, 5) for k in range(1, 6)]


@pytest.mark.parametrize(
    ("scores", "name", "message"),
    [
        (np.full(UNITS, np.nan), "s.parquet", "scores contain NaN or \\+inf"),
        (np.where(np.arange(UNITS) < 1, np.inf, 0.0), "s.parquet", "scores contain NaN or \\+inf"),
        (np.zeros(UNITS - 1), "s.parquet", r"scores have shape \(599,\) for 600 units"),
        (np.zeros((UNITS, 1)), "s.parquet", r"scores have shape \(600, 1\) for 600 units"),
        (np.zeros(UNITS), "s.csv", r"cannot write 's.csv': choose a name that ends with \.parquet"),
        (np.zeros(UNITS), "none/s.parquet", "folder .* does not exist"),
        (np.zeros(UNITS), "", "is a folder"),
    ],
)
def test_scores_that_cannot_be_used(
    tables: tuple[Path, Path], tmp_path: Path, scores: Any, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GaussianProcess, "fit", None)
    round_ = ParquetRound(open_pool(tables[0]), results(), outcome="outcome", model=small())
    with pytest.raises(InputError, match=message):
        round_.save_scores(scores, tmp_path / name)
    if message.startswith("scores"):
        with pytest.raises(InputError, match=message):
            round_.choose(5, scores=scores)
    assert {p.name for p in tmp_path.iterdir()} == {"pool.parquet", "results.csv"}


def test_scores_are_written_whole_or_not_at_all(
    tables: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_ = ParquetRound(open_pool(tables[0]), results(), outcome="outcome", model=small())
    target = tmp_path / "scores.parquet"
    target.write_bytes(b"old")

    def fail(*_: Any) -> Any:
        raise OSError("no space left")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", fail)
    with pytest.raises(OSError, match="no space left"):
        round_.save_scores(np.zeros(UNITS), target)
    assert target.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pool.parquet", "results.csv", "scores.parquet"]
