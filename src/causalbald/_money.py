"""What a budget pays for."""

from __future__ import annotations

import math

from causalbald.errors import InputError


def spendable(budget: float | None) -> float:
    """Return what may be spent, with room for the rounding of sums of prices; everything without a budget."""
    if budget is None:
        return math.inf
    if math.isnan(budget):
        raise InputError("budget must be a number, got nan.")
    return budget * (1 + 1e-9)
