"""The kernel over units and arms: a part shared between arms, a part for the effect, and their priors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from causalbald._typing import Array

ARMS = 2


@dataclass(frozen=True)
class Hyperparameters:
    """Everything that is learned from the labels, on standardised scales.

    mu(x, 0) = means[0] + weights[0, 0] s(x), and mu(x, 1) = means[1] + weights[0, 1] s(x) + weights[1, 1] e(x): s is
    shared between arms, e is for the effect. Both are processes of unit variance with a squared-exponential
    kernel and a lengthscale per covariate.
    """

    log_lengthscales: Tensor  # (2, D)
    weights: Tensor  # (2, K)
    means: Tensor  # (K,)
    log_noise: Tensor  # (K,)

    @property
    def noise(self) -> Tensor:
        """Noise variance per arm, (K,)."""
        return self.log_noise.exp()

    @property
    def between_arms(self) -> Tensor:
        """Prior covariance of one unit's two outcomes, (K, K)."""
        return self.weights.T @ self.weights

    def parts(self, x: Tensor, z: Tensor) -> Tensor:
        """Return both parts' unit-variance kernels between x (n, D) and z (m, D): (2, n, m)."""
        scale = self.log_lengthscales.neg().exp()[:, None, :]
        a, b = x * scale, z * scale
        distance = a.square().sum(-1)[:, :, None] + b.square().sum(-1)[:, None, :] - 2 * a @ b.transpose(1, 2)
        return torch.exp(-0.5 * distance.clamp_min(0.0))

    def kernel(self, x: Tensor, arm_x: Tensor, z: Tensor, arm_z: Tensor) -> Tensor:
        """Return the kernel between units with arms: (n, m)."""
        left, right = self.weights[:, arm_x], self.weights[:, arm_z]
        return (self.parts(x, z) * left[:, :, None] * right[:, None, :]).sum(0)

    def by_arm(self, u: Tensor, arm: Tensor, z: Tensor) -> Tensor:
        """Return the kernel (K, r, n) between sites u (r, D) with arms and units z (n, D) under each arm."""
        parts, at_sites = self.parts(u, z), self.weights[:, arm]
        return torch.stack([(parts * (at_sites * w[:, None])[:, :, None]).sum(0) for w in self.weights.T])


@dataclass(frozen=True)
class Prior:
    """Gaussian priors on the free parameters, for standardised data.

    The free parameters are 2 D log lengthscales, whose centre grows with the square root of the dimension and whose
    spread shrinks with it, since many free lengthscales can explain the noise of few labels; the log weight of the
    shared part in arm 0, its weight in arm 1 (any sign), the log weight of the effect part; the means; the log noises,
    centred where noise makes up a third of the variance. Weights on a log scale keep a part from vanishing, which would
    make the arms' outcomes look like copies of each other and the belief about effects far too certain.
    """

    dimension: int

    @property
    def centre(self) -> Array:
        """Prior mean of the free parameters."""
        lengthscale = math.log(math.sqrt(self.dimension)) + 1.2
        return np.array([lengthscale] * (2 * self.dimension) + [0.0, 1.0, math.log(0.5), 0.0, 0.0, -1.0, -1.0])

    @property
    def spread(self) -> Array:
        """Prior standard deviation of the free parameters."""
        lengthscale = 0.4 + 0.6 / math.sqrt(self.dimension)
        return np.array([lengthscale] * (2 * self.dimension) + [0.7, 0.7, 0.7, 1.0, 1.0, 1.0, 1.0])

    @property
    def starts(self) -> list[Array]:
        """Where to start the search: the centre, and a rougher, less noisy surface with a larger effect part.

        With few labels the evidence often has a mode where noise explains everything; one start finds only that.
        """
        rough = self.centre
        rough[: 2 * self.dimension] -= 1.0
        rough[-5] += 0.5
        rough[-2:] -= 1.5
        return [self.centre, rough]

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Limits that keep the algebra well conditioned, far out in the prior's tails."""
        return [(-5.0, 10.0)] * (2 * self.dimension) + [(-5.0, 5.0)] * 5 + [(math.log(1e-6), math.log(10.0))] * ARMS

    @staticmethod
    def unpack(free: Tensor) -> Hyperparameters:
        """Return the hyper-parameters that a vector of free parameters stands for."""
        log_control, treated, log_effect = free[-7:-4]
        shared = torch.stack([log_control.exp(), treated])
        effect = torch.stack([torch.zeros_like(treated), log_effect.exp()])
        return Hyperparameters(free[:-7].reshape(2, -1), torch.stack([shared, effect]), free[-4:-2], free[-2:])
