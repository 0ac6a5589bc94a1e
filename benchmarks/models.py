"""Deep models: seconds per fit and test error, compared with what a user would write instead. Run by `make bench`.

1. `due` on both tracks against a GPyTorch deep kernel trained with the paper's schedule (benchmarks/peer.py), one
   after another for the same labels, one thread.
2. The ensemble's members trained at once against one after another, same seeds.

Rows are added to speed.csv and ensemble.csv in `--out` as they come, and the next start continues there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import torch
from peer import SETTINGS, Peer
from scipy.special import stdtrit

from causalbald import datasets, metrics
from causalbald.datasets import Split
from causalbald.models import CateEstimator, DeepKernelGP, LabelSet, TarnetEnsemble

FITS = [("ihdp", 300, 10), ("ihdp", 100, 3), ("synthetic", 100, 2)]
ENSEMBLES = [("synthetic", 100, 3), ("ihdp", 300, 1)]


def resume(path: Path, keys: list[tuple[Any, ...]], run: Callable[..., dict[str, Any]]) -> pd.DataFrame:
    """Run what is missing of ``keys`` (data set, labels, seed) and return the whole table."""
    done = (
        set(pd.read_csv(path)[["dataset", "labels", "seed"]].itertuples(index=False, name=None))
        if path.exists()
        else set()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    for dataset, labels, seed in keys:
        if (dataset, labels, seed) not in done:
            row = {"dataset": dataset, "labels": labels, "seed": seed, **run(dataset, labels, seed)}
            pd.DataFrame([row]).round(4).to_csv(path, mode="a", header=not path.exists(), index=False)
            print(row, flush=True)
    return pd.read_csv(path)


def measured_units(dataset: str, labels: int, seed: int) -> tuple[datasets.Benchmark, Split]:
    data = datasets.load(dataset, seed)
    return data, data.pool.take(np.random.default_rng(seed).permutation(len(data.pool))[:labels])


def fit(model: CateEstimator, data: datasets.Benchmark, measured: Split, *, free: bool) -> tuple[float, float]:
    """Return seconds of the fit and the error on the test split."""
    v = data.validation
    started = perf_counter()
    model.fit(measured.y, measured.t, X=measured.x, pool=data.pool.x, validation=(v.y, v.t, v.x) if free else None)
    seconds = perf_counter() - started
    return seconds, metrics.sqrt_pehe(model.effect(data.test.x), data.test.effect)


def against_peer(dataset: str, labels: int, seed: int) -> dict[str, Any]:
    """Return seconds and errors of `due` on both tracks and of the peer, for the same labels."""
    data, measured = measured_units(dataset, labels, seed)
    row: dict[str, Any] = {}
    for track in ("paper", "paid"):
        model = DeepKernelGP.preset(dataset, random_state=seed)
        row[f"seconds_{track}"], row[f"pehe_{track}"] = fit(model, data, measured, free=track == "paper")
    started = perf_counter()
    peer = Peer(SETTINGS[dataset], seed).fit(measured, data.validation)
    row |= {
        "seconds_peer": perf_counter() - started,
        "steps_peer": peer.steps,
        "ms_per_step": peer.milliseconds_per_step,
    }
    row["pehe_peer"] = metrics.sqrt_pehe(peer.effect(data.test.x), data.test.effect)
    return row


def at_once(dataset: str, labels: int, seed: int) -> dict[str, Any]:
    """Return seconds of an ensemble's fit with all members at once, and one after another."""
    data, measured = measured_units(dataset, labels, seed)
    model = TarnetEnsemble.preset(dataset, random_state=seed)
    seconds, error = fit(model, data, measured, free=False)
    bought, _ = model._prepare(LabelSet(measured.y, measured.t, measured.x), data.pool.x, None)
    study = model._member_labels(bought, None, 5)
    started = perf_counter()
    for m in range(5):
        model._train(study.of_member(m), model._streams("member", 5).of_member(m))
    return {"seconds_at_once": seconds, "seconds_one_by_one": perf_counter() - started, "pehe": error}


def paired_ratio(ours: pd.Series, theirs: pd.Series) -> str:
    """Return the geometric mean of paired ratios with a 95 % t-interval."""
    logs = np.log(ours / theirs)
    reach = stdtrit(len(logs) - 1, 0.975) * logs.std(ddof=1) / np.sqrt(len(logs))
    low, middle, high = np.exp(logs.mean() + np.array([-reach, 0, reach]))
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    out = parser.parse_args().out
    torch.set_num_threads(1)
    fit(DeepKernelGP(max_epochs=1), *measured_units("synthetic", 50, 0), free=False)  # the first fit loads libraries
    table = resume(out / "speed.csv", [(d, n, s) for d, n, seeds in FITS for s in range(seeds)], against_peer)
    for (dataset, labels), rows in table.groupby(["dataset", "labels"], sort=False):
        peer = rows[["ms_per_step", "steps_peer", "seconds_peer", "pehe_peer"]].mean()
        print(f"\n{dataset}, {labels} labels, {len(rows)} seeds")
        print("peer: {:.1f} ms per step, {:.0f} steps, {:.1f} s, sqrt-PEHE {:.2f}".format(*peer))
        for track in ("paper", "paid"):
            seconds, error = rows[f"seconds_{track}"], rows[f"pehe_{track}"]
            print(
                f"due, track {track}: {seconds.mean():.2f} s, sqrt-PEHE {error.mean():.2f}, "
                f"peer's time over ours {rows.seconds_peer.sum() / seconds.sum():.1f}, "
                f"error ratio {paired_ratio(error, rows.pehe_peer)}"
            )
    table = resume(out / "ensemble.csv", [(d, n, s) for d, n, seeds in ENSEMBLES for s in range(seeds)], at_once)
    for (dataset, labels), rows in table.groupby(["dataset", "labels"], sort=False):
        once, one = rows.seconds_at_once.sum(), rows.seconds_one_by_one.sum()
        print(
            f"\nensemble, {dataset}, {labels} labels: at once {once / len(rows):.1f} s, {one / once:.1f} times faster"
        )


if __name__ == "__main__":
    main()
