"""From trials to a table one can read: errors, labels needed, and paired comparisons with a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from causalbald._validation import check_alpha
from causalbald.errors import InputError
from causalbald.metrics import (
    LabelsNeeded,
    areas,
    comparable_trials,
    labels_to_match,
    labels_to_reach,
    paired_interval,
)

GROUP = ["dataset", "model", "track"]


def summarise(
    trials: pd.DataFrame,
    *,
    baseline: str = "random",
    error: str = "pehe",
    labels: int | None = None,
    target: float | None = None,
    alpha: float = 0.05,
    timings: bool = False,
) -> pd.DataFrame:
    """Return a row per data set, model, track and acquisition function, the baseline's first.

    Parameters
    ----------
    trials : DataFrame
        A row per fit, as from ``Store.table``.
    baseline : str
        Acquisition function that the others are compared with, paired by seed.
    error : str
        Column to summarise; trials that lack its values are left out.
    labels : int, optional
        How many labels to judge at; by default as many as all trials of a group have.
    target : float, optional
        Error to be reached; by default the baseline's mean error at ``labels``, over the seeds that both have.
    alpha : float
        Intervals are 1 - alpha.
    timings : bool
        Also mean seconds of a trial.

    Returns
    -------
    DataFrame
        ``dataset, model, track, acquisition, seeds, labels``; ``mean``, ``se`` and ``median`` of the error there;
        ``area``, the mean error over the curve up to there; ``needed``, labels after which the mean curve stays at or
        below the target (infinite if it never does), with an interval ``needed_lower, needed_upper`` from a bootstrap
        over (pairs of) trials; and against the baseline, over the
        seeds that both have: ``wins``, the share of seeds with the smaller area, and ``difference`` of areas with its
        t-interval ``lower, upper`` (negative: better than the baseline).
    """
    missing = [c for c in (*GROUP, "acquisition", "seed", "labels", error) if c not in trials]
    if missing:
        raise InputError(f"the trials have no column {missing[0]!r}.")
    check_alpha(alpha)
    trials = comparable_trials(trials, [*GROUP, "acquisition", "seed"], [error])
    rows = []
    for names, group in trials.groupby(GROUP, sort=False):
        end = _common_end(group, labels)
        shown = group[group["labels"] <= end]
        reference = shown[shown["acquisition"] == baseline]
        _check_same_labels(shown, [str(name) for name in names])
        methods = sorted(shown["acquisition"].unique(), key=lambda name: name != baseline)  # which comes first
        for acquisition in methods:
            own = shown[shown["acquisition"] == acquisition]
            row = dict(zip(GROUP, names, strict=True)) | {"acquisition": acquisition}
            row |= _errors(own, end, error)
            row |= _needed(own, reference, target, error, alpha)
            row |= _against(own, reference, error, alpha)
            if timings:
                row["seconds"] = own.groupby("seed")[["seconds_fit", "seconds_score"]].sum().sum(axis=1).mean()
            rows.append(row)
    return pd.DataFrame(rows)


def _common_end(group: pd.DataFrame, labels: int | None) -> int:
    most = int(group.groupby(["acquisition", "seed"])["labels"].max().min())
    if labels is None:
        return most
    if labels not in set(group["labels"]):
        known = sorted(set(group["labels"]))
        raise InputError(
            f"no fit has {labels} labels: choose one of {known[0]}, {known[1] if known[1:] else ''} … {most}."
        )
    return min(labels, most)


def _check_same_labels(group: pd.DataFrame, names: Sequence[str]) -> None:
    """Refuse curves that were not looked at after the same numbers of labels: their areas cannot be compared."""
    looks = {str(name): sorted(set(own["labels"])) for name, own in group.groupby("acquisition", sort=False)}
    first = next(iter(looks))
    for name, labels in looks.items():
        if labels != looks[first]:
            raise InputError(
                f"trials of {', '.join(names)} cannot be compared: {first!r} has fits at {_few(looks[first])} labels, "
                f"{name!r} at {_few(labels)}. Keep them in different folders, or choose some with --acquisition."
            )


def _few(labels: list[int]) -> str:
    return ", ".join(map(str, labels[:3])) + (", …" if len(labels) > 3 else "")


def _errors(own: pd.DataFrame, end: int, error: str) -> dict[str, Any]:
    last = own.loc[own["labels"] == end, error]
    return {
        "seeds": own["seed"].nunique(),
        "labels": end,
        "mean": float(last.mean()),
        "se": float(np.std(last, ddof=1) / np.sqrt(len(last))) if len(last) > 1 else float("nan"),
        "median": float(np.median(last)),
        "area": float(np.mean(areas(own, error))),
    }


def _needed(
    own: pd.DataFrame, reference: pd.DataFrame, target: float | None, error: str, alpha: float
) -> dict[str, float]:
    both = set(own["seed"]) & set(reference["seed"])
    if target is not None:
        found = labels_to_reach(own, target, error=error, alpha=alpha)
    elif both:
        mine, theirs = (trials[trials["seed"].isin(both)] for trials in (own, reference))
        found = labels_to_match(mine, theirs, error=error, alpha=alpha)
    else:
        found = LabelsNeeded(*[float("nan")] * 3)
    return {"needed": found.labels, "needed_lower": found.lower, "needed_upper": found.upper}


def _against(own: pd.DataFrame, reference: pd.DataFrame, error: str, alpha: float) -> dict[str, float]:
    nothing = dict.fromkeys(("wins", "difference", "lower", "upper"), float("nan"))
    if reference.empty or own["acquisition"].iloc[0] == reference["acquisition"].iloc[0]:
        return nothing
    gap = (areas(own, error) - areas(reference, error)).dropna().to_numpy()
    if not len(gap):
        return nothing
    mean, lower, upper = paired_interval(gap, alpha)
    return {"wins": float(np.mean(gap < 0)), "difference": mean, "lower": lower, "upper": upper}
