"""Tables of measured outcomes for a pool on disk: whose outcomes they hold, and who was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from causalbald._spreadsheet import read_cell
from causalbald._typing import Array, Positions
from causalbald.errors import InputError
from causalbald.pools._parquet import ParquetPool
from causalbald.tables import as_text, column_of, is_text, read_ids, read_table, to_numbers

RESULT_COLUMNS = ("score", "effect", "lower", "upper")
"""Columns of a batch after id and treatment."""


def read_outcomes(pool: ParquetPool, sources: Sequence[Any], outcome: str) -> tuple[Positions, Array]:
    """Return the positions of all units in some tables, sorted, and their outcomes.

    ``sources`` are paths or tables, and ``outcome`` is the column of the outcome. An outcome is NaN if no table has it.
    Called by `ParquetRound`. Raises InputError if there are no tables, a table cannot be read, an id is not in the
    pool, or an id has different outcomes.
    """
    if not sources:
        raise InputError("no table of outcomes is given: one with ids and outcomes is needed.")
    names = [str(s) if isinstance(s, (str, Path)) else f"table {k}" for k, s in enumerate(sources, start=1)]
    tables = [_read_source(pool, source, outcome).to_pandas() for source in sources]
    rows = pd.concat([table.assign(table=name) for table, name in zip(tables, names, strict=True)])
    by_unit = rows.groupby("id", sort=False)["outcome"]
    counts = by_unit.nunique()
    if (counts > 1).any():
        unit = counts.index[int(np.flatnonzero(counts > 1)[0])]
        distinct = rows[rows["id"] == unit].dropna().drop_duplicates("outcome")
        shown = [f"{value:g} in {table}" for value, table in zip(distinct["outcome"], distinct["table"], strict=True)]
        raise InputError(f"id {unit!r} has different outcomes, {shown[0]} and {shown[1]}: correct one of them.")
    outcomes = by_unit.first()  # the first that is not missing

    def table_of(unit: str) -> str:
        return f" in {rows['table'][rows['id'] == unit].iloc[0]}" if len(names) > 1 else ""

    positions = pool.positions(pa.array(outcomes.index, pa.string()), table_of)
    order = np.argsort(positions)
    return positions[order], outcomes.to_numpy()[order]


def _read_source(pool: ParquetPool, source: Any, outcome: str) -> pa.Table:
    """Return ``id`` (text) and ``outcome`` of the rows of one table. An InputError names the file, if it is one."""
    try:
        return _read_rows(pool, source, outcome)
    except InputError as error:
        if isinstance(source, (str, Path)) and Path(source).name not in str(error):
            raise InputError(f"{Path(source).name}: {error}") from None
        raise


def _read_rows(pool: ParquetPool, source: Any, outcome: str) -> pa.Table:
    """Return ``id`` (text) and ``outcome`` of the rows of one table. Called by `_read_source`.

    If ids of the pool are numbers, ids such as 7.0 count as 7.
    """
    reading = read_table(source, text=[pool.id])
    remedy = "give the whole table that `choose` wrote, or a Parquet file"
    ids = read_ids(reading, pool.id, pool.contained, partial(_unit_of_row, pool, reading.data), remedy)
    if not is_text(pool.files.kind(pool.id)):  # spreadsheets and pandas may write whole numbers with a decimal
        ids = pc.replace_substring_regex(ids, r"^(-?\d+)\.0+$", r"\1")
    column = column_of(reading.data, outcome, "outcome")
    values = to_numbers(column, outcome, ids.to_pylist(), decimal=reading.decimal)
    return pa.table({"id": ids, "outcome": values})


def _unit_of_row(pool: ParquetPool, table: pa.Table, row: int, cell: str) -> str | None:
    """Return the id that the ``cell`` of a row means, if its leading apostrophe may belong to the id or to the format.

    Called if ``cell`` is an id of the pool both with the apostrophe and without. The id whose arm is that of the row is
    returned; the id without the apostrophe if both have this arm. None if the table is not a batch that `choose` wrote,
    or if neither id has this arm.
    """
    if not {pool.treatment, *RESULT_COLUMNS} <= {*table.column_names}:
        return None
    arm = read_cell(as_text(table[pool.treatment].slice(row, 1))[0].as_py())
    candidates = (cell[1:], cell)
    arms = as_text(pool.people(pool.positions(pa.array(candidates)))[pool.treatment]).to_pylist()
    fitting = [unit for unit, candidate_arm in zip(candidates, arms, strict=True) if read_cell(candidate_arm) == arm]
    return fitting[0] if fitting else None
