"""Patience of an ensemble on IHDP, seeds 1000 to 1003, with validation labels, paired.

With the same seed, all steps up to the earlier stop are the same. Fits differ only if the longer patience led to a
better score. Rows go to results/models/patience.csv.
"""

from __future__ import annotations

from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd

from causalbald import datasets, metrics
from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald.models import TarnetEnsemble

RESULT = Path(__file__).parent.parent / "results" / "models" / "patience.csv"


@one_thread()
def fit(seed: int, labels: int, patience: int) -> dict[str, object]:
    data = datasets.load("ihdp", seed)
    measured = data.pool.take(generator(seed, "patience").permutation(len(data.pool))[:labels])
    validation = (data.validation.y, data.validation.t, data.validation.x)
    model, started = TarnetEnsemble.preset("ihdp", random_state=seed, patience=patience), process_time()
    model.fit(measured.y, measured.t, X=measured.x, pool=data.pool.x, validation=validation)
    seconds, error = process_time() - started, metrics.sqrt_pehe(model.effect(data.test.x), data.test.effect)
    steps = " ".join(map(str, model.steps_))
    return {"seed": seed, "labels": labels, "patience": patience, "steps": steps, "seconds": seconds, "pehe": error}


def main() -> None:
    rows = [fit(seed, labels, p) for seed in range(1000, 1004) for labels in (100, 200, 300) for p in (10, 4)]
    table = pd.DataFrame(rows)
    table.to_csv(RESULT, index=False, float_format="%.4g")
    long, short = (table[table.patience == p].reset_index() for p in (10, 4))
    step_pairs = [zip(a.split(), b.split(), strict=True) for a, b in zip(long.steps, short.steps, strict=True)]
    same = np.mean([x == y for pair in step_pairs for x, y in pair])
    print(f"{same:.0%} of the members stop at the same step")
    print(f"seconds {short.seconds.sum() / long.seconds.sum():.2f} times, error {long.pehe.mean():.3f}", end=" ")
    print(f"with patience 10, {short.pehe.mean():.3f} with patience 4")


if __name__ == "__main__":
    main()
