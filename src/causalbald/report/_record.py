"""What happened in a campaign, for its page: rounds and what was believed after them, who was asked for, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from causalbald._words import amount, visible
from causalbald.campaign._belief import Belief
from causalbald.campaign._events import Event
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._state import State
from causalbald.figures._campaign import draw_progress
from causalbald.report._page import figure_svg
from causalbald.tables._columns import Column

MOST_ROUNDS = 60
MOST_ASKED = 200
MOST_CHANGES = 100
MOST_COVARIATES = 100
_BELIEF = ("expected_error", "ate", "ate_lower", "ate_upper", "settled", "treated")


@dataclass(frozen=True)
class Progress:
    """Rounds, with what was believed after each of them: when the next batch was asked for, or now."""

    rounds: list[dict[str, Any]]
    count: int
    picture: Markup | None
    people: int | None
    """How many people the beliefs are about."""


def progress(state: State, belief: Belief | None, events: Sequence[Event]) -> Progress:
    """Return the last rounds; a row for the start, too, if a model could be fitted before the first one."""
    beliefs = [r.get("belief") for r in state.rounds] + [belief.summary() if belief else None]
    asked = [e for e in events if e.kind == "asked"]
    last = _last_round(state)
    rows: list[dict[str, Any]] = [{"after": 0, "time": ""}] if beliefs[0] else []
    for r, event in zip(state.rounds, asked, strict=True):
        own = [u for u in r["units"] if last[u["id"]] == r["round"]]
        told = [u["arm"] for u in own if u["id"] in state.outcomes]
        numbers = {"asked": _by_arm([u["arm"] for u in r["units"]]), "told": _by_arm(told)}
        rows.append({"after": r["round"], "time": event.time} | numbers)
    for row in rows:
        found, before = beliefs[row["after"]], beliefs[row["after"] - 1] if row["after"] else None
        row["drift"] = _drift(before, found)
        row["belief"] = {name: found[name] for name in _BELIEF} if found else None
    drawn = [{"after": row["after"]} | row["belief"] for row in rows if row["belief"]]
    picture = figure_svg(draw_progress(pd.DataFrame(drawn)), "Progress over rounds") if len(drawn) > 1 else None
    people = len(belief.sample) if belief else None
    return Progress(rows[-MOST_ROUNDS:], len(state.rounds), picture, people)


@dataclass(frozen=True)
class AskedRound:
    """The last units asked for, a row each, the newest first; how many there were in all."""

    rows: list[dict[str, Any]]
    count: int
    unasked: int
    """Outcomes of units that were never asked for."""


def asked(state: State, settings: CampaignSettings) -> AskedRound:
    """Return who was asked for, why, and what came of it."""
    last = _last_round(state)
    entries = [unit | {"round": r["round"]} for r in state.rounds for unit in r["units"]]
    rows = []
    for entry in sorted(entries[-MOST_ASKED:], key=lambda e: (-e["round"], e["rank"])):
        unit, current = entry["id"], last[entry["id"]] == entry["round"]
        known = {"arm": settings.arm_names[entry["arm"]], "state": state.of(unit) if current else "asked for again"}
        rows.append(entry | known | {"outcome": state.outcomes.get(unit) if current else None})
    return AskedRound(rows, len(entries), sum(unit not in last for unit in state.outcomes))


def changes(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return corrected outcomes, failures and withdrawals, a row per unit, the newest first."""
    rows = []
    for event in events:
        if event.kind == "told":
            for unit, before in event.body.get("before", {}).items():
                detail = f"{amount(before)} became {amount(event.body['outcomes'][unit])}"
                rows.append({"time": event.time, "what": "corrected", "id": unit, "detail": detail})
        elif event.kind in ("failed", "withdrawn"):
            head = {"time": event.time, "what": event.kind, "detail": event.body["reason"]}
            rows += [head | {"id": unit} for unit in event.body["units"]]
    return rows[::-1]


def covariates(columns: Sequence[Column]) -> list[dict[str, str]]:
    """Return each covariate with its kind and how it becomes numbers."""
    return [{"name": c.name, "kind": c.kind, "encoding": _encoding(c)} for c in columns[:MOST_COVARIATES]]


def versions(state: State) -> list[str]:
    """Return all versions of packages with which the campaign was created and its batches chosen, oldest first."""
    used = [state.created.get("versions", {}), *(r.get("versions", {}) for r in state.rounds)]
    written = (", ".join(f"{package} {version}" for package, version in found.items()) for found in used if found)
    return list(dict.fromkeys(written))


def _last_round(state: State) -> dict[str, int]:
    """Return the last round in which each unit was asked for."""
    return {unit["id"]: r["round"] for r in state.rounds for unit in r["units"]}


def _by_arm(arms: Sequence[int]) -> list[int]:
    counts: list[int] = np.bincount(np.asarray(arms, dtype=np.intp), minlength=2).tolist()
    return counts


def _drift(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> float | None:
    """Return the share of people whose recommendation has changed."""
    if not before or not now or len(before["policy"]) != len(now["policy"]):
        return None
    return float(np.mean([a != b for a, b in zip(before["policy"], now["policy"], strict=True)]))


def _encoding(column: Column) -> str:
    if column.kind == "numeric":
        missing = f"missing values become {column.fill:g}, the median, and a column says so"
        return missing if column.indicator else "as it is"
    base, rest = column.levels[0], len(column.levels) - 1
    columns = "a column" if rest == 1 else f"{rest} columns"
    return f"{columns} of 0 and 1, compared with {visible(base, 40)}" if rest else f"always {visible(base, 40)}"
