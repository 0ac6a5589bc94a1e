"""Ways to relate two arms in one kernel, compared on paired seeds. Writes results/gp/kernels.csv.

    python benchmarks/kernels.py        # runs only what is missing in that table

Seeds 1000 to 1009. The choice was made after seeing these and synthetic seeds 0 to 11;
benchmarks/fresh_seeds.py checks it on seeds on which nothing was chosen.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from torch import Tensor

from causalbald import datasets, metrics
from causalbald.experiments import run_trial
from causalbald.models import GaussianProcess
from causalbald.models._effect_kernel import Hyperparameters, Prior

SEEDS = range(1000, 1010)
RESULT = Path(__file__).parent.parent / "results" / "gp" / "kernels.csv"


def with_weights(free: Tensor, rows: list[list[Tensor]]) -> Hyperparameters:
    weights = torch.stack([torch.stack(row) for row in rows])
    return Hyperparameters(free[:-7].reshape(2, -1), weights, free[-4:-2], free[-2:])


class Wide(Prior):
    """Wide priors on lengthscales and noises, under which the kernels below were compared."""

    @property
    def centre(self) -> np.ndarray:
        """Prior mean of the free parameters."""
        values = super().centre
        values[: 2 * self.dimension] -= 0.5
        values[-2:] = -2.0
        return values

    @property
    def spread(self) -> np.ndarray:
        """Prior standard deviation of the free parameters."""
        values = super().spread
        values[: 2 * self.dimension] = 1.0
        values[-2:] = 2.0
        return values


class Symmetric(Wide):
    """mu = s ± e / 2: equal shared weight, effect part split between the arms."""

    @staticmethod
    def unpack(free: Tensor) -> Hyperparameters:
        shared, half = free[-7].exp(), free[-5].exp() / 2
        return with_weights(free, [[shared, shared], [-half, half]])


class Independent(Wide):
    """mu_0 and mu_1 share nothing."""

    @staticmethod
    def unpack(free: Tensor) -> Hyperparameters:
        none = torch.zeros_like(free[0])
        return with_weights(free, [[free[-7].exp(), none], [none, free[-5].exp()]])


class Free(Wide):
    """Both parts in both arms, weights of any sign on a linear scale: a part can vanish."""

    @property
    def centre(self) -> np.ndarray:
        """Prior mean of the free parameters."""
        values = super().centre
        values[-7:-4] = [1.0, 1.0, 0.5]
        return values

    @staticmethod
    def unpack(free: Tensor) -> Hyperparameters:
        return with_weights(free, [[free[-7], free[-6]], [-free[-5], free[-5]]])


class Neutral(Wide):
    """Our kernel with a prior that is neutral about whether arms resemble each other, and a larger effect part."""

    @property
    def centre(self) -> np.ndarray:
        """Prior mean of the free parameters."""
        values = super().centre
        values[-6:-4] = 0.0
        return values

    @property
    def spread(self) -> np.ndarray:
        """Prior standard deviation of the free parameters."""
        values = super().spread
        values[-6] = 1.0
        return values


KERNELS = {
    "shared + effect (ours)": Prior,
    "shared + effect, wide prior": Wide,
    "symmetric": Symmetric,
    "independent": Independent,
    "free weights": Free,
    "neutral prior": Neutral,
}


def model(kernel: str, seed: int) -> GaussianProcess:
    variant: type[GaussianProcess] = type("Variant", (GaussianProcess,), {"prior_class": KERNELS[kernel]})
    return variant(random_state=seed, hyper_uncertainty=False)


def one(kernel: str, seed: int) -> list[dict[str, object]]:
    """Return errors and coverages of one kernel and seed in all studies."""
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    ihdp = datasets.load("ihdp", seed)
    for labels in (100, 200):
        data = ihdp.pool.take(np.random.default_rng(seed).permutation(len(ihdp.pool))[:labels])
        fitted = model(kernel, seed).fit(data.y, data.t, X=data.x, pool=ihdp.pool.x)
        low, high = fitted.effect_interval(ihdp.test.x)
        error = metrics.sqrt_pehe((low + high) / 2, ihdp.test.effect)
        coverage = metrics.interval_coverage(low, high, ihdp.test.effect)
        rows.append({"study": f"ihdp, random, {labels} labels", "pehe": error, "coverage95": coverage})
    for acquisition in ("random", "mu-rho-bald"):
        table = run_trial(
            datasets.load("synthetic", seed),
            model=model(kernel, seed),
            acquisition=acquisition,
            warm_start=10,
            batch_size=10,
            steps=15,
            seed=seed,
        )
        last = table.iloc[-1]
        study = f"synthetic, {acquisition}, 160 labels"
        rows.append({"study": study, "pehe": last["pehe"], "coverage95": last["coverage95"]})
    return [{"kernel": kernel, "seed": seed, **row} for row in rows]


def main() -> None:
    previous = pd.read_csv(RESULT) if RESULT.exists() else pd.DataFrame({"kernel": [], "seed": []})
    done = set(zip(previous["kernel"], previous["seed"], strict=True))
    jobs = (delayed(one)(kernel, seed) for kernel in KERNELS for seed in SEEDS if (kernel, seed) not in done)
    new_rows = pd.DataFrame([row for rows in Parallel(n_jobs=2)(jobs) for row in rows])
    table = pd.concat([previous, new_rows.round(4)], ignore_index=True)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(RESULT, index=False)
    summary = table.groupby(["study", "kernel"], sort=False)[["pehe", "coverage95"]].agg(["mean", "median"])
    print(summary.round(2).to_string())


if __name__ == "__main__":
    main()
