"""Finished trials as tidy CSV: one file per data set, model and track, small enough for version control.

A row is a fit, and each row names its trial.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from causalbald._files import replacing
from causalbald.errors import InputError
from causalbald.experiments._spec import NAMES, TrialSpec
from causalbald.experiments._state import TrialState

_ACQUIRED = "acquired.csv"
_NUMBER_FORMAT = "%.5g"


def named_table(spec: TrialSpec, state: TrialState) -> pd.DataFrame:
    """Return a trial's rows with ``key`` and the columns ``NAMES`` in front."""
    table = state.table()
    for place, (name, value) in enumerate({"key": spec.key, **spec.names}.items()):
        table.insert(place, name, value)
    return table


def read_tables(folder: Path) -> pd.DataFrame:
    """Return the packed rows of a results folder, each with the columns that name its trial.

    Without packed trials, the table has no rows. Raises InputError if a file is damaged.
    """
    parts = [_read(path) for path in sorted((folder / "tables").glob("*.csv")) if path.name != _ACQUIRED]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["key", *NAMES])


def write_tables(folder: Path, table: pd.DataFrame, acquired: list[tuple[TrialSpec, list[list[int]]]]) -> None:
    """Pack ``table`` into a results folder, one file per data set, model and track. Called by ``Store.pack``.

    Each file is replaced: ``table`` must have the rows that were packed before, too. ``acquired`` are trials with their
    positions before each fit; they are added to the positions that were packed before.
    """
    (folder / "tables").mkdir(exist_ok=True)
    for name, rows in table.groupby(table["dataset"] + "-" + table["model"] + "-" + table["track"], sort=False):
        _write(rows, folder / "tables" / f"{name}.csv")
    positions = read_acquired(folder) | {spec.key: steps for spec, steps in acquired}
    lines = [(key, k, " ".join(map(str, step))) for key, steps in positions.items() for k, step in enumerate(steps)]
    _write(pd.DataFrame(lines, columns=["key", "step", "positions"]), folder / "tables" / _ACQUIRED)


def read_acquired(folder: Path) -> dict[str, list[list[int]]]:
    """Return the positions that packed trials acquired before each fit, by the trial's key.

    Empty if nothing was packed. Raises InputError if the file is damaged.
    """
    path = folder / "tables" / _ACQUIRED
    if not path.exists():
        return {}
    return {
        str(key): [[int(position) for position in str(text).split()] for text in rows["positions"]]
        for key, rows in _read(path).groupby("key", sort=False)
    }


def _write(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV, with numbers of five digits. A file that exists is replaced, whole or not at all."""
    with replacing(path) as beside:
        table.to_csv(beside, index=False, float_format=_NUMBER_FORMAT, lineterminator="\n")


def _read(path: Path) -> pd.DataFrame:
    """Return a packed table; raise InputError if the file is damaged."""
    try:
        return pd.read_csv(path, dtype={"key": str})
    except (ValueError, pd.errors.ParserError) as error:
        raise InputError(f"{str(path)!r} is damaged ({error}): restore it or delete it.") from error
