"""What to know before money is spent and while it is: do the arms overlap, does a column leak, who is left out."""

from causalbald.diagnostics._balance import balance_table
from causalbald.diagnostics._leaks import determines_treatment, find_leaks, missing_by_arm, sounds_measured_after
from causalbald.diagnostics._representativeness import group_values, representativeness
from causalbald.diagnostics._support import Separation, Support, common_support, separation, support_lines

__all__ = [
    "Separation",
    "Support",
    "balance_table",
    "common_support",
    "determines_treatment",
    "find_leaks",
    "group_values",
    "missing_by_arm",
    "representativeness",
    "separation",
    "sounds_measured_after",
    "support_lines",
]
