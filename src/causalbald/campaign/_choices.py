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

    Parameters
    ----------
    units : positions
        Units that may be chosen. ``budget`` pays for each alone.
    size : int
        How many units to choose at most.
    waiting : positions
        Units that are pending, or were chosen for this batch already.
    measured : positions
        Units that have an outcome.
    budget : Budget
        What the chosen units may cost together.
    rng : numpy.random.Generator
        Source of randomness; drawing from it changes the draws that follow.
    """

    units: Positions
    size: int
    waiting: Positions
    measured: Positions
    budget: Budget
    rng: np.random.Generator


@dataclass(frozen=True)
class Choice:
    """Units chosen in one way, the most important first, with a reason for each unit."""

    by: Reason
    units: Positions
    reasons: list[str]
    scores: Array | None = None
    """Score of each unit, (n,); None if the units were not chosen by score."""
    probability: float | None = None
    """Probability with which each unit was drawn; None if units were not drawn, or not with equal probability."""
