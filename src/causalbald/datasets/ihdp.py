"""IHDP: the covariates of a real study with simulated outcomes (Hill, 2011, response surface B)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np

from causalbald._typing import Array, Treatment
from causalbald.datasets.base import Benchmark, register

CONTINUOUS = ("bw", "b.head", "preterm", "birth.o", "nnhealth", "momage")


@cache
def covariates() -> tuple[Array, Treatment, tuple[str, ...]]:
    """Return the 747 infants' covariates (747, 25), arms (747,) and covariate names, read-only.

    Continuous covariates are standardised over the 747; the others are as recorded.
    """
    text = (files("causalbald.datasets") / "data" / "ihdp.csv").read_text()
    header = text.partition("\n")[0].split(",")
    table = np.loadtxt(text.splitlines()[1:], delimiter=",")
    x, t = table[:, 1:], table[:, 0].astype(np.intp)
    k = len(CONTINUOUS)
    x[:, :k] = (x[:, :k] - x[:, :k].mean(axis=0)) / x[:, :k].std(axis=0)
    x.flags.writeable = t.flags.writeable = False
    return x, t, tuple(header[1:])


@register("ihdp")
def ihdp(seed: int = 0) -> Benchmark:
    """747 premature infants, 25 covariates, outcomes simulated anew for each seed (Hill's response surface B).

    The mean effect on the treated is 4, the noise has standard deviation 1, one draw for both potential outcomes.
    """
    x, t, _ = covariates()
    rng = np.random.default_rng(seed)
    coefficients = rng.choice([0, 0.1, 0.2, 0.3, 0.4], size=x.shape[1], p=[0.6, 0.1, 0.1, 0.1, 0.1])
    linear = (x + 0.5) @ coefficients
    mu0 = np.exp(linear)
    mu1 = linear - ((linear - mu0)[t == 1].mean() - 4)
    y = np.where(t == 1, mu1, mu0) + rng.normal(size=len(t))
    return Benchmark.from_arrays(x, t, y, mu0, mu1, seed=seed, name="ihdp")
