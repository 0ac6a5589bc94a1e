"""Simulated studies: active learning on benchmarks with known truth."""

from causalbald.experiments.plan import Plan, Settings, preset, read_plan
from causalbald.experiments.runner import Outcome, run, run_trials
from causalbald.experiments.spec import TrialSpec
from causalbald.experiments.store import Store
from causalbald.experiments.trial import TrialState, run_trial, warm_start_positions

__all__ = [
    "Outcome",
    "Plan",
    "Settings",
    "Store",
    "TrialSpec",
    "TrialState",
    "preset",
    "read_plan",
    "run",
    "run_trial",
    "run_trials",
    "warm_start_positions",
]
