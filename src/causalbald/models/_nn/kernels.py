"""Stationary kernels as functions of the squared distance in lengthscales, each with value 1 at distance 0."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

_TINY = 1e-12  # keeps the gradient of the root finite at distance 0


def rbf(squared: Tensor) -> Tensor:
    """Return exp(-d²/2)."""
    return torch.exp(-0.5 * squared)


def matern12(squared: Tensor) -> Tensor:
    """Return exp(-d)."""
    return torch.exp(-(squared + _TINY).sqrt())


def matern32(squared: Tensor) -> Tensor:
    """Return (1 + √3 d) exp(-√3 d)."""
    d = (3 * squared).add_(_TINY).sqrt_()
    return (1 + d) * d.neg().exp_()


def matern52(squared: Tensor) -> Tensor:
    """Return (1 + √5 d + 5 d²/3) exp(-√5 d)."""
    d = math.sqrt(5) * (squared + _TINY).sqrt()
    return (1 + d + 5 / 3 * squared) * torch.exp(-d)


KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "rbf": rbf,
    "matern12": matern12,
    "matern32": matern32,
    "matern52": matern52,
}


def squared_distances(x: Tensor, z: Tensor) -> Tensor:
    """Return squared distances (..., n, m) between rows of x (..., n, F) and z (..., m, F).

    Both are centred first: features that lie far from the origin but near each other would cancel.
    """
    centre = z.detach().mean(-2, keepdim=True)
    x, z = x - centre, z - centre
    cross = x @ z.mT
    return (x.square().sum(-1)[..., :, None] + z.square().sum(-1)[..., None, :] - 2 * cross).clamp_min(0.0)
