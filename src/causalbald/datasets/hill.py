"""Outcomes simulated on real covariates and treatments: response surface B of Hill (2011)."""

from __future__ import annotations

import numpy as np

from causalbald._typing import Array, Treatment
from causalbald.errors import InputError

_VALUES, _PROBABILITIES = (0, 0.1, 0.2, 0.3, 0.4), (0.6, 0.1, 0.1, 0.1, 0.1)
# What Hill's linear predictor has on average with 25 independent covariates in standard units.
_MEAN, _SPREAD = 1.25, 0.75**0.5
_FARTHEST = 3.0
_FLAT = 1e-3


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

    So surfaces are as steep for two covariates as for a hundred, and for correlated ones. No unit counts as farther
    than three standard deviations from the mean of a covariate: exponentials of outliers would be all that matters.
    """
    scale = x.std(axis=0)
    scale = np.where(scale > 1e-12 * np.abs(x).max(axis=0), scale, 0.0)  # rounding is no variation
    if not scale.any():
        raise InputError("all units are the same: outcomes cannot depend on covariates that do not vary.")
    z = np.clip((x - x.mean(axis=0)) / np.where(scale > 0, scale, 1.0), -_FARTHEST, _FARTHEST)
    linear = np.zeros(len(z))
    while linear.std() < _FLAT:  # no covariate drawn, or some that cancel each other
        linear = z @ coefficients(z.shape[1], rng)
    scaled: Array = _MEAN + _SPREAD * (linear - linear.mean()) / linear.std()
    return scaled
