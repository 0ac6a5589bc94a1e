"""What a budget pays for. The only place that compares costs with money."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalbald._typing import Array, Mask, Positions
from causalbald.errors import InputError

RELATIVE_ROUNDING = 1e-9
"""Share of a budget by which a sum of costs may exceed it: sums of decimal prices are rounded."""


@dataclass(frozen=True)
class Budget:
    """Money for measurements, or no limit at all. Answers what can be paid.

    Parameters
    ----------
    limit : float, optional
        What may be spent, in the unit of the costs. None pays for everything.

    Raises
    ------
    InputError
        If the limit is NaN.

    Examples
    --------
    >>> from causalbald.campaign import Budget
    >>> budget = Budget(10.0)
    >>> budget.pays_each([4.0, 11.0]).tolist()
    [True, False]
    >>> budget.pays_in_order([4.0, 7.0, 5.0]).tolist()
    [0, 2]
    >>> budget.most_units([4.0, 7.0, 5.0])
    2
    >>> budget.after(8.0)
    Budget(limit=2.0)
    """

    limit: float | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and math.isnan(self.limit):
            raise InputError("budget must be a number, got nan.")

    @property
    def spendable(self) -> float:
        """What a sum of costs may come to: the limit with room for rounding, infinite without a limit."""
        return math.inf if self.limit is None else self.limit * (1 + RELATIVE_ROUNDING)

    def after(self, spent: float) -> Budget:
        """Return what is left once ``spent`` is gone; nothing at all if only a rounding error is left."""
        if self.limit is None:
            return self
        left = self.limit - spent
        return Budget(0.0 if abs(left) <= self.limit * RELATIVE_ROUNDING else left)

    def within(self, other: Budget) -> Budget:
        """Return the smaller of both budgets."""
        return self if self.spendable <= other.spendable else other

    def pays(self, cost: float) -> bool:
        """Return whether the budget pays for a cost, or for a sum of costs."""
        return cost <= self.spendable

    def pays_each(self, costs: Array | list[float]) -> Mask:
        """Return for each of ``costs`` (n,) whether the budget pays for it alone, (n,)."""
        payable: Mask = np.asarray(costs) <= self.spendable
        return payable

    def pays_in_order(self, costs: Array | list[float]) -> Positions:
        """Return the positions in ``costs`` (n,) that can be paid, first come, first served.

        A cost that what is left does not pay for is passed over, and a later, smaller one may be paid.
        """
        paid, left = [], self.spendable
        for position, cost in enumerate(costs):
            if cost <= left:
                paid.append(position)
                left -= float(cost)
        return np.asarray(paid, dtype=np.intp)

    def pays_until(self, costs: Array | list[float]) -> int:
        """Return how many of ``costs`` (n,) are paid from the first on, up to the first that is too much."""
        return int(np.searchsorted(np.cumsum(costs), self.spendable, side="right"))

    def most_units(self, costs: Array | list[float]) -> int:
        """Return how many of ``costs`` (n,) the budget pays for at most: the smallest first."""
        return self.pays_until(np.sort(costs))


def costs_of(units: Positions, cost: Array | None) -> Array:
    """Return the cost of each of some units, (n,): 1 each if ``cost`` (N,) of the whole pool is None."""
    return np.ones(len(units)) if cost is None else cost[units]
