"""Simulated studies: active learning on benchmarks with known truth."""

from causalbald.experiments._plan import BenchmarkSettings, Plan, preset, read_plan
from causalbald.experiments._runner import TrialResult, run, run_trials
from causalbald.experiments._spec import TrialSpec
from causalbald.experiments._store import Store
from causalbald.experiments._summary import summarise
from causalbald.experiments._trial import TrialState, run_trial, warm_start_positions

__all__ = [
    "BenchmarkSettings",
    "Plan",
    "Store",
    "TrialResult",
    "TrialSpec",
    "TrialState",
    "preset",
    "read_plan",
    "run",
    "run_trial",
    "run_trials",
    "summarise",
    "warm_start_positions",
]
