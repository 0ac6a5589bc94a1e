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

MIN_LEAK_AUC = 0.99
MIN_MISSING_AUC = 0.9
_MAX_CATEGORIES = 20  # a numeric column with at most so many values is also looked at as categories
_FOLDS = 5
_MIN_UNITS = 20
_MIN_UNITS_PER_ARM = 5
_AFTER = re.compile(
    r"\b(follow ?up|fup?|post(?! (code|office|al))|post ?(test|op|treatment)|after|outcomes?|final|discharged?"
    r"|end ?(point|line)|death|died|deceased|readmitted|readmission)\b"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def determines_treatment(values: Any, treatment: ArrayLike) -> float:
    """Return how well one column alone separates treated from control, as an AUC: 0.5 not at all, 1 always.

    Numbers and dates count by their order, in either direction; missing ones are left out. Categories, and numbers and
    dates with at most 20 different values, count by the share of treated units that a unit's category has in the other
    four of five folds. So a category with a single unit, such as an id, separates nothing. Missing values are one of
    the categories. If a column counts in both ways, the larger AUC is returned.

    Parameters
    ----------
    values : (N,)
        Numbers, dates or categories, some of which may be missing.
    treatment : (N,)
        The arm of each unit, 0 or 1.

    Returns
    -------
    float
        The AUC, at least 0.5. It is 0.5 if a separation could be chance: with fewer than 20 units, or fewer than 5 in
        an arm.

    Raises
    ------
    InputError
        If an arm is empty.

    Examples
    --------
    >>> from causalbald.diagnostics import determines_treatment
    >>> treatment = [0, 1] * 10
    >>> determines_treatment([10 * t + k / 20 for k, t in enumerate(treatment)], treatment)
    1.0
    """
    column, t = _checked(values, treatment)
    is_ordered = pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column)
    auc = 0.5
    if is_ordered:
        present = column.notna().to_numpy()
        if _are_enough(t[present]):
            ranks = np.asarray(column[present].rank(), dtype=np.float64)
            rising = area_under_curve(ranks, t[present])
            auc = max(rising, 1 - rising)
    if _are_enough(t) and (not is_ordered or column.nunique() <= _MAX_CATEGORIES):
        auc = max(auc, _category_auc(column, t))
    return auc


def missing_by_arm(values: Any, treatment: ArrayLike) -> float:
    """Return how well missing values of a column separate treated from control, as an AUC: 0.5 not at all, 1 always.

    Parameters
    ----------
    values : (N,)
        The column.
    treatment : (N,)
        The arm of each unit, 0 or 1.

    Returns
    -------
    float
        One half, plus half the difference between the shares of missing values in the two arms.

    Raises
    ------
    InputError
        If an arm is empty.

    Examples
    --------
    >>> from causalbald.diagnostics import missing_by_arm
    >>> missing_by_arm([1.0, None, 3.0, None], [0, 1, 0, 1])
    1.0
    """
    column, t = _checked(values, treatment)
    missing = column.isna().to_numpy()
    return float(0.5 + abs(missing[t == 1].mean() - missing[t == 0].mean()) / 2)


def sounds_measured_after(name: str) -> bool:
    """Return whether the name of a column has a word for something recorded after treatment.

    This is a hint for a human. Nobody can judge a name like ``wt82`` without the year of treatment.

    Parameters
    ----------
    name : str
        The name of the column.

    Returns
    -------
    bool

    Examples
    --------
    >>> from causalbald.diagnostics import sounds_measured_after
    >>> sounds_measured_after("sbp_followup"), sounds_measured_after("sbp")
    (True, False)
    """
    return _AFTER.search(" ".join(_WORDS.findall(str(name))).lower()) is not None


def find_leaks(covariates: pd.DataFrame, treatment: ArrayLike) -> pd.DataFrame:
    """Return which columns may be consequences of the treatment, and why.

    A column is suspected if it determines the treatment (AUC above 0.99, see :func:`determines_treatment`), if it is
    known almost only in one arm (AUC above 0.9, see :func:`missing_by_arm`), or if its name sounds so, see
    :func:`sounds_measured_after`.

    Parameters
    ----------
    covariates : DataFrame of N rows
        The columns to look at.
    treatment : (N,)
        The arm of each unit, 0 or 1.

    Returns
    -------
    DataFrame
        A row per column of ``covariates``: ``column, auc, missing_auc, reason``. The reason is empty text if there is
        no suspicion.

    Raises
    ------
    InputError
        If an arm is empty.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.diagnostics import find_leaks
    >>> find_leaks(pd.DataFrame({"age": [41, 35], "death": [0, 1]}), [0, 1])["reason"].tolist()
    ['', 'sounds as if measured after treatment']
    """
    rows = []
    for name, column in covariates.items():
        auc, missing = determines_treatment(column, treatment), missing_by_arm(column, treatment)
        reasons = [f"determines the treatment (AUC {auc:.3f})"] * (auc > MIN_LEAK_AUC)
        reasons += ["known almost only in one arm"] * (missing > MIN_MISSING_AUC)
        reasons += ["sounds as if measured after treatment"] * sounds_measured_after(str(name))
        rows.append((str(name), auc, missing, "; ".join(reasons)))
    return pd.DataFrame(rows, columns=["column", "auc", "missing_auc", "reason"])


def _checked(values: Any, treatment: ArrayLike) -> tuple[pd.Series[Any], Treatment]:
    """Return ``values`` as a column with rows from 0, and the arms (N,) as 0 and 1.

    Raises InputError if they differ in length, an arm is empty, or an arm is not 0 or 1.
    """
    column = pd.Series(values).reset_index(drop=True)
    t = check_treatment(treatment, len(column))
    check_both_arms(t, "units")
    return column, t


def _are_enough(t: Treatment) -> bool:
    """Return whether so many units per arm are enough: at least 20 in all, and 5 in each arm.

    A perfect separation of the arms ``t`` (N,) would then hardly be chance: its probability is below 1 in 7,000.
    """
    return len(t) >= _MIN_UNITS and int(np.bincount(t, minlength=2).min()) >= _MIN_UNITS_PER_ARM


def _category_auc(column: pd.Series[Any], t: Treatment) -> float:
    """Return the AUC of a column as categories, at least 0.5; missing values are a category.

    The score of a unit is the share of treated units of its category in the other folds, shrunk by one unit towards the
    share of treated units among all units. The folds are always drawn with the same seed.
    """
    code = pd.factorize(column, use_na_sentinel=False)[0]
    # The units of each category are spread evenly over the folds, whatever their arms. If folds were balanced by arm as
    # well, the other folds would reveal the arm of the unit, and chance would look like prediction.
    mixed = generator(0, "leak-folds").permutation(len(t))
    fold = np.empty(len(t), dtype=np.intp)
    fold[mixed[np.argsort(code[mixed], kind="stable")]] = np.arange(len(t)) % _FOLDS
    shape = (int(code.max()) + 1, _FOLDS)
    cell = np.ravel_multi_index((code, fold), shape)
    units, treated = (np.bincount(cell, w, minlength=shape[0] * _FOLDS).reshape(shape) for w in (None, t))
    outside, outside_treated = (c.sum(axis=1, keepdims=True) - c for c in (units, treated))
    score = (outside_treated + t.mean()) / (outside + 1)
    # An AUC below 0.5 is not reversed: leaving out a unit of one arm moves the share towards the other arm.
    return max(0.5, area_under_curve(score[code, fold], t))
