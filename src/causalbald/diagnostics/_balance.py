"""How different the arms are, covariate by covariate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from causalbald._covariate_names import table_columns
from causalbald._typing import Array
from causalbald._validation import check_both_arms, check_covariates, check_treatment, check_vector
from causalbald.errors import InputError

UNBALANCED = 0.1


def balance_table(X: Any, treatment: ArrayLike, weights: ArrayLike | None = None) -> pd.DataFrame:
    """Return how the arms differ: ``covariate, mean_control, mean_treated, difference, flagged``, a row per covariate.

    ``difference`` is standardised: treated minus control, divided by the root of the mean of the two arms' variances.
    With ``weights`` the means are weighted and the divisor is not, so that differences before and after weighting can
    be compared. It is infinite where a covariate is constant in each arm and differs between them.

    ``flagged`` is an absolute difference over 0.1, beyond which arms are usually called unbalanced (Austin, 2009).

    Parameters
    ----------
    X : (N, D)
        Numeric covariates without missing values; a DataFrame gives them their names.
    treatment : (N,)
    weights : (N,), optional
        Not negative, for example inverse propensities.
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
    unscaled = np.where(difference == 0, 0.0, np.copysign(np.inf, difference))
    return np.where(scale == 0, unscaled, difference / np.where(scale == 0, 1.0, scale))


def _check_weights(weights: ArrayLike, length: int) -> Array:
    w = check_vector(weights, "weights", length)
    if (w < 0).any():
        raise InputError(f"weights must not be negative, found {w.min():g}.")
    return w


def _weighted_mean(units: Array, weights: Array, arm: int) -> Array:
    if weights.sum() == 0:
        raise InputError(f"all weights of arm {arm} are zero: someone must count.")
    mean: Array = weights @ units / weights.sum()
    return mean
