"""Fit 500 labelled MNIST images and score 35,000: seconds, peak memory and test error. Run by `make bench-images`.

    python benchmarks/images.py --data-dir FOLDER --model due --schedule ours --track paid

FOLDER holds the four original MNIST files. `--schedule paper` is the original's (100 batches an epoch; patience 5
for due, 20 for the ensemble), which takes long; one run is enough. Rows are added to results/models/images.csv.

With `--parts FOLDER` the ensemble's members are trained one after another, which gives the same networks as training
them at once. FOLDER stores each member's effects on the test images, and the next start continues with the next member.
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import torch

from causalbald import datasets, metrics, pools
from causalbald.models import CateEstimator, DeepKernelGP, GaussianProcess, LabelSet, TarnetEnsemble

RESULTS = Path(__file__).parent.parent / "results" / "models" / "images.csv"


def make(model: str, schedule: str, seed: int) -> CateEstimator:
    options: dict[str, Any] = {"random_state": seed}
    if model == "gp":
        return GaussianProcess(**options)
    if schedule == "paper":
        options |= {"epoch_steps": 100, "max_epochs": 500, "max_validation": 5_000}
        by_model: dict[str, dict[str, Any]] = {
            "due": {"patience": 5, "inference": "minibatch", "members": 1},
            "ensemble": {"patience": 20, "batch_size": 200},
        }
        options |= by_model[model]
    return DeepKernelGP.preset("cmnist", **options) if model == "due" else TarnetEnsemble.preset("cmnist", **options)


def one_by_one(
    model: TarnetEnsemble, measured: datasets.Split, data: datasets.Benchmark, validation: Any, parts: Path
) -> tuple[float, Any]:
    """Return seconds spent and the mean of the members' effects on the test images, member by member."""
    parts.mkdir(parents=True, exist_ok=True)
    validation_labels = None if validation is None else LabelSet(*validation)
    labels, stop_labels = model._prepare(LabelSet(measured.y, measured.t, measured.x), data.pool.x, validation_labels)
    members = model.members or 0
    member_labels = model._member_labels(labels, stop_labels, members)
    for m in range(members):
        path = parts / f"member-{m}.npz"
        if not path.exists():
            started = perf_counter()
            network, steps = model._train(member_labels.of_member(m), model._streams("member", members).of_member(m))
            seconds = perf_counter() - started
            model.network_, model.steps_ = network, steps
            mean = np.concatenate([model._moments(x)[0] for x in np.array_split(data.test.x, 200)], axis=1)[0]
            np.savez(path, effect=(mean[:, 1] - mean[:, 0]) * model.scaling_.y_scale, seconds=seconds, steps=steps)
            print(f"member {m}: {seconds:.0f} s, {steps} steps", flush=True)
    results = [np.load(parts / f"member-{m}.npz") for m in range(members)]
    model.steps_ = [int(result["steps"][0]) for result in results]
    return float(sum(result["seconds"] for result in results)), np.mean(
        [result["effect"] for result in results], axis=0
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--model", choices=["gp", "due", "ensemble"], required=True)
    parser.add_argument("--schedule", choices=["ours", "paper"], default="ours")
    parser.add_argument("--track", choices=["paid", "paper"], default="paid")
    parser.add_argument("--labels", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--parts", type=Path)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    data = datasets.load("cmnist", a.seed, data_dir=a.data_dir)
    labels, validation_split = (
        data.pool.take(np.random.default_rng(a.seed).permutation(len(data.pool))[: a.labels]),
        data.validation,
    )
    validation = (validation_split.y, validation_split.t, validation_split.x) if a.track == "paper" else None
    model = make(a.model, a.schedule, a.seed)
    if a.parts is not None and isinstance(model, TarnetEnsemble):
        seconds, effect = one_by_one(model, labels, data, validation, a.parts)
        seconds_score = float("nan")
    else:
        started = perf_counter()
        model.fit(labels.y, labels.t, X=labels.x, pool=data.pool.x, validation=validation)
        seconds = perf_counter() - started
        pools.score_pool(model, pools.MemoryPool(data.pool.x, data.pool.t), "mu-rho-bald")
        seconds_score = perf_counter() - started - seconds
        effect = model.effect(data.test.x)
    row = {
        **{k: getattr(a, k) for k in ("model", "schedule", "track", "labels", "seed")},
        "seconds_fit": round(seconds, 1),
        "seconds_score": round(seconds_score, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "sqrt_pehe": round(metrics.sqrt_pehe(effect, data.test.effect), 3),
        "steps": int(np.mean(getattr(model, "steps_", [0]))),
    }
    print(row, f"standard deviation of the true effects: {data.test.effect.std():.2f}")
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame([row]).to_csv(RESULTS, mode="a", header=not RESULTS.exists(), index=False)


if __name__ == "__main__":
    main()
