"""Whether the people measured so far are like the pool, group by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from causalbald._typing import Array, Positions
from causalbald._validation import check_alpha, check_int
from causalbald.errors import InputError

MISSING, OTHER = "(missing)", "(other)"
_MAX_CATEGORIES = 12


def representativeness(groups: Any, measured: ArrayLike, alpha: float = 0.05) -> pd.DataFrame:
    """Return how each group's share among the measured compares with its share of the pool.

    ``ratio`` is the one divided by the other, 1 where a group is measured as often as the pool. Its interval is exact,
    by the hypergeometric distribution: from ``lower`` to ``upper`` are all ratios K'/K such that the measured could be
    a random sample of a pool with K' instead of K units of the group. ``under_measured`` is an interval below 1. The
    intervals hold for all groups together with probability 1 - alpha, by Bonferroni's correction; for several columns
    divide alpha by their number.

    Active choice is not random, on purpose, so an under-measured group is no mistake by itself. It says of whom the
    measured outcomes tell little without a model.

    Parameters
    ----------
    groups : (N,)
        Categories, in the order of a Categorical if it is one; missing values are a group. See :func:`group_values`.
    measured : (N,) bool
    alpha : float

    Returns
    -------
    DataFrame
        ``group, pool, pool_share, measured, measured_share, ratio, lower, upper, under_measured``, a row per group.
    """
    codes, names = _coded(groups)
    done = np.asarray(measured)
    if done.dtype != np.bool_ or done.shape != codes.shape:
        raise InputError(
            f"measured must be true or false for each of {len(codes)} units, got {done.dtype} {done.shape}."
        )
    pool, chosen = (np.bincount(c, minlength=len(names)) for c in (codes, codes[done]))
    units, sample = len(codes), int(done.sum())
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
    """Return groups (N,) of a column: quantile groups of numbers, named by the range of their values, or categories.

    Numbers with at most ``max_groups`` different values are a group each; ties stay together, so that there may be
    fewer groups. Of more than 12 categories the 11 largest stay and the others share a group. Missing values are a
    group of their own, the last.
    """
    limit = check_int(max_groups, "max_groups", low=2)
    column = pd.Series(values).reset_index(drop=True)
    missing = np.array(column.isna())
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        codes, names = _quantile_groups(column[~missing].to_numpy(dtype=np.float64), limit)
    else:
        missing[~missing] = (column[~missing] == MISSING).to_numpy(dtype=bool)
        codes, names = _categories(column[~missing])
    every = np.full(len(column), len(names), dtype=np.intp)
    every[~missing] = codes
    return pd.Categorical.from_codes(every, pd.Index([*names, MISSING] if missing.any() else names), ordered=True)


def _coded(groups: Any) -> tuple[Positions, list[str]]:
    """Return the number of each unit's group (N,) and the groups' names; groups without units are left out."""
    found = pd.Categorical(groups).remove_unused_categories()
    if len(found) == 0:
        raise InputError("there are no units: groups is empty.")
    codes, names = np.array(found.codes, dtype=np.intp), [str(c) for c in found.categories]
    if (codes < 0).any():
        names += [MISSING] * (MISSING not in names)
        codes[codes < 0] = names.index(MISSING)
    return codes, names


def _largest_group(chosen: Positions, sample: int, units: int, tail: float) -> Positions:
    """Return how many of all units each group may have at most (G,), if P(``chosen`` or fewer in the sample) > tail."""
    from scipy.stats import hypergeom

    low, high = chosen.copy(), units - (sample - chosen)
    while (low < high).any():
        middle = (low + high + 1) // 2
        possible = hypergeom.cdf(chosen, units, middle, sample) > tail
        low, high = np.where(possible, middle, low), np.where(possible, high, middle - 1)
    return low


def _quantile_groups(numbers: Array, limit: int) -> tuple[Positions, list[str]]:
    values = np.unique(numbers)
    if len(values) <= limit:
        ends = values
    else:
        inner = np.quantile(numbers, np.arange(1, limit) / limit, method="inverted_cdf")
        ends = np.unique(np.append(inner, values[-1:]))
    starts = np.concatenate([values[:1], values[np.searchsorted(values, ends[:-1]) + 1]])
    return np.searchsorted(ends, numbers), _range_names(starts, ends)


def _range_names(starts: Array, ends: Array) -> list[str]:
    """Return names with as few digits as tell the ends apart, at least three."""
    for digits in range(3, 18):
        low, high = ([_number(v, digits) for v in side] for side in (starts, ends))
        if len({*low}) == len(low) and len({*high}) == len(high):
            break
    return [a if a == b and s == e else f"{a} to {b}" for a, b, s, e in zip(low, high, starts, ends, strict=True)]


def _number(value: float, digits: int) -> str:
    whole = value == np.round(value) and abs(value) < 1e15
    return f"{value:.0f}" if whole or 10**digits <= abs(value) < 1e15 else f"{value:.{digits}g}"


def _categories(known: pd.Series[Any]) -> tuple[Positions, list[str]]:
    text = known.astype(str)
    count = text.value_counts()
    if len(count) > _MAX_CATEGORIES:
        largest = count.sort_index().sort_values(ascending=False, kind="stable").index[: _MAX_CATEGORIES - 1]
        names = [*sorted({*largest} - {OTHER}), OTHER]
    elif isinstance(known.dtype, pd.CategoricalDtype):
        names = [str(c) for c in known.cat.categories if str(c) in count.index]
    else:
        names = sorted(count.index)
    codes = pd.Index(names).get_indexer(text)
    return np.where(codes < 0, len(names) - 1, codes), names
