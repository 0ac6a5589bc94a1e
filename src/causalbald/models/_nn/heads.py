"""The distribution of an outcome given a network's raw outputs: a mixture of Gaussians, or probit if binary."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

_LOG_2PI = math.log(2 * math.pi)
# Least standard deviation of a component, for a standardised outcome: a smaller one could shrink around a single label,
# whose density would grow without limit.
_LEAST_SD = 1e-2


class GaussianMixture:
    """Outcome y ~ Σ_c π_c N(m_c, s_c²), with C components (Bishop, 1994, Mixture Density Networks).

    The network's raw outputs (..., 3 C) are C logits of the weights π, C means m, and C numbers that softplus turns
    into standard deviations s. ``_LEAST_SD`` is added to each s.
    """

    def __init__(self, components: int) -> None:
        self.outputs = 3 * components

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) (...) for raw outputs (..., 3 C) and outcomes y (...)."""
        log_weight, mean, sd = self._components(raw)
        # log N(y; m_c, s_c²) = -½ ((y - m_c) / s_c)² - log s_c - ½ log 2π
        density = -0.5 * ((y[..., None] - mean) / sd).square() - sd.log() - 0.5 * _LOG_2PI
        # log p(y) = log Σ_c exp(log π_c + log N(y; m_c, s_c²))
        return torch.logsumexp(log_weight + density, -1)

    def moments(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mixture's mean and variance, (...) each, for raw outputs (..., 3 C)."""
        log_weight, mean, sd = self._components(raw)
        weight = log_weight.exp()
        centre = (weight * mean).sum(-1)  # E y = Σ π_c m_c
        # Var y = Σ π_c (s_c² + (m_c - E y)²)
        return centre, (weight * (sd.square() + (mean - centre[..., None]).square())).sum(-1)

    @staticmethod
    def _components(raw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return log weights, means and standard deviations, (..., C) each, of raw outputs (..., 3 C)."""
        logits, mean, spread = raw.chunk(3, -1)
        return logits.log_softmax(-1), mean, functional.softplus(spread) + _LEAST_SD


class Probit:
    """Binary outcome with P(1) = Phi(score); the raw output (..., 1) is the score."""

    outputs = 1

    def log_likelihood(self, raw: Tensor, y: Tensor) -> Tensor:
        """Return log p(y) (...) for raw outputs (..., 1) and outcomes y (...) of 0 and 1."""
        # P(1) = Phi(score) and P(0) = 1 - Phi(score) = Phi(-score): the sign is 2 y - 1.
        value: Tensor = torch.special.log_ndtr((2 * y - 1) * raw[..., 0])
        return value

    def moments(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and variance, (...) each, of the latent outcome: the score, and 1.

        The outcome is 1 if the latent outcome is above 0.
        """
        return raw[..., 0], torch.ones_like(raw[..., 0])


Head = GaussianMixture | Probit
