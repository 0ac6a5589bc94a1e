"""The log evidence: how well a covariance explains outcomes, exactly and by a lower bound for many labels.

Symbols: y (n,) outcomes minus their prior mean, K (n, n) covariance of the outcomes with their noise.
For the bound: u the m inducing points, f the n labels, K_uu (m, m) and K_uf (m, n) kernels, k (n,) the kernel of each
label with itself, N the diagonal matrix of the noise variances. Steps of the gradients stand next to the code.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from causalbald.errors import TrainingError

_LOG_2PI = math.log(2 * math.pi)
_JITTER_SHARES = (1e-6, 1e-5, 1e-4, 1e-3)  # of the mean variance, tried in this order


def noisy_root(covariance: Tensor) -> Tensor:
    """Return lower Cholesky factors (..., n, n) of covariances that include the noise.

    Rounding errors of single precision can outweigh a tiny noise. Only a covariance that cannot be factorised gets more
    noise on its diagonal, in the end about 0.001 of its mean variance. Raises TrainingError if that is not enough.
    """
    root, failed = torch.linalg.cholesky_ex(covariance)
    for share in _JITTER_SHARES:
        if not failed.any():
            break
        extra = share * (failed > 0) * covariance.diagonal(dim1=-2, dim2=-1).mean(-1)
        covariance = covariance + torch.diag_embed(extra[..., None].expand(covariance.shape[:-1]))
        root, failed = torch.linalg.cholesky_ex(covariance)
    if failed.any():
        raise TrainingError("training led to a covariance that is not one: try a smaller learning_rate.")
    factors: Tensor = root
    return factors


class _LogEvidence(torch.autograd.Function):
    """log N(y; 0, K), with its gradient in closed form: cheaper than differentiating a Cholesky decomposition."""

    @staticmethod
    def forward(ctx: Any, covariance: Tensor, y: Tensor) -> Tensor:
        """Return log densities (...) of y (..., n) with covariances (..., n, n). Called by torch through ``apply``."""
        # log N(y; 0, K) = -½ yᵀ K⁻¹ y - ½ log |K| - n/2 log 2π; K = L Lᵀ gives ½ log |K| = Σ_i log L_ii.
        root = noisy_root(covariance)
        precision = torch.cholesky_inverse(root)  # K⁻¹
        alpha = (precision @ y[..., None])[..., 0]  # α = K⁻¹ y
        ctx.save_for_backward(precision, alpha)
        half_log_det = root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        value: Tensor = -0.5 * (y * alpha).sum(-1) - half_log_det - 0.5 * y.shape[-1] * _LOG_2PI
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients by the covariances and by y. Called by torch."""
        # d/dK = ½ (α αᵀ - K⁻¹)  (Rasmussen and Williams, 2006, equation 5.9), and d/dy = -α.
        precision, alpha = ctx.saved_tensors
        weight = gradients[0][..., None]
        outer = alpha[..., :, None] * alpha[..., None, :]
        return 0.5 * weight[..., None] * (outer - precision), -weight * alpha


def log_evidence(covariance: Tensor, y: Tensor) -> Tensor:
    """Return log N(y; 0, covariance) for y (..., n) and covariances (..., n, n) that include the noise.

    Raises TrainingError if a covariance cannot be factorised, see :func:`noisy_root`.
    """
    value: Tensor = _LogEvidence.apply(covariance, y)  # type: ignore[no-untyped-call]
    return value


class _CollapsedBound(torch.autograd.Function):
    """log N(y; 0, Q + N) - ½ tr N⁻¹ (K - Q) with Q = K_fu K_uu⁻¹ K_uf, and its gradient in closed form.

    Value and gradient take four products of (m, m) and (m, n) matrices in all. No matrix is (n, n).
    """

    @staticmethod
    def forward(ctx: Any, k_uu: Tensor, k_uf: Tensor, k_diagonal: Tensor, noise: Tensor, y: Tensor) -> Tensor:
        """Return the bound, a scalar; :func:`collapsed_bound` describes the arguments. Called by torch."""
        # K_uu = R Rᵀ and A = R⁻¹ K_uf N^-½ give Q = N^½ Aᵀ A N^½. With B = I + A Aᵀ:
        #   (Q + N)⁻¹ = N^-½ (I + Aᵀ A)⁻¹ N^-½ = N^-½ (I - Aᵀ B⁻¹ A) N^-½   (Woodbury),
        #   |Q + N| = |N| |I + Aᵀ A| = |N| |B|                               (Sylvester).
        root, scale = torch.linalg.cholesky(k_uu), noise.rsqrt()  # R, and the diagonal of N^-½
        a = torch.linalg.solve_triangular(root, k_uf, upper=False).mul_(scale)
        b = (a @ a.T).add_(torch.eye(len(k_uu), dtype=y.dtype))
        b_root = torch.linalg.cholesky(b)
        c = torch.cholesky_solve((a @ (y * scale))[:, None], b_root)[:, 0]  # c = B⁻¹ A N^-½ y
        alpha = (y * scale - c @ a) * scale  # α = (Q + N)⁻¹ y = N^-½ (N^-½ y - Aᵀ c)
        missed = k_diagonal - (a * a).sum(0) * noise  # diagonal of K - Q
        ctx.save_for_backward(root, a, b, b_root, c, alpha, missed, scale)
        half_log_det = b_root.diagonal().log().sum() + 0.5 * noise.log().sum()
        constant = half_log_det + 0.5 * len(y) * _LOG_2PI
        value: Tensor = -0.5 * (y @ alpha) - constant - 0.5 * (missed * scale * scale).sum()
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """Return the gradients by the five inputs of ``forward``, in its order. Called by torch."""
        root, a, b, b_root, c, alpha, missed, scale = ctx.saved_tensors
        # By Q the gradient is ½ G with G = α αᵀ + N⁻¹ - (Q + N)⁻¹ = α αᵀ + N^-½ Aᵀ B⁻¹ A N^-½.
        # With P = K_uu⁻¹ K_uf = R⁻ᵀ A N^½, dQ = dK_fu P + Pᵀ dK_uf - Pᵀ dK_uu P, so the gradients are
        #   by K_uf: P G,    by K_uu: -½ P G Pᵀ.
        # P α = R⁻ᵀ A (N^-½ y - Aᵀ c) = R⁻ᵀ (B c - (B - I) c) = R⁻ᵀ c.
        # P G = (P α) αᵀ + R⁻ᵀ (A Aᵀ) B⁻¹ A N^-½ = (P α) αᵀ + R⁻ᵀ (A - B⁻¹ A) N^-½.
        # P G Pᵀ = (P α)(P α)ᵀ + R⁻ᵀ (B - I) B⁻¹ (B - I) R⁻¹, and (B - I) B⁻¹ (B - I) = B + B⁻¹ - 2 I.
        b_inverse, precision = torch.cholesky_inverse(b_root), scale * scale  # B⁻¹, diagonal of N⁻¹
        shrunk = a - b_inverse @ a
        p_alpha = torch.linalg.solve_triangular(root.T, c[:, None], upper=True)[:, 0]
        to_uf = torch.linalg.solve_triangular(root.T, shrunk * scale, upper=True)
        to_uf.addr_(p_alpha, alpha)
        middle = b + b_inverse - 2 * torch.eye(len(b), dtype=b.dtype)
        left = torch.linalg.solve_triangular(root.T, middle, upper=True)
        to_uu = -0.5 * (torch.linalg.solve_triangular(root.T, left.T, upper=True) + torch.outer(p_alpha, p_alpha))
        # By the noise of label i, with Q fixed: ½ (α_i² - (Q + N)⁻¹_ii + (K - Q)_ii / N_ii²).
        explained = (a * (a - shrunk)).sum(0) * precision  # diagonal of N⁻¹ - (Q + N)⁻¹
        to_noise = 0.5 * (alpha.square() + explained - precision + missed * precision.square())
        weight = gradients[0]
        return weight * to_uu, weight * to_uf, -0.5 * weight * precision, weight * to_noise, -weight * alpha


def collapsed_bound(k_uu: Tensor, k_uf: Tensor, k_diagonal: Tensor, noise: Tensor, y: Tensor) -> Tensor:
    """Return the collapsed lower bound on the log evidence with a noise variance per label.

    Titsias, Variational Learning of Inducing Variables in Sparse Gaussian Processes (2009), equation 9.

    Parameters
    ----------
    k_uu : (m, m)
        Kernel of the inducing points.
    k_uf : (m, n)
        Kernel between the inducing points and the labels.
    k_diagonal : (n,)
        Kernel of each label with itself.
    noise : (n,)
        Noise variance of each label.
    y : (n,)
        Outcomes minus the prior mean.

    Returns
    -------
    Tensor of shape (), with gradients by all five arguments
    """
    value: Tensor = _CollapsedBound.apply(k_uu, k_uf, k_diagonal, noise, y)  # type: ignore[no-untyped-call]
    return value
