"""Simulated studies: active learning on benchmarks with known truth."""

from causalbald.experiments.runner import TrialSpec, run_trials
from causalbald.experiments.trial import run_trial, warm_start_positions

__all__ = ["TrialSpec", "run_trial", "run_trials", "warm_start_positions"]
