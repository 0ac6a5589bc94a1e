"""How good a belief about effects is, and how many labels a method needs to get there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from causalbald._random import generator
from causalbald._typing import Array, Positions
from causalbald._validation import check_alpha, check_int, check_vector
from causalbald._words import IN_TABLE, estimate
from causalbald.errors import InputError

# Of fewer pairs all may be on one side by chance, with a probability above 5 %.
ENOUGH_SEEDS = 6


def sqrt_pehe(effect: ArrayLike, truth: ArrayLike) -> float:
    """Return the root mean squared error of the estimated effects (precision in estimating heterogeneous effects)."""
    estimated, true = _pair(effect, truth)
    return float(np.sqrt(np.mean((estimated - true) ** 2)))


def ate_error(effect: ArrayLike, truth: ArrayLike) -> float:
    """Return the absolute error of the average effect."""
    estimated, true = _pair(effect, truth)
    return float(abs(estimated.mean() - true.mean()))


def policy_regret(effect: ArrayLike, truth: ArrayLike, *, worthwhile: float = 0.0) -> float:
    """Return what is lost per person if those are treated whose estimated effect is above ``worthwhile``.

    Compared with treating those whose true effect is: the mean distance of the true effect from ``worthwhile`` over
    all, counted where the decision is wrong.
    """
    estimated, true = _pair(effect, truth)
    wrong = (estimated > worthwhile) != (true > worthwhile)
    return float(np.mean(np.abs(true - worthwhile) * wrong))


def interval_coverage(lower: ArrayLike, upper: ArrayLike, truth: ArrayLike) -> float:
    """Return the share of units whose true effect lies in its interval."""
    low, true = _pair(lower, truth)
    high, _ = _pair(upper, truth)
    return float(np.mean((low <= true) & (true <= high)))


def interval_width(lower: ArrayLike, upper: ArrayLike) -> float:
    """Return the mean width of the intervals."""
    low, high = _pair(lower, upper)
    return float(np.mean(high - low))


def area_under_curve(labels: ArrayLike, error: ArrayLike) -> float:
    """Return the mean error over the label curve (trapezoids, divided by the range of labels): lower is better."""
    x, y = _pair(labels, error)
    if len(x) < 2 or (np.diff(x) <= 0).any():
        raise InputError("labels must increase, with at least two points on the curve.")
    return float(np.trapezoid(y, x) / (x[-1] - x[0]))


def areas(trials: pd.DataFrame, error: str = "pehe") -> pd.Series:
    """Return the mean error over the label curve of each seed's trial."""
    ordered = trials.sort_values("labels")
    by_seed = {
        seed: area_under_curve(rows["labels"], rows[error]) if len(rows) > 1 else rows[error].mean()
        for seed, rows in ordered.groupby("seed")
    }
    return pd.Series(by_seed, dtype=float)


def paired_interval(differences: Array, alpha: float = 0.05) -> tuple[float, float, float]:
    """Return mean, lower and upper end of the t-interval of paired differences; NaN ends for a single one."""
    n, mean = len(differences), float(np.mean(differences))
    if n < 2:
        return mean, float("nan"), float("nan")
    reach = float(stdtrit(n - 1, 1 - alpha / 2) * np.std(differences, ddof=1) / np.sqrt(n))
    return mean, mean - reach, mean + reach


def comparable_trials(trials: pd.DataFrame, names: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """Return the trials that have all ``values`` at every fit; refuse two that have the same ``names``."""
    repeated = trials[trials.duplicated([*names, "labels"])]
    if len(repeated):
        which = ", ".join(f"{name} {repeated.iloc[0][name]}" for name in names)
        raise InputError(
            f"more than one trial of {which}: their settings differ. Keep trials with different settings in folders of "
            "their own."
        )
    known = trials[[*values]].notna().all(axis=1).groupby([trials[c] for c in names]).transform("all")
    if not known.any():
        raise InputError(f"no trial has values of {', '.join(values)}: choose another column.")
    return trials[known]


@dataclass(frozen=True)
class LabelsNeeded:
    """Labels after which the mean error over seeds stays at or below a target; infinite if it never does.

    ``lower`` and ``upper`` bound the central 1 - alpha of that number over bootstrap samples of the seeds. With fewer
    than ``ENOUGH_SEEDS`` seeds they are NaN: the bootstrap would be far too sure of itself.
    """

    labels: float
    lower: float
    upper: float

    @property
    def censored(self) -> bool:
        """Whether the target was not reached within the labels at hand."""
        return bool(np.isinf(self.labels))

    def __str__(self) -> str:
        def show(value: float) -> str:
            return "not reached" if np.isinf(value) else f"{value:.0f}"

        return estimate(self.labels, self.lower, self.upper, show, IN_TABLE)


def labels_to_reach(
    table: pd.DataFrame,
    target: float,
    *,
    error: str = "pehe",
    alpha: float = 0.05,
    bootstrap: int = 1000,
    seed: int = 0,
) -> LabelsNeeded:
    """Return how many labels the mean curve over seeds needs to reach ``target`` for good.

    The first crossing after which the curve stays at or below the target, linearly interpolated between fits.

    Parameters
    ----------
    table : DataFrame
        One method's trials: columns ``seed``, ``labels`` and ``error``, the same label counts for every seed.
    target : float
    error : str
        Column of the error.
    alpha, bootstrap, seed
        Level, size and seed of the bootstrap over trials.
    """
    if not np.isfinite(target):
        raise InputError(f"target must be a finite error, got {target!r}.")
    return _needed(_curves(table, error), lambda rows: target, alpha, bootstrap, seed)


def labels_to_match(
    table: pd.DataFrame,
    baseline: pd.DataFrame,
    *,
    error: str = "pehe",
    alpha: float = 0.05,
    bootstrap: int = 1000,
    seed: int = 0,
) -> LabelsNeeded:
    """Return how many labels the mean curve over seeds needs to reach the baseline's mean error at its end for good.

    As :func:`labels_to_reach`, but the bootstrap draws pairs of trials, so that the error to be reached changes with
    the seeds drawn. Both tables have the same seeds.
    """
    curves, reference = _curves(table, error), _curves(baseline, error)
    if not curves.index.equals(reference.index):
        raise InputError("both tables need the same seeds: trials are compared in pairs.")
    last = reference.to_numpy(dtype=np.float64)
    return _needed(curves, lambda rows: float(last[rows].mean(axis=0)[-1]), alpha, bootstrap, seed)


def _curves(table: pd.DataFrame, error: str) -> pd.DataFrame:
    """Return errors with a row per seed and a column per number of labels."""
    missing = [c for c in ("seed", "labels", error) if c not in table]
    if missing:
        raise InputError(f"table has no column {missing[0]!r}: pass trials of run_trial with a seed column.")
    wide = table.pivot(index="seed", columns="labels", values=error)
    if wide.isna().to_numpy().any():
        raise InputError("seeds were measured at different numbers of labels: compare trials with equal settings.")
    return wide


def _needed(
    wide: pd.DataFrame, target: Callable[[Positions], float], alpha: float, bootstrap: int, seed: int
) -> LabelsNeeded:
    """Return the labels needed; ``target`` gives the error to be reached by the trials in some rows."""
    labels, curves = wide.columns.to_numpy(dtype=np.float64), wide.to_numpy(dtype=np.float64)
    rng = generator(seed, "labels-to-reach")
    resampled = rng.integers(len(curves), size=(check_int(bootstrap, "bootstrap", low=1), len(curves)))

    def crossing(rows: Positions) -> float:
        return _last_crossing(labels, curves[rows].mean(axis=0), target(rows))

    tail, needed = check_alpha(alpha) / 2, crossing(np.arange(len(curves)))
    if len(curves) < ENOUGH_SEEDS:
        return LabelsNeeded(needed, float("nan"), float("nan"))
    lower, upper = np.quantile([crossing(rows) for rows in resampled], [tail, 1 - tail], method="nearest")
    return LabelsNeeded(needed, float(lower), float(upper))


def _last_crossing(labels: Array, curve: Array, target: float) -> float:
    above = np.flatnonzero(curve > target)
    if len(above) == 0:
        return float(labels[0])
    last = above[-1]
    if last == len(curve) - 1:
        return float("inf")
    share = (curve[last] - target) / (curve[last] - curve[last + 1])
    return float(labels[last] + share * (labels[last + 1] - labels[last]))


def _pair(first: ArrayLike, second: ArrayLike) -> tuple[Array, Array]:
    a = check_vector(first, "first argument")
    return a, check_vector(second, "second argument", len(a))
