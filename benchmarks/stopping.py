"""Ways to end the training of a deep kernel without validation labels, on IHDP, seeds 1000 to 1005, paired.

The way that we use was chosen on these seeds; results on seeds 0 to 19 are in model_quality.py. Rows are added to
results/models/stopping.csv as they come; the next start continues there.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from scipy.special import stdtrit

from causalbald import datasets, metrics
from causalbald.models import DeepKernelGP
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels
from causalbald.models._nn.objectives import BatchEvidence, VariationalBound
from causalbald.models._nn.training import Schedule

RESULT = Path(__file__).parent.parent / "results" / "models" / "stopping.csv"
JOBS = int(os.environ.get("JOBS", "2"))
KEYS = ["way", "labels", "seed"]
DEFAULT_WAY = "folds stop, 4 trained on all"


class NeverStopped(DeepKernelGP):
    """Trains one network for 300 steps, without stopping early."""

    def _stop_early(self, labels: LabelTensors, validation: LabelTensors | None) -> BatchEvidence | VariationalBound:
        self.steps_ = [300]
        return self._train("member", MemberLabels.of_all(labels, 1), Schedule(300, 300, 1))[0]


def make(way: str, seed: int) -> DeepKernelGP:
    options: dict[str, dict[str, Any]] = {
        "all labels, never stopped": {"batch_size": None},
        "batches, never stopped": {},
        "all labels, folds stop, 4 trained on all": {"batch_size": None},
        "each stops on a quarter, 4 kept": {"folds": 1, "members": 4},
        "folds stop, 1 trained on all": {"members": 1},
        DEFAULT_WAY: {},
        "free labels stop, 4 kept": {"members": 4},
    }
    return (NeverStopped if "never" in way else DeepKernelGP)(random_state=seed, **options[way])


WAYS = [
    DEFAULT_WAY,
    "folds stop, 1 trained on all",
    "each stops on a quarter, 4 kept",
    "all labels, folds stop, 4 trained on all",
    "batches, never stopped",
    "all labels, never stopped",
    "free labels stop, 4 kept",
]


def run(way: str, labels: int, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    data = datasets.load("ihdp", seed)
    measured = data.pool.take(np.random.default_rng(seed).permutation(len(data.pool))[:labels])
    v = data.validation
    started = perf_counter()
    model = make(way, seed).fit(
        measured.y, measured.t, X=measured.x, pool=data.pool.x, validation=(v.y, v.t, v.x) if "free" in way else None
    )
    seconds = perf_counter() - started
    error = metrics.sqrt_pehe(model.effect(data.test.x), data.test.effect)
    return {"way": way, "labels": labels, "seed": seed, "pehe": error, "seconds": seconds}


def main() -> None:
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    done = set(pd.read_csv(RESULT)[KEYS].itertuples(index=False, name=None)) if RESULT.exists() else set()
    plan = [(way, labels, seed) for seed in range(1000, 1006) for labels in (100, 300) for way in WAYS]
    missing = [key for key in plan if key not in done]
    for start in range(0, len(missing), 14):
        rows = Parallel(n_jobs=JOBS)(delayed(run)(*key) for key in missing[start : start + 14])
        pd.DataFrame(rows).round(4).to_csv(RESULT, mode="a", header=not RESULT.exists(), index=False)
        print(f"{min(start + 14, len(missing))} of {len(missing)} fits", flush=True)
    table = pd.read_csv(RESULT)
    for labels, part in table.groupby("labels"):
        wide, seconds = part.pivot(index="seed", columns="way", values="pehe"), part.groupby("way").seconds.mean()
        print(f"\n{labels} labels, {len(wide)} seeds: median error; error over the default way's, paired; seconds")
        for way in WAYS:
            logs = np.log((wide[way] / wide[DEFAULT_WAY]).dropna().to_numpy())
            reach = stdtrit(len(logs) - 1, 0.975) * logs.std(ddof=1) / np.sqrt(len(logs))
            low, middle, high = np.exp(logs.mean() + np.array([-reach, 0, reach]))
            print(f"{way:42s} {wide[way].median():.2f}   {middle:.2f} [{low:.2f}, {high:.2f}]   {seconds[way]:.1f}")


if __name__ == "__main__":
    main()
