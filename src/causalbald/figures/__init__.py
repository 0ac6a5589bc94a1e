"""Figures: functions that take tidy tables or arrays and return a matplotlib Figure. They never show or save it."""

from causalbald.figures._calibration import LEVELS, PredictedEffects, calibration
from causalbald.figures._campaign import draw_audit, draw_effects, draw_progress
from causalbald.figures._convergence import common_seeds, convergence, draw_curves, paper_rows, shared_legend
from causalbald.figures._overlap import overlap
from causalbald.figures._paired import paired
from causalbald.figures._style import ARM_COLOURS, ARM_NAMES, Look, house_style, look, looks, new_figure
from causalbald.figures._support import draw_balance, draw_support

__all__ = [
    "ARM_COLOURS",
    "ARM_NAMES",
    "LEVELS",
    "Look",
    "PredictedEffects",
    "calibration",
    "common_seeds",
    "convergence",
    "draw_audit",
    "draw_balance",
    "draw_curves",
    "draw_effects",
    "draw_progress",
    "draw_support",
    "house_style",
    "look",
    "looks",
    "new_figure",
    "overlap",
    "paired",
    "paper_rows",
    "shared_legend",
]
