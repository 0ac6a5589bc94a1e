"""Columns that must not be covariates: they encode the treatment, or were recorded after it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from causalbald._random import generator
from causalbald._typing import Treatment
from causalbald._validation import check_both_arms, check_treatment
from causalbald.diagnostics._auc import area_under_curve

DETERMINES = 0.99
MISSING_DETERMINES = 0.9
_FEW_VALUES = 20
_FOLDS = 5
_MIN_KNOWN = 20
_MIN_PER_ARM = 5
_AFTER = re.compile(
    r"\b(follow ?up|fup?|post(?! (code|office|al))|post ?(test|op|treatment)|after|outcomes?|final|discharged?"
    r"|end ?(point|line)|death|died|deceased|readmitted|readmission)\b"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def determines_treatment(values: Any, treatment: ArrayLike) -> float:
    """Return how well one column alone tells who is treated, as an AUC: 0.5 not at all, 1 always.

    Numbers and dates are taken as they are ordered, in either direction, where they are known. Categories, and numbers
    with at most 20 different values, are taken by their share of treated people in the other four of five folds, so
    that categories of one person each, such as ids, tell nothing. Missing values are a category.

    The AUC is 0.5 where a separation could be chance: fewer than 20 known values, or fewer than 5 in an arm.

    Parameters
    ----------
    values : (N,)
        Numbers, dates or categories; missing ones allowed.
    treatment : (N,)
    """
    column, t = _checked(values, treatment)
    ordered = pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column)
    found = 0.5
    if ordered:
        known = column.notna().to_numpy()
        if _enough(t[known]):
            auc = area_under_curve(np.asarray(column[known].rank(), dtype=np.float64), t[known])
            found = max(auc, 1 - auc)
    if _enough(t) and (not ordered or column.nunique() <= _FEW_VALUES):
        found = max(found, _by_category(column, t))
    return found


def missing_by_arm(values: Any, treatment: ArrayLike) -> float:
    """Return how well it tells who is treated that a column (N,) is missing, as an AUC: half plus half the difference
    between the arms' shares of missing values.
    """
    column, t = _checked(values, treatment)
    missing = column.isna().to_numpy()
    return float(0.5 + abs(missing[t == 1].mean() - missing[t == 0].mean()) / 2)


def sounds_measured_after(name: str) -> bool:
    """Return whether a column's name has a word for something recorded after treatment, such as ``sbp_followup``.

    A hint for a human: names of the kind ``wt82`` cannot be judged without knowing the year of treatment.
    """
    return _AFTER.search(" ".join(_WORDS.findall(str(name))).lower()) is not None


def find_leaks(covariates: pd.DataFrame, treatment: ArrayLike) -> pd.DataFrame:
    """Return one row per column: ``column, auc, missing_auc, reason``; no reason means no suspicion.

    A column is suspected if it determines the treatment (AUC over 0.99), if it is known almost only in one arm (AUC of
    missing values over 0.9), or by its name.
    """
    rows = []
    for name, column in covariates.items():
        auc, missing = determines_treatment(column, treatment), missing_by_arm(column, treatment)
        reasons = [f"determines the treatment (AUC {auc:.3f})"] * (auc > DETERMINES)
        reasons += ["known almost only in one arm"] * (missing > MISSING_DETERMINES)
        reasons += ["sounds as if measured after treatment"] * sounds_measured_after(str(name))
        rows.append((str(name), auc, missing, "; ".join(reasons)))
    return pd.DataFrame(rows, columns=["column", "auc", "missing_auc", "reason"])


def _checked(values: Any, treatment: ArrayLike) -> tuple[pd.Series[Any], Treatment]:
    column = pd.Series(values).reset_index(drop=True)
    t = check_treatment(treatment, len(column))
    check_both_arms(t, "units")
    return column, t


def _enough(t: Treatment) -> bool:
    """Whether there are so many that a perfect separation by chance has a probability below 1 in 7,000."""
    return len(t) >= _MIN_KNOWN and int(np.bincount(t, minlength=2).min()) >= _MIN_PER_ARM


def _by_category(column: pd.Series[Any], t: Treatment) -> float:
    """Return the AUC of each unit's category by its share of treated units in other folds, shrunk by one unit."""
    code = pd.factorize(column, use_na_sentinel=False)[0]
    # Each category is dealt out evenly to the folds, without a look at the arms: were folds even in these too, the
    # other folds would know the unit's own arm, and chance would look like prediction.
    mixed = generator(0, "leak-folds").permutation(len(t))
    fold = np.empty(len(t), dtype=np.intp)
    fold[mixed[np.argsort(code[mixed], kind="stable")]] = np.arange(len(t)) % _FOLDS
    shape = (int(code.max()) + 1, _FOLDS)
    cell = np.ravel_multi_index((code, fold), shape)
    units, treated = (np.bincount(cell, w, minlength=shape[0] * _FOLDS).reshape(shape) for w in (None, t))
    others, others_treated = (c.sum(axis=1, keepdims=True) - c for c in (units, treated))
    score = (others_treated + t.mean()) / (others + 1)
    # A score below 0.5 is not turned around: leaving a unit out pushes its own share the other way.
    return max(0.5, area_under_curve(score[code, fold], t))
