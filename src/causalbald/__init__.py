"""Whose outcome to measure next, so that you learn who benefits with the fewest measurements.

Submodules are imported when first used, so that ``import causalbald`` stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from causalbald._version import __version__

if TYPE_CHECKING:
    from causalbald import (
        acquisition,
        campaign,
        datasets,
        diagnostics,
        errors,
        experiments,
        figures,
        metrics,
        models,
        paper,
        pools,
        report,
        selection,
        tables,
        testing,
    )
    from causalbald.campaign import Campaign
    from causalbald.posterior import Posterior

__all__ = [
    "Campaign",
    "Posterior",
    "__version__",
    "acquisition",
    "campaign",
    "datasets",
    "diagnostics",
    "errors",
    "experiments",
    "figures",
    "metrics",
    "models",
    "paper",
    "pools",
    "report",
    "selection",
    "tables",
    "testing",
]

_CLASSES = {"Campaign": "causalbald.campaign", "Posterior": "causalbald.posterior"}


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return getattr(importlib.import_module(_CLASSES[name]), name)
    if name in __all__:
        return importlib.import_module(f"causalbald.{name}")
    raise AttributeError(f"module 'causalbald' has no attribute {name!r}")
