"""How much the arms differ in each covariate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from causalbald._covariate_names import table_columns
from causalbald._typing import Array
from causalbald._validation import check_both_arms, check_covariates, check_treatment, check_vector
from causalbald.errors import InputError

UNBALANCED = 0.1  # standardised difference


def balance_table(X: Any, treatment: ArrayLike, weights: ArrayLike | None = None) -> pd.DataFrame:
    """Return how much the arms differ in each covariate.

    Parameters
    ----------
    X : (N, D)
        Numeric covariates without missing values. The columns of a DataFrame give them their names.
    treatment : (N,)
        The arm of each unit, 0 or 1.
    weights : (N,), optional
        Weights of the units in the means, not negative, for example inverse propensities. By default all units count
        the same.

    Returns
    -------
    DataFrame
        A row per covariate: ``covariate, mean_control, mean_treated, difference, flagged``. ``difference`` is treated
        minus control, divided by the root of the mean of the variances of the two arms. The divisor does not depend on
        ``weights``, so differences before and after weighting can be compared. The difference is infinite if a
        covariate is constant in each arm and differs between the arms. ``flagged`` is an absolute difference over 0.1,
        beyond which arms are usually called unbalanced (Austin, 2009, doi:10.1002/sim.3697).

    Raises
    ------
    InputError
        If an arm is empty, a covariate is not a number or is missing, a weight is negative, or an arm has only weights
        of 0.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.diagnostics import balance_table
    >>> people = pd.DataFrame({"age": [30.0, 40.0, 50.0, 60.0], "height": [170.0, 180.0, 170.0, 180.0]})
    >>> table = balance_table(people, [0, 0, 1, 1])
    >>> table[["covariate", "difference", "flagged"]].values.tolist()
    [['age', 4.0, True], ['height', 0.0, False]]
    """
    x = check_covariates(X)
    t = check_treatment(treatment, len(x))
    check_both_arms(t, "units")
    w = None if weights is None else _check_weights(weights, len(x))
    means, variances = [], []
    for arm in (0, 1):
        rows = t == arm
        units = x[rows]
        # Rounding would give a column of equal numbers a variance of 1e-32, and then a difference.
        constant = units.min(axis=0) == units.max(axis=0)
        mean = units.mean(axis=0) if w is None else _weighted_mean(units, w[rows], arm)
        means.append(np.where(constant, units[0], mean))
        variances.append(np.where(constant, 0.0, units.var(axis=0)))
    difference = _standardise(means[1] - means[0], np.sqrt((variances[0] + variances[1]) / 2))
    return pd.DataFrame(
        {
            "covariate": [str(c) for c in table_columns(X, "X") or (f"x{k}" for k in range(x.shape[1]))],
            "mean_control": means[0],
            "mean_treated": means[1],
            "difference": difference,
            "flagged": np.abs(difference) > UNBALANCED,
        }
    )


def _standardise(difference: Array, scale: Array) -> Array:
    """Return each difference (D,) divided by its scale (D,).

    Where the scale is 0, a difference of 0 stays 0 and any other becomes infinite, with its sign.
    """
    unscaled = np.where(difference == 0, 0.0, np.copysign(np.inf, difference))
    return np.where(scale == 0, unscaled, difference / np.where(scale == 0, 1.0, scale))


def _check_weights(weights: ArrayLike, length: int) -> Array:
    """Return weights (N,) as floats; raise InputError if there are not ``length``, or one is negative or missing."""
    w = check_vector(weights, "weights", length)
    if (w < 0).any():
        raise InputError(f"weights must not be negative, found {w.min():g}.")
    return w


def _weighted_mean(units: Array, weights: Array, arm: int) -> Array:
    """Return the weighted mean (D,) of each covariate of the ``units`` (N, D) of one arm.

    Raises InputError, which names the ``arm``, if all weights are 0.
    """
    if weights.sum() == 0:
        raise InputError(f"all weights of arm {arm} are zero: someone must count.")
    mean: Array = weights @ units / weights.sum()
    return mean
