"""How well a covariance explains the labels: exact evidence, and the collapsed bound for many labels."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

_LOG_2PI = math.log(2 * math.pi)


class _LogEvidence(torch.autograd.Function):
    """log N(y; 0, K), with its gradient in closed form: cheaper than differentiating a Cholesky decomposition."""

    @staticmethod
    def forward(ctx: Any, covariance: Tensor, y: Tensor) -> Tensor:
        root = torch.linalg.cholesky(covariance)
        precision = torch.cholesky_inverse(root)
        alpha = (precision @ y[..., None])[..., 0]
        ctx.save_for_backward(precision, alpha)
        volume = root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        value: Tensor = -0.5 * (y * alpha).sum(-1) - volume - 0.5 * y.shape[-1] * _LOG_2PI
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        precision, alpha = ctx.saved_tensors
        weight = gradients[0][..., None]
        outer = alpha[..., :, None] * alpha[..., None, :]
        return 0.5 * weight[..., None] * (outer - precision), -weight * alpha


def log_evidence(covariance: Tensor, y: Tensor) -> Tensor:
    """Return log N(y; 0, covariance) for y (..., n) and covariances (..., n, n) that include the noise."""
    value: Tensor = _LogEvidence.apply(covariance, y)  # type: ignore[no-untyped-call]
    return value


def collapsed_bound(k_uu: Tensor, k_uf: Tensor, k_diagonal: Tensor, noise: Tensor, y: Tensor) -> Tensor:
    """Return the collapsed lower bound on the log evidence (Titsias, 2009) with a noise variance per label.

    Parameters
    ----------
    k_uu : (m, m), k_uf : (m, n), k_diagonal : (n,)
        Kernel between inducing points, between these and the labels, and of each label with itself.
    noise : (n,)
    y : (n,)
        Outcomes minus the prior mean.
    """
    root = torch.linalg.cholesky(k_uu)
    projected = torch.linalg.solve_triangular(root, k_uf, upper=False)
    weighted = projected / noise.sqrt()
    inner = torch.linalg.cholesky(torch.eye(len(k_uu), dtype=y.dtype) + weighted @ weighted.T)
    scaled = y / noise.sqrt()
    explained = torch.linalg.solve_triangular(inner, (weighted @ scaled)[:, None], upper=False)
    fit = -0.5 * (scaled @ scaled - (explained * explained).sum())
    volume = -inner.diagonal().log().sum() - 0.5 * noise.log().sum() - 0.5 * len(y) * _LOG_2PI
    missed = -0.5 * ((k_diagonal - (projected * projected).sum(0)) / noise).sum()
    bound: Tensor = fit + volume + missed
    return bound
