"""Covariances of single units with a few others, exact and without a joint belief about all of them."""

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

    def at(self, x: Tensor) -> UnitCrossBelief:
        """Return units x (N, D) with their kernels to the labels, on which all that is asked of them rests."""
        x = x.to(self.single.x)
        return UnitCrossBelief(self, x, self.process.by_arm(self.single.x, self.single.arm, x))


@dataclass(frozen=True)
class UnitCrossBelief:
    """Units x (N, D), and their kernel with the labels under each arm, (K, n, N)."""

    links: ProcessCrossBelief
    x: Tensor
    kernel: Tensor

    def posterior(self) -> Posterior:
        """Return what is believed of each unit by itself."""
        return self.links.single.given(self.links.process, self.kernel)

    def covariance(self, rows: slice, own: Tensor, arm: int | None) -> Tensor:
        """Return Cov(mu_own(x_i), mu_arm(z_j)), (N, J), of units in some rows, or that with the effects of z."""
        h, z, x = self.links.process, self.links.z, self.x[rows]
        kernel = self.kernel[..., rows]
        known = kernel.gather(0, own.expand(1, *kernel.shape[1:]))[0].T
        if arm is None:
            return h.with_effects(x, own, z).addmm_(known, self.links.effect_pull, alpha=-1)
        under = torch.full((len(z),), arm)
        return torch.addmm(h.kernel(x, own, z, under), known, self.links.pull[arm], alpha=-1)


def between_members(here: Array, there: Array, weights: Array) -> Array:
    """Return what members of a mixture add to covariances (N, J) by differing in their means, (M, N) and (M, J)."""
    here, there = here - weights @ here, there - weights @ there
    found: Array = (here * weights[:, None]).T @ there
    return found


def of_arm(values: Array, arm: int | None) -> Array:
    """Return those of values (..., K, J) that belong to an arm, or the difference of arms."""
    found: Array = values[..., 1, :] - values[..., 0, :] if arm is None else values[..., arm, :]
    return found
