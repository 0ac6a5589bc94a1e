"""Error and coverage of the Gaussian process. Writes results/gp/quality.csv.

python benchmarks/quality.py            # run
python benchmarks/quality.py --table    # the stored results, as Markdown
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from causalbald import datasets, metrics, models
from causalbald.experiments import TrialSpec

RESULT = Path(__file__).parent.parent / "results" / "gp" / "quality.csv"
SYNTHETIC = {"warm_start": 10, "batch_size": 10}


def describe(
    study: str, seed: int, labels: int, effect: np.ndarray, low: np.ndarray, high: np.ndarray
) -> dict[str, object]:
    """Return a row of the table."""
    return {
        "study": study,
        "seed": seed,
        "labels": labels,
        "pehe": metrics.sqrt_pehe((low + high) / 2, effect),
        "coverage95": metrics.interval_coverage(low, high, effect),
        "width": metrics.interval_width(low, high),
    }


def ihdp(seed: int) -> list[dict[str, object]]:
    """Return rows for random labels of IHDP."""
    b = datasets.load("ihdp", seed)
    rows = []
    for labels in (100, 200, 300):
        d = b.pool.take(np.random.default_rng(seed).permutation(len(b.pool))[:labels])
        model = models.load("gp", random_state=seed).fit(d.y, d.t, X=d.x, pool=b.pool.x)
        rows.append(describe("ihdp, random", seed, labels, b.test.effect, *model.effect_interval(b.test.x)))
    return rows


def synthetic(seed: int, acquisition: str) -> list[dict[str, object]]:
    """Return rows for labels that a simulated study bought, inside and outside overlap."""
    b = datasets.load("synthetic", seed)
    assert b.test.propensity is not None
    inside = (b.test.propensity >= 0.1) & (b.test.propensity <= 0.9)
    table = TrialSpec("synthetic", acquisition, **SYNTHETIC, steps=30, seed=seed).run().table()  # type: ignore[arg-type]
    acquired = np.concatenate(table.attrs["acquired"])
    rows = []
    for labels in (50, 100, 160, 310):
        d = b.pool.take(acquired[:labels])
        model = models.load("gp", random_state=seed).fit(d.y, d.t, X=d.x, pool=b.pool.x)
        low, high = model.effect_interval(b.test.x)
        for name, where in (("overlap", inside), ("no overlap", ~inside)):
            study = f"synthetic, {acquisition}, {name}"
            rows.append(describe(study, seed, labels, b.test.effect[where], low[where], high[where]))
    return rows


def main() -> None:
    jobs = [delayed(ihdp)(seed) for seed in range(20)]
    jobs += [delayed(synthetic)(seed, a) for seed in range(10) for a in ("random", "mu-rho-bald")]
    table = pd.DataFrame([row for rows in Parallel(n_jobs=2)(jobs) for row in rows])
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    table.round(4).to_csv(RESULT, index=False)


def markdown(table: pd.DataFrame) -> str:
    """Return the table of the documentation, by study and labels."""
    lines = ["| study | labels | mean error | median error | coverage | mean width |", "| --- " * 6 + "|"]
    for name in table["study"].unique():
        for labels, rows in table[table["study"] == name].groupby("labels"):
            columns = rows["pehe"].mean(), rows["pehe"].median(), rows["coverage95"].mean(), rows["width"].mean()
            lines.append(f"| {name} | {labels} | {' | '.join(f'{value:.2f}' for value in columns)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if "--table" not in sys.argv:
        main()
    print(markdown(pd.read_csv(RESULT)))
