"""IHDP: the covariates of a real study with simulated outcomes (Hill, 2011, response surface B)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files

import numpy as np

from causalbald._typing import Array, Treatment
from causalbald._validation import check_int
from causalbald.datasets import _hill
from causalbald.datasets._base import Benchmark, Split, register

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
    x, t, names = covariates()
    rng = np.random.default_rng(check_int(seed, "seed", low=0))
    mu0, mu1 = _hill.surface_b((x + 0.5) @ _hill.coefficients(x.shape[1], rng), t)
    y = _hill.outcomes(mu0, mu1, t, rng)
    drawn = Benchmark.from_arrays(x, t, y, mu0, mu1, seed=seed, name="ihdp")
    return replace(drawn, covariate_names=names)


@register("ihdp-cov")
def ihdp_cov(seed: int = 0) -> Benchmark:
    """IHDP with a covariate shift: pool and validation hold children of married mothers only, test holds all.

    Otherwise the data of ``ihdp`` for the same seed, without the covariate ``b.marr``, which says who is married.
    """
    whole = ihdp(seed)
    married = whole.covariate_names.index("b.marr")

    def hide(split: Split) -> Split:
        return replace(split, x=np.delete(split.x, married, axis=1))

    def shift(split: Split) -> Split:
        return hide(split.take(np.flatnonzero(split.x[:, married] == 1)))

    names = tuple(name for name in whole.covariate_names if name != "b.marr")
    return Benchmark("ihdp-cov", shift(whole.pool), shift(whole.validation), hide(whole.test), covariate_names=names)
