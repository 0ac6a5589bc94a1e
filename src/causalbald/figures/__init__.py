"""Figures: functions that take tidy tables or arrays and return a matplotlib Figure. They never show or save.

Only :func:`evolution` writes a file, as an animation has no other form.
"""

from causalbald.figures._calibration import PredictedEffects, calibration
from causalbald.figures._campaign import draw_audit, draw_effects, draw_progress
from causalbald.figures._convergence import convergence, paper_rows
from causalbald.figures._overlap import overlap
from causalbald.figures._paired import paired
from causalbald.figures._style import ARM_COLOURS, Look, look, looks
from causalbald.figures._support import draw_balance, draw_support

__all__ = [
    "ARM_COLOURS",
    "Look",
    "PredictedEffects",
    "calibration",
    "convergence",
    "draw_audit",
    "draw_balance",
    "draw_effects",
    "draw_progress",
    "draw_support",
    "look",
    "looks",
    "overlap",
    "paired",
    "paper_rows",
]
