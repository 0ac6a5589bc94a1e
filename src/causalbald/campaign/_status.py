"""Where a campaign stands, in counts. Needs no model, and none of what a model needs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from causalbald._typing import Positions
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._state import State


def status(state: State, pool: CampaignPool, settings: CampaignSettings) -> dict[str, Any]:
    """Return counts by state and arm, rounds and money, as documented at ``Campaign.status``, which calls it.

    A unit that is both measured and withdrawn counts as measured. Failed units are also counted as available.
    """
    ids_by_state: dict[str, Collection[str]] = {
        "measured": state.outcomes,
        "pending": [u for u in state.pending if u not in state.outcomes],
        "failed": state.failed,
        "withdrawn": [u for u in state.withdrawn if u not in state.outcomes],
    }
    by_arm = {name: _per_arm(pool, ids) for name, ids in ids_by_state.items()}
    everyone = np.bincount(pool.arm, minlength=2)
    # Failed units can be asked for again.
    by_arm["available"] = everyone - by_arm["measured"] - by_arm["pending"] - by_arm["withdrawn"]
    by_arm["all"] = everyone
    left = settings.whole_budget.after(state.spent)
    return {
        "units": {
            name: {"all": int(counts.sum())} | dict(zip(settings.arm_names, counts.tolist(), strict=True))
            for name, counts in by_arm.items()
        },
        "rounds": len(state.rounds),
        "asked": state.asked,
        "spent": state.spent,
        "budget": settings.budget,
        "left": left.limit,
        "payable": int(left.pays_each(pool.costs(pool.without(state.closed))).sum()),
        "events": state.number,
    }


def _per_arm(pool: CampaignPool, ids: Collection[str]) -> Positions:
    """Return how many of the units with these ids are in each arm, control first."""
    return np.bincount(pool.arm[pool.units.positions(ids)], minlength=2)
