"""How far a run is, and how long the rest will take."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from causalbald.errors import InputError
from causalbald.experiments._spec import TrialSpec
from causalbald.experiments._store import Store

_Kind = tuple[str, str, str]


@dataclass(frozen=True)
class Status:
    """A row per data set, model and track, with core-hours spent and minutes left; the trials that failed; hours left
    for all trials of kinds that have been seen, and how many are of other kinds, whose minutes are None; how many
    finished trials are of an older version of a plugin, and so do not count as done.
    """

    rows: list[dict[str, Any]]
    failed: list[tuple[TrialSpec, str]]
    hours_left: float
    unknown: int
    older: int = 0


def status_of(folder: str | Path, workers: int = 1) -> Status:
    """Return what of the planned trials is done, under way, failed or left.

    Plugins count as they are loaded now: trials of an older version are left to be run again.
    The time left is that of finished fits of the same data set, model and track.
    """
    store = Store(folder)
    planned = store.current()
    if not planned:
        raise InputError(f"nothing was planned in {str(folder)!r}: name a folder that `causalbald run` has filled.")
    current = {spec.key for spec in planned}
    failures = [(spec, error) for spec, error in store.failures() if spec.key in current]
    failed = {spec.key: (spec, error.strip().splitlines()[-1]) for spec, error in failures}
    counts: dict[_Kind, dict[str, int]] = defaultdict(lambda: {"done": 0, "failed": 0, "started": 0, "left": 0})
    fits_left: dict[_Kind, int] = defaultdict(int)
    for spec in planned:
        kind = (spec.dataset, spec.model, spec.track)
        if store.is_done(spec):
            counts[kind]["done"] += 1
            continue
        fits = len(store.state(spec).rows)
        counts[kind]["failed" if spec.key in failed else "started" if fits else "left"] += 1
        fits_left[kind] += spec.steps + 1 - fits
    rate, spent = _seconds(store)
    seconds = {kind: rate[kind] * fits / workers for kind, fits in fits_left.items() if kind in rate}
    unknown = fits_left.keys() - rate.keys()
    rows = [
        {
            **dict(zip(("dataset", "model", "track"), kind, strict=True)),
            **found,
            "core_hours": round(spent.get(kind, 0.0) / 3600, 2),
            "minutes_left": None if kind in unknown else round(seconds.get(kind, 0.0) / 60, 1),
        }
        for kind, found in counts.items()
    ]
    others = sum(sum(counts[kind].values()) for kind in unknown)
    return Status(rows, list(failed.values()), sum(seconds.values()) / 3600, others, len(store.older()))


def _seconds(store: Store) -> tuple[dict[_Kind, float], dict[_Kind, float]]:
    """Return mean seconds of a fit with its scoring per kind of trial, and total seconds."""
    try:
        table = store.rows()
    except InputError:
        return {}, {}
    seconds = table["seconds_fit"] + table["seconds_score"]
    kinds: list[_Kind] = list(zip(table["dataset"], table["model"], table["track"], strict=True))
    by_kind = seconds.groupby(pd.Series(kinds, index=seconds.index))
    total = {kind: float(value) for kind, value in by_kind.sum().items()}
    mean = {kind: float(value) for kind, value in by_kind.mean().items()}
    return mean, total  # type: ignore[return-value]
