"""How much a better belief, or a better choice of labels, could lower the error on the synthetic data.

    python benchmarks/known_hyperparameters.py            # continues where it stopped

Five errors after the same number of labels, seeds 1000 to 1007:

- learned: a Gaussian process that learns its hyper-parameters from the labels that it buys by greedy mu-rho-BALD;
- known: the same labels, with the hyper-parameters that 1,500 random labels of the same pool teach;
- planned: those hyper-parameters, and all labels chosen by them from the start, to make the error small (tau-vr);
- expected: what the process itself expects of that plan, whatever the outcomes are;
- form: the least error of any plan for least squares that know what each arm's surface is made of: 1, x and sin 2x.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from label_tables import markdown

from causalbald import datasets
from causalbald.acquisition import TargetPopulation
from causalbald.experiments import run_trial
from causalbald.metrics import paired_interval, sqrt_pehe
from causalbald.models import GaussianProcess
from causalbald.models._sites import Single, Sites
from causalbald.selection import select_greedy

RESULTS = Path(__file__).parent.parent / "results" / "gp" / "known_hyperparameters.csv"
DATASETS, SEEDS, STEPS, MANY_LABELS = ("synthetic", "synthetic-bimodal"), range(1000, 1008), (5, 10, 15, 20, 30), 1500
ERRORS = ["learned", "known", "planned", "expected", "form"]
TARGET_UNITS = 1000  # units of the test split that stand for all when labels are planned
SITES = 256


def informed_errors(model: GaussianProcess, benchmark: datasets.Benchmark, rows: np.ndarray) -> tuple[float, float]:
    """Return the error after some labels, and the expected error, with the hyper-parameters of a fitted model."""
    pool, test, h = benchmark.pool, benchmark.test, model.hyperparameters_
    single = Single.of(h, model._standardise(pool.x[rows]), torch.as_tensor(pool.t[rows]), _outcomes(model, pool, rows))
    belief = single.posterior(h, model._standardise(test.x)).rescaled(model.y_scale_, 0.0)
    return sqrt_pehe(belief.effect_mean, test.effect), float(np.sqrt(belief.effect_variance.mean()))


def planned(model: GaussianProcess, benchmark: datasets.Benchmark, warm_start: np.ndarray, size: int) -> np.ndarray:
    """Return the warm start and after it ``size`` units chosen one by one, with known hyper-parameters."""
    pool, test, h = benchmark.pool, benchmark.test, model.hyperparameters_
    every = model._standardise(np.concatenate([pool.x, test.x[:TARGET_UNITS]]))
    extra = torch.linspace(float(every.min()), float(every.max()), SITES, dtype=every.dtype)[:, None]
    x, arm = every[warm_start], torch.as_tensor(pool.t[warm_start])
    core = torch.arange(len(warm_start))
    sites = Sites.after_labels(h, x, arm, _outcomes(model, pool, warm_start), core, extra)
    chosen = select_greedy(
        sites.posterior(h, every, joint=True),
        np.concatenate([pool.t, np.zeros(TARGET_UNITS, dtype=np.intp)]),
        "tau-vr",
        size,
        excluded=[*warm_start, *range(len(pool), len(every))],
        population=TargetPopulation.of(np.arange(len(pool), len(every)), len(every)),
    )
    return np.concatenate([warm_start, chosen])


def form_error(benchmark: datasets.Benchmark) -> float:
    """Return the least error of effects, times the root of the number of labels, over all ways to spread labels."""
    pool = benchmark.pool
    matter = _terms(benchmark.test.x).T @ _terms(benchmark.test.x) / len(benchmark.test)
    total = 0.0
    for arm in (0, 1):
        terms = _terms(pool.x[pool.t == arm])
        share = np.full(len(terms), 1 / len(terms))
        for _ in range(3000):  # a unit's share grows while it is worth more than the average
            covariance = np.linalg.inv((terms * share[:, None]).T @ terms)
            worth = ((terms @ covariance @ matter) * (terms @ covariance)).sum(axis=1)
            share *= np.sqrt(worth)
            share /= share.sum()
        total += np.sqrt(np.trace(matter @ covariance))  # arms get labels in proportion to it
    return float(total)


def _terms(x: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(x)), x, np.sin(2 * x)])


def _outcomes(model: GaussianProcess, pool: datasets.Split, rows: np.ndarray) -> torch.Tensor:
    return torch.as_tensor((pool.y[rows] - model.y_mean_) / model.y_scale_)


def one_study(dataset: str, seed: int) -> pd.DataFrame:
    """Return the five errors of one data set and seed, by number of labels."""
    benchmark = datasets.load(dataset, seed)
    pool, options = benchmark.pool, {"warm_start": 10, "batch_size": 10, "steps": max(STEPS), "batch": "greedy"}
    learned = run_trial(benchmark, model="gp", acquisition="mu-rho-bald", seed=seed, **options)  # type: ignore[arg-type]
    many = np.random.default_rng(0).permutation(len(pool))[:MANY_LABELS]
    informed = GaussianProcess(random_state=seed).fit(pool.y[many], pool.t[many], X=pool.x[many], pool=pool.x)
    bought = np.fromiter(chain.from_iterable(learned.attrs["acquired"]), dtype=np.intp)
    plan = planned(informed, benchmark, bought[:10], 10 * max(STEPS))
    form, rows = form_error(benchmark), []
    for step in STEPS:
        n = 10 + 10 * step
        known_error, _ = informed_errors(informed, benchmark, bought[:n])
        errors = (
            learned["pehe"][step],
            known_error,
            *informed_errors(informed, benchmark, plan[:n]),
            form / np.sqrt(n),
        )
        rows.append((dataset, seed, n, *(round(e, 4) for e in errors)))
    return pd.DataFrame(rows, columns=["data", "seed", "labels", *ERRORS])


def main() -> None:
    table = pd.read_csv(RESULTS) if RESULTS.exists() else pd.DataFrame(columns=["data", "seed"])
    for dataset in DATASETS:
        for seed in SEEDS:
            if not ((table["data"] == dataset) & (table["seed"] == seed)).any():
                table = pd.concat([table, one_study(dataset, seed)]) if len(table) else one_study(dataset, seed)
                table.to_csv(RESULTS, index=False)
    print(markdown(summary(table)))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return mean errors by data set and labels, with intervals."""
    rows = []
    for (data, labels), group in table.groupby(["data", "labels"]):
        mean, low, high = paired_interval((group["known"] - group["learned"]).to_numpy())
        errors = {name: f"{group[name].mean():.2f}" for name in ERRORS}
        difference = f"{mean:.3f} [{low:.3f}, {high:.3f}]"
        errors["planned"] += " [{:.2f}, {:.2f}]".format(*paired_interval(group["planned"].to_numpy())[1:])
        rows.append({"data": data, "seeds": len(group), "labels": labels, **errors, "known - learned": difference})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
