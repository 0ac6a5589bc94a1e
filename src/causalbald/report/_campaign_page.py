"""A campaign as one HTML file: what was learned, how far to trust it, and what was done."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalbald._files import replacing
from causalbald._version import __version__
from causalbald.campaign._advice import advise
from causalbald.campaign._belief import Belief, lacking_arm
from causalbald.errors import ApproximationWarning, InputError
from causalbald.report import _checks, _record
from causalbald.report._learned import Axis, learn
from causalbald.report._page import render

if TYPE_CHECKING:
    from causalbald.campaign import Campaign
    from causalbald.campaign._state import State

_USUAL_BATCH = 10
_RATIOS = Axis(0.0, 2.0)


def write_report(campaign: Campaign, path: str | os.PathLike[str]) -> None:
    """Write the page of a campaign; the file appears when it is whole."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"folder {str(target.parent)!r} does not exist: create it first.")
    page = campaign_page(campaign)
    with replacing(target, campaign.storage.file) as beside:
        beside.write_text(page, encoding="utf-8")


def campaign_page(campaign: Campaign) -> str:
    """Return a campaign as one HTML page that needs neither network nor scripts.

    Fits the model if an outcome is new, and once more without the audits' outcomes if there are enough of them. The
    same campaign gives the same page on the same versions.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)  # the page itself says so
        return _page(campaign)


def _page(campaign: Campaign) -> str:
    # Nothing below looks for new events: the page is about one moment, whatever other processes record meanwhile.
    state, pool, settings = campaign.state, campaign.pool, campaign.settings
    events = [e for e in campaign.storage.events() if e.number <= state.number]
    lacking = lacking_arm(state, pool)
    belief = campaign.belief() if lacking is None else None
    groups = _checks.who_was_measured(state, pool, settings) if state.outcomes else []
    return render(
        "campaign.html",
        settings=settings,
        control=settings.arm_names[0],
        treated=settings.arm_names[1],
        lacking=None if lacking is None else settings.arm_names[lacking],
        date=events[-1].time,
        learned=learn(belief, [c.name for c in campaign.columns]) if belief else None,
        overlap=_checks.overlap(state, pool, settings, campaign.columns),
        groups=groups,
        left_out=[(g["column"], row["group"]) for g in groups for row in g["rows"] if row["under_measured"]],
        ratio_axis=_RATIOS,
        audit=_checks.audit(state, pool, settings) if belief else None,
        enough_audits=_checks.ENOUGH_AUDITS,
        progress=_record.progress(state, belief, events),
        asked=_record.asked(state, settings),
        changes=_record.changes(events),
        most_changes=_record.MOST_CHANGES,
        **_counts(campaign, state),
        **_origin(campaign, state),
        **_advice(campaign, state, belief),
    )


def _counts(campaign: Campaign, state: State) -> dict[str, Any]:
    return {
        "people": len(campaign.pool),
        "measured": len(state.outcomes),
        "pending": sum(unit not in state.outcomes for unit in state.pending),
        "spent": state.spent,
        "events": state.number,
        "binary": campaign.settings.outcome_type != "continuous" and {*state.outcomes.values()} <= {0.0, 1.0},
    }


def _origin(campaign: Campaign, state: State) -> dict[str, Any]:
    """Return how the campaign began, and with which versions it went on."""
    return {
        "columns": _record.covariates(campaign.columns),
        "column_count": len(campaign.columns),
        "questions": state.start.questions,
        "versions": _record.versions(state),
        "version": __version__,
    }


def _advice(campaign: Campaign, state: State, belief: Belief | None) -> dict[str, Any]:
    """Return advice on a batch as large as the last one."""
    size = len(state.rounds[-1].picks) if state.rounds else _USUAL_BATCH
    if belief is None:
        return {"advice": None, "batch": size}
    return {"advice": advise(state, campaign.pool, campaign.settings, size, belief), "batch": size}
