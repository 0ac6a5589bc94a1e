"""The one contract between models and acquisition functions: a belief about expected outcomes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr, ndtri, stdtrit

from causalbald._gaussian import interval
from causalbald._moments import Link, UnitMoments, diagonal, variance_of_difference
from causalbald._probit import equivalent_noise
from causalbald._typing import Array
from causalbald._validation import check_alpha, check_int, check_positions, check_treatment, check_vector
from causalbald.errors import ApproximationWarning, InputError

__all__ = ["LARGE_RESIDUAL_SHARE", "MIN_DRAWS", "Link", "Posterior"]

LARGE_RESIDUAL_SHARE = 0.5
MIN_DRAWS = 100  # fewer draws tell little about how units covary: the factor of five members has rank four
_CACHED_UNITS = 64  # units whose rows of a factor stay in the cache together


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(UnitMoments):
    """Joint Gaussian belief about the expected outcomes mu(x, a) of N units under K arms.

    ``Cov(mu[i, a], mu[j, b]) = factor[i, a] · factor[j, b]``, plus ``residual[i, a, b]`` if i = j.
    With the probit link this is the belief about the latent score of a binary outcome, and ``expected``, ``variance``,
    ``covariance``, ``effect_mean``, ``effect_variance`` and ``draws`` are about probabilities and risk differences.

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
        How the outcome depends on the latent score.
    n_draws : int, optional
        Number of draws from which the factor was estimated; None for a closed form.
    limits : (low, high), optional
        Range of the outcome. Expected outcomes and effects are cut to it; moments stay those of the Gaussian.

    Raises
    ------
    InputError
        If shapes disagree, a number is not finite, a noise is negative, or a residual is no covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald import Posterior
    >>> mean = np.array([[0.0, 1.0], [0.0, 3.0]])
    >>> belief = Posterior(mean, factor=np.ones((2, 2, 1)), residual=0.25 * np.eye(2), noise=1.0)
    >>> belief
    Posterior(units=2, arms=2, rank=1, link='identity')
    >>> belief.effect_mean, belief.effect_variance
    (array([1., 3.]), array([0.5, 0.5]))
    >>> belief.average_effect()
    (2.0, 0.25)
    """

    def __repr__(self) -> str:
        units, arms, rank = self.factor.shape
        return f"Posterior(units={units}, arms={arms}, rank={rank}, link={self.link!r})"

    def __len__(self) -> int:
        return len(self.mean)

    @classmethod
    def from_draws(cls, draws: ArrayLike, noise: ArrayLike, link: Link = "identity") -> Posterior:
        """Return the belief with the sample moments of draws, for example of an ensemble's members.

        Parameters
        ----------
        draws : (S, N, K)
            Expected (latent) outcomes in each of S >= 2 draws.
        noise : broadcast to (N, K)
            Outcome noise variance.
        link : "identity" or "probit"
            How the outcome depends on the latent score.

        Returns
        -------
        Posterior
            Belief about N units, with a factor (N, K, S), no residual, and ``n_draws`` S. InputError is raised for
            draws of another shape, or fewer than 2.
        """
        values = np.asarray(draws, dtype=np.float64)
        if values.ndim != 3 or len(values) < 2:
            raise InputError(f"draws must have shape (S, N, K) with at least 2 draws, got {values.shape}.")
        mean = values.mean(axis=0)
        factor = np.moveaxis(values - mean, 0, -1) / np.sqrt(len(values) - 1)
        return cls(mean, factor, np.zeros(()), np.asarray(noise), link, n_draws=len(values))

    @classmethod
    def mixture(cls, members: Sequence[Posterior], weights: ArrayLike | None = None) -> Posterior:
        """Return the belief with the first two moments of a mixture of beliefs about the same units.

        Parameters
        ----------
        members : sequence of Posterior
            At least one; their shape, link and limits must be the same, or InputError is raised.
        weights : (M,), optional
            Not negative, not all 0; scaled to sum 1. By default all members count alike.

        Returns
        -------
        Posterior
            Its factor has the columns of all members' factors, and a column per member for the distance of its mean
            from the mixture's. Means are cut to the limits before they are mixed, except with the probit link.
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
        # mean = Σ_m w_m mean_m, and Cov = Σ_m w_m Cov_m + Σ_m w_m (mean_m - mean)(mean_m - mean)ᵀ.
        means = np.stack([m.mean if m.link == "probit" else m.expected for m in members])  # none out of range
        stacks = means, [m.residual for m in members], [m.noise for m in members]
        mean, residual, noise = (np.einsum("m,m...->...", w, np.asarray(values)) for values in stacks)
        between = np.stack([(m_mean - mean) * np.sqrt(share) for share, m_mean in zip(w, means, strict=True)], axis=-1)
        factor = np.concatenate([*(m.factor for m in members), between], axis=-1)
        scale = np.repeat(np.sqrt(w), [m.factor.shape[-1] for m in members])
        factor[..., : len(scale)] *= scale.astype(factor.dtype)
        # Moments from S draws have the relative variance 1 / (S - 1), moments in closed form have none.
        uncertain = sum(v**2 / (m.n_draws - 1) for v, m in zip(w, members, strict=True) if m.n_draws is not None)
        draws = 1 + round(1 / uncertain) if uncertain > 0 else None
        return members[0]._derived(mean=mean, factor=factor, residual=residual, noise=noise, n_draws=draws)

    def take(self, positions: ArrayLike) -> Posterior:
        """Return the belief about some of the units.

        Parameters
        ----------
        positions : sequence of int
            Distinct positions from 0 to N - 1.

        Returns
        -------
        Posterior
            Belief about these units, in the order of ``positions``.
        """
        index = check_positions(positions, len(self))
        names = ("mean", "factor", "residual", "noise")
        return self._derived(**{name: getattr(self, name)[index] for name in names})

    def widened(self, factor: Array, *, joint: bool) -> Posterior:
        """Return the belief with the covariance of one more factor (N, K, R) added; within units if not ``joint``.

        Called by ``GaussianProcess``.
        """
        if joint:
            return self._derived(factor=np.concatenate([self.factor, factor], axis=-1))
        return self._derived(residual=self.residual + factor @ factor.transpose(0, 2, 1))

    def rescaled(self, scale: float, shift: float) -> Posterior:
        """Return the belief in another unit of the outcome.

        Parameters
        ----------
        scale, shift : float
            An outcome y becomes scale * y + shift, with a scale above 0. Pass 1 and 0 with the probit link: events have
            no unit.

        Returns
        -------
        Posterior
            Belief about the same units.
        """
        return self._derived(
            mean=self.mean * scale + shift,
            factor=self.factor * scale,
            residual=self.residual * scale**2,
            noise=self.noise * scale**2,
            limits=None if self.limits is None else (self.limits[0] * scale + shift, self.limits[1] * scale + shift),
        )

    @property
    def largest_effect(self) -> float:
        """The largest effect that the outcome's range allows; infinite without a range."""
        return np.inf if self.limits is None else self.limits[1] - self.limits[0]

    def quantile(self, alpha: float) -> float:
        """Return how many standard deviations an interval reaches to each side.

        Parameters
        ----------
        alpha : float
            Probability of error of the interval, between 0 and 1.

        Returns
        -------
        float
            A normal quantile for a closed form. With S draws the truth counts as one more draw, and mean and spread are
            estimates: the quantile of Student's t with S - 1 degrees of freedom, times sqrt(1 + 1/S).
        """
        level = 1 - check_alpha(alpha) / 2
        if self.n_draws is None:
            return float(ndtri(level))
        return float(stdtrit(self.n_draws - 1, level) * np.sqrt(1 + 1 / self.n_draws))

    def effect_interval(self, alpha: float = 0.05) -> tuple[Array, Array]:
        """Return the ends of a credible interval for the effect of each unit.

        Parameters
        ----------
        alpha : float
            Probability of error, between 0 and 1.

        Returns
        -------
        lower, upper : (N,) arrays
            Ends of the intervals. Given the model, each interval holds its unit's effect with posterior probability
            1 - ``alpha``. None goes beyond the largest effect that the outcome's range allows.
        """
        return interval(self.effect_mean, self.quantile(alpha) * np.sqrt(self.effect_variance), self.largest_effect)

    @property
    def relates_units(self) -> bool:
        """Whether covariances between units can be relied on: in closed form yes, from a few draws no."""
        return self.n_draws is None or self.n_draws >= MIN_DRAWS

    @cached_property
    def residual_share(self) -> float:
        """Share of the total variance that the factor misses and that is treated as independent across units."""
        total = diagonal(self.latent_covariance).sum()
        return float(diagonal(self.residual).sum() / total) if total > 0 else 0.0

    def warn_if_mostly_local(self) -> None:
        """Give an ApproximationWarning if ``residual_share`` is so large that averages and batches suffer."""
        if self.residual_share > LARGE_RESIDUAL_SHARE:
            warnings.warn(
                f"{self.residual_share:.0%} of the variance is treated as independent across units: intervals of "
                "averages are too narrow and batches less diverse. Give the model more `sites`.",
                ApproximationWarning,
                stacklevel=3,
            )

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        """Return joint draws of the expected outcomes of all units.

        Parameters
        ----------
        n : int
            Number of draws.
        rng : numpy.random.Generator
            Source of the random numbers.

        Returns
        -------
        (n, N, K) array
            Expected outcomes, not cut to ``limits``; with the probit link probabilities.
        """
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
        """Return the belief after measuring a unit's outcome, before its value is known.

        Exact for Gaussian noise, where the change of the covariance does not depend on the value; the mean stays. With
        the probit link the covariance is exactly the one expected after the outcome. It is an approximation that the
        belief is Gaussian again, with the same mean.

        Parameters
        ----------
        position : int
            Position of the measured unit, from 0 to N - 1.
        arm : int
            Arm of the measured outcome.

        Returns
        -------
        Posterior
            Belief about the same units.
        """
        units, arms, _ = self.factor.shape
        i, a = int(check_positions([position], units, "position")[0]), int(check_positions([arm], arms, "arm")[0])
        # An outcome with covariances c and variance d takes c cᵀ / d off the covariance. Here c_jb = F_jb · f, plus
        # r_b if j = i, with f the row of the factor F and r the column of the residual of the measured unit and arm,
        # and d = s + l with s = f · f shared and l = r_a + noise local. With q² = l / d, factor and residual become
        #   F_j - (1 - q) / s (F_j · f) f,    less r_b f / (d q) for j = i,
        #   residual_i - r rᵀ / l.
        f, r = self.factor[i, a].astype(np.float64), self.residual[i, :, a]
        local, shared = r[a] + self.measurement_variance(i, a), f @ f
        total = shared + local
        factor, residual = self.factor.copy(), self.residual.copy()
        if shared > 0:
            q = np.sqrt(local / total)
            for start in range(0, units, _CACHED_UNITS):
                rows = factor[start : start + _CACHED_UNITS]
                along = (1 - q) / shared * (rows @ f)
                rows -= along[..., None] * f.astype(factor.dtype)
            factor[i] -= np.outer(r / (total * q), f)
        residual[i] -= np.outer(r, r) / local
        return self._derived(factor=factor, residual=residual)

    def measurement_variance(self, i: int, a: int) -> float:
        """Return the noise variance of the (latent) outcome of unit ``i`` in arm ``a``.

        With the probit link it is the noise of a measurement of the latent score that teaches as much.
        """
        variance = float(self.latent_covariance[i, a, a])
        if self.link == "identity":
            # A noiseless outcome would make q of `condition` zero; this floor is far below what data can show.
            return max(float(self.noise[i, a]), 1e-12 * variance, 1e-300)
        return equivalent_noise(float(self._probit_index[i, a]), variance)

    def linearised(self) -> Posterior:
        """Return a belief on the outcome's own scale: itself, or with probit its best linear approximation.

        Moments of each unit stay exact. Covariances between units are those of the best linear predictor.
        """
        if self.link == "identity":
            return self
        factor = self.factor * self.slope[..., None]
        residual = self.covariance - np.einsum("nar,nbr->nab", factor, factor)
        return self._derived(
            mean=self.expected, factor=factor, residual=residual, noise=self.outcome_noise, link="identity"
        )

    def log_density(self, treatment: ArrayLike, outcome: ArrayLike) -> Array:
        """Return the log density of an outcome of each unit under its arm; log probability with the probit link.

        Parameters
        ----------
        treatment : (N,)
            Arm of each unit.
        outcome : (N,)
            Outcome of each unit; with the probit link an outcome above 0 is an event.

        Returns
        -------
        (N,) array
            Log densities, noise included.
        """
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

        Parameters
        ----------
        weights : (N,), optional
            How much each unit counts; the sum must be above 0 and need not be 1. By default all units count alike.

        Returns
        -------
        mean, variance : float
            In the unit of the outcome, and its square. Warns as :meth:`warn_if_mostly_local` does.
        """
        self.warn_if_mostly_local()
        w = np.ones(len(self)) if weights is None else check_vector(weights, "weights", len(self))
        if w.sum() <= 0:
            raise InputError("weights of an average must have a sum above 0.")
        w = w / w.sum()
        belief = self.linearised()
        shared = w @ (belief.factor[:, 1] - belief.factor[:, 0])
        local = variance_of_difference(belief.residual)
        return float(w @ belief.effect_mean), float(shared @ shared + w**2 @ local)
