"""A study in progress: whom to measure next, and what can be concluded so far.

Everything here is imported when it is first used, so that ``status`` and ``tell`` do not wait for the models.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from causalbald._money import Budget
    from causalbald.campaign._advice import Advice, advise
    from causalbald.campaign._batch_files import batch_table
    from causalbald.campaign._belief import Belief
    from causalbald.campaign._campaign import Campaign
    from causalbald.campaign._conclusions import Conclusions, Policy, conclude
    from causalbald.campaign._effects import AverageEffect, Effects, GroupEffect, groups_of
    from causalbald.campaign._events import (
        BeliefSummary,
        Creation,
        Failure,
        Measurements,
        Pick,
        Round,
        Withdrawal,
        happening,
    )
    from causalbald.campaign._outcome_counts import lacking_arm
    from causalbald.campaign._pool import CampaignPool
    from causalbald.campaign._preparation import Preparation, prepare
    from causalbald.campaign._settings import CampaignSettings
    from causalbald.campaign._simulation import Simulation, simulate
    from causalbald.campaign._state import State
    from causalbald.campaign._telling import Outcomes, TellSummary, outcomes_of
    from causalbald.campaign.storage import Event

_MODULES = {
    "_money": ("Budget",),
    "campaign._advice": ("Advice", "advise"),
    "campaign._batch_files": ("batch_table",),
    "campaign._belief": ("Belief",),
    "campaign._outcome_counts": ("lacking_arm",),
    "campaign._campaign": ("Campaign",),
    "campaign._conclusions": ("Conclusions", "Policy", "conclude"),
    "campaign._effects": ("AverageEffect", "Effects", "GroupEffect", "groups_of"),
    "campaign._events": (
        "BeliefSummary",
        "Creation",
        "Failure",
        "Measurements",
        "Pick",
        "Round",
        "Withdrawal",
        "happening",
    ),
    "campaign._pool": ("CampaignPool",),
    "campaign._preparation": ("Preparation", "prepare"),
    "campaign._settings": ("CampaignSettings",),
    "campaign._simulation": ("Simulation", "simulate"),
    "campaign._state": ("State",),
    "campaign._telling": ("Outcomes", "TellSummary", "outcomes_of"),
    "campaign.storage": ("Event",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Advice",
    "AverageEffect",
    "Belief",
    "BeliefSummary",
    "Budget",
    "Campaign",
    "CampaignPool",
    "CampaignSettings",
    "Conclusions",
    "Creation",
    "Effects",
    "Event",
    "Failure",
    "GroupEffect",
    "Measurements",
    "Outcomes",
    "Pick",
    "Policy",
    "Preparation",
    "Round",
    "Simulation",
    "State",
    "TellSummary",
    "Withdrawal",
    "advise",
    "batch_table",
    "conclude",
    "groups_of",
    "happening",
    "lacking_arm",
    "outcomes_of",
    "prepare",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Import and return an exported object when it is first used."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"causalbald.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'causalbald.campaign' has no attribute {name!r}")
