"""Batches as tables, for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from causalbald.campaign._events import Round
from causalbald.campaign._settings import CampaignSettings
from causalbald.tables import Ids


def batch_table(settings: CampaignSettings, units: Ids, rounds: Iterable[Round]) -> pa.Table:
    """Return a table of batches with a row per pick, in the order of the batches and of their ranks.

    If the user's outcome has the name of a column of the table, such as ``score``, that column is left out. Otherwise
    ``tell`` would read it as outcomes. Called by ``Campaign.ask`` and ``Campaign.pending``.

    Parameters
    ----------
    settings : CampaignSettings
        Names the columns and the arms.
    units : Ids
        Of the pool.
    rounds : iterable of Round
        The batches, or parts of them.

    Returns
    -------
    Arrow table
        Id, ``rank, round``, treatment, ``by, why, score, effect, lower, upper, propensity, probability,
        outside_support``, and the cost if the settings name a column of costs. Where a pick has None, the cell is null.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign, batch_table
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> columns = {"id": "patient", "treatment": "drug", "outcome": "cd4"}
    >>> campaign = Campaign.create(MemoryStorage(), pool, **columns)
    >>> table = batch_table(campaign.settings, campaign.pool.units, [])
    >>> table.column_names[:4]
    ['patient', 'rank', 'round', 'drug']
    """
    batches = list(rounds)
    picks = [pick for batch in batches for pick in batch.picks]
    arms = settings.arms
    columns: dict[str, Any] = {
        settings.id: units.as_column(pick.id for pick in picks),
        "rank": pa.array([pick.rank for pick in picks], pa.int64()),
        "round": pa.array([batch.number for batch in batches for _ in batch.picks], pa.int64()),
        settings.treatment: pa.array([arms[pick.arm] for pick in picks], pa.array(list(arms)).type),
        "by": pa.array([pick.by for pick in picks], pa.string()),
        "why": pa.array([pick.why for pick in picks], pa.string()),
    }
    for name in ("score", "effect", "lower", "upper", "propensity", "probability"):
        columns[name] = pa.array([getattr(pick, name) for pick in picks], pa.float64())
    columns["outside_support"] = pa.array([pick.outside_support for pick in picks], pa.bool_())
    if settings.cost is not None:
        columns[settings.cost] = pa.array([pick.cost for pick in picks], pa.float64())
    columns.pop(settings.outcome, None)
    return pa.table(columns)
