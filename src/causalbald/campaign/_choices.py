"""What the ways of choosing a batch share: whom they may choose, and what they return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from causalbald._money import Budget
from causalbald._typing import Array, Positions
from causalbald.campaign._events import Reason


@dataclass(frozen=True)
class Candidates:
    """Whom a part of a batch is chosen from.

    ``units`` may be chosen, and each alone can be paid; ``size`` of them are wanted at most, for no more than
    ``budget``. Units ``waiting`` are pending, or chosen for this batch already; units ``measured`` have an outcome.
    """

    units: Positions
    size: int
    waiting: Positions
    measured: Positions
    budget: Budget
    rng: np.random.Generator


@dataclass(frozen=True)
class Choice:
    """Units chosen in one way, the most important first, and the reason for each."""

    by: Reason
    units: Positions
    reasons: list[str]
    scores: Array | None = None
    """Score of each unit, (n,), if they were chosen by score."""
    probability: float | None = None
    """Probability with which each unit was drawn, if all were drawn with the same."""
