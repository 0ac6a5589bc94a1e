"""Predictions of real outcomes, which are neither smooth nor free of noise: weight change of smokers (NHEFS).

    python benchmarks/real_outcomes.py            # run
    python benchmarks/real_outcomes.py --table    # the stored results, as Markdown

For 20 random samples of people, seeds 100 to 119, models learn from their outcomes and predict all other outcomes.
Writes results/gp/nhefs.csv. The prior of `gp` was chosen after seeing six samples, seeds 0 to 5.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from joblib import Parallel, delayed
from kernels import Wide
from sklearn.base import clone

from causalbald.datasets import NHEFS_ID, NHEFS_OUTCOME, NHEFS_TREATMENT, load_nhefs
from causalbald.models import AutoEstimator, GaussianProcess, IndexProcess
from causalbald.tables import encode, find_columns

RESULT = Path(__file__).parent.parent / "results" / "gp" / "nhefs.csv"


class WidePrior(GaussianProcess):
    prior_class = Wide


MODELS = {
    "gp": GaussianProcess(),
    "gp, wide prior": WidePrior(hyper_uncertainty=False),
    "index": IndexProcess(),
    "auto": AutoEstimator(),
}


def arm_means(y: np.ndarray, t: np.ndarray, measured: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return each person's predicted mean and variance, and the average effect, from the means of the arms."""
    mean, variance = (np.array([f(y[measured][t[measured] == a]) for a in (0, 1)]) for f in (np.mean, np.var))
    return mean[t], variance[t], float(mean[1] - mean[0])


def predict(seed: int) -> list[dict[str, object]]:
    """Return the scores of all models on one random sample, by number of labels."""
    torch.set_num_threads(1)
    people = load_nhefs(outcomes=True).dropna(subset=[NHEFS_OUTCOME])
    table = pa.Table.from_pandas(people, preserve_index=False)
    columns, *_ = find_columns(
        table, [str(c) for c in people if c not in (NHEFS_ID, NHEFS_TREATMENT, NHEFS_OUTCOME)], {}
    )
    x, t, y = (
        encode(columns, table),
        (people[NHEFS_TREATMENT] == "quit").to_numpy().astype(int),
        people[NHEFS_OUTCOME].to_numpy(),
    )
    order = np.random.default_rng(seed).permutation(len(y))
    rows: list[dict[str, object]] = []
    for labels in (50, 100, 200, 400):
        measured, remaining = order[:labels], order[labels:]
        predictions = {"arm means": arm_means(y, t, measured)}
        for name, model in MODELS.items():
            fitted = clone(model).fit(y[measured], t[measured], X=x[measured], pool=x)
            belief, arm = fitted.posterior(x, joint=False), (np.arange(len(y)), t)
            predictions[name] = (
                belief.mean[arm],
                (belief.variance + belief.noise)[arm],
                float(belief.effect_mean.mean()),
            )
        for name, (mean, variance, ate) in predictions.items():
            z2 = (y - mean)[remaining] ** 2 / variance[remaining]
            density = -0.5 * float(np.mean(np.log(2 * np.pi * variance[remaining]) + z2))
            scores = {"rmse": float(np.sqrt(np.mean((y - mean)[remaining] ** 2))), "log_density": density}
            scores |= {"coverage95": float(np.mean(z2 < 1.96**2)), "ate": ate}
            rows.append({"model": name, "labels": labels, "seed": seed, **scores})
    return rows


def main() -> None:
    scores = pd.DataFrame(
        [row for rows in Parallel(n_jobs=2)(delayed(predict)(s) for s in range(100, 120)) for row in rows]
    )
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    scores.round(4).to_csv(RESULT, index=False)


def markdown(scores: pd.DataFrame) -> str:
    lines = ["| labels | model | typical error, kg | log density | coverage | average effect, kg |", "| --- " * 6 + "|"]
    columns = ["rmse", "log_density", "coverage95", "ate"]
    for (labels, model), rows in scores.groupby(["labels", "model"], sort=False):
        lines.append(f"| {labels} | {model} | {' | '.join(f'{value:.2f}' for value in rows[columns].mean())} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if "--table" not in sys.argv:
        main()
    print(markdown(pd.read_csv(RESULT)))
