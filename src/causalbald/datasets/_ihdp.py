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
    """Return the covariates (747, 25) and arms (747,) of the 747 infants, and the names of the covariates.

    Continuous covariates are standardised over the 747 infants; the others are as recorded. The arrays are read-only,
    because all callers share them.
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

    The mean effect on the treated is 4. The noise has standard deviation 1, with one draw for both potential outcomes.

    Parameters
    ----------
    seed : int
        Seed of the outcomes and the splits.

    Returns
    -------
    Benchmark

    Examples
    --------
    >>> from causalbald.datasets import ihdp
    >>> ihdp(seed=1).pool
    Split(units=470, covariates=25, treated=90)
    """
    x, t, names = covariates()
    rng = np.random.default_rng(check_int(seed, "seed", low=0))
    mu0, mu1 = _hill.surface_b((x + 0.5) @ _hill.coefficients(x.shape[1], rng), t)
    y = _hill.outcomes(mu0, mu1, t, rng)
    drawn = Benchmark.from_arrays(x, t, y, mu0, mu1, seed=seed, name="ihdp")
    return replace(drawn, covariate_names=names)


@register("ihdp-cov")
def ihdp_cov(seed: int = 0) -> Benchmark:
    """IHDP with a covariate shift: pool and validation have children of married mothers only, test has all children.

    The covariate ``b.marr``, whether the mother is married, is left out of all splits. Otherwise the data are those of
    :func:`ihdp` for the same seed.

    Parameters
    ----------
    seed : int
        Seed of the outcomes and the splits.

    Returns
    -------
    Benchmark

    Examples
    --------
    >>> from causalbald.datasets import ihdp_cov
    >>> len(ihdp_cov(seed=1).test.x[0])
    24
    """
    benchmark = ihdp(seed)
    married = benchmark.covariate_names.index("b.marr")

    def hide(split: Split) -> Split:
        """Return a split without the covariate ``b.marr``."""
        return replace(split, x=np.delete(split.x, married, axis=1))

    def shift(split: Split) -> Split:
        """Return the children of married mothers, without the covariate ``b.marr``."""
        return hide(split.take(np.flatnonzero(split.x[:, married] == 1)))

    names = tuple(name for name in benchmark.covariate_names if name != "b.marr")
    splits = (shift(benchmark.pool), shift(benchmark.validation), hide(benchmark.test))
    return Benchmark("ihdp-cov", *splits, covariate_names=names)
