"""Binary outcomes: how well models predict risks in both arms, against arm means and logistic regression.

    python benchmarks/binary.py                  # run: seeds on which no setting was chosen
    python benchmarks/binary.py --choose         # the tables and seeds on which settings were chosen
    python benchmarks/binary.py --table          # the stored results, as Markdown

Covariates and arms are real (IHDP, NHEFS). Risks are simulated, and therefore known in both arms. The exception is
"nhefs, real": whether a person gained more than 8 kg, compared in the person's arm. The Brier score is the mean over
both arms of (predicted - outcome)², in expectation if the risk is known, for everyone outside the labels.
Writes results/gp/binary.csv.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from joblib import Parallel, delayed
from scipy import special
from sklearn.linear_model import LogisticRegression

from causalbald import models
from causalbald._scaling import column_scale
from causalbald.datasets import NHEFS_ID, NHEFS_OUTCOME, NHEFS_TREATMENT, load_nhefs
from causalbald.datasets._ihdp import covariates
from causalbald.tables import encode, find_columns

RESULT = Path(__file__).parent.parent / "results" / "gp" / "binary.csv"
LABELS = (50, 200, 600)
GAIN = 8.0  # kg
# Events without treatment, standard deviation of the log odds, and of the effect's: an index, a step or nothing.
SURFACES = {
    "5 %, none": (0.05, 0.0, 0.0, "index"),
    "5 %, weak": (0.05, 0.6, 0.3, "index"),
    "5 %, strong": (0.05, 1.5, 1.0, "index"),
    "20 %, none": (0.2, 0.0, 0.0, "index"),
    "20 %, weak": (0.2, 0.6, 0.3, "step"),
    "20 %, strong": (0.2, 1.5, 1.0, "index"),
    "20 %, steps": (0.2, 1.5, 1.0, "step"),
}
CHOSEN_ON = [("ihdp", "5 %, weak"), ("nhefs", "20 %, strong"), ("ihdp", "20 %, none")]
REPORTED_ON = [
    *[("ihdp", name) for name in ("5 %, none", "5 %, strong", "20 %, weak", "20 %, strong")],
    *[("nhefs", name) for name in ("5 %, none", "5 %, weak", "20 %, weak", "20 %, steps")],
    ("nhefs", "real"),
]


def people(data: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return covariates, arms, and a real binary outcome if the table has one."""
    if data == "ihdp":
        x, t, _ = covariates()
        return x, t, None
    table = load_nhefs(outcomes=True).dropna(subset=[NHEFS_OUTCOME])
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    columns, *_ = find_columns(
        arrow, [str(c) for c in table if c not in (NHEFS_ID, NHEFS_TREATMENT, NHEFS_OUTCOME)], {}
    )
    gained = (table[NHEFS_OUTCOME].to_numpy() > GAIN).astype(float)
    return encode(columns, arrow), (table[NHEFS_TREATMENT] == "quit").to_numpy().astype(int), gained


def risks(x: np.ndarray, surface: str, rng: np.random.Generator) -> np.ndarray:
    """Return the risk (N, 2) of everyone in each arm."""
    events, spread, effect, shape = SURFACES[surface]
    z = (x - x.mean(axis=0)) / column_scale(x)
    along = [z @ (rng.normal(size=z.shape[1]) * (rng.random(z.shape[1]) < 0.4)) for _ in range(2)]
    if shape == "step":
        along = [np.sign(a - np.median(a)) for a in along]
    main, modifies = (a / a.std() if a.std() > 0 else a for a in along)
    control = spread * main
    scores = np.stack([control, control + 0.4 + effect * modifies], axis=1)
    low, high = -20.0, 20.0
    for _ in range(60):  # the intercept that gives control its share of events
        middle = (low + high) / 2
        low, high = (middle, high) if special.expit(scores[:, 0] + middle).mean() < events else (low, middle)
    return np.asarray(special.expit(scores + low))


def arm_means(y: np.ndarray, t: np.ndarray, x: np.ndarray, everyone: np.ndarray, seed: int) -> np.ndarray:
    return np.tile([y[t == a].mean() for a in (0, 1)], (len(everyone), 1))


def logistic(y: np.ndarray, t: np.ndarray, x: np.ndarray, everyone: np.ndarray, seed: int) -> np.ndarray:
    """Return risks (N, 2) by a logistic regression per arm."""
    centre, scale = everyone.mean(axis=0), column_scale(everyone)
    predictions = np.empty((len(everyone), 2))
    for arm in (0, 1):
        outcomes = y[t == arm]
        if outcomes.min() == outcomes.max():
            predictions[:, arm] = outcomes[0]
            continue
        model = LogisticRegression(C=0.1, max_iter=1000).fit((x[t == arm] - centre) / scale, outcomes)
        predictions[:, arm] = model.predict_proba((everyone - centre) / scale)[:, 1]
    return predictions


def fitted(name: str) -> Callable[..., np.ndarray]:
    """Return a function that predicts risks (N, 2) by a model of this package."""

    def predict(y: np.ndarray, t: np.ndarray, x: np.ndarray, everyone: np.ndarray, seed: int) -> np.ndarray:
        model = models.load(name, random_state=seed).fit(y, t, X=x, pool=everyone)
        return model.posterior(everyone, joint=False).expected

    return predict


MODELS = {"arm means": arm_means, "logistic": logistic, **{name: fitted(name) for name in ("gp", "auto", "due")}}


def one(data: str, surface: str, seed: int, labels: int, models: list[str]) -> list[dict[str, object]]:
    """Return the scores of all models for one data set, surface, seed and number of labels."""
    torch.set_num_threads(1)
    x, t, real = people(data)
    rng = np.random.default_rng([seed, labels])
    if surface == "real":
        assert real is not None
        truth, y = np.where(np.arange(2) == t[:, None], real[:, None], np.nan), real
    else:
        truth = risks(x, surface, np.random.default_rng(seed))
        y = (rng.random(len(t)) < truth[np.arange(len(t)), t]).astype(float)
    order = rng.permutation(len(t))
    measured, unmeasured = order[:labels], order[labels:]
    rows: list[dict[str, object]] = []
    for name in models:
        start = time.perf_counter()
        predicted = MODELS[name](y[measured], t[measured], x[measured], x, seed)
        seconds = time.perf_counter() - start
        scores = (predicted - truth) ** 2 + truth * (1 - truth)  # of a real outcome the truth is 0 or 1
        outside = float(((predicted < 0) | (predicted > 1)).mean())
        gap = np.nan if surface == "real" else float(np.diff(predicted - truth).mean())
        brier = float(np.nanmean(scores[unmeasured], axis=0).mean())
        rows.append(
            {"data": f"{data}, {surface}", "labels": labels, "seed": seed, "model": name, "brier": brier}
            | {"outside": outside, "average_effect_off": gap, "seconds": seconds}
        )
    return rows


def run(choose: bool, seeds: int, models: list[str], jobs: int) -> pd.DataFrame:
    """Return the scores of all trials."""
    tables, first = (CHOSEN_ON, 0) if choose else (REPORTED_ON, 100)
    trials = [(d, s, first + k, n) for n in reversed(LABELS) for d, s in tables for k in range(seeds)]
    results = Parallel(n_jobs=jobs)(delayed(one)(*trial, models) for trial in trials)
    return pd.DataFrame([row for rows in results for row in rows])


def markdown(table: pd.DataFrame) -> str:
    """Return Brier scores in thousandths, and the difference of ``auto`` and arm means with its standard error."""
    models = [name for name in MODELS if name in set(table["model"])]
    header = [
        "data",
        "labels",
        *models,
        "auto - arm means",
        "risks of auto outside [0, 1]",
        "its average effect off by",
    ]
    lines = [f"| {' | '.join(header)} |", "| --- " * len(header) + "|"]
    for (data, labels), rows in table.groupby(["data", "labels"], sort=False):
        wide = 1000 * rows.pivot(index="seed", columns="model", values="brier")
        ahead, auto = wide["auto"] - wide["arm means"], rows[rows["model"] == "auto"]
        error = ahead.std() / np.sqrt(len(ahead))
        cells = [f"{wide[name].mean():.1f}" for name in models] + [f"{ahead.mean():+.1f} ± {error:.1f}"]
        off = auto["average_effect_off"].abs().max()
        cells += [f"{auto['outside'].mean():.0%}", "" if np.isnan(off) else f"{off:.2f}"]
        lines.append(f"| {data} | {labels} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--models", nargs="+", default=["arm means", "logistic", "gp", "auto"], choices=list(MODELS))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if not options.table:
        table = run(options.choose, options.seeds, options.models, options.jobs)
        if options.choose:
            print(markdown(table))
            return
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        table.drop(columns="seconds").round(5).to_csv(RESULT, index=False)
    print(markdown(pd.read_csv(RESULT)))


if __name__ == "__main__":
    main()
