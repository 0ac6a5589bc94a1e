"""The one contract between models and acquisition functions: a belief about expected outcomes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr, ndtri, owens_t, stdtrit

from causalbald._gaussian import bivariate_cdf, interval
from causalbald._psd import impossible_blocks, not_a_covariance
from causalbald._typing import AnyArray, Array
from causalbald._validation import broadcast, check_alpha, check_int, check_positions, check_treatment, check_vector
from causalbald.errors import ApproximationWarning, InputError

Link = Literal["identity", "probit"]
LARGE_RESIDUAL_SHARE = 0.5
MIN_DRAWS = 100  # fewer say little about how units hang together: the factor of five members has rank four
_ROUNDING = 1e-14  # share of a probability that is lost when its variance is worked out
_TOLERANCE = 1e-5  # share of the variance of outcomes that rounding may take off a residual, also in float32
_CHUNK = 8192
_ROWS = 64  # of a factor, that stay in the cache together


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Joint Gaussian belief about the expected outcomes mu(x, a) of N units under K arms.

    ``Cov(mu[i, a], mu[j, b]) = factor[i, a] · factor[j, b]``, plus ``residual[i, a, b]`` when i = j.
    With the probit link this is the belief about the latent score of a binary outcome, and
    ``variance``, ``covariance``, ``effect_mean``, ``effect_variance`` and ``draws`` speak of
    probabilities and risk differences.

    Parameters
    ----------
    mean : (N, K)
        Expected (latent) outcome per unit and arm.
    factor : (N, K, R)
        Square root of the joint covariance across units, float64 or float32.
    residual : broadcast to (N, K, K)
        Variance that the factor misses, local to a unit; 0.0 for draws and ensembles. Each unit's block is a
        covariance: symmetric, without negative eigenvalues. Rounding is tolerated up to 1e-5 of the largest variance
        of an outcome; a variance that rounding made negative counts as 0.
    noise : broadcast to (N, K)
        Outcome noise variance; not used with the probit link, whose latent noise is 1.
    link : "identity" or "probit"
    n_draws : int, optional
        How many draws the factor was estimated from; None for a closed form.
    limits : (low, high), optional
        Range of the outcome. Expected outcomes and effects are cut to it; moments stay those of the Gaussian.
    """

    mean: Array
    factor: AnyArray
    residual: Array
    noise: Array
    link: Link = "identity"
    n_draws: int | None = None
    limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._settle()
        self._check_residual()

    def _settle(self) -> None:
        """Check shapes and numbers, and make the arrays read-only."""
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
        """Raise unless each unit's residual is a covariance up to rounding."""
        if not self.residual.any():
            return
        noise = float(self.noise.max()) if self.link == "identity" else 1.0
        bad = impossible_blocks(self.residual, _TOLERANCE * (max(float(_diagonal(self.residual).max()), 0.0) + noise))
        if len(bad):  # variances of the factor take a pass over it, and can only make the tolerance larger
            largest = max(float(_diagonal(self.latent_covariance).max()), 0.0)
            bad = impossible_blocks(self.residual, _TOLERANCE * (largest + noise))
        if len(bad):
            raise not_a_covariance(self.residual, bad, "residual")

    def _derived(self, **changes: Any) -> Posterior:
        """Return this belief with some fields changed by formulas that keep the residual a covariance.

        The residual is not checked again: what is left of it can be smaller than the rounding errors it inherits.
        """
        belief = object.__new__(type(self))
        for field in fields(self):
            object.__setattr__(belief, field.name, changes.get(field.name, getattr(self, field.name)))
        belief._settle()
        return belief

    def __repr__(self) -> str:
        units, arms, rank = self.factor.shape
        return f"Posterior(units={units}, arms={arms}, rank={rank}, link={self.link!r})"

    def __len__(self) -> int:
        return len(self.mean)

    @classmethod
    def placeholder(cls, units: int) -> Posterior:
        """Return a belief that says nothing, for whoever only wants to know how many units there are."""
        return cls(np.zeros((units, 2)), np.empty((units, 2, 0)), np.zeros(()), np.zeros(()))

    @classmethod
    def from_draws(cls, draws: ArrayLike, noise: ArrayLike, link: Link = "identity") -> Posterior:
        """Return the belief with the sample moments of ``draws`` (S, N, K), e.g. of an ensemble's members."""
        values = np.asarray(draws, dtype=np.float64)
        if values.ndim != 3 or len(values) < 2:
            raise InputError(f"draws must have shape (S, N, K) with at least 2 draws, got {values.shape}.")
        mean = values.mean(axis=0)
        factor = np.moveaxis(values - mean, 0, -1) / np.sqrt(len(values) - 1)
        return cls(mean, factor, np.zeros(()), np.asarray(noise), link, n_draws=len(values))

    @classmethod
    def mixture(cls, members: Sequence[Posterior], weights: ArrayLike | None = None) -> Posterior:
        """Return the belief with the first two moments of a mixture of beliefs about the same units.

        ``weights`` are equal unless given, and normalised to sum to 1.
        """
        if not members:
            raise InputError("a mixture needs at least one posterior.")
        shapes = {(m.mean.shape, m.link, m.limits) for m in members}
        if len(shapes) > 1:
            raise InputError(
                f"members must be about the same units with the same link and limits, got {sorted(map(str, shapes))}."
            )
        w = np.ones(len(members)) if weights is None else check_vector(weights, "weights", len(members))
        if (w < 0).any() or w.sum() <= 0:
            raise InputError("weights of a mixture must not be negative, and not all zero.")
        w = w / w.sum()
        means = np.stack([m.mean if m.link == "probit" else m.expected for m in members])  # none out of range
        stacks = means, [m.residual for m in members], [m.noise for m in members]
        mean, residual, noise = (np.einsum("m,m...->...", w, np.asarray(values)) for values in stacks)
        between = np.stack([(own - mean) * np.sqrt(share) for share, own in zip(w, means, strict=True)], axis=-1)
        factor = np.concatenate([*(m.factor for m in members), between], axis=-1)
        scale = np.repeat(np.sqrt(w), [m.factor.shape[-1] for m in members])
        factor[..., : len(scale)] *= scale.astype(factor.dtype)
        # Moments from S draws are as uncertain as 1 / (S - 1) says, those in closed form are not.
        uncertain = sum(v**2 / (m.n_draws - 1) for v, m in zip(w, members, strict=True) if m.n_draws is not None)
        draws = 1 + round(1 / uncertain) if uncertain > 0 else None
        return members[0]._derived(mean=mean, factor=factor, residual=residual, noise=noise, n_draws=draws)

    def take(self, positions: ArrayLike) -> Posterior:
        """Return the belief about some of the units, in the order of ``positions``."""
        index = check_positions(positions, len(self))
        names = ("mean", "factor", "residual", "noise")
        return self._derived(**{name: getattr(self, name)[index] for name in names})

    def widened(self, factor: Array, *, joint: bool) -> Posterior:
        """Return the belief with the covariance of one more factor (N, K, R); without ``joint``, that within units."""
        if joint:
            return self._derived(factor=np.concatenate([self.factor, factor], axis=-1))
        return self._derived(residual=self.residual + factor @ factor.transpose(0, 2, 1))

    def rescaled(self, scale: float, shift: float) -> Posterior:
        """Return the belief in another unit of the outcome: scale * outcome + shift."""
        return self._derived(
            mean=self.mean * scale + shift,
            factor=self.factor * scale,
            residual=self.residual * scale**2,
            noise=self.noise * scale**2,
            limits=None if self.limits is None else (self.limits[0] * scale + shift, self.limits[1] * scale + shift),
        )

    @cached_property
    def latent_covariance(self) -> Array:
        """Covariance of the Gaussian belief between a unit's arms, (N, K, K)."""
        units, arms, _ = self.factor.shape
        covariance = self.residual.copy()
        for start in range(0, units, _CHUNK):
            rows = slice(start, start + _CHUNK)
            factor = self.factor[rows].astype(np.float64, copy=False)
            for a in range(arms):
                for b in range(a, arms):
                    shared = np.einsum("nr,nr->n", factor[:, a], factor[:, b])
                    covariance[rows, a, b] += shared
                    if b > a:
                        covariance[rows, b, a] += shared
        return covariance

    @cached_property
    def expected(self) -> Array:
        """Expected outcome per unit and arm on the outcome's own scale, (N, K)."""
        if self.link == "identity":
            return self.mean if self.limits is None else np.clip(self.mean, *self.limits)
        expected: Array = ndtr(self._probit_index)
        return expected

    @cached_property
    def covariance(self) -> Array:
        """Covariance of the expected outcomes between a unit's arms, (N, K, K)."""
        if self.link == "identity":
            return self.latent_covariance
        # Of the rarer outcome of each arm, as numbers near 0 are exact and those near 1 are not.
        index, sign = -np.abs(self._probit_index), np.where(self._probit_index > 0, -1.0, 1.0)
        rare, same = ndtr(index), sign[:, :, None] * sign[:, None, :]
        spread = np.sqrt(1 + _diagonal(self.latent_covariance))
        correlation = same * self.latent_covariance / (spread[:, :, None] * spread[:, None, :])
        joint = bivariate_cdf(index[:, :, None], index[:, None, :], correlation)
        covariance: Array = same * (joint - rare[:, :, None] * rare[:, None, :])
        arms = np.arange(rare.shape[1])
        covariance[:, arms, arms] = np.maximum(covariance[:, arms, arms], _ROUNDING * rare)
        return covariance

    @cached_property
    def variance(self) -> Array:
        """Variance of the expected outcomes, (N, K)."""
        return np.maximum(_diagonal(self.covariance), 0.0)

    @cached_property
    def outcome_noise(self) -> Array:
        """Variance of an outcome around its expectation, on the outcome's own scale, (N, K)."""
        if self.link == "identity":
            return self.noise
        spread = np.sqrt(1 + 2 * _diagonal(self.latent_covariance))
        return np.asarray(2 * owens_t(self._probit_index, 1 / spread))

    @cached_property
    def effect_mean(self) -> Array:
        """Expected effect of arm 1 against arm 0, (N,)."""
        return self.expected[:, 1] - self.expected[:, 0]

    @cached_property
    def effect_variance(self) -> Array:
        """Variance of the belief about the effect, (N,)."""
        c = self.covariance
        return np.maximum(c[:, 0, 0] + c[:, 1, 1] - c[:, 0, 1] - c[:, 1, 0], 0.0)

    @property
    def largest_effect(self) -> float:
        """The largest effect that the outcome's range allows; infinite without a range."""
        return np.inf if self.limits is None else self.limits[1] - self.limits[0]

    def quantile(self, alpha: float) -> float:
        """Return how many standard deviations an interval with error probability ``alpha`` reaches to each side.

        Normal for a closed form. With S draws the truth is taken as one draw more, and mean and spread are estimates:
        Student's t with S - 1 degrees of freedom, times sqrt(1 + 1/S).
        """
        level = 1 - check_alpha(alpha) / 2
        if self.n_draws is None:
            return float(ndtri(level))
        return float(stdtrit(self.n_draws - 1, level) * np.sqrt(1 + 1 / self.n_draws))

    def effect_interval(self, alpha: float = 0.05) -> tuple[Array, Array]:
        """Return lower and upper ends (N,) of credible intervals for the effects of single units.

        Each interval holds its unit's effect with posterior probability 1 - ``alpha``; none goes beyond the largest
        effect that the outcome's range allows.
        """
        return interval(self.effect_mean, self.quantile(alpha) * np.sqrt(self.effect_variance), self.largest_effect)

    @property
    def relates_units(self) -> bool:
        """Whether covariances between units mean anything: in closed form they do, from a few draws they do not."""
        return self.n_draws is None or self.n_draws >= MIN_DRAWS

    @cached_property
    def residual_share(self) -> float:
        """Share of the total variance that the factor misses and that is treated as independent across units."""
        total = _diagonal(self.latent_covariance).sum()
        return float(_diagonal(self.residual).sum() / total) if total > 0 else 0.0

    def warn_if_mostly_local(self) -> None:
        """Warn if so much variance is treated as independent across units that averages and batches suffer."""
        if self.residual_share > LARGE_RESIDUAL_SHARE:
            warnings.warn(
                f"{self.residual_share:.0%} of the variance is treated as independent across units: intervals of "
                "averages are too narrow and batches less diverse. Give the model more `sites`.",
                ApproximationWarning,
                stacklevel=3,
            )

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        """Return ``n`` joint draws of the expected outcomes of all units, (n, N, K)."""
        units, arms, rank = self.factor.shape
        shared = rng.standard_normal((check_int(n, "n", low=1), rank))
        values = shared @ self.factor.reshape(units * arms, rank).T
        values = values.reshape(n, units, arms) + self.mean
        if self.residual.any():
            eigenvalues, vectors = np.linalg.eigh(self.residual)
            root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None, :]
            values += np.einsum("nab,snb->sna", root, rng.standard_normal((n, units, arms)))
        return values if self.link == "identity" else np.asarray(ndtr(values))

    def condition(self, position: int, arm: int) -> Posterior:
        """Return the belief after measuring a unit's outcome under ``arm``, before its value is known.

        Exact for Gaussian noise, where the change of the covariance does not depend on the value; the
        mean stays. With the probit link the covariance is the one expected after the outcome, exactly; that the
        belief is Gaussian again, with the same mean, is an approximation.
        """
        units, arms, _ = self.factor.shape
        i, a = (
            int(check_positions([position], units, "position")[0]),
            int(check_positions([arm], arms, "arm")[0]),
        )
        f = self.factor[i, a].astype(np.float64)
        r = self.residual[i, :, a]
        local = r[a] + self.measurement_variance(i, a)
        shared = f @ f
        d = shared + local
        factor, residual = self.factor.copy(), self.residual.copy()
        if shared > 0:
            q = np.sqrt(local / d)
            for start in range(0, units, _ROWS):
                rows = factor[start : start + _ROWS]
                along = (1 - q) / shared * (rows @ f)
                rows -= along[..., None] * f.astype(factor.dtype)
            factor[i] -= np.outer(r / (d * q), f)
        residual[i] -= np.outer(r, r) / local
        return self._derived(factor=factor, residual=residual)

    @cached_property
    def slope(self) -> Array:
        """How fast expected outcomes move with the latent ones, (N, K): 1, or for probit that of the best line."""
        if self.link == "identity":
            return np.ones(self.mean.shape)
        spread = np.sqrt(1 + _diagonal(self.latent_covariance))
        slope: Array = np.exp(-0.5 * self._probit_index**2) / (np.sqrt(2 * np.pi) * spread)
        return slope

    def linearised(self) -> Posterior:
        """Return a belief on the outcome's own scale: itself, or for probit its best linear approximation.

        Moments of each unit stay exact; covariances between units are those of the best linear predictor.
        """
        if self.link == "identity":
            return self
        factor = self.factor * self.slope[..., None]
        residual = self.covariance - np.einsum("nar,nbr->nab", factor, factor)
        return self._derived(
            mean=self.expected, factor=factor, residual=residual, noise=self.outcome_noise, link="identity"
        )

    def log_density(self, treatment: ArrayLike, outcome: ArrayLike) -> Array:
        """Return the log density (N,) of an outcome of each unit under its arm; of 0 or 1 with the probit link."""
        units = np.arange(len(self))
        arm = check_treatment(treatment, len(self))
        y = check_vector(outcome, "outcome", len(self))
        if self.link == "probit":
            index = self._probit_index[units, arm]
            return np.asarray(log_ndtr(np.where(y > 0, index, -index)))
        mean = self.mean[units, arm]
        variance = self.variance[units, arm] + self.noise[units, arm]
        return np.asarray(-0.5 * (np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance))

    def average_effect(self, weights: ArrayLike | None = None) -> tuple[float, float]:
        """Return mean and variance of the average effect over the units, from the joint belief.

        ``weights`` (N,) say how much each unit counts; they need not sum to 1.
        """
        self.warn_if_mostly_local()
        w = np.ones(len(self)) if weights is None else check_vector(weights, "weights", len(self))
        if w.sum() <= 0:
            raise InputError("weights of an average must have a sum above 0.")
        w = w / w.sum()
        belief = self.linearised()
        shared = w @ (belief.factor[:, 1] - belief.factor[:, 0])
        r = belief.residual
        local = r[:, 0, 0] + r[:, 1, 1] - r[:, 0, 1] - r[:, 1, 0]
        return float(w @ belief.effect_mean), float(shared @ shared + w**2 @ local)

    @cached_property
    def _probit_index(self) -> Array:
        return self.mean / np.sqrt(1 + _diagonal(self.latent_covariance))

    def measurement_variance(self, i: int, a: int) -> float:
        """Return the noise variance of a unit's (latent) outcome; with the probit link, what it is worth as one.

        With v the variance of the latent score f, E y = p and Cov(f, y) = v slope, the two values of y leave
        v - v² slope² / (p (1 - p)) on average, as an outcome f + noise of variance p (1 - p) / slope² - v would.
        """
        if self.link == "identity":
            # A noiseless outcome would make q zero; this floor is far below what data can show.
            return max(float(self.noise[i, a]), 1e-12 * float(self.latent_covariance[i, a, a]), 1e-300)
        v, z = float(self.latent_covariance[i, a, a]), float(self._probit_index[i, a])
        log_ratio = log_ndtr(z) + log_ndtr(-z) + z**2 + np.log(2 * np.pi * (1 + v))
        return float(np.exp(min(log_ratio, 50.0)) - v)


def _diagonal(matrices: Array) -> Array:
    return np.diagonal(matrices, axis1=-2, axis2=-1)
