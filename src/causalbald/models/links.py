"""Covariances of single units with a few others, exact and without a joint belief about all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from causalbald.models.sites import Process, Single


@dataclass(frozen=True)
class ProcessLinks:
    """Covariances of units with J others at z (J, D), in standard units.

    After labels it is the prior's covariance minus what the labels say of both, k_iᵀ ``pull`` with ``pull`` = K⁻¹ k_j.
    """

    single: Single
    z: Tensor
    pull: Tensor  # (K, n, J)

    @classmethod
    def of(cls, h: Process, single: Single, z: Tensor) -> Self:
        """Return the links to units z after the labels that ``single`` knows of."""
        kernel = h.by_arm(single.x, single.arm, z)
        return cls(single, z, single.whitening.T @ (single.whitening @ kernel))

    def covariance(self, h: Process, x: Tensor, own: Tensor, arm: int | None) -> Tensor:
        """Return Cov(mu_own(x_i), mu_arm(z_j)), (N, J), or that with the effects of z."""
        prior = h.by_arm(x, own, self.z)
        known = h.kernel(self.single.x, self.single.arm, x, own)
        if arm is None:
            return torch.addmm(prior[1] - prior[0], known.T, self.pull[1] - self.pull[0], alpha=-1)
        return torch.addmm(prior[arm], known.T, self.pull[arm], alpha=-1)
