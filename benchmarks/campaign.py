"""How many measurements choosing saves on IHDP, where true effects are known: campaigns that choose or draw people.

    python benchmarks/campaign.py --seeds 20

Campaigns see no outcome before it is told. They start from the same 100 random outcomes; then 20 rounds ask for 10
people and tell their outcomes. Rows are added to results/campaign/ihdp.csv as campaigns end, and the next start
continues there. Errors are of expected effects, on the test split (pehe) and on the pool (pehe_pool).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from causalbald import datasets, metrics
from causalbald._threads import one_thread
from causalbald.campaign import Campaign
from causalbald.campaign.storage import MemoryStorage
from causalbald.experiments import warm_start_positions
from causalbald.metrics import areas, paired_interval

RESULT = Path(__file__).parent.parent / "results" / "campaign" / "ihdp.csv"
KEYS = ["model", "acquisition", "seed"]
WARM_START, ROUNDS, BATCH = 100, 20, 10


def frame(split: datasets.Split, names: tuple[str, ...]) -> pd.DataFrame:
    """Return the table of people before any measurement."""
    return pd.DataFrame(split.x, columns=list(names)).assign(infant=np.arange(len(split)), visited=split.t)


def run(model: str, acquisition: str, seed: int) -> pd.DataFrame:
    """Run one campaign, on one thread, and return a row per fit."""
    with one_thread():
        return pd.DataFrame(rounds(model, acquisition, seed))


def rounds(model: str, acquisition: str, seed: int) -> Iterator[dict[str, Any]]:
    data = datasets.load("ihdp", seed)
    pool, test = (frame(split, data.covariate_names) for split in (data.pool, data.test))
    options: dict[str, Any] = {"id": "infant", "treatment": "visited", "outcome": "score"}
    study = Campaign.create(MemoryStorage(), pool, model=model, acquisition=acquisition, seed=seed, **options)
    told = warm_start_positions(data.pool.t, WARM_START, seed).tolist()
    for step in range(ROUNDS + 1):
        started = perf_counter()
        study.tell({unit: float(data.pool.y[unit]) for unit in told})
        row = {
            "model": model,
            "acquisition": acquisition,
            "seed": seed,
            "labels": study.status()["units"]["measured"]["all"],
            "pehe": metrics.sqrt_pehe(study.predict(test)["effect"], data.test.effect),
            "pehe_pool": metrics.sqrt_pehe(study.effects()["effect"], data.pool.effect),
            "ate_error": abs(study.ate().effect - data.pool.effect.mean()),
        }
        if step < ROUNDS:
            told = study.ask(BATCH)["infant"].tolist()
        yield row | {"seconds": perf_counter() - started}


def describe(table: pd.DataFrame, acquisition: str, error: str) -> dict[str, Any]:
    """Return how many labels choosing needs compared with random, over the seeds of both methods."""
    both = set.intersection(*(set(table.loc[table["acquisition"] == a, "seed"]) for a in (acquisition, "random")))
    shown = table[table["seed"].isin(both)]
    own, random = (shown[shown["acquisition"] == a] for a in (acquisition, "random"))
    needed = metrics.labels_to_match(own, random, error=error)
    gap = (areas(own, error) - areas(random, error)).to_numpy()
    mean, lower, upper = paired_interval(gap)
    end = WARM_START + ROUNDS * BATCH
    return {
        "acquisition": acquisition,
        "error": error,
        "seeds": len(both),
        "random reaches": random.loc[random["labels"] == end, error].mean(),
        "labels needed": str(needed),
        "share": f"{needed.labels / end:.0%} [{needed.lower / end:.0%}, {needed.upper / end:.0%}]",
        "wins": f"{np.mean(gap < 0):.0%}",
        "difference of area": f"{mean:.3f} [{lower:.3f}, {upper:.3f}]",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--acquisition", action="append", help="repeatable; by default the campaign's own")
    parser.add_argument("--model", default="auto")
    parser.add_argument("--workers", type=int, default=2)
    a = parser.parse_args()
    methods = a.acquisition or ["default"]
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    done = set(pd.read_csv(RESULT)[KEYS].itertuples(index=False, name=None)) if RESULT.exists() else set()
    every = [(a.model, m, s) for s in range(a.seeds) for m in dict.fromkeys(["random", *methods])]
    left = [key for key in every if key not in done]
    jobs = (delayed(run)(*job) for job in left)
    for table in Parallel(n_jobs=a.workers, return_as="generator_unordered")(jobs):
        table.round(4).to_csv(RESULT, mode="a", header=not RESULT.exists(), index=False)
        print(*table.iloc[-1][[*KEYS, "pehe", "pehe_pool"]], f"{table['seconds'].sum():.0f} s", flush=True)
    found = pd.read_csv(RESULT).sort_values([*KEYS, "labels"])
    found.to_csv(RESULT, index=False)
    own = found[found["model"] == a.model]
    rows = [describe(own, m, e) for m in methods if m != "random" for e in ("pehe", "pehe_pool")]
    print(pd.DataFrame(rows).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
