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
_SEEMS_BINARY = 10  # outcomes of 0 and 1, from which on another number is news


@dataclass(frozen=True)
class TellSummary:
    """What became of the outcomes in one call."""

    new: int
    known: int
    corrected: int
    empty: int


@dataclass(frozen=True)
class Outcomes:
    """Outcomes by id, and how many rows had none."""

    values: dict[str, float]
    empty: int

    def against(self, state: State, settings: CampaignSettings, *, overwrite: bool) -> tuple[TellSummary, list[Draft]]:
        """Return what is new beside what is known, and what to record of it, with the values that it replaces."""
        gone = [u for u in self.values if state.of(u) == "withdrawn"]
        if gone:
            raise InputError(
                f"{len(gone)} of these units were withdrawn, for example {gone[0]!r} ({state.withdrawn[gone[0]]}): "
                "leave them out."
            )
        known = [u for u in self.values if u in state.outcomes]
        other = [u for u in known if state.outcomes[u] != self.values[u]]
        if other and not overwrite:
            unit = other[0]
            raise InputError(
                f"{len(other)} units have another {settings.outcome!r} already, for example {unit!r}: "
                f"{amount(state.outcomes[unit])}, now {amount(self.values[unit])}. To correct it, say overwrite=True "
                "(--overwrite); the history keeps both."
            )
        changed = {u: v for u, v in self.values.items() if u not in state.outcomes or u in set(other)}
        told = TellSummary(len(self.values) - len(known), len(known) - len(other), len(other), self.empty)
        if not changed:
            return told, []
        if settings.outcome_type == "auto":
            _warn_if_no_longer_binary(changed, list(state.outcomes.values()), settings.outcome)
        before = {u: state.outcomes[u] for u in other} or None
        return told, [draft(Measurements(changed, "told", before))]


def _warn_if_no_longer_binary(changed: Mapping[str, float], before: Sequence[float], outcome: str) -> None:
    other = [unit for unit, value in changed.items() if value not in (0.0, 1.0)]
    if len(before) >= _SEEMS_BINARY and other and {*before} == {0.0, 1.0}:
        warnings.warn(
            f"outcome {outcome!r} is {amount(changed[other[0]])} for {other[0]!r}, where all {len(before)} outcomes so "
            "far are 0 or 1: from now on outcomes are taken as numbers, not as yes and no. If that is a mistake, tell "
            "the right one with overwrite=True (--overwrite).",
            OutcomeWarning,
            stacklevel=2,
        )


def outcomes_of(source: Any, settings: CampaignSettings, units: Ids, rounds: Rounds) -> Outcomes:
    """Return the outcomes in a frame, a file or a mapping from id to outcome; ``rounds`` are the recorded batches."""
    if isinstance(source, Mapping):
        if not source:
            raise InputError("no outcomes given: a mapping goes from ids to outcomes.")
        cells = _cells(source.values())
        source = pa.table({settings.id: [canonical_id(i) for i in source], settings.outcome: cells})
    found = read_table(source, text=[settings.id])
    table = found.data
    ids = _known_ids(found, settings.id, units, rounds)
    outcome = column_of(table, settings.outcome, "outcome")
    values = to_numbers(outcome, settings.outcome, ids, decimal=found.decimal)
    there = ~np.isnan(values)
    if not there.any():
        raise InputError(f"{found.name} has no outcome in column {settings.outcome!r}: fill in at least one.")
    check_binary(values, ids, settings)
    told = {unit: float(value) for unit, value, known in zip(ids, values, there, strict=True) if known}
    return Outcomes(told, int((~there).sum()))


def _cells(values: Iterable[Any]) -> pa.Array:
    """Return values as a column of numbers if they are, else of text, which is checked as that of a file."""
    cells = [None if value is None or type(value).__name__ in ("NAType", "NaTType") else value for value in values]
    if all(cell is None or isinstance(cell, (int, float, np.number, np.bool_)) for cell in cells):
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())


def check_binary(values: Array, ids: Sequence[str], settings: CampaignSettings) -> None:
    """Refuse outcomes other than 0, 1 and none in a campaign with binary ones."""
    bad = np.flatnonzero(~np.isnan(values) & ~np.isin(values, (0.0, 1.0)))
    if settings.outcome_type == "binary" and len(bad):
        raise InputError(
            f"outcome {settings.outcome!r} must be 0 or 1 in this campaign, but is {amount(values[bad[0]])} for "
            f"{ids[bad[0]]!r}."
        )


def units_of(source: Any, settings: CampaignSettings, units: Ids, rounds: Rounds) -> list[str]:
    """Return ids from a list, a frame with the id column, or a file."""
    if isinstance(source, Path) or hasattr(source, "columns") or isinstance(source, pa.Table):
        return _known_ids(read_table(source, text=[settings.id]), settings.id, units, rounds)
    if isinstance(source, (str, int)) or not isinstance(source, Iterable):
        source = [source]
    ids = [canonical_id(i) for i in source]
    repeated = [i for i, count in Counter(ids).items() if count > 1]
    if repeated:
        raise InputError(f"id {repeated[0]!r} is given more than once.")
    units.positions(ids)
    return ids


def newly_withdrawn(ids: Sequence[str], state: State) -> list[str]:
    """Return the units that are not withdrawn yet."""
    return [unit for unit in ids if unit not in state.withdrawn]


def newly_failed(ids: Sequence[str], state: State) -> list[str]:
    """Return the units that are pending; raises InputError if one is neither pending nor failed already."""
    other = [u for u in ids if state.of(u) not in ("pending", "failed")]
    if other:
        raise InputError(
            f"{len(other)} of these units are not pending, for example {other[0]!r}, which is {state.of(other[0])}: "
            "only units that were asked for and not yet told can fail."
        )
    return [u for u in ids if state.of(u) == "pending"]


def _known_ids(table: InputTable, name: str, units: Ids, rounds: Rounds) -> list[str]:
    """Return the ids of a table, all of them in the pool; raise InputError where one has two meanings."""
    settle = partial(_asked_for, table.data, rounds)
    remedy = "give the columns rank and round of the batch, too, or a Parquet file"
    ids: list[str] = read_ids(table, name, units.contained, settle, remedy).to_pylist()
    units.positions(ids)
    return ids


def _asked_for(table: pa.Table, rounds: Rounds, row: int, cell: str) -> str | None:
    """Return who was asked for at the rank and round in a row, if the cell may stand for that id."""
    if not {"rank", "round"} <= {*table.column_names}:
        return None
    number, rank = (canonical_id(table[name][row].as_py()) for name in ("round", "rank"))
    asked = (pick.id for r in rounds for pick in r.picks if (str(r.number), str(pick.rank)) == (number, rank))
    return next((unit for unit in asked if unit in (cell, cell[1:])), None)
