"""One covariate, little overlap at both ends: the paper's illustration (after Kallus et al., 2019)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit

from causalbald._typing import Array
from causalbald._validation import check_int, check_number
from causalbald.datasets._base import Benchmark, Split, register
from causalbald.errors import InputError


def response(x: Array, t: int) -> Array:
    """Return the expected outcomes (N,) of units with covariates x (N,) under arm ``t``, 0 or 1.

    mu_t(x) = (2t - 1) x + (2t - 1) - 2 sin(2 (2t - 1) x) + 2 (1 + 0.5 x), as in Jesson et al. (2021), after Kallus et
    al. (2019).
    """
    sign = 2 * t - 1
    result: Array = sign * x + sign - 2 * np.sin(2 * sign * x) + 2 * (1 + 0.5 * x)
    return result


@register("synthetic")
def synthetic(
    seed: int = 0,
    *,
    pool: int = 10_000,
    validation: int = 1_000,
    test: int = 2_000,
    beta: float = 2.0,
    sigma: float = 1.0,
    bimodal: bool = False,
) -> Benchmark:
    """One covariate with weak overlap at both ends, non-linear effect, unit noise (the synthetic data of the paper).

    Parameters
    ----------
    seed : int
        Pool, validation and test are drawn with the seeds ``seed``, ``seed + 1`` and ``seed + 2``.
    pool, validation, test : int
        Numbers of units.
    beta : float
        How strongly the treatment depends on the covariate: P(T=1) = sigmoid(beta x + 0.5).
    sigma : float
        Standard deviation of the outcome noise.
    bimodal : bool
        Whether x is drawn from two modes, half N(-2, 0.7) and half N(2, 0.7), instead of N(0, 1).

    Returns
    -------
    Benchmark

    Raises
    ------
    InputError
        If a number is out of its range, or ``bimodal`` is not True or False.

    Examples
    --------
    >>> from causalbald.datasets import synthetic
    >>> synthetic(seed=3, pool=100).pool
    Split(units=100, covariates=1, treated=53)
    """
    seed = check_int(seed, "seed", low=0)
    sizes = [check_int(n, k, low=1) for k, n in (("pool", pool), ("validation", validation), ("test", test))]
    beta, sigma = check_number(beta, "beta"), check_number(sigma, "sigma", low=0)
    if not isinstance(bimodal, bool):
        raise InputError(f"bimodal must be True or False, got {bimodal!r}.")
    splits = (_draw(np.random.default_rng(seed + k), n, beta, sigma, bimodal) for k, n in enumerate(sizes))
    return Benchmark("synthetic", *splits)


@register("synthetic-bimodal")
def synthetic_bimodal(seed: int = 0) -> Benchmark:
    """The synthetic data with covariates from two modes far apart: few units are where the arms overlap.

    This is :func:`synthetic` with ``bimodal=True``. Its other options keep their defaults.
    """
    return replace(synthetic(seed, bimodal=True), name="synthetic-bimodal")


def _draw(rng: np.random.Generator, n: int, beta: float, sigma: float, bimodal: bool) -> Split:
    """Return ``n`` units with simulated arms and outcomes; the options are those of :func:`synthetic`."""
    x = rng.normal(size=n)
    if bimodal:
        x = 0.7 * x + rng.choice([-2.0, 2.0], size=n)
    propensity = expit(beta * x + 0.5)
    t = rng.binomial(1, propensity).astype(np.intp)
    mu0, mu1 = response(x, 0), response(x, 1)
    y = np.where(t == 1, mu1, mu0) + sigma * rng.normal(size=n)
    return Split(x[:, None], t, y, mu0, mu1, propensity)
