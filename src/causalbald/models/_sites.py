"""Belief about a Gaussian process at a finite set of sites, from which the belief about every unit follows.

Symbols: R sites u with arms; n labels f; K = 2 arms; K_uu (R, R) and K_uf (R, n) kernels; N the diagonal matrix of
the labels' noise variances; y (n,) outcomes minus their prior mean; k_us (R, s) the kernel of the sites with s points.
If the labelled points are among the sites, means and covariances within units equal the exact process. Covariances
between units miss the part that the sites do not explain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np
import torch
from scipy.linalg import lapack
from torch import Tensor

from causalbald.posterior import Link, Posterior

# Share of the prior variance. A site that other sites explain up to this share adds nothing but rounding errors.
_REDUNDANT_SHARE = 1e-10
_CHUNK_UNITS = 1024  # units whose belief is computed at once: their intermediate results stay in the cache
_BLOCK_ROWS = 128  # rows of a triangular matrix that are multiplied at once; the zeros to their right are skipped


class Process(Protocol):
    """A Gaussian process over units and arms, in standard units."""

    @property
    def means(self) -> Tensor:
        """Prior mean per arm, (K,)."""

    @property
    def noise(self) -> Tensor:
        """Noise variance per arm, (K,)."""

    @property
    def between_arms(self) -> Tensor:
        """Prior covariance of one unit's outcomes, (K, K)."""

    def kernel(self, x: Tensor, arm_x: Tensor, z: Tensor, arm_z: Tensor) -> Tensor:
        """Return the kernel (n, m) between units x (n, D) and z (m, D) with arms (n,) and (m,)."""

    def by_arm(self, u: Tensor, arm: Tensor, z: Tensor) -> Tensor:
        """Return the kernel (K, r, n) between sites u (r, D) with arms (r,) and units z (n, D) under each arm."""

    def with_effects(self, u: Tensor, arm: Tensor, z: Tensor) -> Tensor:
        """Return the kernel (r, n) between sites u (r, D) with arms (r,) and the effects of units z (n, D)."""


def independent_sites(k_uu: Tensor) -> Tensor:
    """Return sorted positions of sites that explain all sites, by Cholesky decomposition with pivoting.

    ``k_uu`` (R, R) is the kernel of the sites. A site that others explain up to rounding is left out.
    """
    tolerance = _REDUNDANT_SHARE * float(k_uu.diagonal().max())
    _, pivots, rank, _ = lapack.dpstrf(k_uu.numpy(), tol=tolerance, lower=1)
    return torch.as_tensor(pivots[:rank] - 1, dtype=torch.long).sort().values


@dataclass(frozen=True)
class SiteBelief:
    """Gaussian belief N(mean, spread spreadᵀ) about the whitened process root⁻¹ f(u) at sites u, root = chol(K_uu)."""

    root: Tensor  # (R, R)
    mean: Tensor  # (R,)
    spread: Tensor  # (R, R)

    @classmethod
    def from_labels(cls, k_uu: Tensor, k_uf: Tensor, noise: Tensor, y: Tensor) -> Self:
        """Return the belief after labels y (n,) with noise variances (n,).

        ``k_uu`` (R, R) is the kernel of the sites, which must be independent, and ``k_uf`` (R, n) their kernel with the
        labels. The belief is exact if the labels are among the sites. Otherwise it is the optimal variational posterior
        of Titsias, Variational Learning of Inducing Variables in Sparse Gaussian Processes (2009), equation 10.
        """
        # v = root⁻¹ f(u) has the prior N(0, I), and y ~ N((root⁻¹ K_uf)ᵀ v, N). With W = root⁻¹ K_uf N^-½ the
        # posterior precision of v is I + W Wᵀ = L Lᵀ. So spread = L⁻ᵀ and mean = (I + W Wᵀ)⁻¹ W N^-½ y.
        root = torch.linalg.cholesky(k_uu)
        weighted = torch.linalg.solve_triangular(root, k_uf, upper=False) / noise.sqrt()
        eye = torch.eye(len(k_uu), dtype=y.dtype)
        precision_root = torch.linalg.cholesky(eye + weighted @ weighted.T)
        spread = torch.linalg.solve_triangular(precision_root, eye, upper=False).T
        return cls(root, spread @ (spread.T @ (weighted @ (y / noise.sqrt()))), spread)

    def project(self, k_us: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``mean`` (s,), ``factor`` (R, s) and ``explained`` (R, s) of the process at s points.

        ``k_us`` (R, s) is the kernel of the sites with the points. The prior mean is not part of ``mean``. The
        covariance of the points is factorᵀ factor, plus the prior's covariance, minus explainedᵀ explained.
        """
        # f(s) given v is N(Eᵀ v, k_ss - Eᵀ E) with E = root⁻¹ k_us. Averaged over v, its mean is Eᵀ mean, and its
        # covariance k_ss - Eᵀ E + Eᵀ spread spreadᵀ E.
        explained = _triangular_product(self.inverse_root, k_us)
        factor = (
            _triangular_product(self.spread.T, explained) if self._spread_is_triangular else self.spread.T @ explained
        )
        return self.mean @ explained, factor, explained

    @cached_property
    def inverse_root(self) -> Tensor:
        """Inverse of ``root``, (R, R): products with it are faster than solving for each unit."""
        eye = torch.eye(len(self.root)).to(self.root)
        inverse: Tensor = torch.linalg.solve_triangular(self.root, eye, upper=False)
        return inverse

    @cached_property
    def _spread_is_triangular(self) -> bool:
        """Whether ``spread`` is upper triangular, so that products with it can skip zeros."""
        return not bool(self.spread.tril(-1).any())


@dataclass(frozen=True)
class Sites:
    """Joint belief about units: sites x (R, D) with arms (R,), and the belief at the sites."""

    x: Tensor
    arm: Tensor
    belief: SiteBelief

    @classmethod
    def after_labels(cls, h: Process, x: Tensor, arm: Tensor, y: Tensor, core: Tensor, extra: Tensor) -> Self:
        """Return the belief after labels x (n, D), arm (n,) and outcomes y (n,), all in standard units.

        The sites are the labels at positions ``core``, and the units ``extra`` (m, D) in each arm. A site that other
        sites explain is left out.
        """
        arms = range(len(h.means))
        u = torch.cat([x[core], *(extra for _ in arms)])
        u_arm = torch.cat([arm[core], *(torch.full((len(extra),), a) for a in arms)])
        independent = independent_sites(h.kernel(u, u_arm, u, u_arm))
        u, u_arm = u[independent], u_arm[independent]
        k_uu, k_uf = h.kernel(u, u_arm, u, u_arm), h.kernel(u, u_arm, x, arm)
        return cls(u, u_arm, SiteBelief.from_labels(k_uu, k_uf, h.noise[arm], y - h.means[arm]))

    def posterior(self, h: Process, z: Tensor, *, joint: bool, link: Link = "identity") -> Posterior:
        """Return the belief about units z (N, D), all in standard units.

        Without ``joint`` the belief has no covariances between units. ``link`` is that of the belief.
        """
        arms = len(h.means)
        mean, residual = z.new_empty(len(z), arms), z.new_empty(len(z), arms, arms)
        factor = z.new_empty(len(z), arms, len(self.x) if joint else 0)
        for start in range(0, len(z), _CHUNK_UNITS):
            units = slice(start, start + _CHUNK_UNITS)
            projections = [self.belief.project(k) for k in h.by_arm(self.x, self.arm, z[units])]
            means, factors, explained = zip(*projections, strict=True)
            mean[units] = torch.stack(means, 1) + h.means
            residual[units] = h.between_arms - _between_arms(explained) + (0.0 if joint else _between_arms(factors))
            for a in range(arms if joint else 0):
                factor[units, a] = factors[a].T
        noise = h.noise.numpy()
        return Posterior(mean.numpy(), factor.numpy(), _without_rounding(residual).numpy(), noise, link)


@dataclass(frozen=True)
class Single:
    """Belief about single units, from n points ``x`` (n, D) with arms (n,): labels, or sites that stand for labels.

    With k (n,) the kernel between the points and a unit under an arm, the unit's mean is h.means + k · ``weights``, and
    its variance is the prior's minus |``whitening`` k|². Here h is the :class:`Process` given to each method. Results
    have the floating-point precision of ``x``.
    """

    x: Tensor
    arm: Tensor
    whitening: Tensor  # (n, n), lower triangular
    weights: Tensor  # (n,)

    @classmethod
    def of(cls, h: Process, x: Tensor, arm: Tensor, y: Tensor) -> Self:
        """Return the exact belief after outcomes y (n,) of units x (n, D) with arms (n,)."""
        # The covariance of the outcomes is L Lᵀ: whitening = L⁻¹ and weights = L⁻ᵀ L⁻¹ (y - m).
        root = torch.linalg.cholesky(h.kernel(x, arm, x, arm) + torch.diag(h.noise[arm]))
        whitening = torch.linalg.solve_triangular(root, torch.eye(len(y), dtype=y.dtype), upper=False)
        return cls(x, arm, whitening, whitening.T @ (whitening @ (y - h.means[arm])))

    @classmethod
    def of_sites(cls, sites: Sites) -> Self:
        """Return the belief about single units that follows from the belief at ``sites``. The sites are its points."""
        # With V = root⁻¹ and S = spread spreadᵀ a unit's variance is the prior's minus kᵀ Vᵀ (I - S) V k. S = U Λ Uᵀ
        # gives the root (I - Λ)^½ Uᵀ V of that matrix. The reversed QR decomposition makes the root lower triangular.
        belief, inverse = sites.belief, sites.belief.inverse_root
        eigenvalues, vectors = torch.linalg.eigh(belief.spread @ belief.spread.T)
        learned = (1 - eigenvalues).clamp_min(0.0).sqrt()[:, None] * (vectors.T @ inverse)
        triangular = torch.linalg.qr(learned.flip(1)).R.flip(0, 1)
        return cls(sites.x, sites.arm, triangular, belief.mean @ inverse)

    def rounded(self) -> Self:
        """Return the same belief in single precision, in which scoring a unit takes at most two thirds of the time."""
        return replace(self, x=self.x.float(), whitening=self.whitening.float(), weights=self.weights.float())

    def posterior(self, h: Process, z: Tensor) -> Posterior:
        """Return the belief about N units z (N, D) in standard units, without covariances between them."""
        return self.from_kernel(h, h.by_arm(self.x, self.arm, z.to(self.x)))

    def from_kernel(self, h: Process, kernel: Tensor) -> Posterior:
        """Return the belief about N units in standard units, without covariances between them.

        ``kernel`` (K, n, N) is the units' kernel with the n points of this belief, under each of K arms.
        """
        arms, _, units = kernel.shape
        residual = h.between_arms.expand(units, arms, arms)
        for start in range(0, len(self.x), _BLOCK_ROWS):
            end = start + _BLOCK_ROWS
            residual = residual - _between_arms(self.whitening[start:end, :end] @ kernel[:, :end])
        return Posterior(
            mean=((self.weights @ kernel).T + h.means).numpy(),
            factor=np.empty((units, arms, 0)),
            residual=_without_rounding(residual).numpy(),
            noise=h.noise.numpy(),
        )


def _triangular_product(lower: Tensor, values: Tensor) -> Tensor:
    """Return a lower triangular matrix (R, R) times values (R, n), skipping most of its zeros."""
    product = torch.empty_like(values)
    for start in range(0, len(lower), _BLOCK_ROWS):
        end = start + _BLOCK_ROWS
        torch.matmul(lower[start:end, :end], values[:end], out=product[start:end])
    return product


def _between_arms(values: Iterable[Tensor]) -> Tensor:
    """Return inner products (n, K, K) over R, between arms, of one tensor (R, n) for each of K arms.

    ``torch.einsum`` would copy all tensors first.
    """
    return torch.stack([torch.stack([(a * b).sum(0) for b in values], dim=-1) for a in values], dim=-2)


def _without_rounding(residual: Tensor) -> Tensor:
    """Return 2 x 2 matrices (N, 2, 2) with covariances cut to what the variances allow.

    Rounding may have made a matrix slightly indefinite. A negative variance becomes 0.
    """
    root = residual.diagonal(dim1=1, dim2=2).clamp_min(0.0).sqrt()
    limit = root[:, :, None] * root[:, None, :]
    return torch.minimum(torch.maximum(residual, -limit), limit)
