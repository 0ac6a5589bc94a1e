"""Ids and categories that a spreadsheet would run come back from a CSV file as themselves."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalbald._spreadsheet import csv_writer, read_cell, read_column, safe_cell
from causalbald.campaign import Campaign
from causalbald.campaign.storage import MemoryStorage
from causalbald.errors import InputError
from causalbald.pools import ParquetRound
from causalbald.tables import read_table, write_table
from tests.helpers.campaigns import OPTIONS, people, pool_of
from tests.pools.test_pool_input import changed
from tests.pools.test_pools_on_disk import PEOPLE, WHO, open_pool, results, small, write

STUDY = people(60)
ODD = [
    "=10",
    "'=10",
    "''=10",
    " =10",
    "\t=10",
    "\r=10",
    "\n=10",
    "\u00a0=10",
    "＝10",
    "＋10",
    "－x",
    "＠x",
    "'x",
    "-1",
    "a\rb",
]
TEXT = st.text(st.sampled_from("'=+-@＝＋－＠ \t\r\n\u00a0\u3000\ufeff10.eax\",;"), max_size=8)


@given(TEXT | st.text(max_size=8))
def test_what_is_made_safe_is_read_as_it_was(text: str) -> None:
    assert read_cell(safe_cell(text)) == text


@given(st.lists(TEXT, unique=True, max_size=8))
def test_no_two_texts_are_written_alike(texts: list[str]) -> None:
    cells = [safe_cell(t) for t in texts]
    assert len(set(cells)) == len(cells)
    assert read_column(cells) == texts


@given(TEXT)
def test_no_cell_starts_with_a_formula_after_all_that_spreadsheets_trim(text: str) -> None:
    bare = re.sub(r"^[\s\ufeff]+", "", safe_cell(text))
    assert not re.match(r"[=+\-@＝＋－＠]", bare) or re.fullmatch(r"[+-]?\d*\.?\d*(e[+-]?\d+)?", bare)


@given(st.lists(TEXT, min_size=1, max_size=5))
def test_lines_end_with_a_line_feed_and_every_cell_is_read_again(texts: list[str]) -> None:
    file = io.StringIO(newline="")
    csv_writer(file).writerow(["id", *texts])
    written = file.getvalue()
    assert written.endswith("\n")
    assert not written.endswith("\r\n")
    assert "\r" not in re.sub(r'"([^"]|"")*"', "", written)


def odd_study() -> pd.DataFrame:
    return pool_of(STUDY).assign(patient=[*ODD, *(f"p{k}" for k in range(len(STUDY) - len(ODD)))])


def filled_batch(campaign: Campaign, path: Path, *, size: int = len(STUDY)) -> dict[str, float]:
    """Ask for people, write their batch with outcomes, and return the outcomes."""
    batch = read_table(campaign.ask(size)).data
    ids = batch["patient"].to_pylist()
    values = [float(k) for k in range(len(ids))]
    write_table(batch.append_column("cd4", pa.array(values)), path)
    return dict(zip(ids, values, strict=True))


def test_every_outcome_of_a_batch_goes_to_the_right_person(tmp_path: Path) -> None:
    for ending in (".csv", ".parquet"):
        campaign = Campaign.create(MemoryStorage(), odd_study(), **OPTIONS)
        told = filled_batch(campaign, tmp_path / f"batch{ending}")
        assert set(ODD) <= set(told)
        assert campaign.tell(tmp_path / f"batch{ending}").new == len(told)
        assert campaign.state.outcomes == told


def test_a_batch_of_an_older_release_is_told_by_rank_and_round(tmp_path: Path) -> None:
    campaign = Campaign.create(MemoryStorage(), odd_study(), **OPTIONS)
    told = filled_batch(campaign, tmp_path / "batch.csv")
    old = read_table(tmp_path / "batch.csv", text=["patient"]).data.to_pandas()
    cells = {"=10": "'=10", " =10": " =10", "\u00a0=10": "\u00a0=10", "\n=10": "\n=10"}
    old["patient"] = [cells.get(i, i if i.startswith(("'", "＝", "＋", "－", "＠")) else safe_cell(i)) for i in told]
    assert (old["patient"] == "'=10").sum() == 2
    old.to_csv(tmp_path / "old.csv", index=False, quoting=1)
    campaign.tell(tmp_path / "old.csv")
    assert campaign.state.outcomes == told


def test_an_id_with_two_meanings_is_refused(tmp_path: Path) -> None:
    campaign = Campaign.create(MemoryStorage(), odd_study(), **OPTIONS)
    campaign.ask(len(STUDY))
    (tmp_path / "short.csv").write_text("patient,cd4\n'=10,1\n")
    with pytest.raises(InputError, match=r"'=10\" may mean '=10'.*columns rank and round of the batch"):
        campaign.tell(tmp_path / "short.csv")
    assert not campaign.state.outcomes
    # As they stand: who gives a frame or a mapping has the ids themselves.
    campaign.tell({"'=10": 1.0})
    campaign.tell(pd.DataFrame({"patient": ["''=10"], "cd4": [2.0]}))
    assert campaign.state.outcomes == {"'=10": 1.0, "''=10": 2.0}


@pytest.mark.parametrize(("held", "cell"), [("=10", "'=10"), ("'=10", "'=10"), ("'=10", "''=10"), ("050", "'050")])
def test_an_id_with_one_meaning_is_told_however_it_is_written(tmp_path: Path, held: str, cell: str) -> None:
    table = pool_of(STUDY)
    table.loc[0, "patient"] = held
    campaign = Campaign.create(MemoryStorage(), table, **OPTIONS)
    (tmp_path / "told.csv").write_text(f"patient,cd4\n{cell},1\n")
    campaign.tell(tmp_path / "told.csv")
    assert campaign.state.outcomes == {held: 1.0}


def test_a_batch_of_a_pool_on_disk_goes_to_the_right_people(tmp_path: Path) -> None:
    odd = [i for i in ODD if i != "-1"]
    pool = open_pool(write(tmp_path / "pool.parquet", changed(person=[*odd, *PEOPLE["person"][len(odd) :]])))
    measured = results().assign(person=pool.files.take(WHO, ["person"])["person"].to_pylist())
    batch = ParquetRound(pool, measured, outcome="outcome", model=small()).choose(5)
    people = pool.people(np.arange(len(odd)))
    rows = pa.concat_tables([batch.slice(k % 5, 1) for k in range(len(odd))]).drop_columns(batch.column_names[:2])
    for name in reversed(people.column_names):
        rows = rows.add_column(0, name, people[name])
    rows = rows.append_column("outcome", pa.array([None] * len(odd), pa.float64()))
    write_table(rows, tmp_path / "batch.csv")
    typical = measured[~measured["person"].isin(odd)]
    again = ParquetRound(pool, [typical, tmp_path / "batch.csv"], outcome="outcome", model=small())
    assert set(range(len(odd))) <= set(again.pending.tolist())
    (tmp_path / "short.csv").write_text("person,outcome\n'=10,\n")
    with pytest.raises(InputError, match=r"short\.csv: id \"'=10\" may mean '=10'"):
        ParquetRound(pool, [typical, tmp_path / "short.csv"], outcome="outcome", model=small())


def test_categories_that_a_spreadsheet_would_run_are_known_to_predict(tmp_path: Path) -> None:
    table = pool_of(STUDY).assign(sex=np.where(STUDY["sex"] == "f", "=f", "m"))
    campaign = Campaign.create(MemoryStorage(), table, **OPTIONS)
    campaign.tell(STUDY.rename(columns={"truth_y": "cd4"})[["patient", "cd4"]])
    typical = table.head(20).assign(patient=[*ODD, *"abcde"])
    expected = campaign.predict(typical)
    write_table(read_table(typical).data, tmp_path / "others.csv")
    assert "'=f" in (tmp_path / "others.csv").read_text()
    pd.testing.assert_frame_equal(campaign.predict(tmp_path / "others.csv"), expected)
    # As pandas reads that file, and as somebody may have written one of their own.
    pd.testing.assert_frame_equal(campaign.predict(typical.assign(sex=typical["sex"].map(safe_cell))), expected)
    typical.to_csv(tmp_path / "own.csv", index=False, quoting=csv.QUOTE_ALL)
    pd.testing.assert_frame_equal(campaign.predict(tmp_path / "own.csv"), expected)
