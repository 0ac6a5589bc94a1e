"""What a budget pays for, and how money is written."""

from __future__ import annotations

import math

from causalbald._validation import check_number


def spendable(budget: float | None) -> float:
    """Return what may be spent, with room for the rounding of sums of prices; everything without a budget."""
    return math.inf if budget is None else check_number(budget, "budget") * (1 + 1e-9)


def amount(value: float) -> str:
    """Return money, or any number that people wrote, as text with all its digits."""
    return f"{value:,.10g}"
