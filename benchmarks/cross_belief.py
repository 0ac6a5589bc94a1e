"""Targeted scores of a pool: cross-covariances from labels alone, compared with joint beliefs about blocks and targets.

    python benchmarks/cross_belief.py   # seconds of both, their ratio, largest difference of scores (in logs)

Both ways take turns in one process on one core. Joint beliefs run through sites and are therefore not exact.
"""

from __future__ import annotations

from time import perf_counter
from unittest.mock import patch

import numpy as np

from causalbald import datasets, models, pools
from causalbald._threads import one_thread

UNITS, LABELS, COVARIATES, TURNS = 10_000, 200, 25, 3


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return covariates, arms and outcomes of a pool with several covariates."""
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(UNITS, COVARIATES)), rng.integers(0, 2, size=UNITS)
    return x, t, x[:, 2] + t * (1 + np.sin(2 * x[:, 0])) + 0.5 * rng.normal(size=UNITS)


def main() -> None:
    one = datasets.load("synthetic", seed=0).pool
    tables = {1: (one.x, one.t, one.y), COVARIATES: table()}
    print("| model | covariates | labels alone, s | joint beliefs, s | ratio | largest difference |")
    print("|---|---|---|---|---|---|")
    for covariates, (x, t, y) in tables.items():
        measured = np.random.default_rng(1).choice(len(x), LABELS, replace=False)
        for name in ("gp", "index", "due", "auto"):
            model = models.load(name, random_state=0).fit(y[measured], t[measured], X=x[measured], pool=x)
            model.posterior(x[:2])  # joint beliefs need sites, worked out once
            if model.cross_belief(x[:2]) is None:
                print(f"| {name} | {covariates} | sites tell all | | | |")
                continue
            seconds: dict[bool, list[float]] = {True: [], False: []}
            scores = {}
            for _ in range(TURNS):
                for with_cross_belief in (True, False):
                    cross_belief = model.cross_belief if with_cross_belief else (lambda *_: None)
                    with patch.object(type(model), "cross_belief", lambda self, z, f=cross_belief: f(z)), one_thread():
                        started = perf_counter()
                        scores[with_cross_belief] = pools.score_pool(model, pools.MemoryPool(x, t), "tau-vr")
                        seconds[with_cross_belief].append(perf_counter() - started)
            fast, slow = (float(np.median(seconds[with_cross_belief])) for with_cross_belief in (True, False))
            largest_difference = np.abs(scores[True] - scores[False]).max()
            print(f"| {name} | {covariates} | {fast:.2f} | {slow:.2f} | {slow / fast:.1f} | {largest_difference:.2g} |")


if __name__ == "__main__":
    main()
