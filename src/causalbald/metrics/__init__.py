"""How good a belief about effects is, and how many labels a method needs to get there."""

from causalbald.metrics._effects import ate_error, interval_coverage, interval_width, policy_regret, sqrt_pehe
from causalbald.metrics._label_curves import (
    ENOUGH_SEEDS,
    LabelsNeeded,
    area_under_curve,
    areas,
    comparable_trials,
    labels_to_match,
    labels_to_reach,
    paired_interval,
)

__all__ = [
    "ENOUGH_SEEDS",
    "LabelsNeeded",
    "area_under_curve",
    "areas",
    "ate_error",
    "comparable_trials",
    "interval_coverage",
    "interval_width",
    "labels_to_match",
    "labels_to_reach",
    "paired_interval",
    "policy_regret",
    "sqrt_pehe",
]
