"""A belief that is conditioned on one outcome after another, as batches are chosen."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import blas

from causalbald._typing import AnyArray, Array, Positions, Treatment
from causalbald.acquisition._registry import Acquisition, Targets
from causalbald.posterior import Posterior

_CHUNK = 8192


class SequentialBelief(Protocol):
    """What acquisition functions are shown after each pick."""

    @property
    def belief(self) -> Posterior:
        """What is believed now."""

    @property
    def targets(self) -> Targets | None:
        """What matters, with what is believed of it now."""

    def measure(self, unit: int) -> None:
        """Allow for the outcome of a unit under its arm, whatever it will be."""


def conditioned(
    posterior: Posterior, treatment: Treatment, function: Acquisition, targets: Targets | None
) -> SequentialBelief:
    """Return a belief that can be conditioned and holds what the function looks at."""
    if function.pointwise:
        return DowndatedBelief(posterior, treatment, None)
    if function.linked:  # on the outcome's own scale, on which it looks at covariances
        everyone = np.arange(len(posterior))
        return DowndatedBelief(posterior.linearised(), treatment, targets or Targets.of(everyone, len(posterior)))
    return JointBelief(posterior, treatment, targets)


class JointBelief:
    """The joint belief about all units, made anew after each outcome."""

    def __init__(self, posterior: Posterior, treatment: Treatment, targets: Targets | None) -> None:
        self.belief, self.targets, self._arm = posterior, targets, treatment

    def measure(self, unit: int) -> None:
        """Allow for the outcome of a unit under its arm, whatever it will be."""
        self.belief = self.belief.condition(unit, int(self._arm[unit]))


class DowndatedBelief:
    """Beliefs about single units, and their covariances with targets, less what the outcomes so far say of both.

    An outcome takes s sᵀ off the covariances, where s are those with the outcome over its standard deviation. Rows of
    the factor stay what they are: between them stands a matrix, F_i metric F_jᵀ, from which an outcome takes as much.
    Only the rows of who is measured change, by what the outcome says of them beyond the factor. So a pick costs one
    product of the joint belief with a vector, and one pass over the covariances with targets, however many came before.
    """

    def __init__(self, posterior: Posterior, treatment: Treatment, targets: Targets | None) -> None:
        self._joint, self._arm, self._targets = posterior, treatment, targets
        self._positions = np.empty(0, dtype=np.intp) if targets is None else targets.positions
        self._within = posterior.latent_covariance  # (N, K, K)
        self._metric = np.eye(posterior.factor.shape[-1])
        self._changed: dict[int, Array] = {}  # rows of the factor (K, R) of who is measured
        self._residual = posterior.residual
        # Covariances (N, J) of own outcomes with the targets' under an arm, or with their effects.
        self._across: dict[int | None, Array] = {}
        self.belief = self._now()

    @property
    def targets(self) -> Targets | None:
        """What matters, with what is believed of it now."""
        return self._targets and replace(
            self._targets, belief=self.belief, covariance=self._covariance, place=self._place
        )

    def measure(self, unit: int) -> None:
        """Allow for the outcome of a unit under its arm, whatever it will be."""
        arm = int(self._arm[unit])
        # What a binary outcome is worth changes with what is known; a noiseless one must not become worth more.
        source = self._joint if self._joint.link == "identity" else self.belief
        noise = source.measurement_variance(unit, arm)
        row, local = self._row(unit), self._residual[unit, :, arm]
        seen = self._metric @ row[arm]
        spread = max(self._within[unit, arm, arm], 0.0) + noise
        along = self._times(seen)
        along[unit] += local
        along /= np.sqrt(spread)
        self._within = self._within - along[:, :, None] * along[:, None, :]
        for to, across in self._across.items():  # in place: J numbers for each of N units
            blas.dger(-1.0, self._at_targets(along, to), self._own(along), a=across.T, overwrite_a=1)
        self._metric -= np.outer(seen, seen) / spread
        self._changed[unit] = row - np.outer(local / (local[arm] + noise), row[arm])
        if local.any():
            self._residual = self._residual.copy() if self._residual is self._joint.residual else self._residual
            self._residual[unit] -= np.outer(local, local) / (local[arm] + noise)
        self.belief = self._now()

    def _now(self) -> Posterior:
        p = self._joint
        return p._derived(factor=np.empty((*p.mean.shape, 0)), residual=self._within)

    def _row(self, unit: int) -> Array:
        return self._changed[unit] if unit in self._changed else self._joint.factor[unit].astype(np.float64)

    def _times(self, vector: Array) -> Array:
        """Return the factor's rows times a vector, (N, K)."""
        units, arms, rank = self._joint.factor.shape
        rows = self._joint.factor.reshape(units * arms, rank)  # a stack of small matrices takes twice as long
        chunks = (rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK))
        found = np.concatenate([chunk.astype(np.float64, copy=False) @ vector for chunk in chunks])
        found = found.reshape(units, arms)
        if self._changed:
            found[list(self._changed)] = np.stack([*self._changed.values()]) @ vector
        return found

    def _covariance(self, rows: slice, arm: int | None) -> Array:
        """Return the covariances of some units' own outcomes with targets under an arm, or with their effects."""
        if arm not in self._across:
            factor = self._joint.factor
            if self._changed:
                factor = factor.astype(np.float64)
                factor[list(self._changed)] = np.stack([*self._changed.values()])
            there = self._at_targets(factor, arm) @ self._metric
            found: Array = np.ascontiguousarray(self._own(factor).astype(np.float64, copy=False) @ there.T)
            found[self._positions, np.arange(len(there))] += self._at_targets(self._own(self._residual), arm)
            self._across[arm] = found
        return self._across[arm][rows]

    def _own(self, values: AnyArray) -> AnyArray:
        """Return those of (N, K, ...) values that belong to each unit's own arm."""
        return values[np.arange(len(values)), self._arm]

    def _at_targets(self, values: AnyArray, arm: int | None) -> Array:
        """Return those of (N, K, ...) values that belong to targets under an arm, or the difference of arms."""
        there = values[self._positions].astype(np.float64, copy=False)
        return there[:, 1] - there[:, 0] if arm is None else there[:, arm]

    @cached_property
    def _place(self) -> Positions:
        """Where each unit is among the targets, or -1."""
        place = np.full(len(self._joint), -1)
        place[self._positions] = np.arange(len(self._positions))
        return place
