"""What users tell about units, checked before anything is recorded."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from causalbald._typing import Array
from causalbald._words import amount
from causalbald.campaign._events import Measurements, Round, draft
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._state import State
from causalbald.campaign.storage import Draft
from causalbald.errors import InputError, OutcomeWarning
from causalbald.tables import Ids, InputTable, canonical_id, column_of, read_ids, read_table, to_numbers

Rounds = Sequence[Round]
MIN_BINARY_OUTCOMES = 10
"""From so many outcomes of 0 and 1 on, an outcome with another value causes a warning."""


@dataclass(frozen=True)
class TellSummary:
    """What became of the outcomes of one ``tell``, as counts.

    Parameters
    ----------
    new : int
        Outcomes that were not known before.
    known : int
        Outcomes that were known before, with the same value.
    corrected : int
        Outcomes that replaced another value.
    empty : int
        Rows without an outcome.
    pending : int
        Units that were asked for and still have no outcome.

    Examples
    --------
    >>> from causalbald.campaign import TellSummary
    >>> TellSummary(new=8, known=1, corrected=0, empty=2, pending=2).new
    8
    """

    new: int
    known: int
    corrected: int
    empty: int
    pending: int


@dataclass(frozen=True)
class Outcomes:
    """Outcomes that a user told, before they are compared with what is known.

    Parameters
    ----------
    values : dict
        From id to outcome.
    empty : int
        Rows without an outcome.

    Examples
    --------
    >>> from causalbald.campaign import Outcomes
    >>> Outcomes({"p7": 1.5}, empty=2).values
    {'p7': 1.5}
    """

    values: dict[str, float]
    empty: int

    def against(self, state: State, settings: CampaignSettings, *, overwrite: bool) -> tuple[TellSummary, list[Draft]]:
        """Compare the outcomes with those of a state; return counts, and the event to record if anything is new.

        Nothing is recorded here, and ``state`` is unchanged. Raises InputError for a withdrawn unit without an earlier
        outcome, and for another value than before unless ``overwrite``. With outcome type "auto", warns if outcomes
        seem to be no longer binary. Called by ``Campaign.tell`` while no other process can record anything.
        """
        withdrawn = [unit for unit in self.values if state.of(unit) == "withdrawn"]
        if withdrawn:
            unit = withdrawn[0]
            raise InputError(
                f"{len(withdrawn)} of these units were withdrawn, for example {unit!r} ({state.withdrawn[unit]}): "
                "leave them out."
            )
        before = {unit: state.outcomes[unit] for unit in self.values if unit in state.outcomes}
        replaced = {unit: value for unit, value in before.items() if value != self.values[unit]}
        if replaced and not overwrite:
            unit, value = next(iter(replaced.items()))
            raise InputError(
                f"{len(replaced)} units have another {settings.outcome!r} already, for example {unit!r}: "
                f"{amount(value)}, now {amount(self.values[unit])}. To correct it, say overwrite=True "
                "(--overwrite); the history keeps both."
            )
        changed = {unit: value for unit, value in self.values.items() if unit not in before or unit in replaced}
        summary = TellSummary(
            new=len(self.values) - len(before),
            known=len(before) - len(replaced),
            corrected=len(replaced),
            empty=self.empty,
            pending=sum(unit not in changed for unit in state.pending),
        )
        if not changed:
            return summary, []
        if settings.outcome_type == "auto":
            _warn_if_no_longer_binary(changed, list(state.outcomes.values()), settings.outcome)
        return summary, [draft(Measurements(changed, "told", replaced or None))]


def _warn_if_no_longer_binary(changed: Mapping[str, float], before: Sequence[float], outcome: str) -> None:
    """Warn if a new outcome is neither 0 nor 1, while all outcomes before were, both values occurred, and often enough.

    Often enough is ``MIN_BINARY_OUTCOMES`` outcomes. Called by ``Outcomes.against``.
    """
    surprising = [unit for unit, value in changed.items() if value not in (0.0, 1.0)]
    if len(before) >= MIN_BINARY_OUTCOMES and surprising and {*before} == {0.0, 1.0}:
        unit = surprising[0]
        warnings.warn(
            f"outcome {outcome!r} is {amount(changed[unit])} for {unit!r}, where all {len(before)} outcomes so "
            "far are 0 or 1: from now on outcomes are taken as numbers, not as yes and no. If that is a mistake, tell "
            "the right one with overwrite=True (--overwrite).",
            OutcomeWarning,
            stacklevel=2,
        )


def outcomes_of(source: Any, settings: CampaignSettings, units: Ids, rounds: Rounds) -> Outcomes:
    """Return the outcomes in a frame, a file or a mapping from id to outcome. Nothing is recorded.

    Called by ``Campaign.tell``, and by ``ask -o`` to see whether a file holds outcomes that were not told.

    Parameters
    ----------
    source : DataFrame, Arrow table, mapping, or path to a CSV, Parquet or Excel file
        What the user told.
    settings : CampaignSettings
        Names the columns of ids and outcomes.
    units : Ids
        Of the pool.
    rounds : list of Round
        Recorded batches. If a spreadsheet may have changed an id, they decide which unit the row means.

    Returns
    -------
    Outcomes

    Raises
    ------
    InputError
        If an id is unknown or repeated, an outcome is no number (or not 0 or 1 in a binary campaign), the column of the
        outcome is missing, or no row has an outcome.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign, outcomes_of
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> columns = {"id": "patient", "treatment": "drug", "outcome": "cd4"}
    >>> campaign = Campaign.create(MemoryStorage(), pool, **columns)
    >>> outcomes_of({7: 1.5}, campaign.settings, campaign.pool.units, []).values
    {'7': 1.5}
    """
    if isinstance(source, Mapping):
        if not source:
            raise InputError("no outcomes given: a mapping goes from ids to outcomes.")
        cells = _cells(source.values())
        source = pa.table({settings.id: [canonical_id(i) for i in source], settings.outcome: cells})
    table = read_table(source, text=[settings.id])
    ids = _ids_in_pool(table, settings.id, units, rounds)
    outcome = column_of(table.data, settings.outcome, "outcome")
    values = to_numbers(outcome, settings.outcome, ids, decimal=table.decimal)
    is_empty = np.isnan(values)
    if is_empty.all():
        raise InputError(f"{table.name} has no outcome in column {settings.outcome!r}: fill in at least one.")
    check_binary(values, ids, settings)
    told = {unit: float(value) for unit, value in zip(ids, values, strict=True) if not np.isnan(value)}
    return Outcomes(told, int(is_empty.sum()))


def _cells(values: Iterable[Any]) -> pa.Array:
    """Return the outcomes of a mapping as a column of numbers if all are numbers, otherwise as text.

    None, NA and NaT become null. Text is checked later, like the cells of a file. Called by ``outcomes_of``.
    """
    cells = [None if value is None or type(value).__name__ in ("NAType", "NaTType") else value for value in values]
    if all(cell is None or isinstance(cell, (int, float, np.number, np.bool_)) for cell in cells):
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())


def check_binary(values: Array, ids: Sequence[str], settings: CampaignSettings) -> None:
    """Raise InputError if an outcome is neither 0, 1 nor NaN in a campaign whose outcome type is "binary".

    ``ids`` are the units' ids, in the order of ``values``.
    """
    bad = np.flatnonzero(~np.isnan(values) & ~np.isin(values, (0.0, 1.0)))
    if settings.outcome_type == "binary" and len(bad):
        raise InputError(
            f"outcome {settings.outcome!r} must be 0 or 1 in this campaign, but is {amount(values[bad[0]])} for "
            f"{ids[bad[0]]!r}."
        )


def units_of(source: Any, settings: CampaignSettings, units: Ids, rounds: Rounds) -> list[str]:
    """Return the ids in a list, a frame with the id column, or a file, in its order.

    Only a ``Path`` is a file; a text or a number is one id. Raises InputError if an id is not in the pool or is given
    twice.
    """
    if isinstance(source, Path) or hasattr(source, "columns") or isinstance(source, pa.Table):
        return _ids_in_pool(read_table(source, text=[settings.id]), settings.id, units, rounds)
    if isinstance(source, (str, int)) or not isinstance(source, Iterable):
        source = [source]
    ids = [canonical_id(i) for i in source]
    repeated = [i for i, count in Counter(ids).items() if count > 1]
    if repeated:
        raise InputError(f"id {repeated[0]!r} is given more than once.")
    units.positions(ids)
    return ids


def newly_withdrawn(ids: Sequence[str], state: State) -> list[str]:
    """Return the ids of units that are not withdrawn yet, in the order of ``ids``; measured units may be among them."""
    return [unit for unit in ids if unit not in state.withdrawn]


def newly_failed(ids: Sequence[str], state: State) -> list[str]:
    """Return the ids of units that are pending, in the order of ``ids``.

    Units that have failed already are left out. Raises InputError if a unit is neither pending nor failed.
    """
    impossible = [unit for unit in ids if state.of(unit) not in ("pending", "failed")]
    if impossible:
        unit = impossible[0]
        raise InputError(
            f"{len(impossible)} of these units are not pending, for example {unit!r}, which is {state.of(unit)}: "
            "only units that were asked for and not yet told can fail."
        )
    return [unit for unit in ids if state.of(unit) == "pending"]


def _ids_in_pool(table: InputTable, name: str, units: Ids, rounds: Rounds) -> list[str]:
    """Return the ids in column ``name`` of a table, in its order.

    Raises InputError if an id is missing, repeated or not in the pool, or a cell may mean two ids.
    """
    settle = partial(_asked_for, table.data, rounds)
    remedy = "give the columns rank and round of the batch, too, or a Parquet file"
    ids: list[str] = read_ids(table, name, units.contained, settle, remedy).to_pylist()
    units.positions(ids)
    return ids


def _asked_for(table: pa.Table, rounds: Rounds, row: int, cell: str) -> str | None:
    """Return the id that was asked for at the rank and round in a row, if ``cell`` may stand for that id.

    ``cell`` may stand for itself, or for itself without its first character, an apostrophe. None if the table lacks
    rank or round, or no such id was asked for. Called by ``_ids_in_pool``.
    """
    if not {"rank", "round"} <= {*table.column_names}:
        return None
    number, rank = (canonical_id(table[name][row].as_py()) for name in ("round", "rank"))
    asked = (pick.id for r in rounds for pick in r.picks if (str(r.number), str(pick.rank)) == (number, rank))
    return next((unit for unit in asked if unit in (cell, cell[1:])), None)
