"""Stationary kernels as functions of the squared distance d², measured in lengthscales; each is 1 at distance 0.

The kernels are in Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, section 4.2.1: the squared
exponential, and the Matérn class with ν = 1/2, 3/2 and 5/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

# Added to d² before the root, whose gradient would be infinite at distance 0.
_LEAST_SQUARED_DISTANCE = 1e-12


def rbf(squared: Tensor) -> Tensor:
    """Return exp(-d²/2) for ``squared`` d²."""
    return torch.exp(-0.5 * squared)


def matern12(squared: Tensor) -> Tensor:
    """Return exp(-d) for ``squared`` d²."""
    return torch.exp(-(squared + _LEAST_SQUARED_DISTANCE).sqrt())


def matern32(squared: Tensor) -> Tensor:
    """Return (1 + √3 d) exp(-√3 d) for ``squared`` d²."""
    scaled = (3 * squared).add_(_LEAST_SQUARED_DISTANCE).sqrt_()  # √3 d
    return (1 + scaled) * scaled.neg().exp_()


def matern52(squared: Tensor) -> Tensor:
    """Return (1 + √5 d + 5 d²/3) exp(-√5 d) for ``squared`` d²."""
    scaled = math.sqrt(5) * (squared + _LEAST_SQUARED_DISTANCE).sqrt()  # √5 d
    return (1 + scaled + 5 / 3 * squared) * torch.exp(-scaled)


KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "rbf": rbf,
    "matern12": matern12,
    "matern32": matern32,
    "matern52": matern52,
}


def squared_distances(x: Tensor, z: Tensor) -> Tensor:
    """Return squared distances (..., n, m) between rows of x (..., n, F) and rows of z (..., m, F), never below 0.

    This is not torch.cdist, which takes the root. The kernels would square its result again, and the root has another
    gradient at distance 0 than the square.
    """
    # |x - z|² = |x|² + |z|² - 2 xᵀz loses digits where |x| is much larger than |x - z|: x and z are centred first.
    centre = z.detach().mean(-2, keepdim=True)
    x, z = x - centre, z - centre
    products = x @ z.mT
    return (x.square().sum(-1)[..., :, None] + z.square().sum(-1)[..., None, :] - 2 * products).clamp_min(0.0)
