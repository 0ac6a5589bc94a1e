"""The kernel over units and arms: parts shared between arms, parts for the effect, and priors of its parameters.

Symbols: D covariates; K = 2 arms; P parts (2, or 4 with an index); w_pa the weight of part p in arm a; E_p the
squared-exponential kernel of part p, with unit variance. The kernel is
k((x, a), (z, b)) = Σ_p w_pa w_pb E_p(x, z).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from causalbald._typing import Array, Treatment
from causalbald.models._kernel_sum import gram, kernel_sum, squared_distances

ARMS = 2
LEAST_NOISE = 1e-6  # variance, on the standardised scale
_MOST_NOISE = 10.0  # variance, on the standardised scale
# Free parameters of a kernel without an index, after its 2 D log lengthscales: see `Prior`.
_N_TAIL = 7
# Ridge penalties of `_steepest_direction`: on the slopes, and on the mean of each arm.
_SLOPE_PENALTY, _MEAN_PENALTY = 3.0, 1e-3


@dataclass(frozen=True)
class Hyperparameters:
    """All parameters that are learned from the labels, on standardised scales; a :class:`Process` of sites.

    mu(x, 0) = means[0] + weights[0, 0] s(x), and mu(x, 1) = means[1] + weights[0, 1] s(x) + weights[1, 1] e(x).
    The part s is shared between arms, the part e is for the effect. Both are Gaussian processes of unit variance with a
    squared-exponential kernel and a lengthscale per covariate. With an ``index`` there are two more parts, again shared
    and effect, with weights of their own. They are functions of one number, the weighted sum ``x @ index``.
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
        """Return units x (n, D) in the lengthscales of each part: P tensors, (n, D) each, or (n, 1) for an index."""
        general = [x * scale for scale in self.log_lengthscales.neg().exp()]
        if self.index is None or self.log_index_scales is None:
            return general
        index_values = (x @ self.index)[:, None]
        return general + [index_values * scale for scale in self.log_index_scales.exp()]

    def squared_distances(self, x: Tensor, z: Tensor) -> Tensor:
        """Return squared distances (P, n, m) between units x (n, D) and z (m, D), in the lengthscales of each part."""
        return torch.stack([squared_distances(a, b) for a, b in zip(self.places(x), self.places(z), strict=True)])

    def kernel(self, x: Tensor, arm_x: Tensor, z: Tensor, arm_z: Tensor) -> Tensor:
        """Return the kernel (n, m) between units x (n, D) and z (m, D) with arms (n,) and (m,)."""
        return kernel_sum(self.weights[:, arm_x], self.weights[:, arm_z], self.places(x), self.places(z))

    def gram(self, x: Tensor, arm: Tensor) -> Tensor:
        """Return :meth:`kernel` (n, n) of units x (n, D) with themselves, in arms (n,); its gradient is cheaper."""
        return gram(self.weights[:, arm], self.places(x))

    def by_arm(self, u: Tensor, arm: Tensor, z: Tensor) -> Tensor:
        """Return the kernel (K, r, n) between sites u (r, D) with arms (r,) and units z (n, D) under each of K arms."""
        return self._combined(u, arm, z, self.weights)

    def with_effects(self, u: Tensor, arm: Tensor, z: Tensor) -> Tensor:
        """Return the kernel (r, n) between sites u (r, D) with arms (r,) and the effects of units z (n, D)."""
        # An effect is mu(z, 1) - mu(z, 0): the parts at z have the weights w_p1 - w_p0.
        return self._combined(u, arm, z, self.weights[:, 1:] - self.weights[:, :1])[0]

    def _combined(self, u: Tensor, arm: Tensor, z: Tensor, weights: Tensor) -> Tensor:
        """Return Q weighted sums of the parts' kernels between sites u (r, D) with arms (r,) and units z (n, D).

        Sum q, of (Q, r, n), is Σ_p w_p,arm(u) E_p(u, z) v_pq, where ``weights`` v (P, Q) are those of the parts at z.
        """
        totals = u.new_zeros(weights.shape[1], len(u), len(z))
        for a, b, w, v in zip(self.places(u), self.places(z), self.weights, weights, strict=True):
            part = squared_distances(a, b).mul_(-0.5).exp_().mul_(w[arm][:, None])
            for total, weight in zip(totals, v.tolist(), strict=True):
                if weight:
                    total.add_(part, alpha=weight)
        return totals


@dataclass(frozen=True)
class Prior:
    """Gaussian priors on the free parameters, for standardised data.

    The free parameters are, in this order:

    - 2 D log lengthscales. Lengthscales are centred at 3.3 sqrt(D), and their spread shrinks with D: many free
      lengthscales can explain the noise of few labels.
    - The log weight of the shared part in arm 0, its weight in arm 1 (any sign), and the log weight of the effect part.
      A weight on a log scale cannot vanish. Without the effect part the arms' outcomes would be copies of each other,
      and the belief about effects far too certain.
    - The 2 means.
    - The 2 log noises, centred at exp(-1): about a third of the variance is noise.
    """

    dimension: int
    least_noise: tuple[float, float] = (LEAST_NOISE, LEAST_NOISE)  # variance of each arm

    @property
    def centre(self) -> Array:
        """Prior mean of the free parameters, (2 D + 7,)."""
        lengthscale = math.log(math.sqrt(self.dimension)) + 1.2
        return np.array([lengthscale] * (2 * self.dimension) + [0.0, 1.0, math.log(0.5), 0.0, 0.0, -1.0, -1.0])

    @property
    def spread(self) -> Array:
        """Prior standard deviation of the free parameters, (2 D + 7,)."""
        lengthscale = 0.4 + 0.6 / math.sqrt(self.dimension)
        return np.array([lengthscale] * (2 * self.dimension) + [0.7, 0.7, 0.7, 1.0, 1.0, 1.0, 1.0])

    def starts(self, x: Array, arm: Treatment, y: Array) -> list[Array]:
        """Return three points from which a search for the free parameters starts; here the labels are not used.

        The first is the centre. The second is a rougher, less noisy surface with a larger effect part: with few labels
        the evidence often has a mode where noise explains everything. The third is the second mirrored, so that what
        raises outcomes in one arm lowers them in the other: the evidence has a mode for each sign, and a search does
        not cross from one mode to the other.
        """
        rough = self.centre
        rough[-_N_TAIL - 2 * self.dimension : -_N_TAIL] -= 1.0
        rough[-5] += 0.5
        rough[-2:] -= 1.5
        mirrored = rough.copy()
        mirrored[self._sign_position] *= -1
        return [self.centre, rough, mirrored]

    @property
    def _sign_position(self) -> int:
        """Position, among the free parameters, of the shared part's weight in arm 1. Its sign is mirrored."""
        return -6

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Limits of the free parameters, far out in the prior's tails: they keep the algebra well conditioned."""
        noise = [(math.log(least), math.log(max(_MOST_NOISE, 2 * least))) for least in self.least_noise]
        return [(-5.0, 10.0)] * (2 * self.dimension) + [(-5.0, 5.0)] * 5 + noise

    @property
    def tangent_precision(self) -> Array:
        """Prior precision (p,) of the directions of :func:`causalbald.models._tangent.moves`, in their order."""
        # All log lengthscales of a part move by the same step, so that their precisions add up.
        precision = self.spread**-2.0
        scales = precision[: 2 * self.dimension].reshape(2, -1).sum(axis=1)
        return np.concatenate([scales, precision[2 * self.dimension :]])

    @staticmethod
    def unpack(free: Tensor) -> Hyperparameters:
        """Return the hyper-parameters that a vector (2 D + 7,) of free parameters stands for."""
        return Hyperparameters(free[:-_N_TAIL].reshape(2, -1), _weights(free[-7:-4]), free[-4:-2], free[-2:])


class IndexPrior(Prior):
    """Priors of the kernel with an index. Its free parameters come before those of the kernel without one.

    They are, in this order: the D weights of the index, such that it varies by about 1 among units; 2 log scales of the
    index, under which the functions of the index bend a little and rarely more; 3 weights of its parts, as those of the
    general parts. The general parts are expected to be small.
    """

    @property
    def centre(self) -> Array:
        """Prior mean of the free parameters, (3 D + 12,)."""
        general = super().centre
        general[-7:-4] = [math.log(0.3), 0.3, math.log(0.15)]
        scale = math.log(0.2)
        return np.concatenate([[0.0] * self.dimension, [scale, scale, -0.3, 1.0, math.log(0.5) - 0.3], general])

    @property
    def spread(self) -> Array:
        """Prior standard deviation of the free parameters, (3 D + 12,)."""
        general = super().spread
        general[-6] = 0.2
        index_weight = 1 / math.sqrt(self.dimension)
        return np.concatenate([[index_weight] * self.dimension, [0.3, 0.3, 0.7, 0.7, 0.7], general])

    def starts(self, x: Array, arm: Treatment, y: Array) -> list[Array]:
        """Return the three starts of :class:`Prior`, with the index along the direction in which outcomes grow.

        That direction is found from covariates x (n, D), arms (n,) and outcomes y (n,) of labels, all standardised.
        """
        direction = _steepest_direction(x, arm, y)
        return [np.concatenate([direction, start[self.dimension :]]) for start in super().starts(x, arm, y)]

    @property
    def _sign_position(self) -> int:
        """Position, among the free parameters, of the weight in arm 1 of the shared part of the index."""
        return self.dimension + 3

    @property
    def tangent_precision(self) -> Array:
        """Prior precision (p,) of the directions of :func:`causalbald.models._tangent.moves`, in their order."""
        # Index, lengthscales of the general parts, scales of the index, weights of the general parts, weights of the
        # index's parts, means and noises.
        precision, d = self.spread**-2.0, self.dimension
        scales = precision[d + 5 : 3 * d + 5].reshape(2, -1).sum(axis=1)
        weights, tail = precision[-7:-4], precision[-4:]
        return np.concatenate([precision[:d], scales, precision[d : d + 2], weights, precision[d + 2 : d + 5], tail])

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Limits of the free parameters, far out in the prior's tails: they keep the algebra well conditioned."""
        return [(-10.0, 10.0)] * self.dimension + [(-5.0, 5.0)] * 5 + super().bounds

    @staticmethod
    def unpack(free: Tensor) -> Hyperparameters:
        """Return the hyper-parameters that a vector (3 D + 12,) of free parameters stands for."""
        dimension = (len(free) - 12) // 3
        index, scales, weights, general = torch.split(free, [dimension, 2, 3, len(free) - dimension - 5])
        h = Prior.unpack(general)
        return replace(h, weights=torch.cat([h.weights, _weights(weights)]), index=index, log_index_scales=scales)


def _weights(free: Tensor) -> Tensor:
    """Return the weights (2, K) of a shared part and an effect part from three free parameters.

    These are the log of the shared part's weight in arm 0, its weight in arm 1, and the log of the effect part's weight
    in arm 1. The effect part has the weight 0 in arm 0.
    """
    log_control, treated, log_effect = free
    shared = torch.stack([log_control.exp(), treated])
    effect = torch.stack([torch.zeros_like(treated), log_effect.exp()])
    return torch.stack([shared, effect])


def _steepest_direction(x: Array, arm: Treatment, y: Array) -> Array:
    """Return the unit vector (D,) along which outcomes grow most, by one ridge regression for both arms.

    If outcomes depend on no covariate, all entries are equal.
    """
    # Ridge regression b = (Mᵀ M + Λ)⁻¹ Mᵀ y, where M holds the covariates and an indicator of each arm.
    design = np.column_stack([x, np.eye(ARMS)[arm]])
    penalty = np.array([_SLOPE_PENALTY] * x.shape[1] + [_MEAN_PENALTY] * ARMS)
    slope = np.linalg.solve(design.T @ design + np.diag(penalty), design.T @ y)[: x.shape[1]]
    length = np.linalg.norm(slope)
    direction: Array = slope / length if length > 0 else np.full(x.shape[1], 1 / math.sqrt(x.shape[1]))
    return direction
