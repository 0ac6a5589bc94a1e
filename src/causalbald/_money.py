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
    """Money for measurements, or no limit at all. Its methods say what can be paid.

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
        """The largest payable sum of costs: the limit with room for rounding errors, or infinity without a limit."""
        return math.inf if self.limit is None else self.limit * (1 + RELATIVE_ROUNDING)

    def after(self, spent: float) -> Budget:
        """Return the budget that is left after ``spent``. It has no limit if this budget has none.

        If only a rounding error is left, the new limit is 0. If more was spent than there was, the new limit is
        negative.
        """
        if self.limit is None:
            return self
        left = self.limit - spent
        return Budget(0.0 if abs(left) <= self.limit * RELATIVE_ROUNDING else left)

    def within(self, other: Budget) -> Budget:
        """Return the smaller one of this budget and ``other``. A budget without a limit is the largest."""
        return self if self.spendable <= other.spendable else other

    def pays(self, cost: float) -> bool:
        """Return whether the budget pays for this cost, which may be a sum of costs."""
        return cost <= self.spendable

    def pays_each(self, costs: Array | list[float]) -> Mask:
        """Return for each of ``costs`` (n,) whether the budget would pay for this cost alone, (n,)."""
        payable: Mask = np.asarray(costs) <= self.spendable
        return payable

    def pays_in_order(self, costs: Array | list[float]) -> Positions:
        """Return the positions in ``costs`` (n,) that are paid if each cost is paid as long as money is left for it.

        Costs are paid in the given order. A cost that is too high for the money left is passed over, and a later cost
        may still be paid.
        """
        paid, left = [], self.spendable
        for position, cost in enumerate(costs):
            if cost <= left:
                paid.append(position)
                left -= float(cost)
        return np.asarray(paid, dtype=np.intp)

    def pays_until(self, costs: Array | list[float]) -> int:
        """Return how many of ``costs`` (n,) are paid in the given order, before the first cost that is too high."""
        return int(np.searchsorted(np.cumsum(costs), self.spendable, side="right"))

    def most_units(self, costs: Array | list[float]) -> int:
        """Return the largest number of ``costs`` (n,) that the budget pays for: those are the smallest costs."""
        return self.pays_until(np.sort(costs))


def costs_of(units: Positions, cost: Array | None) -> Array:
    """Return the cost of each unit at the positions ``units`` (n,), (n,).

    ``cost`` (N,) has the costs of the whole pool; None means that each unit costs 1.
    """
    return np.ones(len(units)) if cost is None else cost[units]
