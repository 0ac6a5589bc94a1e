"""Batches as tables, for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from causalbald.campaign._settings import CampaignSettings
from causalbald.tables._ids import Units


def batch_table(settings: CampaignSettings, units: Units, rounds: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return a row per unit of recorded batches, in their order.

    Without our own column of the outcome's name, if there is one: it would be told as outcomes.
    """
    rows = [unit | {"round": r["round"]} for r in rounds for unit in r["units"]]
    arms = settings.arms
    columns: dict[str, Any] = {
        settings.id: units.column(row["id"] for row in rows),
        "rank": pa.array([row["rank"] for row in rows], pa.int64()),
        "round": pa.array([row["round"] for row in rows], pa.int64()),
        settings.treatment: pa.array([arms[row["arm"]] for row in rows], pa.array(list(arms)).type),
        "by": pa.array([row["by"] for row in rows], pa.string()),
        "why": pa.array([row["why"] for row in rows], pa.string()),
    }
    for name in ("score", "effect", "lower", "upper", "propensity", "probability"):
        columns[name] = pa.array([row.get(name) for row in rows], pa.float64())
    columns["outside_support"] = pa.array([row["outside_support"] for row in rows], pa.bool_())
    if settings.cost is not None:
        columns[settings.cost] = pa.array([row["cost"] for row in rows], pa.float64())
    columns.pop(settings.outcome, None)
    return pa.table(columns)
