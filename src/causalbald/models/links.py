"""Covariances of single units with a few others, exact and without a joint belief about all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from causalbald._typing import Array
from causalbald.models.sites import Process, Single


@dataclass(frozen=True)
class ProcessLinks:
    """Covariances of units with J others at z (J, D), in standard units.

    After labels it is the prior's covariance minus what the labels say of both, k_iᵀ ``pull`` with ``pull`` = K⁻¹ k_j.
    All in the precision of ``single``.
    """

    process: Process
    single: Single
    z: Tensor
    mean: Tensor  # (K, J)
    pull: Tensor  # (K, n, J)
    effect_pull: Tensor  # (n, J)

    @classmethod
    def of(cls, h: Process, single: Single, z: Tensor) -> Self:
        """Return the links to units z after the labels that ``single`` knows of."""
        z = z.to(single.x)
        kernel = h.by_arm(single.x, single.arm, z)
        pull = single.whitening.T @ (single.whitening @ kernel)
        return cls(h, single, z, single.weights @ kernel + h.means[:, None], pull, pull[1] - pull[0])

    def moments(self, x: Tensor, own: Tensor, arm: int | None) -> tuple[Tensor, Tensor]:
        """Return E mu_own(x_i), (N,), and Cov(mu_own(x_i), mu_arm(z_j)), (N, J), or that with the effects of z."""
        h, x = self.process, x.to(self.single.x)
        known = h.kernel(x, own, self.single.x, self.single.arm)
        mean = known @ self.single.weights + h.means[own]
        if arm is None:
            return mean, h.with_effects(x, own, self.z).addmm_(known, self.effect_pull, alpha=-1)
        return mean, torch.addmm(h.by_arm(x, own, self.z)[arm], known, self.pull[arm], alpha=-1)


def between_members(here: Array, there: Array, weights: Array) -> Array:
    """Return what members of a mixture add to covariances (N, J) by differing in their means, (M, N) and (M, J)."""
    here, there = here - weights @ here, there - weights @ there
    found: Array = (here * weights[:, None]).T @ there
    return found


def of_arm(values: Array, arm: int | None) -> Array:
    """Return those of values (..., K, J) that belong to an arm, or the difference of arms."""
    found: Array = values[..., 1, :] - values[..., 0, :] if arm is None else values[..., arm, :]
    return found
