"""Belief about a Gaussian process at a finite set of sites, from which every unit's belief follows.

If the labelled points are among the sites, means and per-unit covariances equal the exact process;
covariances between units are exact up to what the sites do not explain.
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

# Sites that the others explain up to this share of the prior variance add nothing but rounding errors.
_REDUNDANT = 1e-10
_UNITS = 1024  # whose belief is worked out together: what is computed of them stays in the cache
_BLOCK = 128  # rows of a triangular matrix that are multiplied together; zeros beyond them are left out


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
    """Return positions of sites that span all others, by Cholesky decomposition with pivoting."""
    tolerance = _REDUNDANT * float(k_uu.diagonal().max())
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
        """Return the belief after labels y (n,), given minus the prior mean; sites must be independent.

        With W = root⁻¹ K_uf / noise^½ the covariance is (I + W Wᵀ)⁻¹: the optimal variational posterior of
        Titsias (2009), and the exact one when the labels are among the sites.
        """
        root = torch.linalg.cholesky(k_uu)
        weighted = torch.linalg.solve_triangular(root, k_uf, upper=False) / noise.sqrt()
        eye = torch.eye(len(k_uu), dtype=y.dtype)
        inner = torch.linalg.cholesky(eye + weighted @ weighted.T)
        spread = torch.linalg.solve_triangular(inner, eye, upper=False).T
        return cls(root, spread @ (spread.T @ (weighted @ (y / noise.sqrt()))), spread)

    def project(self, k_us: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean (s,), factor (R, s) and explained prior root (R, s) at points with kernel k_us (R, s)."""
        explained = _product(self._whitening, k_us)
        factor = _product(self.spread.T, explained) if self._triangular else self.spread.T @ explained
        return self.mean @ explained, factor, explained

    @cached_property
    def _whitening(self) -> Tensor:
        """Inverse of the root: its products are faster than solving for each unit."""
        eye = torch.eye(len(self.root)).to(self.root)
        inverse: Tensor = torch.linalg.solve_triangular(self.root, eye, upper=False)
        return inverse

    @cached_property
    def _triangular(self) -> bool:
        return not bool(self.spread.tril(-1).any())


@dataclass(frozen=True)
class Sites:
    """Where the belief is held, x (R, D) and arm (R,), and the belief there."""

    x: Tensor
    arm: Tensor
    belief: SiteBelief

    @classmethod
    def after_labels(cls, h: Process, x: Tensor, arm: Tensor, y: Tensor, core: Tensor, extra: Tensor) -> Self:
        """Return the belief after labels, at those labels that are ``core`` and at ``extra`` points in both arms."""
        arms = range(len(h.means))
        u = torch.cat([x[core], *(extra for _ in arms)])
        u_arm = torch.cat([arm[core], *(torch.full((len(extra),), a) for a in arms)])
        keep = independent_sites(h.kernel(u, u_arm, u, u_arm))
        u, u_arm = u[keep], u_arm[keep]
        k_uu, k_uf = h.kernel(u, u_arm, u, u_arm), h.kernel(u, u_arm, x, arm)
        return cls(u, u_arm, SiteBelief.from_labels(k_uu, k_uf, h.noise[arm], y - h.means[arm]))

    def posterior(self, h: Process, z: Tensor, *, joint: bool, link: Link = "identity") -> Posterior:
        """Return the belief about units z (N, D) in standard units; without ``joint``, each unit by itself."""
        arms = len(h.means)
        mean, residual = z.new_empty(len(z), arms), z.new_empty(len(z), arms, arms)
        factor = z.new_empty(len(z), arms, len(self.x) if joint else 0)
        for start in range(0, len(z), _UNITS):
            units = slice(start, start + _UNITS)
            projected = [self.belief.project(k) for k in h.by_arm(self.x, self.arm, z[units])]
            means, factors, explained = zip(*projected, strict=True)
            mean[units] = torch.stack(means, 1) + h.means
            residual[units] = h.between_arms - _inner(explained) + (0.0 if joint else _inner(factors))
            for a in range(arms if joint else 0):
                factor[units, a] = factors[a].T
        noise = h.noise.numpy()
        return Posterior(mean.numpy(), factor.numpy(), _positive(residual).numpy(), noise, link)


@dataclass(frozen=True)
class Single:
    """Belief about single units, from labels, or sites that stand for them, at x (n, D) and arm (n,).

    With k the kernel between these and a unit, ``weights`` k is its mean and ``whitening`` k a root of what is known
    of it: one triangular product a unit and arm, in the precision of x.
    """

    x: Tensor
    arm: Tensor
    whitening: Tensor  # (n, n), lower triangular
    weights: Tensor  # (n,)

    @classmethod
    def of(cls, h: Process, x: Tensor, arm: Tensor, y: Tensor) -> Self:
        """Return the exact belief after outcomes y (n,)."""
        root = torch.linalg.cholesky(h.kernel(x, arm, x, arm) + torch.diag(h.noise[arm]))
        whitening = torch.linalg.solve_triangular(root, torch.eye(len(y), dtype=y.dtype), upper=False)
        return cls(x, arm, whitening, whitening.T @ (whitening @ (y - h.means[arm])))

    @classmethod
    def of_sites(cls, sites: Sites) -> Self:
        """Return what sites after labels say of single units."""
        belief, inverse = sites.belief, sites.belief._whitening
        left, vectors = torch.linalg.eigh(belief.spread @ belief.spread.T)
        known = (1 - left).clamp_min(0.0).sqrt()[:, None] * (vectors.T @ inverse)
        triangular = torch.linalg.qr(known.flip(1)).R.flip(0, 1)
        return cls(sites.x, sites.arm, triangular, belief.mean @ inverse)

    def rounded(self) -> Self:
        """Return the same in single precision, in which units take two thirds of the time or less."""
        return replace(self, x=self.x.float(), whitening=self.whitening.float(), weights=self.weights.float())

    def posterior(self, h: Process, z: Tensor) -> Posterior:
        """Return the belief about units z (N, D) in standard units, each by itself."""
        return self.given(h, h.by_arm(self.x, self.arm, z.to(self.x)))

    def given(self, h: Process, kernel: Tensor) -> Posterior:
        """Return the belief about units whose kernel (K, n, N) with the labels is known."""
        arms, _, units = kernel.shape
        residual = h.between_arms.expand(units, arms, arms)
        for start in range(0, len(self.x), _BLOCK):
            end = start + _BLOCK
            residual = residual - _inner(self.whitening[start:end, :end] @ kernel[:, :end])
        return Posterior(
            mean=((self.weights @ kernel).T + h.means).numpy(),
            factor=np.empty((units, arms, 0)),
            residual=_positive(residual).numpy(),
            noise=h.noise.numpy(),
        )


def _product(lower: Tensor, values: Tensor) -> Tensor:
    """Return a lower triangular matrix times values (R, n), leaving out most of its zeros."""
    found = torch.empty_like(values)
    for start in range(0, len(lower), _BLOCK):
        end = start + _BLOCK
        torch.matmul(lower[start:end, :end], values[:end], out=found[start:end])
    return found


def _inner(values: Iterable[Tensor]) -> Tensor:
    """Return inner products between arms, (n, K, K), of K values (R, n); einsum would copy them all first."""
    return torch.stack([torch.stack([(a * b).sum(0) for b in values], dim=-1) for a in values], dim=-2)


def _positive(residual: Tensor) -> Tensor:
    """Return 2 x 2 matrices made positive semi-definite where rounding errors left them slightly not so."""
    root = residual.diagonal(dim1=1, dim2=2).clamp_min(0.0).sqrt()
    limit = root[:, :, None] * root[:, None, :]
    return torch.minimum(torch.maximum(residual, -limit), limit)
