"""Standard units of covariates and outcomes."""

from __future__ import annotations

import numpy as np

from causalbald._typing import AnyArray, Array

# Standard deviation, as a share of the range, of a column with two values if one unit in 43 has the rarer value.
_RARE_SD = 0.15
# Number of outcomes from which on two values, other than 0 and 1, count as the only ones; with fewer there may be more.
_MIN_OUTCOMES_OF_TWO_VALUES = 10


def column_scale(x: AnyArray) -> Array:
    """Return the number (D,) by which each column of a pool (N, D) is divided: its standard deviation.

    It is 1 for a constant column. A rare mark is a column with two values, the rarer of which fewer than one person in
    43 has, for example a missing value. Its number is larger than the standard deviation. If one person in a thousand
    has the mark, that person is 1.4 away from all others; at most it is 7. Divided by the standard deviation it would
    be 30, and every method that looks for the unknown would measure such people first.
    """
    # With a share p of the rarer value sd = sqrt(p (1 - p)) range, 0.15 range for p = 1 / 43. Below that the unit is
    # (0.15 range)² / sd, which grows as sd falls.
    low, high, sd = x.min(axis=0), x.max(axis=0), x.std(axis=0, dtype=np.float64)
    # Rounding gives a constant column a tiny standard deviation, by which it must not be divided.
    constant = sd <= 1e-12 * np.maximum(np.abs(low), np.abs(high))
    sd = np.where(constant, 1.0, sd)
    two_values = ((x == low) | (x == high)).all(axis=0) & ~constant
    return np.where(two_values, np.maximum(sd, (_RARE_SD * (high - low)) ** 2 / sd), sd)


def channel_scale(images: AnyArray) -> Array:
    """Return the standard deviation of each channel of images (N, C, H, W), (C, 1, 1); 1 for a constant channel."""
    scale = images.std(axis=(0, 2, 3), keepdims=True, dtype=np.float64)[0]
    return np.where(scale > 1e-12, scale, 1.0)


def outcome_scale(y: Array) -> float:
    """Return the standard deviation of outcomes (n,); 1 if all outcomes are the same, up to rounding."""
    sd = float(y.std())
    return 1.0 if sd <= 1e-12 * float(np.abs(y).max()) else sd


def outcome_range(y: Array) -> tuple[float, float] | None:
    """Return the two values that outcomes (n,) can have, the lower one first, or None.

    Outcomes that are all 0 or 1, even if only one of these has occurred or there are no outcomes, have the values 0 and
    1. Two other values count only among at least ``_MIN_OUTCOMES_OF_TWO_VALUES`` outcomes: [3, 4] gives None. None is
    also returned for outcomes with one other value, or with three or more values.
    """
    if np.isin(y, (0.0, 1.0)).all():
        return 0.0, 1.0
    values = np.unique(y)
    return (float(values[0]), float(values[1])) if len(values) == 2 and len(y) >= _MIN_OUTCOMES_OF_TWO_VALUES else None
