"""Covariances of single units with a few others, exact and without a joint belief about all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from causalbald.models.effect_kernel import Hyperparameters
from causalbald.models.sites import Single


@dataclass(frozen=True)
class ProcessLinks:
    """Covariances of units with J others at z (J, D), in standard units.

    After labels it is the prior's covariance minus what the labels say of both, k_iᵀ ``pull`` with ``pull`` = K⁻¹ k_j.
    """

    single: Single
    z: Tensor
    pull: Tensor  # (K, n, J)
    effect_pull: Tensor  # (n, J)

    @classmethod
    def of(cls, h: Hyperparameters, single: Single, z: Tensor) -> Self:
        """Return the links to units z after the labels that ``single`` knows of."""
        kernel = h.by_arm(single.x, single.arm, z)
        pull = single.whitening.T @ (single.whitening @ kernel)
        return cls(single, z, pull, pull[1] - pull[0])

    def covariance(self, h: Hyperparameters, x: Tensor, own: Tensor, arm: int | None) -> Tensor:
        """Return Cov(mu_own(x_i), mu_arm(z_j)), (N, J), or that with the effects of z."""
        known = h.kernel(x, own, self.single.x, self.single.arm)
        if arm is None:
            return h.with_effects(x, own, self.z).addmm_(known, self.effect_pull, alpha=-1)
        return torch.addmm(h.by_arm(x, own, self.z)[arm], known, self.pull[arm], alpha=-1)
