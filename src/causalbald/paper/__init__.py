"""What only reproduces the paper: its figures, its search for hyper-parameters, and published rivals.

Each name is imported from its module when the name is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from causalbald.paper._bias import MeasuredSet, bias
    from causalbald.paper._evolution import StudyHistory, evolution
    from causalbald.paper._observational import digits, draw_benchmark, observational
    from causalbald.paper._rivals import fccm, lcmd, macal, qhte
    from causalbald.paper._tuning import TuningResult, tune
    from causalbald.paper._tuning_task import expected_log_likelihood

_MODULES = {
    "_bias": ("MeasuredSet", "bias"),
    "_evolution": ("StudyHistory", "evolution"),
    "_observational": ("digits", "draw_benchmark", "observational"),
    "_rivals": ("fccm", "lcmd", "macal", "qhte"),
    "_tuning": ("TuningResult", "tune"),
    "_tuning_task": ("expected_log_likelihood",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "MeasuredSet",
    "StudyHistory",
    "TuningResult",
    "bias",
    "digits",
    "draw_benchmark",
    "evolution",
    "expected_log_likelihood",
    "fccm",
    "lcmd",
    "macal",
    "observational",
    "qhte",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import the module that defines a public name, and return what the name stands for. Called by Python."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"causalbald.paper.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'causalbald.paper' has no attribute {name!r}")
