"""Test error and coverage of the models at given numbers of random labels. Run by `make quality`.

1. IHDP, seeds 0 to 19, 100, 200 and 300 labels, both tracks: mean and median √PEHE.
2. Synthetic data, seeds 0 to 9, 100 labels: share of units inside overlap (propensity 0.1 to 0.9) whose true effect
   lies in its 95 % interval, and the intervals' mean width.

`gp`, `index`, `auto` and `due` with their defaults, `ensemble` with the paper's hyper-parameters for the data set.
With one covariate `auto` is `gp`. Names with a plus are `auto` with these candidates.

Rows are added to results/models/quality.csv as they come, and the next start continues there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed

from causalbald import datasets, metrics, models
from causalbald.models import AutoEstimator, CateEstimator, TarnetEnsemble

RESULT = Path(__file__).parent.parent / "results" / "models" / "quality.csv"
JOBS = int(os.environ.get("JOBS", "2"))
KEYS = ["dataset", "labels", "model", "track", "seed"]
BATCH = 8


def plan() -> list[tuple[Any, ...]]:
    """Return all fits to do: data set, labels, model, track, seed."""
    tracks = [("gp", "paid"), ("index", "paid"), ("auto", "paid"), ("due", "paper"), ("due", "paid")]
    fits: list[tuple[Any, ...]] = [
        ("ihdp", n, model, track, seed) for model, track in tracks for n in (100, 200, 300) for seed in range(20)
    ]
    mixed = [("gp+due", "paid"), ("gp+index+due", "paid")]
    fits += [("ihdp", n, model, track, seed) for model, track in mixed for n in (100, 200, 300) for seed in range(20)]
    tracks = [t for t in tracks if t[0] in ("gp", "due")] + [("ensemble", "paper"), ("ensemble", "paid"), mixed[0]]
    fits += [("synthetic", 100, model, track, seed) for model, track in tracks for seed in range(10)]
    return fits + [("ihdp", 300, "ensemble", track, seed) for track in ("paper", "paid") for seed in range(3)]


def make(model: str, dataset: str, seed: int) -> CateEstimator:
    """Return an unfitted model."""
    if model == "ensemble":
        return TarnetEnsemble.preset(dataset, random_state=seed)
    if "+" in model:
        return AutoEstimator(candidates=tuple(model.split("+")), random_state=seed)
    return models.load(model, random_state=seed)


def run(dataset: str, labels: int, model: str, track: str, seed: int) -> dict[str, Any]:
    """Fit once and return the row of the table."""
    torch.set_num_threads(1)
    data = datasets.load(dataset, seed)
    measured = data.pool.take(np.random.default_rng(seed).permutation(len(data.pool))[:labels])
    v, test = data.validation, data.test
    fitted = make(model, dataset, seed).fit(
        measured.y, measured.t, X=measured.x, pool=data.pool.x, validation=(v.y, v.t, v.x) if track == "paper" else None
    )
    lower, upper = fitted.effect_interval(test.x)
    inside = np.ones(len(test), bool) if test.propensity is None else abs(test.propensity - 0.5) <= 0.4
    return {
        **dict(zip(KEYS, (dataset, labels, model, track, seed), strict=True)),
        "pehe": metrics.sqrt_pehe((lower + upper) / 2, test.effect),
        "pehe_inside": metrics.sqrt_pehe(((lower + upper) / 2)[inside], test.effect[inside]),
        "coverage95": metrics.interval_coverage(lower[inside], upper[inside], test.effect[inside]),
        "width": metrics.interval_width(lower[inside], upper[inside]),
    }


def main() -> None:
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    done = set(pd.read_csv(RESULT)[KEYS].itertuples(index=False, name=None)) if RESULT.exists() else set()
    left = [key for key in plan() if key not in done]
    for start in range(0, len(left), BATCH):
        rows = Parallel(n_jobs=JOBS)(delayed(run)(*key) for key in left[start : start + BATCH])
        pd.DataFrame(rows).round(4).to_csv(RESULT, mode="a", header=not RESULT.exists(), index=False)
        print(f"{min(start + BATCH, len(left))} of {len(left)} fits", flush=True)
    table = pd.read_csv(RESULT)
    groups = table.groupby(KEYS[:-1], sort=False)
    summary = groups[["pehe", "pehe_inside", "coverage95", "width"]].mean()
    summary.insert(1, "median_pehe", groups["pehe"].median())
    summary.insert(0, "seeds", groups.size())
    print(summary.round(2).to_string())


if __name__ == "__main__":
    main()
