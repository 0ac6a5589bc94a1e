"""Gaussian integrals that have no one-line closed form, vectorised over units."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, owens_t, xlogy

from causalbald._typing import Array

_MAX_SDS = 8.5  # standard deviations around the mean that carry all but 2e-17 of a Gaussian's mass
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def expectation(
    function: Callable[[Array], Array], mean: Array, sd: Array, low: Array | float, high: Array | float
) -> Array:
    """Return the integral of function(z) times the density of z ~ N(mean, sd²) from low to high, for each unit (N,).

    ``mean`` (N,) and ``sd`` (N,), above 0, belong to units; ``low`` and ``high`` may do so too. ``function`` takes and
    returns (N, nodes). Gauss-Legendre quadrature runs over the part of [low, high] where the density is not negligible;
    the result is 0 if there is none. For an exact result choose [low, high] where ``function`` is not negligible, and
    split the range at kinks of ``function``.
    """
    start = np.maximum(mean - _MAX_SDS * sd, low)
    stop = np.maximum(np.minimum(mean + _MAX_SDS * sd, high), start)
    half = (stop - start)[:, None] / 2
    z = start[:, None] + half * (1 + _NODES)
    standard = (z - mean[:, None]) / sd[:, None]
    density = np.exp(-0.5 * standard**2) / (np.sqrt(2 * np.pi) * sd[:, None])
    total: Array = (half * function(z) * density) @ _WEIGHTS
    return total


def bernoulli_entropy(p: Array) -> Array:
    """Return the entropy (nats) of Bernoulli variables with probabilities ``p``, in the shape of ``p``."""
    entropy: Array = -(xlogy(p, p) + xlogy(1 - p, 1 - p))
    return entropy


def bivariate_cdf(h: Array, k: Array, correlation: Array) -> Array:
    """Return P(Z1 < h, Z2 < k) for standard normals with the given correlation, by Owen's T function.

    The three arrays are broadcast against each other. Owen, Tables for Computing Bivariate Normal Probabilities (1956,
    doi:10.1214/aoms/1177728074), equation 2.1.
    """
    # With r = sqrt(1 - rho²) it is ½ (Phi(h) + Phi(k)) - T(h, (k / h - rho) / r) - T(k, (h / k - rho) / r),
    # less ½ if h k < 0.
    h, k, correlation = np.broadcast_arrays(h, k, correlation)
    # Owen's formula divides by h and k: a shift of 1e-12 changes the result by less than 1e-12.
    h = np.where(np.abs(h) < 1e-12, 1e-12, h)
    k = np.where(np.abs(k) < 1e-12, 1e-12, k)
    root = np.sqrt(np.maximum(1 - correlation**2, 1e-30))
    opposite = np.where(h * k < 0, 0.5, 0.0)
    mass = 0.5 * (ndtr(h) + ndtr(k)) - opposite
    mass = mass - owens_t(h, (k / h - correlation) / root) - owens_t(k, (h / k - correlation) / root)
    result: Array = np.clip(mass, 0.0, np.minimum(ndtr(h), ndtr(k)))
    return result


def interval(mean: Array, reach: Array, largest: Array | float) -> tuple[Array, Array]:
    """Return the lower and upper ends of intervals for effects, mean ± reach, none beyond ± ``largest``.

    ``reach`` is ``Posterior.quantile`` times the standard deviation. Called by everything that states an interval.
    """
    return np.maximum(mean - reach, -largest), np.minimum(mean + reach, largest)
