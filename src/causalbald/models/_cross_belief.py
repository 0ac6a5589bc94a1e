"""Covariances of single units with a few others, exact and without a joint belief about all units.

Symbols: n labels with covariance K_n (n, n) of their outcomes; k_i and k_j (n,) the kernels of units i and j with the
labels. After the labels, Cov(mu_i, mu_j) = k(i, j) - k_iᵀ K_n⁻¹ k_j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from causalbald._typing import Array
from causalbald.models._sites import Process, Single
from causalbald.posterior import Posterior


@dataclass(frozen=True)
class ProcessCrossBelief:
    """What is needed for covariances of any units with J others at z (J, D), computed once.

    ``z`` is in standard units and in the floating-point precision of ``single``. ``mean`` is the belief's mean of the
    others, and ``solved`` is K_n⁻¹ k_j for each of them under each arm.
    """

    process: Process
    single: Single
    z: Tensor
    mean: Tensor  # (K, J)
    solved: Tensor  # (K, n, J)
    solved_effects: Tensor  # (n, J), K_n⁻¹ k_j for the effects of z

    @classmethod
    def of(cls, h: Process, single: Single, z: Tensor) -> Self:
        """Return what is needed for covariances with units z, given the labels, or the sites, of ``single``."""
        z = z.to(single.x)
        kernel = h.by_arm(single.x, single.arm, z)
        solved = single.whitening.T @ (single.whitening @ kernel)  # whiteningᵀ whitening = K_n⁻¹
        return cls(h, single, z, single.weights @ kernel + h.means[:, None], solved, solved[1] - solved[0])

    def at(self, x: Tensor) -> UnitCrossBelief:
        """Return the belief and covariances of units x (N, D) in standard units."""
        x = x.to(self.single.x)
        return UnitCrossBelief(self, x, self.process.by_arm(self.single.x, self.single.arm, x))


@dataclass(frozen=True)
class UnitCrossBelief:
    """Belief about units x (N, D) and their covariances with the others of ``process_belief``.

    ``kernel`` (K, n, N) is the kernel between the n labels and the units under each arm.
    """

    process_belief: ProcessCrossBelief
    x: Tensor
    kernel: Tensor

    def posterior(self) -> Posterior:
        """Return the belief about the units, without covariances between them."""
        return self.process_belief.single.from_kernel(self.process_belief.process, self.kernel)

    def covariance(self, rows: slice, treatment: Tensor, arm: int | None) -> Tensor:
        """Return Cov(mu_treatment(x_i), mu_arm(z_j)), (n, J), of the n units in ``rows`` with the J others.

        ``treatment`` (n,) holds the arms of these n units. With ``arm=None`` the covariances are with the effects of
        the others.
        """
        h, z, x = self.process_belief.process, self.process_belief.z, self.x[rows]
        by_arm = self.kernel[..., rows]
        kernel = by_arm.gather(0, treatment.expand(1, *by_arm.shape[1:]))[0].T  # k_i in rows, (n, labels)
        if arm is None:
            return h.with_effects(x, treatment, z).addmm_(kernel, self.process_belief.solved_effects, alpha=-1)
        arms = torch.full((len(z),), arm)
        return torch.addmm(h.kernel(x, treatment, z, arms), kernel, self.process_belief.solved[arm], alpha=-1)


def between_members(unit_means: Array, other_means: Array, weights: Array) -> Array:
    """Return what differences between members' means add to the covariances (N, J) of a mixture of M members.

    ``unit_means`` (M, N) and ``other_means`` (M, J) are each member's means. The ``weights`` (M,) sum to 1.
    """
    # Σ_m w_m (a_mi - ā_i)(b_mj - b̄_j) with ā = Σ_m w_m a_m
    unit_deviations, other_deviations = unit_means - weights @ unit_means, other_means - weights @ other_means
    covariance: Array = (unit_deviations * weights[:, None]).T @ other_deviations
    return covariance


def of_arm(values: Array, arm: int | None) -> Array:
    """Return values (..., K, J) of one arm, (..., J); for ``arm`` None, arm 1 minus arm 0."""
    selected: Array = values[..., 1, :] - values[..., 0, :] if arm is None else values[..., arm, :]
    return selected
