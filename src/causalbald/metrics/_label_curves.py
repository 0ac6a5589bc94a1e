"""How many labels a method needs to get to an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from causalbald._random import generator
from causalbald._typing import Array, Positions
from causalbald._validation import check_alpha, check_int
from causalbald.errors import InputError
from causalbald.metrics._effects import pair

# With fewer pairs, all of them are on one side by chance with a probability above 5 %.
ENOUGH_SEEDS = 6


def area_under_curve(labels: ArrayLike, error: ArrayLike) -> float:
    """Return the mean error over the range of labels, by the trapezoidal rule. Lower is better.

    This is the area under the label curve, divided by the range of labels.

    Parameters
    ----------
    labels : (N,)
        Numbers of labels, increasing.
    error : (N,)
        The error at each number of labels.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If there are fewer than two points, the labels do not increase, or a value is missing or infinite.

    Examples
    --------
    >>> from causalbald.metrics import area_under_curve
    >>> area_under_curve([10, 20, 40], [3.0, 1.0, 1.0])
    1.3333333333333333
    """
    x, y = pair(labels, error)
    if len(x) < 2 or (np.diff(x) <= 0).any():
        raise InputError("labels must increase, with at least two points on the curve.")
    return float(np.trapezoid(y, x) / (x[-1] - x[0]))


def areas(trials: pd.DataFrame, error: str = "pehe") -> pd.Series:
    """Return, for each seed's trial, the mean error over its label curve; see :func:`area_under_curve`.

    Parameters
    ----------
    trials : DataFrame
        Columns ``seed``, ``labels`` and the error, with rows in any order. The mean of a seed with one row is the error
        in that row.
    error : str
        Column of the error.

    Returns
    -------
    Series
        Indexed by seed.

    Raises
    ------
    InputError
        If a seed with several rows has the same number of labels twice, or a missing error.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.metrics import areas
    >>> areas(pd.DataFrame({"seed": [0, 0], "labels": [10, 20], "pehe": [3.0, 1.0]})).to_dict()
    {0: 2.0}
    """
    ordered = trials.sort_values("labels")
    by_seed = {
        seed: area_under_curve(rows["labels"], rows[error]) if len(rows) > 1 else rows[error].mean()
        for seed, rows in ordered.groupby("seed")
    }
    return pd.Series(by_seed, dtype=float)


def paired_interval(differences: Array, alpha: float = 0.05) -> tuple[float, float, float]:
    """Return the mean of paired differences, and the ends of its t-interval.

    Parameters
    ----------
    differences : (N,)
        One difference per pair, at least one. A missing difference makes the mean and both ends NaN.
    alpha : float
        One minus the probability of the interval. It is not checked.

    Returns
    -------
    (mean, lower, upper)
        The ends are NaN for a single difference.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.metrics import paired_interval
    >>> mean, lower, upper = paired_interval(np.array([1.0, 2.0, 3.0]))
    >>> print(f"{mean:.2f} [{lower:.2f}, {upper:.2f}]")
    2.00 [-0.48, 4.48]
    """
    n, mean = len(differences), float(np.mean(differences))
    if n < 2:
        return mean, float("nan"), float("nan")
    # mean ± t(n - 1, 1 - alpha / 2) · s / sqrt(n)
    half_width = float(stdtrit(n - 1, 1 - alpha / 2) * np.std(differences, ddof=1) / np.sqrt(n))
    return mean, mean - half_width, mean + half_width


def comparable_trials(trials: pd.DataFrame, names: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """Return the trials that have all ``values`` at every fit; a trial with a missing value is left out whole.

    Parameters
    ----------
    trials : DataFrame
        A row per fit: the ``names`` of the trial, ``labels`` and the ``values``.
    names : sequence of str
        Columns that identify a trial, such as ``seed``.
    values : sequence of str
        Columns to compare.

    Returns
    -------
    DataFrame
        The rows of complete trials, in the order of ``trials``.

    Raises
    ------
    InputError
        If two trials have the same names, so that a number of labels occurs twice, or if no trial is complete.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.metrics import comparable_trials
    >>> trials = pd.DataFrame({"seed": [0, 1], "labels": [10, 10], "pehe": [1.0, None]})
    >>> comparable_trials(trials, ["seed"], ["pehe"])["seed"].tolist()
    [0]
    """
    repeated = trials[trials.duplicated([*names, "labels"])]
    if len(repeated):
        which = ", ".join(f"{name} {repeated.iloc[0][name]}" for name in names)
        raise InputError(
            f"more than one trial of {which}: their settings differ. Keep trials with different settings in folders of "
            "their own."
        )
    is_complete = trials[[*values]].notna().all(axis=1).groupby([trials[c] for c in names]).transform("all")
    if not is_complete.any():
        raise InputError(f"no trial has values of {', '.join(values)}: choose another column.")
    return trials[is_complete]


@dataclass(frozen=True)
class LabelsNeeded:
    """The number of labels after which the mean error over seeds stays at or below a target.

    Parameters
    ----------
    labels : float
        The number of labels, interpolated between fits. Infinite if the error does not stay at or below the target.
    lower, upper : float
        The central 1 - alpha of that number over bootstrap samples of the seeds. With fewer than ``ENOUGH_SEEDS``
        seeds they are NaN, because such a bootstrap is too confident.

    Examples
    --------
    >>> from causalbald.metrics import LabelsNeeded
    >>> print(LabelsNeeded(120.0, 100.0, float("inf")))
    120 [100, not reached]
    """

    labels: float
    lower: float
    upper: float

    @property
    def censored(self) -> bool:
        """Whether the target was not reached with the labels of the trials."""
        return bool(np.isinf(self.labels))

    def __str__(self) -> str:
        """Return the number of labels and its interval, such as ``120 [100, not reached]``."""

        def text(value: float) -> str:
            return "not reached" if np.isinf(value) else f"{value:.0f}"

        interval = "" if np.isnan(self.lower) else f" [{text(self.lower)}, {text(self.upper)}]"
        return text(self.labels) + interval


def labels_to_reach(
    table: pd.DataFrame,
    target: float,
    *,
    error: str = "pehe",
    alpha: float = 0.05,
    bootstrap: int = 1000,
    seed: int = 0,
) -> LabelsNeeded:
    """Return how many labels the mean curve over seeds needs to reach ``target`` and stay at or below it.

    The curve is linearly interpolated between fits. The last crossing counts. A curve that never is above the target
    needs the labels of the first fit.

    Parameters
    ----------
    table : DataFrame
        The trials of one method: columns ``seed``, ``labels`` and the error, with the same labels for every seed.
    target : float
        The error to reach.
    error : str
        Column of the error.
    alpha : float
        One minus the probability of the interval, between 0 and 1.
    bootstrap : int
        Number of bootstrap samples of the trials, at least 1.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    LabelsNeeded

    Raises
    ------
    InputError
        If the target is not finite, a column is missing, the seeds have different labels, or an option is out of range.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.metrics import labels_to_reach
    >>> trial = pd.DataFrame({"seed": 0, "labels": [10, 20, 30], "pehe": [3.0, 2.0, 1.0]})
    >>> labels_to_reach(trial, 1.5).labels
    25.0
    """
    if not np.isfinite(target):
        raise InputError(f"target must be a finite error, got {target!r}.")
    return _labels_needed(_curves(table, error), lambda rows: target, alpha, bootstrap, seed)


def labels_to_match(
    table: pd.DataFrame,
    baseline: pd.DataFrame,
    *,
    error: str = "pehe",
    alpha: float = 0.05,
    bootstrap: int = 1000,
    seed: int = 0,
) -> LabelsNeeded:
    """Return how many labels the mean curve over seeds needs to reach the final mean error of a baseline.

    The final error is the error at the baseline's largest number of labels. The bootstrap draws pairs of trials, so the
    error to reach changes with the seeds drawn. Otherwise the result is that of :func:`labels_to_reach`.

    Parameters
    ----------
    table : DataFrame
        The trials of one method, as for :func:`labels_to_reach`.
    baseline : DataFrame
        The trials of another method, with the same seeds.
    error : str
        Column of the error.
    alpha : float
        One minus the probability of the interval, between 0 and 1.
    bootstrap : int
        Number of bootstrap samples of the pairs of trials, at least 1.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    LabelsNeeded

    Raises
    ------
    InputError
        If the tables have different seeds, or for a reason that :func:`labels_to_reach` names.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.metrics import labels_to_match
    >>> method = pd.DataFrame({"seed": 0, "labels": [10, 20, 30], "pehe": [3.0, 2.0, 1.0]})
    >>> labels_to_match(method, method.assign(pehe=[3.0, 2.5, 2.5])).labels
    15.0
    """
    curves, reference = _curves(table, error), _curves(baseline, error)
    if not curves.index.equals(reference.index):
        raise InputError("both tables need the same seeds: trials are compared in pairs.")
    baseline_errors = reference.to_numpy(dtype=np.float64)
    return _labels_needed(curves, lambda rows: float(baseline_errors[rows].mean(axis=0)[-1]), alpha, bootstrap, seed)


def _curves(table: pd.DataFrame, error: str) -> pd.DataFrame:
    """Return the errors of one method's trials, with a row per seed and a column per number of labels.

    Raises InputError if a column is missing, or a seed lacks the error at a number of labels that another seed has.
    """
    missing = [c for c in ("seed", "labels", error) if c not in table]
    if missing:
        raise InputError(f"table has no column {missing[0]!r}: pass trials of run_trial with a seed column.")
    wide = table.pivot(index="seed", columns="labels", values=error)
    if wide.isna().to_numpy().any():
        raise InputError("seeds were measured at different numbers of labels: compare trials with equal settings.")
    return wide


def _labels_needed(
    wide: pd.DataFrame, target: Callable[[Positions], float], alpha: float, bootstrap: int, seed: int
) -> LabelsNeeded:
    """Return the labels needed by the curves in ``wide``, which has a row per seed; see :func:`_curves`.

    ``target`` returns the error to reach from the rows of a bootstrap sample. Raises InputError if ``alpha`` or
    ``bootstrap`` is out of range.
    """
    labels, curves = wide.columns.to_numpy(dtype=np.float64), wide.to_numpy(dtype=np.float64)
    rng = generator(seed, "labels-to-reach")
    resampled = rng.integers(len(curves), size=(check_int(bootstrap, "bootstrap", low=1), len(curves)))

    def crossing(rows: Positions) -> float:
        """Return the labels needed by the mean curve of some rows, which may be repeated."""
        return _last_crossing(labels, curves[rows].mean(axis=0), target(rows))

    tail, needed = check_alpha(alpha) / 2, crossing(np.arange(len(curves)))
    if len(curves) < ENOUGH_SEEDS:
        return LabelsNeeded(needed, float("nan"), float("nan"))
    lower, upper = np.quantile([crossing(rows) for rows in resampled], [tail, 1 - tail], method="nearest")
    return LabelsNeeded(needed, float(lower), float(upper))


def _last_crossing(labels: Array, curve: Array, target: float) -> float:
    """Return the number of labels from which a ``curve`` of errors (N,) stays at or below a target.

    ``labels`` (N,) has the labels of each point; between points the curve is linear. Infinite if the curve ends above
    the target.
    """
    above = np.flatnonzero(curve > target)
    if len(above) == 0:
        return float(labels[0])
    last = above[-1]
    if last == len(curve) - 1:
        return float("inf")
    share = (curve[last] - target) / (curve[last] - curve[last + 1])
    return float(labels[last] + share * (labels[last + 1] - labels[last]))
