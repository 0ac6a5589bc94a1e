"""Where a campaign stands, in counts. Needs no model, and none of what a model needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from causalbald._money import spendable
from causalbald._typing import Positions
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._state import State


def status(state: State, pool: CampaignPool, settings: CampaignSettings) -> dict[str, Any]:
    """Return counts by state and arm, rounds and money."""
    known = {
        "measured": list(state.outcomes),
        "pending": [u for u in state.pending if u not in state.outcomes],
        "failed": list(state.failed),
        "withdrawn": [u for u in state.withdrawn if u not in state.outcomes],
    }
    by_arm = {name: _per_arm(pool, units) for name, units in known.items()}
    everyone = np.bincount(pool.arm, minlength=2)
    # Failed units can be asked for again.
    by_arm["available"] = everyone - by_arm["measured"] - by_arm["pending"] - by_arm["withdrawn"]
    by_arm["all"] = everyone
    return {
        "units": {
            name: {"all": int(counts.sum())} | dict(zip(settings.arm_names, counts.tolist(), strict=True))
            for name, counts in by_arm.items()
        },
        "rounds": len(state.rounds),
        "asked": state.asked,
        "spent": state.spent,
        "budget": settings.budget,
        "left": settings.left(state.spent),
        "payable": _payable(state, pool, settings),
        "events": state.number,
    }


def _payable(state: State, pool: CampaignPool, settings: CampaignSettings) -> int:
    """Return how many can be asked for, each of whom alone can be paid."""
    closed, left = state.closed, settings.left(state.spent)
    if left is None or pool.cost is None:
        return len(pool) - len(closed) if left is None or left >= 1 else 0
    return int((np.delete(pool.cost, pool.units.positions(closed)) <= spendable(left)).sum())


def _per_arm(pool: CampaignPool, units: Sequence[str]) -> Positions:
    where = pool.units.positions(units)
    return np.bincount(pool.arm[where], minlength=2)
