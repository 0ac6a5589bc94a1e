"""How far a run is, and how long the remaining trials will take."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from causalbald.errors import InputError
from causalbald.experiments._spec import TrialSpec
from causalbald.experiments._store import Store

_Kind = tuple[str, str, str]


@dataclass(frozen=True)
class KindStatus:
    """How far the trials of one data set, model and track are.

    Parameters
    ----------
    dataset, model, track : str
        Which trials.
    done, failed, started, left : int
        How many trials are finished, have failed, are under way, or have not started. Each trial counts once.
    core_hours : float
        Time spent on finished trials, those of older plugin versions included.
    minutes_left : float or None
        Until all trials are finished, the failed ones too. None if no trial of this kind is finished.

    Examples
    --------
    >>> from causalbald.experiments import KindStatus
    >>> KindStatus("ihdp", "gp", "paid", 3, 0, 1, 6, 0.5, 12.0).left
    6
    """

    dataset: str
    model: str
    track: str
    done: int
    failed: int
    started: int
    left: int
    core_hours: float
    minutes_left: float | None


@dataclass(frozen=True)
class Status:
    """How far a run is.

    Parameters
    ----------
    rows : list of KindStatus
        One for each data set, model and track.
    failed : list of (TrialSpec, str)
        The trials that failed, each with the last line of its traceback.
    hours_left : float
        Until all trials are finished, without the ``unknown`` ones.
    unknown : int
        How many trials have a data set, model and track of which no trial is finished, so that their time is unknown.
    older : int
        How many finished trials are of an older version of a plugin. They do not count as done.

    Examples
    --------
    >>> from causalbald.experiments import Status
    >>> Status([], [], hours_left=0.5, unknown=0).older
    0
    """

    rows: list[KindStatus]
    failed: list[tuple[TrialSpec, str]]
    hours_left: float
    unknown: int
    older: int = 0


def status_of(folder: str | Path, workers: int = 1) -> Status:
    """Return how many of the planned trials are done, under way, failed or left, and about how long the rest will take.

    Trials count with the versions of plugins that are loaded now: trials of an older version are to be run again. The
    time left is estimated from the finished trials of the same data set, model and track. Nothing is written.

    Parameters
    ----------
    folder : path
        Where :func:`run` kept its results.
    workers : int
        How many trials will run at a time; at least 1. The estimates of the time left are divided by it.

    Returns
    -------
    Status

    Raises
    ------
    InputError
        If no trials were planned in the folder.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from causalbald.experiments import Store, TrialSpec, status_of
    >>> with TemporaryDirectory() as folder:
    ...     Store(folder).open().plan([TrialSpec("synthetic", "random", 8, 4, 1, seed=0)])
    ...     status_of(folder).unknown
    1
    """
    store = Store(folder)
    planned = store.current()
    if not planned:
        raise InputError(f"nothing was planned in {str(folder)!r}: name a folder that `causalbald run` has filled.")
    keys = {spec.key for spec in planned}
    failed = {spec.key: (spec, error.strip().splitlines()[-1]) for spec, error in store.failures() if spec.key in keys}
    counts: dict[_Kind, Counter[str]] = defaultdict(Counter)
    fits_left: Counter[_Kind] = Counter()
    for spec in planned:
        kind = (spec.dataset, spec.model, spec.track)
        if store.is_done(spec):
            counts[kind]["done"] += 1
            continue
        fits = len(store.state(spec).rows)
        counts[kind]["failed" if spec.key in failed else "started" if fits else "left"] += 1
        fits_left[kind] += spec.steps + 1 - fits
    mean, total = _seconds(store)
    seconds = {kind: mean[kind] * fits / workers for kind, fits in fits_left.items() if kind in mean}
    unknown = fits_left.keys() - mean.keys()
    rows = [
        KindStatus(
            *kind,
            done=count["done"],
            failed=count["failed"],
            started=count["started"],
            left=count["left"],
            core_hours=round(total.get(kind, 0.0) / 3600, 2),
            minutes_left=None if kind in unknown else round(seconds.get(kind, 0.0) / 60, 1),
        )
        for kind, count in counts.items()
    ]
    n_unknown = sum(counts[kind].total() for kind in unknown)
    return Status(rows, list(failed.values()), sum(seconds.values()) / 3600, n_unknown, len(store.older()))


def _seconds(store: Store) -> tuple[dict[_Kind, float], dict[_Kind, float]]:
    """Return the mean seconds of a fit with its scoring, and the sum of these seconds, of the finished trials.

    Both are by kind of trial: data set, model and track. Both are empty if no trial is finished.
    """
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
