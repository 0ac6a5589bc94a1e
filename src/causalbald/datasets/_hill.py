"""Outcomes simulated on real covariates and treatments: response surface B of Hill (2011)."""

from __future__ import annotations

import numpy as np

from causalbald._typing import Array, Treatment
from causalbald.errors import InputError

_VALUES, _PROBABILITIES = (0, 0.1, 0.2, 0.3, 0.4), (0.6, 0.1, 0.1, 0.1, 0.1)
# What Hill's linear predictor has on average with 25 independent covariates in standard units.
_MEAN, _SPREAD = 1.25, 0.75**0.5
# How many standard deviations from the mean a unit counts at most, of a covariate and of the linear predictor.
_FARTHEST_COVARIATE, _FARTHEST_PREDICTOR = 3.0, 4.0
# Smallest standard deviation of a predictor that varies, from covariates in standard units.
_FLAT = 1e-3
# How often coefficients are drawn before a predictor is taken in which a few units differ from all others.
_MAX_DRAWS = 100
# How often a predictor is clipped, and the share of its spread that must be left.
_MAX_CLIPS, _MIN_SPREAD_LEFT = 200, 1e-6


def coefficients(covariates: int, rng: np.random.Generator) -> Array:
    """Draw the coefficients of the linear predictor, (D,)."""
    return rng.choice(_VALUES, size=covariates, p=_PROBABILITIES)


def surface_b(linear: Array, treatment: Treatment) -> tuple[Array, Array]:
    """Return expected outcomes without and with treatment, (N,) each, from the linear predictor (N,).

    Exponential without treatment and linear with it; the mean effect on the treated is 4.
    """
    mu0 = np.exp(linear)
    return mu0, linear - ((linear - mu0)[treatment == 1].mean() - 4)


def outcomes(mu0: Array, mu1: Array, treatment: Treatment, rng: np.random.Generator) -> Array:
    """Draw the outcomes under the arms that units got, (N,), with noise of standard deviation 1."""
    return np.where(treatment == 1, mu1, mu0) + rng.normal(size=len(treatment))


def linear_predictor(x: Array, rng: np.random.Generator) -> Array:
    """Draw a linear predictor (N,) of any covariates x (N, D), with the mean and spread of Hill's.

    Surfaces are as steep for two covariates as for a hundred, and for correlated ones. No unit is farther than three
    standard deviations from the mean of a covariate, or four from the mean of the predictor: the exponential of an
    outlier would be all that matters. A predictor in which only a few units differ from all others, such as the
    bearers of a rare mark, is drawn again, unless the covariates allow no other.
    """
    scale = x.std(axis=0)
    scale = np.where(scale > 1e-12 * np.abs(x).max(axis=0), scale, 0.0)  # rounding is no variation
    if not scale.any():
        raise InputError("all units are the same: outcomes cannot depend on covariates that do not vary.")
    z = (x - x.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    z = np.clip(z, -_FARTHEST_COVARIATE, _FARTHEST_COVARIATE)
    for _ in range(_MAX_DRAWS):
        linear = _varying_sum(z, rng)
        standard = _without_outliers(linear)
        if standard is not None:
            break
    else:
        standard = np.clip(_standardised(linear), -_FARTHEST_PREDICTOR, _FARTHEST_PREDICTOR)
    scaled: Array = _MEAN + _SPREAD * standard
    return scaled


def _varying_sum(z: Array, rng: np.random.Generator) -> Array:
    """Return a weighted sum (N,) of covariates in standard units (N, D) that is not the same for all units."""
    linear = np.zeros(len(z))
    while linear.std() < _FLAT:  # no covariate drawn, or some that cancel each other
        linear = z @ coefficients(z.shape[1], rng)
    return linear


def _without_outliers(linear: Array) -> Array | None:
    """Return a predictor (N,) in standard units, clipped so that no unit is farther out than a predictor may be.

    Clipping an outlier makes the standard deviation smaller, and so the outlier is out again in the new unit: clip
    until none is. If a few units alone differ, as by a rare mark, this never ends, and the result is None.
    """
    spread_left = 1.0
    standard = _standardised(linear)
    for _ in range(_MAX_CLIPS):
        if np.abs(standard).max() <= _FARTHEST_PREDICTOR:
            return standard
        clipped = np.clip(standard, -_FARTHEST_PREDICTOR, _FARTHEST_PREDICTOR)
        spread_left *= clipped.std()
        if spread_left < _MIN_SPREAD_LEFT:
            break
        standard = _standardised(clipped)
    return None


def _standardised(linear: Array) -> Array:
    standard: Array = (linear - linear.mean()) / linear.std()
    return standard
