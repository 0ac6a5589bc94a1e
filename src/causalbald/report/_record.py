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
    """Rounds, and what was believed after each of them.

    The belief after a round is that when the next batch was asked for. After the last round, it is the present one.
    """

    rounds: list[dict[str, Any]]
    """A row for each of the last ``MAX_ROUNDS`` rounds, the oldest first.

    ``after`` is the round's number, ``time`` when it was asked for, and ``asked`` and ``told`` are numbers of units in
    arm 0 and 1. ``belief`` is None if no model could be fitted. ``drift`` is the share of people whose recommendation
    differs from that in the row before, or None. The row of the start, if there is one, has ``after`` 0, no time, and
    neither ``asked`` nor ``told``.
    """
    count: int
    """How many rounds there were in all."""
    picture: Markup | None
    """The beliefs of all rounds as a figure; None if there are fewer than two."""
    people: int | None
    """How many people the present belief's summary is about; None if no model can be fitted."""


def progress(state: State, belief: Belief | None, events: Sequence[Event]) -> Progress:
    """Return the last rounds, and what was believed after each. Called by ``_campaign_page``.

    If a model could be fitted before the first round, the start has a row, too. ``belief`` is the present belief, None
    if no model can be fitted. ``events`` are all events of the campaign up to ``state``.
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
    """Who was asked for, for the page."""

    rows: list[dict[str, Any]]
    """A row for each of the last ``MAX_REQUESTS`` requests, the newest round first, each round in order of rank.

    A row has the fields of the pick; ``round``, its number; ``arm``, its name; ``state``; and ``outcome``, or None.
    """
    count: int
    """How many requests there were in all; a unit that was asked for again counts again."""
    unasked: int
    """How many outcomes are of units that were never asked for."""


def requests(state: State, settings: CampaignSettings) -> Requests:
    """Return who was asked for, why, and what became of each request. Called by ``_campaign_page``.

    If a unit was asked for several times, its state and outcome are in the row of the last request. The rows before it
    have the state "asked for again".
    """
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
    """Return a row for each outcome that was corrected, each failure and each withdrawal, the newest first.

    A row has ``time``, ``what``, ``id`` and ``detail``: the values before and after a correction, or the reason.
    """
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
    """Return ``name``, ``kind`` and ``encoding`` in words of each of the first ``MAX_COVARIATES`` covariates."""
    return [{"name": c.name, "kind": c.kind, "encoding": _encoding(c)} for c in columns[:MAX_COVARIATES]]


def versions(state: State) -> list[str]:
    """Return a text for each set of package versions that the campaign was run with, oldest first, each once.

    The sets are those that created the campaign and chose its batches. A text is such as ``numpy 2.1, scipy 1.14``.
    """
    used = [state.start.versions, *(r.versions for r in state.rounds)]
    written = (", ".join(f"{name} {version}" for name, version in packages.items()) for packages in used if packages)
    return list(dict.fromkeys(written))


def _by_arm(arms: Sequence[int]) -> list[int]:
    """Return how many of ``arms``, each 0 or 1, are 0 and how many are 1."""
    counts: list[int] = np.bincount(np.asarray(arms, dtype=np.intp), minlength=2).tolist()
    return counts


def _drift(before: BeliefSummary | None, now: BeliefSummary | None) -> float | None:
    """Return the share of people whose recommendation differs between two beliefs.

    None is returned if a belief is missing, or if the beliefs are about different numbers of people.
    """
    if before is None or now is None or len(before.policy) != len(now.policy):
        return None
    return float(np.mean([a != b for a, b in zip(before.policy, now.policy, strict=True)]))


def _encoding(column: Column) -> str:
    """Return in words how a covariate becomes numbers.

    Numbers stay as they are or get the median for missing values; categories become columns of 0 and 1.
    """
    if column.kind == "numeric":
        missing = f"missing values become {column.fill:g}, the median, and a column says so"
        return missing if column.indicator else "as it is"
    base, n_columns = column.levels[0], len(column.levels) - 1
    columns = "a column" if n_columns == 1 else f"{n_columns} columns"
    return f"{columns} of 0 and 1, compared with {visible(base, 40)}" if n_columns else f"always {visible(base, 40)}"
