"""From trials to a table that can be read: errors, labels needed, and paired comparisons with a baseline."""

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
"""Methods are compared among trials with the same values in these columns: such trials are a group."""


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
    """Return a row per data set, model, track and acquisition function, the baseline first.

    Parameters
    ----------
    trials : DataFrame
        A row per fit, as from :meth:`Store.table`.
    baseline : str
        Acquisition function with which the others are compared, paired by seed. If a group lacks it, comparisons with
        it are NaN.
    error : str
        Column to summarise. A trial that lacks a value of this column is omitted.
    labels : int, optional
        Number of labels at which methods are judged. At most, and by default, it is the largest number that all trials
        of the same data set, model and track have.
    target : float, optional
        Error to be reached. By default, the baseline's mean error at ``labels``, over the seeds that both methods have.
    alpha : float
        Intervals contain the quantity with probability 1 - alpha.
    timings : bool
        Whether to add the mean seconds of a trial, from the columns ``seconds_fit`` and ``seconds_score``.

    Returns
    -------
    DataFrame
        ``dataset, model, track, acquisition, seeds, labels``, and

        - ``mean``, ``se`` and ``median`` of the error at ``labels``;
        - ``area``, the mean error over the curve up to ``labels``;
        - ``needed``, the number of labels after which the mean curve stays at or below the target (infinite if it never
          does), with an interval ``needed_lower, needed_upper`` from a bootstrap over trials or pairs of trials;
        - ``wins``, the share of seeds whose area is smaller than the baseline's, over the seeds that both methods have;
        - ``difference``, the mean difference of these areas, with its t-interval ``lower, upper``. A negative
          difference is better than the baseline;
        - ``seconds``, with ``timings``.

    Raises
    ------
    InputError
        If a column is missing, no trial has all values, a method has two trials with the same seed, methods have fits
        at different numbers of labels, no fit has ``labels`` labels, or ``alpha`` is not between 0 and 1.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.experiments import summarise
    >>> trials = pd.DataFrame({"acquisition": ["random"] * 2 + ["mu-bald"] * 2, "labels": [10, 20] * 2})
    >>> trials = trials.assign(dataset="d", model="gp", track="paid", seed=0, pehe=[2.0, 1.0, 2.0, 0.5])
    >>> summarise(trials)[["acquisition", "mean", "area"]].to_dict("list")
    {'acquisition': ['random', 'mu-bald'], 'mean': [1.0, 0.5], 'area': [1.5, 1.25]}
    """
    missing = [column for column in (*GROUP, "acquisition", "seed", "labels", error) if column not in trials]
    if missing:
        raise InputError(f"the trials have no column {missing[0]!r}.")
    check_alpha(alpha)
    trials = comparable_trials(trials, [*GROUP, "acquisition", "seed"], [error])
    rows = []
    for names, group in trials.groupby(GROUP, sort=False):
        end = _common_end(group, labels)
        curves = group[group["labels"] <= end]
        reference = curves[curves["acquisition"] == baseline]
        _check_same_labels(curves, [str(name) for name in names])
        methods = sorted(curves["acquisition"].unique(), key=lambda name: name != baseline)
        for acquisition in methods:
            method = curves[curves["acquisition"] == acquisition]
            row = dict(zip(GROUP, names, strict=True)) | {"acquisition": acquisition}
            row |= _errors(method, end, error)
            row |= _needed(method, reference, target, error, alpha)
            row |= _against(method, reference, error, alpha)
            if timings:
                row["seconds"] = method.groupby("seed")[["seconds_fit", "seconds_score"]].sum().sum(axis=1).mean()
            rows.append(row)
    return pd.DataFrame(rows)


def _common_end(group: pd.DataFrame, labels: int | None) -> int:
    """Return the number of labels at which the trials of one data set, model and track are judged.

    It is ``labels``, but at most the largest number that all these trials have; without ``labels``, that number. Raises
    InputError if no fit of the group has ``labels`` labels.
    """
    most = int(group.groupby(["acquisition", "seed"])["labels"].max().min())
    if labels is None:
        return most
    if labels not in set(group["labels"]):
        choices = sorted(set(group["labels"]))
        raise InputError(
            f"no fit has {labels} labels: choose one of {choices[0]}, {choices[1] if choices[1:] else ''} … {most}."
        )
    return min(labels, most)


def _check_same_labels(group: pd.DataFrame, names: Sequence[str]) -> None:
    """Raise InputError if methods have fits at different numbers of labels: their areas cannot be compared.

    ``names`` say in the message which data set, model and track ``group`` has.
    """
    fits = {str(name): sorted(set(method["labels"])) for name, method in group.groupby("acquisition", sort=False)}
    first = next(iter(fits))
    for name, labels in fits.items():
        if labels != fits[first]:
            raise InputError(
                f"trials of {', '.join(names)} cannot be compared: {first!r} has fits at {_first_few(fits[first])} "
                f"labels, {name!r} at {_first_few(labels)}. Keep them in different folders, or choose some with "
                "--acquisition."
            )


def _first_few(labels: list[int]) -> str:
    """Return at most the first three numbers as text, with dots if there are more."""
    return ", ".join(map(str, labels[:3])) + (", …" if len(labels) > 3 else "")


def _errors(method: pd.DataFrame, end: int, error: str) -> dict[str, Any]:
    """Return ``seeds`` to ``area`` of a method's summary, which need no other method.

    ``end`` is the number of labels at which the method is judged. ``se`` is NaN if there is only one trial.
    """
    last = method.loc[method["labels"] == end, error]
    return {
        "seeds": method["seed"].nunique(),
        "labels": end,
        "mean": float(last.mean()),
        "se": float(np.std(last, ddof=1) / np.sqrt(len(last))) if len(last) > 1 else float("nan"),
        "median": float(np.median(last)),
        "area": float(np.mean(areas(method, error))),
    }


def _needed(
    method: pd.DataFrame, reference: pd.DataFrame, target: float | None, error: str, alpha: float
) -> dict[str, float]:
    """Return ``needed``, ``needed_lower`` and ``needed_upper`` of a method's summary.

    These are the labels that the method needs for the error ``target``; without a target, for the error with which the
    baseline, ``reference``, ends. All are NaN if there is no target and no seed that both methods have.
    """
    seeds = set(method["seed"]) & set(reference["seed"])
    if target is not None:
        needed = labels_to_reach(method, target, error=error, alpha=alpha)
    elif seeds:
        pair = [trials[trials["seed"].isin(seeds)] for trials in (method, reference)]
        needed = labels_to_match(*pair, error=error, alpha=alpha)
    else:
        needed = LabelsNeeded(*[float("nan")] * 3)
    return {"needed": needed.labels, "needed_lower": needed.lower, "needed_upper": needed.upper}


def _against(method: pd.DataFrame, reference: pd.DataFrame, error: str, alpha: float) -> dict[str, float]:
    """Return ``wins``, ``difference``, ``lower`` and ``upper`` of a method's summary: its areas against the baseline's.

    Areas are compared seed by seed. All are NaN for the baseline itself, and if the methods share no seed.
    """
    gap = (areas(method, error) - areas(reference, error)).dropna().to_numpy() if len(reference) else np.empty(0)
    if not len(gap) or method["acquisition"].iloc[0] == reference["acquisition"].iloc[0]:
        return dict.fromkeys(("wins", "difference", "lower", "upper"), float("nan"))
    mean, lower, upper = paired_interval(gap, alpha)
    return {"wins": float(np.mean(gap < 0)), "difference": mean, "lower": lower, "upper": upper}
