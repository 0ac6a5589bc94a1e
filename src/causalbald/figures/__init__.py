"""Figures: functions that take tidy tables or arrays and return a matplotlib Figure. They never show or save."""

from causalbald.figures.bias import Acquired, bias
from causalbald.figures.convergence import convergence
from causalbald.figures.style import ARM_COLOURS, Look, look

__all__ = ["ARM_COLOURS", "Acquired", "Look", "bias", "convergence", "look"]
