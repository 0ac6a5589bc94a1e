"""Standard units of covariates and outcomes."""

from __future__ import annotations

import numpy as np

from causalbald._typing import AnyArray, Array

# Standard deviation, as a share of the range, of a column with two values of which one in 43 units has the rarer.
_RARE = 0.15
# Outcomes from which on two values, other than 0 and 1, are all that there are; fewer may be two of many.
_SEEM_TWO = 10


def column_scale(x: AnyArray) -> Array:
    """Return the unit of each column of a pool (N, D): its standard deviation, 1 for a constant one.

    A column with two values, of which fewer than one unit in 43 has the rarer, is in larger units, the larger the rarer
    that is: its values are 7 units apart at most, and 1.4 for one unit in a thousand. By standard deviations a mark
    that one person in a thousand has, such as a missing value or a rare category, would put that person 30 units away
    from all others, and every method that looks for the unknown would measure such people first.
    """
    low, high, sd = x.min(axis=0), x.max(axis=0), x.std(axis=0, dtype=np.float64)
    # Rounding gives a constant column a tiny standard deviation, by which it must not be divided.
    constant = sd <= 1e-12 * np.maximum(np.abs(low), np.abs(high))
    sd = np.where(constant, 1.0, sd)
    two_values = ((x == low) | (x == high)).all(axis=0) & ~constant
    return np.where(two_values, np.maximum(sd, (_RARE * (high - low)) ** 2 / sd), sd)


def channel_scale(images: AnyArray) -> Array:
    """Return the standard deviation of each channel of images (N, C, H, W), (C, 1, 1), 1 for a constant one."""
    scale = images.std(axis=(0, 2, 3), keepdims=True, dtype=np.float64)[0]
    return np.where(scale > 1e-12, scale, 1.0)


def outcome_scale(y: Array) -> float:
    """Return the standard deviation of outcomes (n,), and 1 if they are all the same."""
    sd = float(y.std())
    return 1.0 if sd <= 1e-12 * float(np.abs(y).max()) else sd


def outcome_range(y: Array) -> tuple[float, float] | None:
    """Return the two values that outcomes (n,) have, the lower one first, or None if they are numbers.

    Outcomes that are all 0 or 1 have these two, even if one of them has not been seen yet.
    """
    if np.isin(y, (0.0, 1.0)).all():
        return 0.0, 1.0
    values = np.unique(y)
    return (float(values[0]), float(values[1])) if len(values) == 2 and len(y) >= _SEEM_TWO else None
