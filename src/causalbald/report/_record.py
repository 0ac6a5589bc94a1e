"""What happened in a campaign, for its page: rounds and what was believed after them, who was asked for, settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from causalbald._words import amount, visible
from causalbald.campaign import BeliefSummary, CampaignSettings, Failure, Measurements, Round, Withdrawal
from causalbald.campaign._belief import Belief
from causalbald.campaign._events import happening
from causalbald.campaign._state import State
from causalbald.campaign.storage import Event
from causalbald.figures._campaign import draw_progress
from causalbald.report._page import figure_svg
from causalbald.tables import Column

MOST_ROUNDS = 60
MOST_ASKED = 200
MOST_CHANGES = 100
MOST_COVARIATES = 100


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
    beliefs = [r.belief for r in state.rounds] + [belief.summary() if belief else None]
    asked = [e for e in events if e.kind == Round.kind]
    latest = state.latest_picks
    rows: list[dict[str, Any]] = [{"after": 0, "time": ""}] if beliefs[0] else []
    for r, event in zip(state.rounds, asked, strict=True):
        told = [pick.arm for pick in r.picks if latest[pick.id][0] == r.number and pick.id in state.outcomes]
        numbers = {"asked": _by_arm([pick.arm for pick in r.picks]), "told": _by_arm(told)}
        rows.append({"after": r.number, "time": event.time} | numbers)
    for row in rows:
        row["belief"] = beliefs[row["after"]]
        row["drift"] = _drift(beliefs[row["after"] - 1] if row["after"] else None, row["belief"])
    drawn = [{"after": row["after"]} | row["belief"].to_json() for row in rows if row["belief"]]
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
    latest = state.latest_picks
    picks = [(r.number, pick) for r in state.rounds for pick in r.picks]
    rows = []
    for number, pick in sorted(picks[-MOST_ASKED:], key=lambda asked: (-asked[0], asked[1].rank)):
        is_latest = latest[pick.id][0] == number
        outcome = {
            "arm": settings.arm_names[pick.arm],
            "state": state.of(pick.id) if is_latest else "asked for again",
            "outcome": state.outcomes.get(pick.id) if is_latest else None,
        }
        rows.append(vars(pick) | {"round": number} | outcome)
    return AskedRound(rows, len(picks), sum(unit not in latest for unit in state.outcomes))


def changes(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return corrected outcomes, failures and withdrawals, a row per unit, the newest first."""
    rows = []
    for event in events:
        content = happening(event)
        if isinstance(content, Measurements):
            for unit, before in (content.before or {}).items():
                detail = f"{amount(before)} became {amount(content.outcomes[unit])}"
                rows.append({"time": event.time, "what": "corrected", "id": unit, "detail": detail})
        elif isinstance(content, Failure | Withdrawal):
            head = {"time": event.time, "what": event.kind, "detail": content.reason}
            rows += [head | {"id": unit} for unit in content.units]
    return rows[::-1]


def covariates(columns: Sequence[Column]) -> list[dict[str, str]]:
    """Return each covariate with its kind and how it becomes numbers."""
    return [{"name": c.name, "kind": c.kind, "encoding": _encoding(c)} for c in columns[:MOST_COVARIATES]]


def versions(state: State) -> list[str]:
    """Return all versions of packages with which the campaign was created and its batches chosen, oldest first."""
    used = [state.start.versions, *(r.versions for r in state.rounds)]
    written = (", ".join(f"{name} {version}" for name, version in packages.items()) for packages in used if packages)
    return list(dict.fromkeys(written))


def _by_arm(arms: Sequence[int]) -> list[int]:
    counts: list[int] = np.bincount(np.asarray(arms, dtype=np.intp), minlength=2).tolist()
    return counts


def _drift(before: BeliefSummary | None, now: BeliefSummary | None) -> float | None:
    """Return the share of people whose recommendation has changed; None without two beliefs about equally many."""
    if before is None or now is None or len(before.policy) != len(now.policy):
        return None
    return float(np.mean([a != b for a, b in zip(before.policy, now.policy, strict=True)]))


def _encoding(column: Column) -> str:
    if column.kind == "numeric":
        missing = f"missing values become {column.fill:g}, the median, and a column says so"
        return missing if column.indicator else "as it is"
    base, rest = column.levels[0], len(column.levels) - 1
    columns = "a column" if rest == 1 else f"{rest} columns"
    return f"{columns} of 0 and 1, compared with {visible(base, 40)}" if rest else f"always {visible(base, 40)}"
