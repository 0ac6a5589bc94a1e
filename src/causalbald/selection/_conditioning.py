"""Beliefs that allow for one outcome after another while a greedy batch is chosen."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import blas

from causalbald._typing import AnyArray, Array, Positions, Treatment
from causalbald.acquisition import ScoreFunction, TargetBelief, TargetPopulation
from causalbald.posterior import Posterior

_BLOCK_ROWS = 8192  # rows of the factor multiplied together


class SequentialBelief(Protocol):
    """What a score function is shown after each pick of a greedy batch."""

    @property
    def belief(self) -> Posterior:
        """The belief about all N units after all outcomes so far."""

    @property
    def targets(self) -> TargetBelief | None:
        """The belief about the target population after all outcomes so far; None if ``belief`` is enough."""

    def measure(self, unit: int) -> None:
        """Condition both beliefs on the outcome of a unit under its arm, whatever the outcome's value will be."""


def sequential_belief(
    posterior: Posterior, treatment: Treatment, function: ScoreFunction, population: TargetPopulation | None
) -> SequentialBelief:
    """Return the cheapest sequential belief that holds all that a score function looks at. Called by `select_greedy`.

    A function without a target population gets only beliefs about single units. A function that takes ``population``
    gets the joint belief. A function that takes ``targets`` gets beliefs about single units, and covariances with the
    targets; ``population`` is then all units by default.
    """
    if not function.needs_population:
        return SequentialMarginals(posterior, treatment)
    if "population" in function.needs:
        return SequentialJoint(posterior, treatment)
    # Covariances are looked at on the outcome's own scale.
    everyone = np.arange(len(posterior))
    population = population or TargetPopulation.of(everyone, len(posterior))
    return SequentialMarginals(posterior.linearised(), treatment, population)


class SequentialJoint:
    """The joint belief about all units, computed anew after each outcome."""

    targets = None

    def __init__(self, posterior: Posterior, treatment: Treatment) -> None:
        self.belief, self._arm = posterior, treatment

    def measure(self, unit: int) -> None:
        """Condition the belief on the outcome of a unit under its arm, whatever the outcome's value will be."""
        self.belief = self.belief.condition(unit, int(self._arm[unit]))


class SequentialMarginals:
    """Beliefs about single units, and their covariances with targets, updated in place after each outcome.

    Write mu_i for the expected outcomes (K,) of unit i. Before any outcome, Cov(mu_i, mu_j) = F_i F_jᵀ, plus R_i if i =
    j: F_i (K, R) are the unit's rows of ``posterior.factor``, and R_i (K, K) is its residual. An outcome y of unit m
    under arm t, with noise s2, takes s sᵀ off the joint covariance, where s_i = Cov(mu_i, mu_mt) / sqrt(v + s2) and v =
    Var mu_mt. The rows F_i need not change:

    - A metric M (R, R), at first the identity, stands between them: the shared part is F_i M F_jᵀ. The outcome changes
      it to M - (M f)(M f)ᵀ / (v + s2), with the measured unit's row f = F_mt.
    - Only the residual of the measured unit is correlated with y, by r = R_m[:, t]. The covariances of unit m with
      other units come out right if F_m is replaced by F_m - r fᵀ / (r_t + s2), and R_m by R_m - r rᵀ / (r_t + s2).

    So a pick costs one product of the factor with a vector, and one pass over the covariances with targets, however
    many picks came before.

    Parameters
    ----------
    posterior : Posterior
        The joint belief about N units.
    treatment : (N,)
        The arm of each unit.
    population : TargetPopulation, optional
        Targets whose covariances with all units are kept up to date; by default none, and ``targets`` is None.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.selection import SequentialMarginals
    >>> from causalbald.testing import fake_posterior
    >>> after = SequentialMarginals(fake_posterior(4), np.array([0, 1, 0, 1]))
    >>> before = after.belief.effect_variance
    >>> after.measure(2)
    >>> bool((after.belief.effect_variance <= before).all())
    True
    """

    def __init__(self, posterior: Posterior, treatment: Treatment, population: TargetPopulation | None = None) -> None:
        """Start from the belief before any outcome. The arrays of ``posterior`` are never changed."""
        self._joint, self._arm, self._population = posterior, treatment, population
        self._target_positions = np.empty(0, dtype=np.intp) if population is None else population.positions
        self._within = posterior.latent_covariance  # (N, K, K), of each unit with itself
        self._metric = np.eye(posterior.factor.shape[-1])  # M
        self._measured_rows: dict[int, Array] = {}  # rows (K, R) of the factor that measured units have now
        self._residual = posterior.residual
        # Covariances (N, J) of each unit's outcome with the targets' outcomes under an arm, or with their effects.
        self._across: dict[int | None, Array] = {}
        self.belief = self._marginals()

    @property
    def targets(self) -> TargetBelief | None:
        """The belief about the target population after all outcomes so far; None without a population."""
        if self._population is None:
            return None
        return TargetBelief(self._population, self.belief.linearised(), self._covariance, self._places)

    def measure(self, unit: int) -> None:
        """Condition all beliefs on the outcome of a unit under its arm, whatever the outcome's value will be.

        Replaces ``belief``, and changes the covariances with targets in place.
        """
        arm = int(self._arm[unit])
        # What a binary outcome is worth changes with what is believed; a noiseless one must not become worth more.
        source = self._joint if self._joint.link == "identity" else self.belief
        noise = source.measurement_variance(unit, arm)  # s2
        row, local = self._row(unit), self._residual[unit, :, arm]  # F_m and r
        pull = self._metric @ row[arm]  # M f
        spread = max(self._within[unit, arm, arm], 0.0) + noise  # v + s2
        # s_i = (F_i M f + r where i = m) / sqrt(v + s2)
        along = self._times(pull)
        along[unit] += local
        along /= np.sqrt(spread)
        self._within = self._within - along[:, :, None] * along[:, None, :]
        for target_arm, across in self._across.items():  # in place: J numbers for each of N units
            blas.dger(-1.0, self._at_targets(along, target_arm), self._under_arm(along), a=across.T, overwrite_a=1)
        self._metric -= np.outer(pull, pull) / spread
        self._measured_rows[unit] = row - np.outer(local / (local[arm] + noise), row[arm])
        if local.any():
            self._residual = self._residual.copy() if self._residual is self._joint.residual else self._residual
            self._residual[unit] -= np.outer(local, local) / (local[arm] + noise)
        self.belief = self._marginals()

    def _marginals(self) -> Posterior:
        """Return the belief about each unit by itself, as a posterior without a factor."""
        p = self._joint
        return p._derived(factor=np.empty((*p.mean.shape, 0)), residual=self._within)

    def _row(self, unit: int) -> Array:
        """Return the rows (K, R) of the factor that a unit has after all outcomes so far."""
        return self._measured_rows[unit] if unit in self._measured_rows else self._joint.factor[unit].astype(np.float64)

    def _times(self, vector: Array) -> Array:
        """Return the product of each row of the factor, after all outcomes so far, with a vector (R,): (N, K)."""
        units, arms, rank = self._joint.factor.shape
        rows = self._joint.factor.reshape(units * arms, rank)  # a stack of small matrices takes twice as long
        blocks = (rows[start : start + _BLOCK_ROWS] for start in range(0, len(rows), _BLOCK_ROWS))
        product = np.concatenate([block.astype(np.float64, copy=False) @ vector for block in blocks])
        product = product.reshape(units, arms)
        if self._measured_rows:
            product[list(self._measured_rows)] = np.stack([*self._measured_rows.values()]) @ vector
        return product

    def _covariance(self, rows: slice, arm: int | None) -> Array:
        """Return covariances (n, J) of the units ``rows`` with the targets under ``arm``; see :class:`TargetBelief`.

        The first call for an ``arm`` computes the covariances of all units; from then on `measure` keeps them up to
        date. The result is a view of the array that is kept, not a copy.
        """
        if arm not in self._across:
            factor = self._joint.factor
            if self._measured_rows:
                factor = factor.astype(np.float64)
                factor[list(self._measured_rows)] = np.stack([*self._measured_rows.values()])
            target_rows = self._at_targets(factor, arm) @ self._metric
            unit_rows = self._under_arm(factor).astype(np.float64, copy=False)
            across: Array = np.ascontiguousarray(unit_rows @ target_rows.T)
            residual = self._at_targets(self._under_arm(self._residual), arm)
            across[self._target_positions, np.arange(len(target_rows))] += residual
            self._across[arm] = across
        return self._across[arm][rows]

    def _under_arm(self, values: AnyArray) -> AnyArray:
        """Return the entries (N, ...) of values (N, K, ...) that belong to the arm of each unit."""
        return values[np.arange(len(values)), self._arm]

    def _at_targets(self, values: AnyArray, arm: int | None) -> Array:
        """Return the entries (J, ...) of values (N, K, ...) for the targets under ``arm``.

        With ``arm`` None, returns the entries of arm 1 minus the entries of arm 0.
        """
        at_targets = values[self._target_positions].astype(np.float64, copy=False)
        return at_targets[:, 1] - at_targets[:, 0] if arm is None else at_targets[:, arm]

    @cached_property
    def _places(self) -> Positions:
        """Place (N,) of each unit among the targets, counted from 0; -1 for units that are no targets."""
        places = np.full(len(self._joint), -1)
        places[self._target_positions] = np.arange(len(self._target_positions))
        return places
