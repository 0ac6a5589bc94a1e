"""The kernel over units and arms: parts shared between arms, parts for the effect, and their priors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from causalbald._typing import Array, Treatment
from causalbald.models._kernel_sum import gram, kernel_sum, squared_distances

ARMS = 2
LEAST_NOISE = 1e-6
_MOST_NOISE = 10.0


@dataclass(frozen=True)
class Hyperparameters:
    """Everything that is learned from the labels, on standardised scales.

    mu(x, 0) = means[0] + weights[0, 0] s(x), and mu(x, 1) = means[1] + weights[0, 1] s(x) + weights[1, 1] e(x): s is
    shared between arms, e is for the effect. Both are processes of unit variance with a squared-exponential
    kernel and a lengthscale per covariate. With an ``index``, two more parts with weights of their own, again shared
    and effect, are functions of one number: the covariates' weighted sum.
    """

    log_lengthscales: Tensor  # (2, D)
    weights: Tensor  # (P, K), P = 2 or 4 parts
    means: Tensor  # (K,)
    log_noise: Tensor  # (K,)
    index: Tensor | None = None  # (D,)
    log_index_scales: Tensor | None = None  # (2,)

    @property
    def noise(self) -> Tensor:
        """Noise variance per arm, (K,)."""
        return self.log_noise.exp()

    @property
    def between_arms(self) -> Tensor:
        """Prior covariance of one unit's two outcomes, (K, K)."""
        return self.weights.T @ self.weights

    def places(self, x: Tensor) -> list[Tensor]:
        """Return where units x (n, D) are for each part, (n, D) or (n, 1), in units of its lengthscales."""
        general = [x * scale for scale in self.log_lengthscales.neg().exp()]
        if self.index is None or self.log_index_scales is None:
            return general
        along = (x @ self.index)[:, None]
        return general + [along * scale for scale in self.log_index_scales.exp()]

    def squared_distances(self, x: Tensor, z: Tensor) -> Tensor:
        """Return squared distances (P, n, m) between x (n, D) and z (m, D), in the lengthscales of each part."""
        return torch.stack([squared_distances(a, b) for a, b in zip(self.places(x), self.places(z), strict=True)])

    def parts(self, x: Tensor, z: Tensor) -> Tensor:
        """Return the parts' unit-variance kernels between x (n, D) and z (m, D): (P, n, m)."""
        return self.squared_distances(x, z).mul_(-0.5).exp_()

    def kernel(self, x: Tensor, arm_x: Tensor, z: Tensor, arm_z: Tensor) -> Tensor:
        """Return the kernel between units with arms: (n, m)."""
        return kernel_sum(self.weights[:, arm_x], self.weights[:, arm_z], self.places(x), self.places(z))

    def gram(self, x: Tensor, arm: Tensor) -> Tensor:
        """Return the kernel of units with arms with themselves, (n, n), made for its gradient."""
        return gram(self.weights[:, arm], self.places(x))

    def by_arm(self, u: Tensor, arm: Tensor, z: Tensor) -> Tensor:
        """Return the kernel (K, r, n) between sites u (r, D) with arms and units z (n, D) under each arm."""
        return self._with(u, arm, z, self.weights)

    def with_effects(self, u: Tensor, arm: Tensor, z: Tensor) -> Tensor:
        """Return the kernel (r, n) between sites u (r, D) with arms and the effects of units z (n, D)."""
        return self._with(u, arm, z, self.weights[:, 1:] - self.weights[:, :1])[0]

    def _with(self, u: Tensor, arm: Tensor, z: Tensor, weights: Tensor) -> Tensor:
        """Return the kernel (Q, r, n) between sites u with arms and Q sums of the parts at z, weights (P, Q)."""
        found = u.new_zeros(weights.shape[1], len(u), len(z))
        for a, b, own, other in zip(self.places(u), self.places(z), self.weights, weights, strict=True):
            part = squared_distances(a, b).mul_(-0.5).exp_().mul_(own[arm][:, None])
            for total, weight in zip(found, other.tolist(), strict=True):
                if weight:
                    total.add_(part, alpha=weight)
        return found


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
    least_noise: tuple[float, float] = (LEAST_NOISE, LEAST_NOISE)

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

    def starts(self, x: Array, arm: Treatment, y: Array) -> list[Array]:
        """Return where to start the search.

        The centre; a rougher, less noisy surface with a larger effect part, since with few labels the evidence often
        has a mode where noise explains everything; and that surface mirrored, so that what raises outcomes in one arm
        lowers them in the other: the evidence has a mode for each sign, and a search does not cross from one to the
        other.
        """
        rough = self.centre
        rough[-7 - 2 * self.dimension : -7] -= 1.0
        rough[-5] += 0.5
        rough[-2:] -= 1.5
        mirrored = rough.copy()
        mirrored[self._sign] *= -1
        return [self.centre, rough, mirrored]

    @property
    def _sign(self) -> int:
        """Where the weight in arm 1 of the largest shared part is."""
        return -6

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Limits that keep the algebra well conditioned, far out in the prior's tails."""
        noise = [(math.log(least), math.log(max(_MOST_NOISE, 2 * least))) for least in self.least_noise]
        return [(-5.0, 10.0)] * (2 * self.dimension) + [(-5.0, 5.0)] * 5 + noise

    @property
    def tangent_precision(self) -> Array:
        """Prior precision of a common factor of the lengthscales of each part, of weights, means and noises."""
        precision = self.spread**-2.0
        scales = precision[: 2 * self.dimension].reshape(2, -1).sum(axis=1)
        return np.concatenate([scales, precision[2 * self.dimension :]])

    @staticmethod
    def unpack(free: Tensor) -> Hyperparameters:
        """Return the hyper-parameters that a vector of free parameters stands for."""
        return Hyperparameters(free[:-7].reshape(2, -1), _weights(free[-7:-4]), free[-4:-2], free[-2:])


class IndexPrior(Prior):
    """Priors of the kernel with an index, whose free parameters come before those of the general parts.

    The index's weights are such that it varies by about 1 among units; the log scales of the index let its functions
    bend a little and rarely more; then its parts' weights, as those of the general parts, which are expected to be
    small here.
    """

    @property
    def centre(self) -> Array:
        """Prior mean of the free parameters."""
        general = super().centre
        general[-7:-4] = [math.log(0.3), 0.3, math.log(0.15)]
        scale = math.log(0.2)
        return np.concatenate([[0.0] * self.dimension, [scale, scale, -0.3, 1.0, math.log(0.5) - 0.3], general])

    @property
    def spread(self) -> Array:
        """Prior standard deviation of the free parameters."""
        general = super().spread
        general[-6] = 0.2
        each = 1 / math.sqrt(self.dimension)
        return np.concatenate([[each] * self.dimension, [0.3, 0.3, 0.7, 0.7, 0.7], general])

    def starts(self, x: Array, arm: Treatment, y: Array) -> list[Array]:
        """Return where to start the search: as without an index, along the direction in which outcomes grow."""
        direction = _direction(x, arm, y)
        return [np.concatenate([direction, start[self.dimension :]]) for start in super().starts(x, arm, y)]

    @property
    def _sign(self) -> int:
        return self.dimension + 3

    @property
    def tangent_precision(self) -> Array:
        """Prior precision of the index, then as without one, with scales and weights of the index after the others."""
        precision, d = self.spread**-2.0, self.dimension
        scales = precision[d + 5 : 3 * d + 5].reshape(2, -1).sum(axis=1)
        weights, rest = precision[-7:-4], precision[-4:]
        return np.concatenate([precision[:d], scales, precision[d : d + 2], weights, precision[d + 2 : d + 5], rest])

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Limits that keep the algebra well conditioned, far out in the prior's tails."""
        return [(-10.0, 10.0)] * self.dimension + [(-5.0, 5.0)] * 5 + super().bounds

    @staticmethod
    def unpack(free: Tensor) -> Hyperparameters:
        """Return the hyper-parameters that a vector of free parameters stands for."""
        dimension = (len(free) - 12) // 3
        index, scales, weights, general = torch.split(free, [dimension, 2, 3, len(free) - dimension - 5])
        h = Prior.unpack(general)
        return replace(h, weights=torch.cat([h.weights, _weights(weights)]), index=index, log_index_scales=scales)


def _weights(free: Tensor) -> Tensor:
    """Return weights (2, K) of a shared and an effect part: log, any sign, log."""
    log_control, treated, log_effect = free
    shared = torch.stack([log_control.exp(), treated])
    effect = torch.stack([torch.zeros_like(treated), log_effect.exp()])
    return torch.stack([shared, effect])


def _direction(x: Array, arm: Treatment, y: Array) -> Array:
    """Return the unit vector along which outcomes grow in both arms, by ridge regression with a mean per arm."""
    design = np.column_stack([x, np.eye(ARMS)[arm]])
    penalty = np.array([3.0] * x.shape[1] + [1e-3] * ARMS)
    slope = np.linalg.solve(design.T @ design + np.diag(penalty), design.T @ y)[: x.shape[1]]
    length = np.linalg.norm(slope)
    unit: Array = slope / length if length > 0 else np.full(x.shape[1], 1 / math.sqrt(x.shape[1]))
    return unit
