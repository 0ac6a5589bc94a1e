"""What happened in a campaign, for its page: rounds and what was believed after them, who was asked for, settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from causalbald._words import amount, visible
from causalbald.campaign import (
    Belief,
    BeliefSummary,
    CampaignSettings,
    Failure,
    Measurements,
    Round,
    State,
    Withdrawal,
    happening,
)
from causalbald.campaign.storage import Event
from causalbald.figures import draw_progress
from causalbald.report._page import figure_svg
from causalbald.tables import Column

MAX_ROUNDS, MAX_REQUESTS, MAX_CHANGES, MAX_COVARIATES = 60, 200, 100, 100
"""How many rows the tables of the page have; the latest are shown, and the first covariates."""


@dataclass(frozen=True)
class Progress:
    """Rounds, and what was believed after each of them: when the next batch was asked for, or now."""

    rounds: list[dict[str, Any]]
    """A row for each of the last rounds."""
    count: int
    """How many rounds there were in all."""
    picture: Markup | None
    people: int | None
    """How many people the beliefs are about."""


def progress(state: State, belief: Belief | None, events: Sequence[Event]) -> Progress:
    """Return the last rounds. If a model could be fitted before the first round, the start has a row, too.

    ``belief`` is the present belief, None if no model can be fitted; ``events`` are all events of the campaign.
    """
    beliefs = [r.belief for r in state.rounds] + [belief.summary() if belief else None]
    asked_events = [event for event in events if event.kind == Round.kind]
    latest = state.latest_picks
    rows: list[dict[str, Any]] = [{"after": 0, "time": ""}] if beliefs[0] else []
    for r, event in zip(state.rounds, asked_events, strict=True):
        told = [pick.arm for pick in r.picks if latest[pick.id][0] == r.number and pick.id in state.outcomes]
        numbers = {"asked": _by_arm([pick.arm for pick in r.picks]), "told": _by_arm(told)}
        rows.append({"after": r.number, "time": event.time} | numbers)
    for row in rows:
        row["belief"] = beliefs[row["after"]]
        row["drift"] = _drift(beliefs[row["after"] - 1] if row["after"] else None, row["belief"])
    drawn = [{"after": row["after"]} | row["belief"].to_json() for row in rows if row["belief"]]
    picture = figure_svg(draw_progress(pd.DataFrame(drawn)), "Progress over rounds") if len(drawn) > 1 else None
    people = len(belief.sample) if belief else None
    return Progress(rows[-MAX_ROUNDS:], len(state.rounds), picture, people)


@dataclass(frozen=True)
class Requests:
    """Who was asked for."""

    rows: list[dict[str, Any]]
    """A row for each of the last units asked for, the newest first."""
    count: int
    """How many units were asked for in all."""
    unasked: int
    """How many outcomes are of units that were never asked for."""


def requests(state: State, settings: CampaignSettings) -> Requests:
    """Return who was asked for, why, and what became of it."""
    latest = state.latest_picks
    picks = [(r.number, pick) for r in state.rounds for pick in r.picks]
    rows = []
    for number, pick in sorted(picks[-MAX_REQUESTS:], key=lambda request: (-request[0], request[1].rank)):
        is_latest = latest[pick.id][0] == number
        outcome = {
            "arm": settings.arm_names[pick.arm],
            "state": state.of(pick.id) if is_latest else "asked for again",
            "outcome": state.outcomes.get(pick.id) if is_latest else None,
        }
        rows.append(vars(pick) | {"round": number} | outcome)
    return Requests(rows, len(picks), sum(unit not in latest for unit in state.outcomes))


def changes(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return a row for each outcome that was corrected, each failure and each withdrawal, the newest first."""
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
    """Return a row for each of the first covariates: its kind, and how it becomes numbers."""
    return [{"name": c.name, "kind": c.kind, "encoding": _encoding(c)} for c in columns[:MAX_COVARIATES]]


def versions(state: State) -> list[str]:
    """Return the versions of packages that created the campaign and chose its batches, oldest first, each once."""
    used = [state.start.versions, *(r.versions for r in state.rounds)]
    written = (", ".join(f"{name} {version}" for name, version in packages.items()) for packages in used if packages)
    return list(dict.fromkeys(written))


def _by_arm(arms: Sequence[int]) -> list[int]:
    """Return how many units are in arm 0 and in arm 1."""
    counts: list[int] = np.bincount(np.asarray(arms, dtype=np.intp), minlength=2).tolist()
    return counts


def _drift(before: BeliefSummary | None, now: BeliefSummary | None) -> float | None:
    """Return the share of people whose recommendation has changed; None without two beliefs about equally many."""
    if before is None or now is None or len(before.policy) != len(now.policy):
        return None
    return float(np.mean([a != b for a, b in zip(before.policy, now.policy, strict=True)]))


def _encoding(column: Column) -> str:
    """Return in words how a covariate becomes numbers."""
    if column.kind == "numeric":
        missing = f"missing values become {column.fill:g}, the median, and a column says so"
        return missing if column.indicator else "as it is"
    base, n_columns = column.levels[0], len(column.levels) - 1
    columns = "a column" if n_columns == 1 else f"{n_columns} columns"
    return f"{columns} of 0 and 1, compared with {visible(base, 40)}" if n_columns else f"always {visible(base, 40)}"
