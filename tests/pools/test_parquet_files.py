"""Parquet files as one pool: folders of them, columns of several kinds, and files that change meanwhile."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from causalbald.errors import InputError
from causalbald.pools import ParquetRound
from causalbald.tables import ParquetFiles
from causalbald.tables import _parquet_files as files_module
from tests.pools.test_pools_on_disk import PEOPLE, UNITS, open_pool, results, small, write


def test_a_folder_of_files_is_one_pool(tmp_path: Path) -> None:
    whole = ParquetRound(open_pool(write(tmp_path / "pool.parquet")), results(), outcome="outcome", model=small())
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(3):
        write(folder / f"{k}.parquet", PEOPLE.iloc[200 * k : 200 * (k + 1)], rows=70)
    (folder / "_SUCCESS").touch()
    one_round = ParquetRound(
        open_pool(folder), [results().iloc[:20], results().iloc[20:]], outcome="outcome", model=small()
    )
    np.testing.assert_array_equal(one_round.scores(), whole.scores())
    assert one_round.choose(5).equals(whole.choose(5))
    for change, message in (
        (PEOPLE.drop(columns="city"), r"3\.parquet has no column 'city', which 0\.parquet has"),
        (PEOPLE.assign(extra=1), r"0\.parquet has no column 'extra', which 3\.parquet has"),
        (PEOPLE.assign(age="old"), r"column 'age' is (large_)?string in 3\.parquet, but double in 0\.parquet"),
    ):
        write(folder / "3.parquet", change)
        with pytest.raises(InputError, match=message):
            open_pool(folder)
        assert len(open_pool(folder, exclude=["site", "city", "age"] + ["extra"] * ("extra" in change))) == 2 * UNITS
        assert len(open_pool(folder, covariates=["dose"])) == 2 * UNITS
    (folder / "_old").mkdir()
    (folder / ".cache").mkdir()
    assert len(open_pool(folder, covariates=["dose"])) == 2 * UNITS
    (folder / "2024").mkdir()
    write(folder / "2024" / "0.parquet")
    with pytest.raises(InputError, match="has a folder '2024' in it, which is not looked into: move its files up"):
        open_pool(folder, covariates=["dose"])


def test_files_may_differ_in_the_order_of_columns_and_in_whole_numbers(tmp_path: Path) -> None:
    whole = PEOPLE.assign(age=PEOPLE["age"].round())
    one_round = write(tmp_path / "whole.parquet", whole)
    folder = tmp_path / "parts"
    folder.mkdir()
    first, second = whole.iloc[:300], whole.iloc[300:]
    write(folder / "0.parquet", first.astype({"age": "Int64"}))
    write(folder / "1.parquet", second[second.columns[::-1]])
    np.testing.assert_array_equal(open_pool(folder).take([0, 5, 400]).x, open_pool(one_round).take([0, 5, 400]).x)


def test_only_a_part_of_a_row_group_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "BLOCK_CELLS", 1 << 16)
    values = np.random.default_rng(0).normal(size=2_000_000)
    pq.write_table(pa.table({"a": values, "b": values}), tmp_path / "big.parquet", row_group_size=len(values))
    files, before, rows = ParquetFiles(tmp_path / "big.parquet"), pa.total_allocated_bytes(), []
    for _, table in files.tables(["a", "b"]):
        rows.append(len(table))
        assert pa.total_allocated_bytes() - before < 0.25 * 2 * values.nbytes
    assert sum(rows) == len(values)
    assert max(rows) <= 1 << 15


def column_in_two_files(folder: Path, name: str, first: pa.Array, second: pa.Array) -> Path:
    """Write half of the people to each of two files, in which a column has kinds of its own."""
    folder.mkdir()
    for k, values in enumerate((first, second)):
        half = pa.Table.from_pandas(PEOPLE.drop(columns=name).iloc[300 * k : 300 * (k + 1)], preserve_index=False)
        pq.write_table(half.append_column(name, values), folder / f"{k}.parquet")
    return folder


BIG = 2**60 + 1
MIXES = {
    "decimal and whole": (pa.array(range(300)).cast(pa.decimal128(21, 2)), pa.array(range(300))),
    "narrow and decimal": (pa.array(range(300), pa.int32()), pa.array(range(300)).cast(pa.decimal128(21, 2))),
    "long and floating": (pa.array(range(BIG, BIG + 300)), pa.array(np.arange(300.0))),
    "beyond signed and signed": (pa.array(range(8 * BIG, 8 * BIG + 300), pa.uint64()), pa.array(range(-300, 0))),
    "decimals beyond 64 bits": (pa.array([Decimal(10**20 * k) for k in range(300)], pa.decimal128(38, 0)),) * 2,
}


@pytest.mark.parametrize("case", MIXES)
def test_covariates_may_be_numbers_of_several_kinds(tmp_path: Path, case: str) -> None:
    pool = open_pool(column_in_two_files(tmp_path / "pool", "dose", *MIXES[case]), covariates=["dose"])
    expected = [float(value) for part in MIXES[case] for value in part.to_pylist()]
    np.testing.assert_array_equal(pool.take(np.arange(UNITS)).x[:, 0], expected)
    assert len(open_pool(pool.files.paths[0], covariates=["dose"])) == 300


@pytest.mark.parametrize("case", MIXES)
def test_ids_keep_all_their_digits(tmp_path: Path, case: str) -> None:
    pool = open_pool(column_in_two_files(tmp_path / "pool", "person", *MIXES[case]))
    kind, other = (values.type for values in MIXES[case])
    but = f", but {other} in 1.parquet" if other != kind else ""
    message = f"column 'person' is {kind} in 0.parquet{but}, and has numbers with too many digits"
    if "decimal and" in case or "and decimal" in case:
        message = "300 ids are in pool more than once"
    with pytest.raises(InputError, match=re.escape(message)):
        pool.positions(pa.array(["7"]))


def test_files_that_go_or_change_while_a_round_is_open(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(2):
        write(folder / f"{k}.parquet", PEOPLE.iloc[300 * k : 300 * (k + 1)])
    one_round = ParquetRound(open_pool(folder), results(), outcome="outcome", model=small())
    for people in (PEOPLE.iloc[300:500], PEOPLE):
        write(folder / "1.parquet", people)
        with pytest.raises(
            InputError, match=r"1\.parquet was written anew while the pool was open: open the pool again"
        ):
            one_round.scores()
    (folder / "1.parquet").unlink()
    with pytest.raises(InputError, match=r"1\.parquet is missing: it was moved or deleted"):
        one_round.scores()
    (folder / "1.parquet").symlink_to("nowhere.parquet")
    with pytest.raises(InputError, match=r"1\.parquet is missing: .* or is a link to nothing"):
        open_pool(folder)
