"""Whether the units measured so far are like the pool, group by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from causalbald._typing import Array, Positions
from causalbald._validation import check_alpha, check_int
from causalbald.errors import InputError
from causalbald.tables import MISSING, OTHER

_MAX_CATEGORIES = 12


def representativeness(groups: Any, measured: ArrayLike, alpha: float = 0.05) -> pd.DataFrame:
    """Return how the share of each group among the measured units compares with its share of the pool.

    Active choice is not random, on purpose, so an under-measured group is not a mistake by itself. It shows for which
    units the measured outcomes say little without a model.

    Parameters
    ----------
    groups : (N,)
        The category of each unit. A Categorical sets the order of the groups. Missing values are a group. See
        :func:`group_values`.
    measured : (N,) bool
        Whether each unit is measured. If none is, shares and ratios are NaN.
    alpha : float
        The intervals of all groups hold together with probability 1 - alpha, by Bonferroni's correction. For several
        columns, divide alpha by their number.

    Returns
    -------
    DataFrame
        A row per group: ``group, pool, pool_share, measured, measured_share, ratio, lower, upper, under_measured``.
        Groups without units are left out.
        ``ratio`` is the share among the measured divided by the share of the pool. Its interval is exact, by the
        hypergeometric distribution: it holds all ratios K'/K such that the measured units could be a random sample of a
        pool with K' instead of K units of the group. ``under_measured`` says whether the whole interval is below 1.

    Raises
    ------
    InputError
        If there are no units, ``measured`` is not true or false for each, or ``alpha`` is not between 0 and 1.

    Examples
    --------
    >>> from causalbald.diagnostics import representativeness
    >>> groups = ["a"] * 50 + ["b"] * 50
    >>> table = representativeness(groups, [True] * 20 + [False] * 80)
    >>> table[["group", "measured", "ratio", "under_measured"]].values.tolist()
    [['a', 20, 2.0, False], ['b', 0, 0.0, True]]
    """
    codes, names = _coded(groups)
    is_measured = np.asarray(measured)
    if is_measured.dtype != np.bool_ or is_measured.shape != codes.shape:
        raise InputError(
            f"measured must be true or false for each of {len(codes)} units, got {is_measured.dtype} "
            f"{is_measured.shape}."
        )
    pool, chosen = (np.bincount(c, minlength=len(names)) for c in (codes, codes[is_measured]))
    units, sample = len(codes), int(is_measured.sum())
    tail = check_alpha(alpha) / (2 * len(names))
    upper = _largest_group(chosen, sample, units, tail)
    lower = units - _largest_group(sample - chosen, sample, units, tail)
    share = chosen / sample if sample else np.full(len(names), np.nan)
    return pd.DataFrame(
        {
            "group": names,
            "pool": pool,
            "pool_share": pool / units,
            "measured": chosen,
            "measured_share": share,
            "ratio": share / (pool / units),
            "lower": lower / pool,
            "upper": upper / pool,
            "under_measured": upper < pool,
        }
    )


def group_values(values: Any, max_groups: int = 5) -> pd.Categorical[str]:
    """Return the group of each unit by the values of a column.

    Parameters
    ----------
    values : (N,)
        Numbers or categories, some of which may be missing.
    max_groups : int
        The largest number of quantile groups of numbers. Equal numbers stay in one group, so there may be fewer groups.
        If numbers have at most ``max_groups`` different values, each value has a group. Categories and yes/no ignore
        ``max_groups``.

    Returns
    -------
    Categorical
        Groups of numbers are named by their range. If there are more than 12 categories, the 11 largest keep their
        names, and the others share the group ``(other)``. Missing values are the last group, ``(missing)``.

    Raises
    ------
    InputError
        If ``max_groups`` is below 2.

    Examples
    --------
    >>> from causalbald.diagnostics import group_values
    >>> list(group_values([1, 2, 3, 4, None], max_groups=2))
    ['1 to 2', '1 to 2', '3 to 4', '3 to 4', '(missing)']
    """
    limit = check_int(max_groups, "max_groups", low=2)
    column = pd.Series(values).reset_index(drop=True)
    missing = np.array(column.isna())
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        codes, names = _quantile_groups(column[~missing].to_numpy(dtype=np.float64), limit)
    else:
        missing[~missing] = (column[~missing] == MISSING).to_numpy(dtype=bool)
        codes, names = _categories(column[~missing])
    all_codes = np.full(len(column), len(names), dtype=np.intp)
    all_codes[~missing] = codes
    return pd.Categorical.from_codes(all_codes, pd.Index([*names, MISSING] if missing.any() else names), ordered=True)


def _coded(groups: Any) -> tuple[Positions, list[str]]:
    """Return the place (N,) of each unit's group in the list of group names, and that list.

    Groups without units are left out; missing values are the group ``(missing)``. Raises InputError without units.
    """
    categories = pd.Categorical(groups).remove_unused_categories()
    if len(categories) == 0:
        raise InputError("there are no units: groups is empty.")
    codes, names = np.array(categories.codes, dtype=np.intp), [str(c) for c in categories.categories]
    if (codes < 0).any():
        names += [MISSING] * (MISSING not in names)
        codes[codes < 0] = names.index(MISSING)
    return codes, names


def _largest_group(chosen: Positions, sample: int, units: int, tail: float) -> Positions:
    """Return an upper bound (G,) on the size of each group in a pool, from how many of a random sample belong to it.

    The pool has ``units`` units, and ``chosen`` (G,) of the ``sample`` units are of each group. The bound is the
    largest size K' with P(at most ``chosen`` of ``sample`` units are of the group) > ``tail``. The probability falls
    with K', so K' is found by bisection.
    """
    from scipy.stats import hypergeom

    low, high = chosen.copy(), units - (sample - chosen)
    while (low < high).any():
        middle = (low + high + 1) // 2
        possible = hypergeom.cdf(chosen, units, middle, sample) > tail
        low, high = np.where(possible, middle, low), np.where(possible, high, middle - 1)
    return low


def _quantile_groups(numbers: Array, limit: int) -> tuple[Positions, list[str]]:
    """Return the group (N,) of each number, counted from 0 in the order of the numbers, and the names of the groups.

    There are at most ``limit`` groups: one per value if there are so few values, else quantile groups.
    """
    values = np.unique(numbers)
    if len(values) <= limit:
        ends = values
    else:
        inner = np.quantile(numbers, np.arange(1, limit) / limit, method="inverted_cdf")
        ends = np.unique(np.append(inner, values[-1:]))
    starts = np.concatenate([values[:1], values[np.searchsorted(values, ends[:-1]) + 1]])
    return np.searchsorted(ends, numbers), _range_names(starts, ends)


def _range_names(starts: Array, ends: Array) -> list[str]:
    """Return a name per range, such as "1 to 2", or the number alone if a range starts and ends with it.

    Numbers have three significant digits, or as many more as are needed for all starts, and all ends, to differ.
    """
    for digits in range(3, 18):
        low, high = ([_number(v, digits) for v in side] for side in (starts, ends))
        if len({*low}) == len(low) and len({*high}) == len(high):
            break
    return [a if a == b and s == e else f"{a} to {b}" for a, b, s, e in zip(low, high, starts, ends, strict=True)]


def _number(value: float, digits: int) -> str:
    """Return a number as text with that many significant ``digits``; whole numbers below 1e15 keep all digits.

    A number with more digits before its decimal point than ``digits`` is rounded to a whole number.
    """
    whole = value == np.round(value) and abs(value) < 1e15
    return f"{value:.0f}" if whole or 10**digits <= abs(value) < 1e15 else f"{value:.{digits}g}"


def _categories(present: pd.Series[Any]) -> tuple[Positions, list[str]]:
    """Return the group of each value, none of them missing, and the names of the groups.

    Names are in the order of a Categorical, else sorted as text. If there are more than ``_MAX_CATEGORIES`` categories,
    names are sorted as text, and all but the largest categories share the last group, ``(other)``.
    """
    text = present.astype(str)
    count = text.value_counts()
    if len(count) > _MAX_CATEGORIES:
        largest = count.sort_index().sort_values(ascending=False, kind="stable").index[: _MAX_CATEGORIES - 1]
        names = [*sorted({*largest} - {OTHER}), OTHER]
    elif isinstance(present.dtype, pd.CategoricalDtype):
        names = [str(c) for c in present.cat.categories if str(c) in count.index]
    else:
        names = sorted(count.index)
    codes = pd.Index(names).get_indexer(text)
    return np.where(codes < 0, len(names) - 1, codes), names
