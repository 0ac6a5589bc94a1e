"""A campaign as one HTML file: what was learned, how far to trust it, and what was done."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalbald._files import replacing
from causalbald._version import __version__
from causalbald.campaign import Belief, advise, lacking_arm
from causalbald.errors import ApproximationWarning, InputError
from causalbald.report import _audits, _checks, _record
from causalbald.report._effects import Axis, findings
from causalbald.report._page import render

if TYPE_CHECKING:
    from causalbald.campaign import Campaign, State

USUAL_BATCH_SIZE = 10
RATIO_AXIS = Axis(0.0, 2.0)
"""Axis of the bars that compare a group's share of measured people with its share of all people."""


def write_report(campaign: Campaign, path: str | os.PathLike[str]) -> None:
    """Write the report on a campaign as one HTML file.

    The file appears when it is complete, and is no more open than the campaign's file.

    Parameters
    ----------
    campaign : Campaign
        The campaign; its model is fitted if an outcome is new.
    path : path
        The file to write. A file of that name is replaced.

    Raises
    ------
    InputError
        If the folder does not exist.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> from causalbald.report import write_report
    >>> people = pd.DataFrame({"id": range(40), "drug": [0, 1] * 20, "age": [40 + k % 7 for k in range(40)]})
    >>> campaign = Campaign.create(MemoryStorage(), people, id="id", treatment="drug", outcome="cd4")
    >>> path = Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(campaign, path)
    >>> path.read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"folder {str(target.parent)!r} does not exist: create it first.")
    page = campaign_page(campaign)
    with replacing(target, campaign.storage.file) as draft:
        draft.write_text(page, encoding="utf-8")


def campaign_page(campaign: Campaign) -> str:
    """Return the report on a campaign as one HTML page that needs neither network nor scripts.

    The model is fitted if an outcome is new. If enough audits were measured, it is fitted once more without their
    outcomes. The same campaign gives the same page with the same versions of packages.

    Parameters
    ----------
    campaign : Campaign
        An open campaign. Nothing is recorded in it.

    Returns
    -------
    str
        HTML, from what was believed to how the campaign was set up. Without two outcomes in each arm, the page has no
        effects.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> from causalbald.report import campaign_page
    >>> people = pd.DataFrame({"id": range(40), "drug": [0, 1] * 20, "age": [40 + k % 7 for k in range(40)]})
    >>> campaign = Campaign.create(MemoryStorage(), people, id="id", treatment="drug", outcome="cd4")
    >>> "Nobody has been asked for yet" in campaign_page(campaign)
    True
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)  # the page itself says so
        return _page(campaign)


def _page(campaign: Campaign) -> str:
    """Return the page, with each computation done once. Called by :func:`campaign_page`.

    The state is read first, and later events are left out. So the page is about one moment, whatever other processes
    record meanwhile. Without two outcomes in each arm there is no belief, and findings and audits are None.
    """
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
        findings=findings(belief, [c.name for c in campaign.columns]) if belief else None,
        overlap=_checks.overlap(state, pool, settings, campaign.columns),
        groups=groups,
        left_out=[(g["column"], row["group"]) for g in groups for row in g["rows"] if row["under_measured"]],
        ratio_axis=RATIO_AXIS,
        audit=_audits.audit(state, pool, settings) if belief else None,
        enough_audits=_audits.MIN_AUDITS,
        progress=_record.progress(state, belief, events),
        requests=_record.requests(state, settings),
        changes=_record.changes(events),
        max_changes=_record.MAX_CHANGES,
        **_counts(campaign, state),
        **_origin(campaign, state),
        **_advice(campaign, state, belief),
    )


def _counts(campaign: Campaign, state: State) -> dict[str, Any]:
    """Return numbers for the page: people, outcomes, people who are pending, money spent and events.

    ``binary`` says whether all outcomes are 0 or 1. It is False if the campaign declares them continuous.
    """
    return {
        "people": len(campaign.pool),
        "measured": len(state.outcomes),
        "pending": sum(unit not in state.outcomes for unit in state.pending),
        "spent": state.spent,
        "events": state.number,
        "binary": campaign.settings.outcome_type != "continuous" and {*state.outcomes.values()} <= {0.0, 1.0},
    }


def _origin(campaign: Campaign, state: State) -> dict[str, Any]:
    """Return how the campaign was set up: its covariates and the questions that were put to the user.

    With them come the versions of packages that it was run with, and that of this package.
    """
    return {
        "columns": _record.covariates(campaign.columns),
        "column_count": len(campaign.columns),
        "questions": state.start.questions,
        "versions": _record.versions(state),
        "version": __version__,
    }


def _advice(campaign: Campaign, state: State, belief: Belief | None) -> dict[str, Any]:
    """Return ``batch``, a size for the next batch, and ``advice`` on a batch of that size.

    The size is that of the last batch, or ``USUAL_BATCH_SIZE`` before the first. Without a belief, ``advice`` is None.
    """
    size = len(state.rounds[-1].picks) if state.rounds else USUAL_BATCH_SIZE
    if belief is None:
        return {"advice": None, "batch": size}
    return {"advice": advise(state, campaign.pool, campaign.settings, size, belief), "batch": size}
