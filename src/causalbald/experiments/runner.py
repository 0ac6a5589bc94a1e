"""Many trials, on one or more processes, with the same result whatever their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from causalbald import datasets
from causalbald._validation import check_int
from causalbald.experiments.trial import Track, run_trial
from causalbald.loop import Batch
from causalbald.models import make_model


@dataclass(frozen=True)
class TrialSpec:
    """Everything that defines a trial, by name, so that it can be sent to another process."""

    dataset: str
    acquisition: str
    warm_start: int
    batch_size: int
    steps: int
    seed: int
    model: str = "gp"
    temperature: float | None = None
    batch: Batch = "softmax"
    track: Track = "paid"
    dataset_options: dict[str, Any] = field(default_factory=dict)
    model_options: dict[str, Any] = field(default_factory=dict)

    def run(self) -> pd.DataFrame:
        """Run the trial and return its table, with columns that name the trial."""
        table = run_trial(
            datasets.load(self.dataset, self.seed, **self.dataset_options),
            model=make_model(self.model, random_state=self.seed, **self.model_options),
            acquisition=self.acquisition,
            warm_start=self.warm_start,
            batch_size=self.batch_size,
            steps=self.steps,
            temperature=self.temperature,
            batch=self.batch,
            seed=self.seed,
            track=self.track,
        )
        for k, name in enumerate(("dataset", "model", "acquisition", "batch", "track", "seed")):
            table.insert(k, name, getattr(self, name))
        return table


def run_trials(
    specs: Iterable[TrialSpec], *, workers: int = 1, progress: Callable[[int, int], None] | None = None
) -> list[pd.DataFrame]:
    """Run trials on ``workers`` processes and return their tables in the order of ``specs``.

    ``progress`` is called with (trials done, trials in all).
    """
    from joblib import Parallel, delayed

    plan = list(specs)
    check_int(workers, "workers", low=1)
    tables: list[pd.DataFrame | None] = [None] * len(plan)
    jobs = (delayed(_run_numbered)(k, spec) for k, spec in enumerate(plan))
    results = Parallel(n_jobs=workers, return_as="generator_unordered")(jobs)
    for done, (k, table) in enumerate(results, start=1):
        tables[k] = table
        if progress is not None:
            progress(done, len(plan))
    return [t for t in tables if t is not None]


def _run_numbered(k: int, spec: TrialSpec) -> tuple[int, pd.DataFrame]:
    return k, spec.run()
