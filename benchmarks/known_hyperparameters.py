"""How much of the error on the synthetic data comes from hyper-parameters that few labels cannot tell?

    python benchmarks/known_hyperparameters.py            # goes on where it stopped

The labels that greedy mu-rho-BALD buys are given to a Gaussian process twice: once it learns its hyper-parameters from
them, once it has those that 1,500 random labels of the same pool teach. What error is left with the latter no better
treatment of hyper-parameters can take away. Seeds 1000 to 1007.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from label_efficiency import markdown

from causalbald import datasets
from causalbald.experiments import run_trial
from causalbald.metrics import paired_interval, sqrt_pehe
from causalbald.models import GaussianProcess
from causalbald.models.sites import Single

RESULTS = Path(__file__).parent.parent / "results" / "gp" / "known_hyperparameters.csv"
DATASETS, SEEDS, STEPS, MANY = ("synthetic", "synthetic-bimodal"), range(1000, 1008), (5, 10, 15, 20, 30), 1500


def informed_error(model: GaussianProcess, benchmark: datasets.Benchmark, rows: np.ndarray) -> float:
    """Return the error after some labels, with the hyper-parameters and on the scale of a model fitted on many."""
    pool, test, h = benchmark.pool, benchmark.test, model.hyperparameters_
    y = torch.as_tensor((pool.y[rows] - model.y_mean_) / model.y_scale_)
    single = Single.of(h, model._standardise(pool.x[rows]), torch.as_tensor(pool.t[rows]), y)
    effect = single.posterior(h, model._standardise(test.x)).effect_mean * model.y_scale_
    return sqrt_pehe(effect, test.effect)


def one_study(dataset: str, seed: int) -> pd.DataFrame:
    benchmark = datasets.load(dataset, seed)
    pool, options = benchmark.pool, {"warm_start": 10, "batch_size": 10, "steps": max(STEPS), "batch": "greedy"}
    learned = run_trial(benchmark, model="gp", acquisition="mu-rho-bald", seed=seed, **options)  # type: ignore[arg-type]
    many = np.random.default_rng(0).permutation(len(pool))[:MANY]
    informed = GaussianProcess(random_state=seed).fit(pool.y[many], pool.t[many], X=pool.x[many], pool=pool.x)
    rows = []
    for step in STEPS:
        bought = np.fromiter(chain.from_iterable(learned.attrs["acquired"][: step + 1]), dtype=np.intp)
        errors = (learned["pehe"][step], informed_error(informed, benchmark, bought))
        rows.append((dataset, seed, len(bought), *(round(e, 4) for e in errors)))
    return pd.DataFrame(rows, columns=["data", "seed", "labels", "learned", "known"])


def main() -> None:
    table = pd.read_csv(RESULTS) if RESULTS.exists() else pd.DataFrame(columns=["data", "seed"])
    for dataset in DATASETS:
        for seed in SEEDS:
            if not ((table["data"] == dataset) & (table["seed"] == seed)).any():
                table = pd.concat([table, one_study(dataset, seed)]) if len(table) else one_study(dataset, seed)
                table.to_csv(RESULTS, index=False)
    print(markdown(summary(table)))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for (data, labels), group in table.groupby(["data", "labels"]):
        mean, low, high = paired_interval((group["known"] - group["learned"]).to_numpy())
        errors = {name: f"{group[name].mean():.2f}" for name in ("learned", "known")}
        difference = f"{mean:.3f} [{low:.3f}, {high:.3f}]"
        rows.append({"data": data, "seeds": len(group), "labels": labels, **errors, "difference": difference})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
