"""Mistakes in pools on disk and in the tables beside them are one line with the remedy, and change nothing on disk."""

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

from causalbald.campaign.tables import read_table
from causalbald.cli.app import app
from causalbald.errors import InputError
from causalbald.models import GaussianProcess
from causalbald.streaming import Round, parquet
from tests.test_streaming import PENDING, PEOPLE, UNITS, WHO, open_pool, results, small, write

OPTIONS = ["--id", "person", "--treatment", "drug", "--control", "placebo", "--exclude", "site", "--outcome", "outcome"]


def changed(**values: Any) -> pd.DataFrame:
    """Return the people with some columns replaced."""
    return PEOPLE.assign(**values)


def with_cell(name: str, row: int, value: Any) -> pd.DataFrame:
    column = PEOPLE[name].astype(object if isinstance(value, str) or value is None else float)
    column.iloc[row] = value
    return PEOPLE.assign(**{name: column})


@pytest.mark.parametrize(
    ("people", "options", "message"),
    [
        (PEOPLE, {"treatment": "drugs"}, "no column 'drugs' for the treatment. Did you mean 'drug'?"),
        (PEOPLE, {"id": "patient"}, "no column 'patient' for the ids"),
        (PEOPLE, {"covariates": ["aeg"]}, "no column 'aeg' for the covariates. Did you mean 'age'?"),
        (PEOPLE, {"covariates": ["drug"]}, "'drug' cannot be a covariate"),
        (PEOPLE, {"exclude": ["zip"]}, "no column 'zip' for the columns to exclude"),
        (PEOPLE, {"kinds": {"zip": "numeric"}}, "no column 'zip' for the kinds of columns"),
        (PEOPLE, {"kinds": {"dose": "number"}}, "covariate 'dose' must be 'numeric' or 'categorical'"),
        (
            PEOPLE,
            {"kinds": {"city": "numeric"}},
            r"'city' must hold numbers, but row 1 of pool\.parquet \(id 'P\d+'\) has",
        ),
        (PEOPLE, {"control": "nobody"}, "control 'nobody' is not a value of treatment 'drug'"),
        (PEOPLE, {"control": None}, "which of .* is the control"),
        (
            with_cell("drug", 17, None),
            {},
            rf"'drug' is missing in row 18 of pool.parquet \(id '{PEOPLE['person'][17]}'\)",
        ),
        (with_cell("drug", 17, "both"), {}, "must have two values, but has 3"),
        (changed(drug="verum"), {}, "must have two values, but has 1"),
        (
            changed(drug=[["verum"], ["placebo"]] * (UNITS // 2)),
            {},
            "'drug' must hold text, numbers or yes/no, not list<",
        ),
        (changed(drug=None), {}, "'drug' is missing in row 1 of pool.parquet"),
        (changed(drug=np.where(np.arange(UNITS) < 9, np.nan, 1.0)), {"control": 1}, "missing in row 1 "),
        (with_cell("dose", 544, np.inf), {}, "column 'dose' has an infinite value in row 545"),
        (
            with_cell("dose", 544, -1e200),
            {},
            r"'dose' has -1e\+200 in row 545 of .* leave it empty if it stands for missing",
        ),
        (PEOPLE.iloc[:0], {}, "has no rows"),
    ],
)
def test_pools_that_cannot_be_used(tmp_path: Path, people: pd.DataFrame, options: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "pool.parquet", people, rows=50)
    with pytest.raises(InputError, match=message):
        open_pool(path, **options)


def test_a_bad_cell_beyond_the_sample_is_named_by_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_SAMPLE", 50)
    unseen = np.setdiff1d(np.arange(UNITS), open_pool(write(tmp_path / "a.parquet")).sampled)
    row = int(np.setdiff1d(unseen, WHO)[-1])
    folder, people = tmp_path / "pool", with_cell("dose", row, -np.inf)
    folder.mkdir()
    write(folder / "a.parquet", people.iloc[:100])
    write(folder / "b.parquet", people.iloc[100:], rows=70)
    pool = open_pool(folder)
    named = rf"'dose' has an infinite value in row {row - 99} of b\.parquet \(id '{PEOPLE['person'][row]}'\):"
    there = Round(pool, results(), outcome="outcome", model=small())
    for ask in (there.scores, lambda: pool.take([3, row])):
        with pytest.raises(InputError, match=named):
            ask()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.parquet", rows=50).read_bytes()
    cut, torn, csv = tmp_path / "cut.parquet", tmp_path / "torn.parquet", tmp_path / "people.csv"
    cut.write_bytes(whole[: len(whole) // 2])
    torn.write_bytes(whole[:4] + bytes(2000) + whole[2004:])
    csv.touch()
    (tmp_path / "empty").mkdir()
    for path, message in (
        (cut, "cut.parquet cannot be read, it may have been cut short"),
        (torn, "torn.parquet cannot be read, it may have been cut short"),
        (csv, "people.csv is not a Parquet file"),
        (tmp_path / "empty", "has no files that end with .parquet"),
        (tmp_path / "missing.parquet", "there is no file"),
    ):
        with pytest.raises(InputError, match=message):
            open_pool(path)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (results(), {"outcome": "outcom"}, "no column 'outcom' for the outcome. Did you mean 'outcome'?"),
        (results().drop(columns="person"), {}, "no column 'person' for the ids"),
        (pd.concat([results(), results().head(1)]), {}, "1 ids more than once"),
        (results().assign(person=lambda t: ["X1", *t["person"][1:]]), {}, "1 of 45 ids are not in the pool, .* 'X1'"),
        (results().assign(outcome="high"), {}, r"must hold numbers, but the row of 'P\d+' has 'high'"),
        (results().assign(outcome=np.inf), {}, r"infinite value in the row of 'P\d+'"),
        (results().assign(outcome=1.8e307), {}, r"'outcome' has 1.8e\+307 in the row of 'P\d+'"),
        (results(), {"weight": "huge"}, r"weight 'huge' has 1e\+101 in row 1 of pool.parquet \(id 'P\d+'\): give"),
        (results().head(PENDING), {}, "no outcome 'outcome' is known yet"),
        (
            results().rename(columns={"outcome": "dose"}),
            {"outcome": "dose"},
            r"no covariate: exclude it \(--exclude dose\)",
        ),
        (results()[(PEOPLE["drug"].iloc[WHO] == "verum").to_numpy()], {}, "nobody with 'drug' 'placebo' is measured"),
        (results(), {"model": "gpp"}, "unknown model 'gpp'. Did you mean 'gp'?"),
        (results(), {"seed": -1}, "seed must be an integer"),
        (results(), {"weight": "wealth"}, "no column 'wealth' for the weight"),
        (results(), {"weight": "age"}, r"weight 'age' is missing in row \d+ of pool.parquet \(id 'P\d+'\): give"),
        (
            results(),
            {"weight": "city"},
            r"weight 'city' must hold numbers, but row 1 of pool.parquet \(id 'P\d+'\) has .*: give",
        ),
        (results(), {"weight": "dose"}, r"weight 'dose' is negative \(-.*\) in row \d+ of pool.parquet"),
        (results(), {"weight": "none"}, "weight 'none' is 0 for everyone"),
        (results(), {"weight": "drug"}, "'drug' cannot be the weight: it is the id, the treatment or the outcome"),
        (results(), {"weight": "person"}, "'person' cannot be the weight: it is the id"),
        (results(), {"worthwhile": np.nan}, "worthwhile must be a number"),
        (results().rename(columns={"outcome": "drug"}), {"outcome": "drug"}, "'drug' cannot be the outcome"),
        ([], {}, "no table of outcomes is given"),
    ],
)
def test_tables_of_outcomes_that_cannot_be_used(
    tmp_path: Path, table: pd.DataFrame, options: dict[str, Any], message: str
) -> None:
    pool = open_pool(write(tmp_path / "pool.parquet", changed(none=0.0, huge=1e101)))
    with pytest.raises(InputError, match=message):
        Round(pool, table, **{"outcome": "outcome", "model": small(), **options})


def test_ids_that_the_pool_has_twice(tmp_path: Path) -> None:
    twice = PEOPLE["person"].iloc[WHO[0]]
    for rows in (UNITS, 10):
        pool = open_pool(write(tmp_path / "pool.parquet", with_cell("person", (WHO[0] + 300) % UNITS, twice), rows))
        with pytest.raises(InputError, match=f"1 ids are in pool.parquet more than once, for example {twice!r}"):
            Round(pool, results(), outcome="outcome", model=small())


def test_ids_of_people_whom_nobody_has_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told at once, not when the money is spent."""
    first, second = np.setdiff1d(np.arange(UNITS), WHO)[[3, -3]]
    for value, message in (
        (PEOPLE["person"].iloc[first], f"more than once, for example {PEOPLE['person'].iloc[first]!r}"),
        (None, f"row {second + 1} of pool.parquet has no id 'person'"),
        ("  ", f"row {second + 1} of pool.parquet has no id 'person'"),
    ):
        pool = open_pool(write(tmp_path / "pool.parquet", with_cell("person", second, value), rows=70))
        with pytest.raises(InputError, match=message):
            Round(pool, results(), outcome="outcome", model=small())
    # Different ids may share a hash.
    monkeypatch.setattr(parquet, "_hashes", lambda text: np.zeros(len(text), dtype=np.uint64))
    Round(open_pool(write(tmp_path / "pool.parquet")), results(), outcome="outcome", model=small())


@pytest.mark.parametrize("name", ["score", "lower"])
def test_columns_with_names_of_our_own(tmp_path: Path, name: str) -> None:
    pool = open_pool(write(tmp_path / "pool.parquet", PEOPLE.rename(columns={"person": name})), id=name)
    with pytest.raises(InputError, match=f"'{name}' has the name of a column of the result"):
        Round(pool, results().rename(columns={"person": name}), outcome="outcome", model=small())
    pool = open_pool(write(tmp_path / "pool.parquet"))
    with pytest.raises(InputError, match=f"'{name}' has the name of a column of the result"):
        Round(pool, results().rename(columns={"outcome": name}), outcome=name, model=small())


def test_batches_that_cannot_be_chosen(tmp_path: Path) -> None:
    there = Round(open_pool(write(tmp_path / "pool.parquet")), results(), outcome="outcome", model=small())
    mistakes: list[tuple[int, dict[str, Any], str]] = [
        (0, {}, "size must be an integer of at least 1"),
        (UNITS, {"batch": "softmax"}, "600 units asked for, but only 555 can be chosen"),
        (UNITS, {"batch": "greedy"}, "600 units asked for, but only 555 can be chosen"),
        (5, {"batch": "random"}, "batch must be one of"),
        (5, {"temperature": -1.0}, "temperature must be at least 0"),
        (5, {"backend": "slurm"}, "backend must be one of 'local', 'ray'"),
        (5, {"scores": np.zeros(7)}, "scores have shape"),
        (5, {"acquisition": "qhte"}, "'qhte' looks at all of a pool at once"),
    ]
    for size, options, message in mistakes:
        with pytest.raises(InputError, match=message):
            there.choose(size, **options)


def test_a_person_may_be_in_several_tables(tmp_path: Path) -> None:
    """An empty batch, and the laboratory's table with the same people."""
    pool = open_pool(write(tmp_path / "pool.parquet"))
    asked = results().head(12).assign(outcome=np.nan)
    there = Round(pool, [asked, results()], outcome="outcome", model=small())
    whole = Round(pool, results(), outcome="outcome", model=small())
    np.testing.assert_array_equal(there.measured, whole.measured)
    np.testing.assert_array_equal(there.pending, whole.pending)
    other = results().tail(2).assign(outcome=[77.0, 78.0])
    with pytest.raises(
        InputError, match=r"id 'P\d+' has different outcomes, \S+ in table 1 and 77 in table 2: mend one"
    ):
        Round(pool, [results(), other], outcome="outcome", model=small())
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    results().to_csv(files[0], index=False)
    for table, message in (
        (other, r"different outcomes, \S+ in .*a\.csv and 77 in .*b\.csv: mend one of them"),
        (other.assign(person=["X1", "X2"]), r"2 of 47 ids are not in the pool, for example 'X1' in .*b\.csv\."),
    ):
        table.to_csv(files[1], index=False)
        with pytest.raises(InputError, match=message):
            Round(pool, files, outcome="outcome", model=small())


def test_ids_that_lost_their_leading_zeros_are_recognised(tmp_path: Path) -> None:
    pool = open_pool(write(tmp_path / "pool.parquet", changed(person=[f"{k:05d}" for k in range(UNITS)]), rows=100))
    for told, message in (
        (
            str(UNITS - 1),
            f"for example '{UNITS - 1}'. Did you mean '{UNITS - 1:05d}'. A spreadsheet drops leading zeros",
        ),
        (str(UNITS), f"for example '{UNITS}'. Ids are those of column 'person' of pool.parquet"),
    ):
        with pytest.raises(InputError, match=message):
            Round(pool, pd.DataFrame({"person": [told], "outcome": [1.0]}), outcome="outcome", model=small())


def test_numbers_and_formulas_as_ids(tmp_path: Path) -> None:
    whole = changed(person=np.arange(UNITS))
    pool = open_pool(write(tmp_path / "numbers.parquet", whole))
    table = results().assign(person=WHO)
    table.to_csv(tmp_path / "numbers.csv", index=False)
    there = Round(pool, tmp_path / "numbers.csv", outcome="outcome", model=small())
    assert sorted(there.measured) == sorted(WHO[PENDING:])
    assert there.choose(3)["person"].type == "int64"
    formulas = changed(person=[f"={i}" for i in range(UNITS)])
    pool = open_pool(write(tmp_path / "formulas.parquet", formulas))
    results().assign(person=[f"'={i}" for i in WHO]).to_csv(tmp_path / "formulas.csv", index=False)
    assert sorted(Round(pool, tmp_path / "formulas.csv", outcome="outcome", model=small()).pending) == sorted(
        WHO[:PENDING]
    )


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
    expected = Round(open_pool(pool), results(), outcome="outcome").choose(7).to_pandas()
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
    found = pd.read_parquet(target)
    expected = Round(open_pool(pool), results(), outcome="outcome").scores("mu-bald")
    np.testing.assert_array_equal(found["score"], expected)
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
    wanted = pa.decimal128(20, 0) if kind == "decimal" else pa.float64()
    pool = tmp_path / "pool.parquet"
    pq.write_table(table.set_column(0, "person", table["person"].cast(wanted)), pool)
    known = tmp_path / "known.csv"
    results().assign(person=lambda t: t["person"].map(numbers).astype(float)).to_csv(known, index=False)
    assert ".0," in known.read_text()
    batch, scores = tmp_path / "batch.csv", tmp_path / "scores.parquet"
    run("choose", pool, "--measured", known, *OPTIONS, "-n", 4, "-o", batch)
    form = pd.read_csv(batch)
    assert pd.api.types.is_integer_dtype(form["person"])
    form.assign(outcome=1.0).to_csv(batch, index=False)
    done = run("score", pool, "--measured", known, "--measured", batch, *OPTIONS, "-o", scores)
    assert "44 are measured, 5 asked for." in done.stderr
    assert pd.read_parquet(scores)["person"].tolist() == list(range(UNITS))


def test_other_kinds_of_text_and_repeated_names(tmp_path: Path) -> None:
    table = pa.Table.from_pandas(PEOPLE, preserve_index=False)
    views = table.set_column(5, "city", table["city"].cast(pa.string()).cast(pa.string_view()))
    pq.write_table(views, tmp_path / "views.parquet")
    pool = open_pool(tmp_path / "views.parquet")
    np.testing.assert_array_equal(pool.sample.x, open_pool(write(tmp_path / "plain.parquet")).sample.x)
    assert read_table(tmp_path / "views.parquet").data["city"].to_pylist() == PEOPLE["city"].tolist()
    twice = pa.table([*table.columns, table["dose"]], names=[*table.column_names, "dose"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    for read in (open_pool, read_table):
        with pytest.raises(InputError, match="has more than one column 'dose': rename or drop one"):
            read(tmp_path / "twice.parquet")
    assert [c.name for c in open_pool(tmp_path / "plain.parquet", covariates=["dose", "dose"]).columns] == ["dose"]
    with pytest.raises(InputError, match=r"covariates must be a list of columns, such as \['dose'\]"):
        open_pool(tmp_path / "plain.parquet", covariates="dose")


def test_a_weight_may_be_a_covariate_too(tmp_path: Path) -> None:
    people, known = changed(size=np.arange(UNITS) % 3), tmp_path / "known.csv"
    results().to_csv(known, index=False)
    pool = write(tmp_path / "pool.parquet", people)
    asked = ["choose", pool, "--measured", known, *OPTIONS, "-n", 2, "--weight", "size"]
    assert "4 covariates" in run(*asked).stderr
    assert "2 covariates" in run(*asked, "--covariate", "size", "--covariate", "dose").stderr


def test_units_masked_by_scores_are_never_chosen(tables: tuple[Path, Path]) -> None:
    there, seen = Round(open_pool(tables[0]), results(), outcome="outcome", model=small()), []
    scores = there.scores("mu-rho-bald")
    few = np.setdiff1d(np.argsort(scores), WHO)[:7]
    masked = np.full(UNITS, -np.inf)
    masked[few] = scores[few]
    chosen = there.choose(5, "mu-rho-bald", scores=list(masked), picked=lambda *done: seen.append(done))
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
    there = Round(open_pool(tables[0]), results(), outcome="outcome", model=small())
    with pytest.raises(InputError, match=message):
        there.save_scores(scores, tmp_path / name)
    if message.startswith("scores"):
        with pytest.raises(InputError, match=message):
            there.choose(5, scores=scores)
    assert {p.name for p in tmp_path.iterdir()} == {"pool.parquet", "results.csv"}


def test_scores_are_written_whole_or_not_at_all(
    tables: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Round(open_pool(tables[0]), results(), outcome="outcome", model=small())
    target = tmp_path / "scores.parquet"
    target.write_bytes(b"old")

    def fail(*_: Any) -> Any:
        raise OSError("no space left")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", fail)
    with pytest.raises(OSError, match="no space left"):
        there.save_scores(np.zeros(UNITS), target)
    assert target.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pool.parquet", "results.csv", "scores.parquet"]
