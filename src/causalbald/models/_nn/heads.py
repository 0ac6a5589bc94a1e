"""What a network says of an outcome: a mixture of Gaussians, or the probit score of a binary one."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

_LOG_2PI = math.log(2 * math.pi)
# Of a standardised outcome: below it a component could sit on one label and its density grow without limit.
_LEAST_SD = 1e-2


class GaussianMixture:
    """Outcome ~ sum of weighted Gaussians; the network's raw outputs (..., 3 C) are weights, means and sds."""

    def __init__(self, components: int) -> None:
        self.outputs = 3 * components

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) (...) for raw outputs (..., 3 C)."""
        log_weight, mean, sd = self._components(raw)
        density = -0.5 * ((y[..., None] - mean) / sd).square() - sd.log() - 0.5 * _LOG_2PI
        return torch.logsumexp(log_weight + density, -1)

    def moments(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mixture's mean and variance."""
        log_weight, mean, sd = self._components(raw)
        weight = log_weight.exp()
        centre = (weight * mean).sum(-1)
        return centre, (weight * (sd.square() + (mean - centre[..., None]).square())).sum(-1)

    @staticmethod
    def _components(raw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits, mean, spread = raw.chunk(3, -1)
        return logits.log_softmax(-1), mean, functional.softplus(spread) + _LEAST_SD


class Probit:
    """Binary outcome: P(1) = Phi(score); the raw output (..., 1) is the score."""

    outputs = 1

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) (...) for y of 0 and 1."""
        value: Tensor = torch.special.log_ndtr((2 * y - 1) * raw[..., 0])
        return value

    def moments(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the score, and 1: the variance of the latent outcome around it."""
        return raw[..., 0], torch.ones_like(raw[..., 0])


Head = GaussianMixture | Probit
