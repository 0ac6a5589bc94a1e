"""Figures: functions that take tidy tables or arrays and return a matplotlib Figure. They never show or save.

Only :func:`evolution` writes a file, as an animation has no other form.
"""

from causalbald.figures.bias import Acquired, bias, refit
from causalbald.figures.calibration import Predicted, calibration
from causalbald.figures.campaign import draw_audit, draw_effects, draw_progress
from causalbald.figures.convergence import convergence, paper_rows
from causalbald.figures.datasets import digits, draw_benchmark, observational
from causalbald.figures.evolution import Study, evolution
from causalbald.figures.overlap import overlap
from causalbald.figures.paired import paired
from causalbald.figures.style import ARM_COLOURS, Look, look, looks
from causalbald.figures.support import draw_balance, draw_support

__all__ = [
    "ARM_COLOURS",
    "Acquired",
    "Look",
    "Predicted",
    "Study",
    "bias",
    "calibration",
    "convergence",
    "digits",
    "draw_audit",
    "draw_balance",
    "draw_benchmark",
    "draw_effects",
    "draw_progress",
    "draw_support",
    "evolution",
    "look",
    "looks",
    "observational",
    "overlap",
    "paired",
    "paper_rows",
    "refit",
]
