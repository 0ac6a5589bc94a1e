"""How well a covariance explains the labels: exact evidence, and the collapsed bound for many labels."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from causalbald.errors import TrainingError

_LOG_2PI = math.log(2 * math.pi)
_JITTERS = (1e-6, 1e-5, 1e-4, 1e-3)  # of the mean variance


def noisy_root(covariance: Tensor) -> Tensor:
    """Return Cholesky factors of covariances (..., n, n) that include the noise.

    With next to no noise, rounding errors of single precision can outweigh it; such a covariance gets more of it.
    """
    root, failed = torch.linalg.cholesky_ex(covariance)
    for jitter in _JITTERS:
        if not failed.any():
            break
        extra = jitter * (failed > 0) * covariance.diagonal(dim1=-2, dim2=-1).mean(-1)
        covariance = covariance + torch.diag_embed(extra[..., None].expand(covariance.shape[:-1]))
        root, failed = torch.linalg.cholesky_ex(covariance)
    if failed.any():
        raise TrainingError("training led to a covariance that is not one: try a smaller learning_rate.")
    found: Tensor = root
    return found


class _LogEvidence(torch.autograd.Function):
    """log N(y; 0, K), with its gradient in closed form: cheaper than differentiating a Cholesky decomposition."""

    @staticmethod
    def forward(ctx: Any, covariance: Tensor, y: Tensor) -> Tensor:
        root = noisy_root(covariance)
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


class _CollapsedBound(torch.autograd.Function):
    """Bound and gradient in closed form, with four products of (m, m) and (m, n) matrices in all.

    With K_uu = R Rᵀ, A = R⁻¹ K_uf N^-½ and B = I + A Aᵀ, the bound is log N(y; 0, Q + N) - ½ tr N⁻¹ (K - Q), where
    Q = K_fu K_uu⁻¹ K_uf. Its derivative with respect to Q is ½ (α αᵀ + N⁻¹ - (Q + N)⁻¹), α = (Q + N)⁻¹ y, and
    N⁻¹ - (Q + N)⁻¹ = N^-½ Aᵀ B⁻¹ A N^-½: nothing is ever (n, n).
    """

    @staticmethod
    def forward(ctx: Any, k_uu: Tensor, k_uf: Tensor, k_diagonal: Tensor, noise: Tensor, y: Tensor) -> Tensor:
        root, scale = torch.linalg.cholesky(k_uu), noise.rsqrt()
        a = torch.linalg.solve_triangular(root, k_uf, upper=False).mul_(scale)
        b = (a @ a.T).add_(torch.eye(len(k_uu), dtype=y.dtype))
        inner = torch.linalg.cholesky(b)
        along = torch.cholesky_solve((a @ (y * scale))[:, None], inner)[:, 0]  # B⁻¹ A N^-½ y
        alpha = (y * scale - along @ a) * scale
        missed = k_diagonal - (a * a).sum(0) * noise
        ctx.save_for_backward(root, a, b, inner, along, alpha, missed, scale)
        volume = inner.diagonal().log().sum() + 0.5 * noise.log().sum() + 0.5 * len(y) * _LOG_2PI
        value: Tensor = -0.5 * (y @ alpha) - volume - 0.5 * (missed * scale * scale).sum()
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        root, a, b, inner, along, alpha, missed, scale = ctx.saved_tensors
        inverse, precision = torch.cholesky_inverse(inner), scale * scale
        shrunk = a - inverse @ a
        weights = torch.linalg.solve_triangular(root.T, along[:, None], upper=True)[:, 0]  # K_uu⁻¹ K_uf α
        to_uf = torch.linalg.solve_triangular(root.T, shrunk * scale, upper=True)
        to_uf.addr_(weights, alpha)
        middle = b + inverse - 2 * torch.eye(len(b), dtype=b.dtype)
        left = torch.linalg.solve_triangular(root.T, middle, upper=True)
        to_uu = -0.5 * (torch.linalg.solve_triangular(root.T, left.T, upper=True) + torch.outer(weights, weights))
        explained = (a * (a - shrunk)).sum(0) * precision  # diagonal of N⁻¹ - (Q + N)⁻¹
        to_noise = 0.5 * (alpha.square() + explained - precision + missed * precision.square())
        g = gradients[0]
        return g * to_uu, g * to_uf, -0.5 * g * precision, g * to_noise, -g * alpha


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
    value: Tensor = _CollapsedBound.apply(k_uu, k_uf, k_diagonal, noise, y)  # type: ignore[no-untyped-call]
    return value
