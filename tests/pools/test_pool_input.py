"""Mistakes in pools on disk and in the tables beside them are one line with the remedy, and change nothing on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from causalbald.errors import InputError
from causalbald.pools import ParquetRound, _parquet
from causalbald.tables import read_table
from tests.pools.test_pools_on_disk import PENDING, PEOPLE, UNITS, WHO, open_pool, results, small, write


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
    monkeypatch.setattr(_parquet, "SAMPLE_UNITS", 50)
    unseen = np.setdiff1d(np.arange(UNITS), open_pool(write(tmp_path / "a.parquet")).sampled)
    row = int(np.setdiff1d(unseen, WHO)[-1])
    folder, people = tmp_path / "pool", with_cell("dose", row, -np.inf)
    folder.mkdir()
    write(folder / "a.parquet", people.iloc[:100])
    write(folder / "b.parquet", people.iloc[100:], rows=70)
    pool = open_pool(folder)
    named = rf"'dose' has an infinite value in row {row - 99} of b\.parquet \(id '{PEOPLE['person'][row]}'\):"
    one_round = ParquetRound(pool, results(), outcome="outcome", model=small())
    for ask in (one_round.scores, lambda: pool.take([3, row])):
        with pytest.raises(InputError, match=named):
            ask()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.parquet", rows=50).read_bytes()
    cut, damaged, csv = tmp_path / "cut.parquet", tmp_path / "torn.parquet", tmp_path / "people.csv"
    cut.write_bytes(whole[: len(whole) // 2])
    damaged.write_bytes(whole[:4] + bytes(2000) + whole[2004:])
    csv.touch()
    (tmp_path / "empty").mkdir()
    for path, message in (
        (cut, "cut.parquet cannot be read, it may have been cut short"),
        (damaged, "torn.parquet cannot be read, it may have been cut short"),
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
        (results(), {"weight": "age"}, r"weight 'age' is missing in row \d+ of .* \(id 'P\d+'\) and 41 more: give"),
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
        ParquetRound(pool, table, **{"outcome": "outcome", "model": small(), **options})


def test_ids_that_the_pool_has_twice(tmp_path: Path) -> None:
    twice = PEOPLE["person"].iloc[WHO[0]]
    for rows in (UNITS, 10):
        pool = open_pool(write(tmp_path / "pool.parquet", with_cell("person", (WHO[0] + 300) % UNITS, twice), rows))
        with pytest.raises(InputError, match=f"1 ids are in pool.parquet more than once, for example {twice!r}"):
            ParquetRound(pool, results(), outcome="outcome", model=small())


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
            ParquetRound(pool, results(), outcome="outcome", model=small())
    # Different ids may share a hash.
    monkeypatch.setattr(_parquet, "_hashes", lambda text: np.zeros(len(text), dtype=np.uint64))
    ParquetRound(open_pool(write(tmp_path / "pool.parquet")), results(), outcome="outcome", model=small())


@pytest.mark.parametrize("name", ["score", "lower"])
def test_columns_with_names_of_our_own(tmp_path: Path, name: str) -> None:
    pool = open_pool(write(tmp_path / "pool.parquet", PEOPLE.rename(columns={"person": name})), id=name)
    with pytest.raises(InputError, match=f"'{name}' has the name of a column of the result"):
        ParquetRound(pool, results().rename(columns={"person": name}), outcome="outcome", model=small())
    pool = open_pool(write(tmp_path / "pool.parquet"))
    with pytest.raises(InputError, match=f"'{name}' has the name of a column of the result"):
        ParquetRound(pool, results().rename(columns={"outcome": name}), outcome=name, model=small())


def test_batches_that_cannot_be_chosen(tmp_path: Path) -> None:
    one_round = ParquetRound(open_pool(write(tmp_path / "pool.parquet")), results(), outcome="outcome", model=small())
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
            one_round.choose(size, **options)


def test_a_person_may_be_in_several_tables(tmp_path: Path) -> None:
    """An empty batch, and the laboratory's table with the same people."""
    pool = open_pool(write(tmp_path / "pool.parquet"))
    asked = results().head(12).assign(outcome=np.nan)
    one_round = ParquetRound(pool, [asked, results()], outcome="outcome", model=small())
    whole = ParquetRound(pool, results(), outcome="outcome", model=small())
    np.testing.assert_array_equal(one_round.measured, whole.measured)
    np.testing.assert_array_equal(one_round.pending, whole.pending)
    other = results().tail(2).assign(outcome=[77.0, 78.0])
    with pytest.raises(
        InputError, match=r"id 'P\d+' has different outcomes, \S+ in table 1 and 77 in table 2: correct one"
    ):
        ParquetRound(pool, [results(), other], outcome="outcome", model=small())
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    results().to_csv(files[0], index=False)
    for table, message in (
        (other, r"different outcomes, \S+ in .*a\.csv and 77 in .*b\.csv: correct one of them"),
        (other.assign(person=["X1", "X2"]), r"2 of 47 ids are not in the pool, for example 'X1' in .*b\.csv\."),
    ):
        table.to_csv(files[1], index=False)
        with pytest.raises(InputError, match=message):
            ParquetRound(pool, files, outcome="outcome", model=small())


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
            ParquetRound(pool, pd.DataFrame({"person": [told], "outcome": [1.0]}), outcome="outcome", model=small())


def test_numbers_and_formulas_as_ids(tmp_path: Path) -> None:
    whole = changed(person=np.arange(UNITS))
    pool = open_pool(write(tmp_path / "numbers.parquet", whole))
    table = results().assign(person=WHO)
    table.to_csv(tmp_path / "numbers.csv", index=False)
    one_round = ParquetRound(pool, tmp_path / "numbers.csv", outcome="outcome", model=small())
    assert sorted(one_round.measured) == sorted(WHO[PENDING:])
    assert one_round.choose(3)["person"].type == "int64"
    formulas = changed(person=[f"={i}" for i in range(UNITS)])
    pool = open_pool(write(tmp_path / "formulas.parquet", formulas))
    results().assign(person=[f"'={i}" for i in WHO]).to_csv(tmp_path / "formulas.csv", index=False)
    assert sorted(ParquetRound(pool, tmp_path / "formulas.csv", outcome="outcome", model=small()).pending) == sorted(
        WHO[:PENDING]
    )


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
