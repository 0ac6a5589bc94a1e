"""Whether there are outcomes enough for a model. Asked before the models are imported, which takes seconds."""

from __future__ import annotations

import numpy as np

from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._state import State
from causalbald.errors import InputError

MIN_OUTCOMES_PER_ARM = 2
"""Outcomes that an arm needs before a model is fitted."""


def lacking_arm(state: State, pool: CampaignPool) -> int | None:
    """Return the arm with the fewest outcomes if these are too few for a model; None if both arms have enough.

    An arm needs ``MIN_OUTCOMES_PER_ARM`` outcomes. Without any outcome the treated arm is returned.

    Parameters
    ----------
    state : State
        Where the campaign stands.
    pool : CampaignPool
        All units of the campaign.

    Returns
    -------
    int or None
        0 for control, 1 for treated.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign, lacking_arm
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> columns = {"id": "patient", "treatment": "drug", "outcome": "cd4"}
    >>> campaign = Campaign.create(MemoryStorage(), pool, **columns)
    >>> _ = campaign.tell({0: 1.5, 2: 1.0, 3: 2.0})
    >>> lacking_arm(campaign.state, campaign.pool)
    1
    """
    if not state.outcomes:
        return 1
    counts = np.bincount(pool.arm[pool.units.positions(state.outcomes)], minlength=2)
    return int(np.argmin(counts)) if counts.min() < MIN_OUTCOMES_PER_ARM else None


def too_few_outcomes(state: State, pool: CampaignPool, settings: CampaignSettings) -> InputError:
    """Return the error for a question that needs a model while an arm lacks outcomes. Nothing is raised here.

    Called by ``Campaign.belief`` once :func:`lacking_arm` has found such an arm.
    """
    arm = lacking_arm(state, pool)
    return InputError(
        f"an effect needs at least {MIN_OUTCOMES_PER_ARM} outcomes from each arm, and "
        f"{settings.arm_names[arm or 0]!r} has fewer: tell some first ({len(state.outcomes)} are known)."
    )
