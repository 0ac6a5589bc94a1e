"""A study in progress: whom to measure next, and what can be concluded so far.

Everything here is imported when it is first used, so that ``status`` and ``tell`` do not wait for the models.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from causalbald._money import Budget
    from causalbald.campaign._advice import Advice
    from causalbald.campaign._campaign import Campaign
    from causalbald.campaign._conclusions import Policy
    from causalbald.campaign._effects import AverageEffect, GroupEffect
    from causalbald.campaign._events import (
        BeliefSummary,
        Creation,
        Failure,
        Measurements,
        Pick,
        Round,
        Withdrawal,
    )
    from causalbald.campaign._preparation import Preparation, prepare
    from causalbald.campaign._settings import CampaignSettings
    from causalbald.campaign._simulation import Simulation, simulate
    from causalbald.campaign._telling import TellSummary
    from causalbald.campaign.storage import Event

_MODULES = {
    "_money": ("Budget",),
    "campaign._advice": ("Advice",),
    "campaign._campaign": ("Campaign",),
    "campaign._conclusions": ("Policy",),
    "campaign._effects": ("AverageEffect", "GroupEffect"),
    "campaign._events": ("BeliefSummary", "Creation", "Failure", "Measurements", "Pick", "Round", "Withdrawal"),
    "campaign._preparation": ("Preparation", "prepare"),
    "campaign._settings": ("CampaignSettings",),
    "campaign._simulation": ("Simulation", "simulate"),
    "campaign._telling": ("TellSummary",),
    "campaign.storage": ("Event",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Advice",
    "AverageEffect",
    "BeliefSummary",
    "Budget",
    "Campaign",
    "CampaignSettings",
    "Creation",
    "Event",
    "Failure",
    "GroupEffect",
    "Measurements",
    "Pick",
    "Policy",
    "Preparation",
    "Round",
    "Simulation",
    "TellSummary",
    "Withdrawal",
    "prepare",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"causalbald.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'causalbald.campaign' has no attribute {name!r}")
