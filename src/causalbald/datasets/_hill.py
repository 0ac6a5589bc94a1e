"""Outcomes simulated on real covariates and treatments: response surface B of Hill (2011)."""

from __future__ import annotations

import numpy as np

from causalbald._typing import Array, Treatment
from causalbald.errors import InputError

_VALUES, _PROBABILITIES = (0, 0.1, 0.2, 0.3, 0.4), (0.6, 0.1, 0.1, 0.1, 0.1)
# Mean and standard deviation of Hill's linear predictor with 25 independent covariates in standard units.
_PREDICTOR_MEAN, _PREDICTOR_SD = 1.25, 0.75**0.5
# Largest distances from the mean, in standard deviations.
_MAX_COVARIATE, _MAX_PREDICTOR = 3.0, 4.0
# Smallest standard deviation of a predictor, as a share of the largest one of a covariate.
_MIN_PREDICTOR_SHARE = 1e-3
# Draws of coefficients before a predictor in which only a few units differ is accepted.
_MAX_DRAWS = 100
# Most rounds of clipping, and the share of the standard deviation that must remain.
_MAX_CLIPS, _MIN_SD_SHARE = 200, 1e-6


def coefficients(covariates: int, rng: np.random.Generator) -> Array:
    """Draw the coefficients (D,) of the linear predictor: for each covariate one of 0 to 0.4, most often 0."""
    return rng.choice(_VALUES, size=covariates, p=_PROBABILITIES)


def surface_b(linear: Array, treatment: Treatment) -> tuple[Array, Array]:
    """Return the expected outcomes mu0 = exp(linear) and mu1 = linear - omega (N,): response surface B.

    omega makes the mean effect on the treated 4, so at least one unit must be treated. The surface is that of Hill
    (2011, doi:10.1198/jcgs.2010.08162), section 4.1, with ``linear`` = (X + W) beta. Hill's mu1 has X beta instead.
    W beta is the same for all units, so omega makes up for it.
    """
    mu0 = np.exp(linear)
    # omega = mean over the treated of (linear - mu0), minus 4
    return mu0, linear - ((linear - mu0)[treatment == 1].mean() - 4)


def outcomes(mu0: Array, mu1: Array, treatment: Treatment, rng: np.random.Generator) -> Array:
    """Draw the outcome (N,) of each unit under its arm, with noise of standard deviation 1."""
    return np.where(treatment == 1, mu1, mu0) + rng.normal(size=len(treatment))


def linear_predictor(x: Array, rng: np.random.Generator) -> Array:
    """Draw a linear predictor (N,) for any covariates x (N, D), with the mean and spread of Hill's predictor.

    So the surfaces are equally steep for two covariates, for a hundred and for correlated ones. Covariates are clipped
    at three standard deviations from their means, and the predictor at four: otherwise the exponential of one outlier
    would dominate. A predictor in which only a few units differ from all others is drawn again, up to ``_MAX_DRAWS``
    times; after that it is clipped once and accepted. Raises InputError if all units are the same.
    """
    scale = x.std(axis=0)
    varies = scale > 1e-12 * np.abs(x).max(axis=0)  # rounding is no variation
    z = np.where(varies, (x - x.mean(axis=0)) / np.where(varies, scale, 1.0), 0.0)
    z = np.clip(z, -_MAX_COVARIATE, _MAX_COVARIATE)
    for _ in range(_MAX_DRAWS):
        linear = _varying_sum(z, rng)
        standard = _without_outliers(linear)
        if standard is not None:
            break
    else:
        standard = np.clip(_standardised(linear), -_MAX_PREDICTOR, _MAX_PREDICTOR)
    scaled: Array = _PREDICTOR_MEAN + _PREDICTOR_SD * standard
    return scaled


def _varying_sum(z: Array, rng: np.random.Generator) -> Array:
    """Return a random weighted sum (N,) of covariates z (N, D) that differs between units.

    The weights are drawn again until the sum varies. Raises InputError if no covariate varies.
    """
    least = _MIN_PREDICTOR_SHARE * z.std(axis=0).max()
    if least == 0:
        raise InputError("all units are the same: outcomes cannot depend on covariates that do not vary.")
    linear = np.zeros(len(z))
    while linear.std() < least:  # all coefficients are 0, or the covariates cancel each other
        linear = z @ coefficients(z.shape[1], rng)
    return linear


def _without_outliers(linear: Array) -> Array | None:
    """Return a predictor (N,) in standard units, with all units within four standard deviations of the mean.

    Clipping an outlier lowers the standard deviation, so the outlier may be too far out again. Clipping is repeated
    until no unit is too far out. If only a few units differ from all others, that never happens: the function gives up
    after ``_MAX_CLIPS`` rounds, or once hardly any variation is left, and returns None.
    """
    sd_share = 1.0
    standard = _standardised(linear)
    for _ in range(_MAX_CLIPS):
        if np.abs(standard).max() <= _MAX_PREDICTOR:
            return standard
        clipped = np.clip(standard, -_MAX_PREDICTOR, _MAX_PREDICTOR)
        sd_share *= clipped.std()
        if sd_share < _MIN_SD_SHARE:
            break
        standard = _standardised(clipped)
    return None


def _standardised(linear: Array) -> Array:
    """Return a predictor (N,) that varies, with mean 0 and standard deviation 1."""
    standard: Array = (linear - linear.mean()) / linear.std()
    return standard
