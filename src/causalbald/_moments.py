"""A Gaussian belief about units and arms: its checked arrays, and the moments of single units."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from scipy.special import ndtr

from causalbald._probit import event_covariance, event_noise, event_slope
from causalbald._psd import impossible_blocks, not_a_covariance
from causalbald._typing import AnyArray, Array
from causalbald._validation import broadcast
from causalbald.errors import InputError

Link = Literal["identity", "probit"]
# Share of the variance of outcomes by which rounding may make a residual negative, also in float32.
_ROUNDING_TOLERANCE = 1e-5
_CHUNK_UNITS = 8192


@dataclass(frozen=True, eq=False, repr=False)
class UnitMoments:
    """Fields and moments of single units of a :class:`causalbald.posterior.Posterior`, which documents the fields."""

    mean: Array
    factor: AnyArray
    residual: Array
    noise: Array
    link: Link = "identity"
    n_draws: int | None = None
    limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Check all fields; raise InputError as :class:`causalbald.posterior.Posterior` says."""
        self._settle()
        self._check_residual()

    def _settle(self) -> None:
        """Check shapes and numbers, and replace the arrays by read-only views: float64, or float32 for such a factor.

        ``residual`` and ``noise`` are broadcast to all units. With the probit link, ``limits`` become (0, 1). Raises
        InputError if something is wrong. The residual's blocks are not checked to be covariances.
        """
        mean = np.asarray(self.mean, dtype=np.float64)
        factor = np.asarray(self.factor)
        if factor.dtype != np.float32:
            factor = factor.astype(np.float64, copy=False)
        if mean.ndim != 2 or factor.ndim != 3 or factor.shape[:2] != mean.shape:
            raise InputError(f"mean (N, K) and factor (N, K, R) disagree: got {mean.shape} and {factor.shape}.")
        if self.link not in ("identity", "probit"):
            raise InputError(f"link must be 'identity' or 'probit', got {self.link!r}.")
        units, arms = mean.shape
        residual = broadcast(self.residual, (units, arms, arms), "residual")
        noise = broadcast(self.noise, (units, arms), "noise")
        for name, value in (("mean", mean), ("factor", factor), ("residual", residual), ("noise", noise)):
            if not np.isfinite(value).all():
                raise InputError(f"{name} has NaN or infinite entries: the model that made this posterior has failed.")
            view = value.view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)
        if (noise < 0).any():
            raise InputError("noise is a variance and must not be negative.")
        if self.link == "probit":
            object.__setattr__(self, "limits", (0.0, 1.0))

    def _check_residual(self) -> None:
        """Raise InputError unless each unit's residual is a covariance up to rounding."""
        if not self.residual.any():
            return
        noise = float(self.noise.max()) if self.link == "identity" else 1.0
        largest = max(float(diagonal(self.residual).max()), 0.0)
        bad = impossible_blocks(self.residual, _ROUNDING_TOLERANCE * (largest + noise))
        if len(bad):  # variances of the factor take a pass over it, and can only make the tolerance larger
            largest = max(float(diagonal(self.latent_covariance).max()), 0.0)
            bad = impossible_blocks(self.residual, _ROUNDING_TOLERANCE * (largest + noise))
        if len(bad):
            raise not_a_covariance(self.residual, bad, "residual")

    def _derived(self, **changes: Any) -> Self:
        """Return a new belief with the fields in ``changes`` replaced, by formulas that keep the residual a covariance.

        Shapes and numbers are checked. The residual is not checked to be a covariance: what is left of it can be
        smaller than the rounding errors it inherits.
        """
        belief = object.__new__(type(self))
        for field in fields(self):
            object.__setattr__(belief, field.name, changes.get(field.name, getattr(self, field.name)))
        belief._settle()
        return belief

    @cached_property
    def latent_covariance(self) -> Array:
        """Covariance of the Gaussian belief between a unit's arms, (N, K, K)."""
        units, arms, _ = self.factor.shape
        covariance = self.residual.copy()
        for start in range(0, units, _CHUNK_UNITS):
            rows = slice(start, start + _CHUNK_UNITS)
            factor = self.factor[rows].astype(np.float64, copy=False)
            for a in range(arms):
                for b in range(a, arms):
                    shared = np.einsum("nr,nr->n", factor[:, a], factor[:, b])
                    covariance[rows, a, b] += shared
                    if b > a:
                        covariance[rows, b, a] += shared
        return covariance

    @cached_property
    def _probit_index(self) -> Array:
        """Latent mean over the standard deviation of latent score plus noise, (N, K).

        With the probit link the probability of an event is Phi of this index.
        """
        return self.mean / np.sqrt(1 + diagonal(self.latent_covariance))

    @cached_property
    def expected(self) -> Array:
        """Expected outcome per unit and arm on the outcome's own scale, (N, K): cut to ``limits``; P(1) for probit."""
        if self.link == "identity":
            return self.mean if self.limits is None else np.clip(self.mean, *self.limits)
        expected: Array = ndtr(self._probit_index)
        return expected

    @cached_property
    def covariance(self) -> Array:
        """Covariance of a unit's expected outcomes between arms, (N, K, K); of probabilities for probit."""
        if self.link == "identity":
            return self.latent_covariance
        return event_covariance(self._probit_index, self.latent_covariance)

    @cached_property
    def variance(self) -> Array:
        """Variance of the expected outcomes, (N, K), none below 0; of probabilities for probit."""
        return np.maximum(diagonal(self.covariance), 0.0)

    @cached_property
    def outcome_noise(self) -> Array:
        """Variance of an outcome around its expected outcome, on the outcome's own scale, (N, K)."""
        if self.link == "identity":
            return self.noise
        return event_noise(self._probit_index, diagonal(self.latent_covariance))

    @cached_property
    def slope(self) -> Array:
        """Change of the expected outcome per change of the latent one, (N, K): 1 for the identity link.

        For probit it is the slope of the best linear prediction of the probability from the latent score.
        """
        if self.link == "identity":
            return np.ones(self.mean.shape)
        return event_slope(self._probit_index, diagonal(self.latent_covariance))

    @cached_property
    def effect_mean(self) -> Array:
        """Expected effect of arm 1 against arm 0, (N,); a difference of probabilities for probit."""
        return self.expected[:, 1] - self.expected[:, 0]

    @cached_property
    def effect_variance(self) -> Array:
        """Variance of the belief about each unit's effect, (N,), none below 0."""
        return np.maximum(variance_of_difference(self.covariance), 0.0)


def diagonal(matrices: Array) -> Array:
    """Return the diagonals (..., K) of matrices (..., K, K)."""
    return np.diagonal(matrices, axis1=-2, axis2=-1)


def variance_of_difference(covariance: Array) -> Array:
    """Return the variance of arm 1 minus arm 0, (N,), from covariances between arms, (N, K, K).

    Rounding may make it slightly negative.
    """
    return covariance[:, 0, 0] + covariance[:, 1, 1] - covariance[:, 0, 1] - covariance[:, 1, 0]
