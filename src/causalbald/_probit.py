"""Moments of binary outcomes under the probit link.

Symbols: f latent scores of a unit under K arms, Gaussian with means m (N, K) and covariances V (N, K, K); an event is
f + e > 0 with e ~ N(0, 1), so that its probability given f is Phi(f). v are the variances, the diagonals of V, and
z = m / sqrt(1 + v) is the *index*: the probability of an event is E Phi(f) = Phi(z).
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr, owens_t

from causalbald._gaussian import bivariate_cdf
from causalbald._typing import Array

_ROUNDING_SHARE = 1e-14  # share of a probability that rounding takes off its variance
_MAX_LOG_RATIO = 50.0  # exp of more says only that the outcome teaches nothing


def event_covariance(index: Array, covariance: Array) -> Array:
    """Return Cov(Phi(f_a), Phi(f_b)), the covariance of event probabilities between a unit's arms, (N, K, K).

    ``index`` is z (N, K), and ``covariance`` is V (N, K, K). Variances are slightly above 0 even if rounding gives 0.
    """
    # E Phi(f_a) Phi(f_b) = Phi_2(z_a, z_b; V_ab / sqrt((1 + v_a) (1 + v_b))).
    # In each arm the rarer outcome is taken, with index -|z|: numbers near 0 are exact, numbers near 1 are not.
    # 1 - Phi(f) = Phi(-f), so that a swapped arm changes the sign of its covariances.
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    rare_index, sign = -np.abs(index), np.where(index > 0, -1.0, 1.0)
    rare, signs = ndtr(rare_index), sign[:, :, None] * sign[:, None, :]
    spread = np.sqrt(1 + variance)
    correlation = signs * covariance / (spread[:, :, None] * spread[:, None, :])
    joint = bivariate_cdf(rare_index[:, :, None], rare_index[:, None, :], correlation)
    moments: Array = signs * (joint - rare[:, :, None] * rare[:, None, :])
    arms = np.arange(rare.shape[1])
    moments[:, arms, arms] = np.maximum(moments[:, arms, arms], _ROUNDING_SHARE * rare)
    return moments


def event_noise(index: Array, variance: Array) -> Array:
    """Return E Phi(f) (1 - Phi(f)), the variance of an outcome around its probability.

    ``index`` z and ``variance`` v have the same shape, and so has the result.
    """
    # Phi(z) - Phi_2(z, z; v / (1 + v)) = 2 T(z, 1 / sqrt(1 + 2 v)) with Owen's function T.
    return np.asarray(2 * owens_t(index, 1 / np.sqrt(1 + 2 * variance)))


def event_slope(index: Array, variance: Array) -> Array:
    """Return the slope of the best linear prediction of Phi(f) from f.

    ``index`` z and ``variance`` v have the same shape, and so has the result.
    """
    # Cov(Phi(f), f) / v = E phi(f) = phi(z) / sqrt(1 + v), by Stein's identity.
    slope: Array = np.exp(-0.5 * index**2) / (np.sqrt(2 * np.pi) * np.sqrt(1 + variance))
    return slope


def equivalent_noise(index: float, variance: float) -> float:
    """Return the noise variance of a measurement of f that teaches as much about f as the binary outcome y does.

    ``index`` is z and ``variance`` is v of one unit and arm. The result is limited to about exp(50). Called by
    ``Posterior.measurement_variance``.
    """
    # With p = Phi(z) and Cov(f, y) = v slope, the two values of y leave v - v² slope² / (p (1 - p)) of v on average.
    # A measurement f + noise of variance n leaves v - v² / (v + n). The two are equal for n = p (1 - p) / slope² - v.
    log_ratio = log_ndtr(index) + log_ndtr(-index) + index**2 + np.log(2 * np.pi * (1 + variance))
    return float(np.exp(min(log_ratio, _MAX_LOG_RATIO)) - variance)
