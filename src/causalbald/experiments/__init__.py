"""Simulated studies: active learning on benchmarks with known effects."""

from causalbald.experiments._plan import (
    PAPER_ACQUISITIONS,
    BenchmarkSettings,
    Plan,
    default_settings,
    preset,
    preset_names,
    preset_of,
    register_preset,
)
from causalbald.experiments._plan_file import parse_seeds, read_plan
from causalbald.experiments._runner import PreparedRun, TrialResult, run, run_trials
from causalbald.experiments._spec import NAMES, TrialSpec
from causalbald.experiments._state import TrialState
from causalbald.experiments._status import KindStatus, Status, status_of
from causalbald.experiments._store import Store
from causalbald.experiments._summary import summarise
from causalbald.experiments._trial import refit, run_trial, warm_start_positions
from causalbald.experiments._versions import of_one_version

__all__ = [
    "NAMES",
    "PAPER_ACQUISITIONS",
    "BenchmarkSettings",
    "KindStatus",
    "Plan",
    "PreparedRun",
    "Status",
    "Store",
    "TrialResult",
    "TrialSpec",
    "TrialState",
    "default_settings",
    "of_one_version",
    "parse_seeds",
    "preset",
    "preset_names",
    "preset_of",
    "read_plan",
    "refit",
    "register_preset",
    "run",
    "run_trial",
    "run_trials",
    "status_of",
    "summarise",
    "warm_start_positions",
]
