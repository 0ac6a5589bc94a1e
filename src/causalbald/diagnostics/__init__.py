"""What to know before money is spent and while it is: overlap of the arms, leaks of the treatment, groups left out."""

from causalbald.diagnostics._balance import UNBALANCED, balance_table
from causalbald.diagnostics._leaks import determines_treatment, find_leaks, missing_by_arm, sounds_measured_after
from causalbald.diagnostics._representativeness import group_values, representativeness
from causalbald.diagnostics._support import (
    EQUAL_ARMS,
    Separation,
    Support,
    band_text,
    common_support,
    is_outside,
    propensity_clip,
    separation,
    support_band,
    support_lines,
    support_margin,
)

__all__ = [
    "EQUAL_ARMS",
    "UNBALANCED",
    "Separation",
    "Support",
    "balance_table",
    "band_text",
    "common_support",
    "determines_treatment",
    "find_leaks",
    "group_values",
    "is_outside",
    "missing_by_arm",
    "propensity_clip",
    "representativeness",
    "separation",
    "sounds_measured_after",
    "support_band",
    "support_lines",
    "support_margin",
]
