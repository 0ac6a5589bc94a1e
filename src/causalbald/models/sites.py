"""Belief about a Gaussian process at a finite set of sites, from which every unit's belief follows.

If the labelled points are among the sites, means and per-unit covariances equal the exact process;
covariances between units are exact up to what the sites do not explain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from scipy.linalg import lapack
from torch import Tensor

# Sites that the others explain up to this share of the prior variance add nothing but rounding errors.
_REDUNDANT = 1e-10


def independent_sites(k_uu: Tensor) -> Tensor:
    """Return positions of sites that span all others, by Cholesky decomposition with pivoting."""
    tolerance = _REDUNDANT * float(k_uu.diagonal().max())
    _, pivots, rank, _ = lapack.dpstrf(k_uu.numpy(), tol=tolerance, lower=1)
    return torch.as_tensor(pivots[:rank] - 1, dtype=torch.long).sort().values


@dataclass(frozen=True)
class SiteBelief:
    """Posterior of a process at sites u given labels f, in whitened form.

    With root = chol(K_uu) and W = root⁻¹ K_uf / noise^½, inner = chol(I + W Wᵀ): this is the optimal
    variational posterior of Titsias (2009), and the exact one when the labels are among the sites.
    """

    root: Tensor
    inner: Tensor
    weights: Tensor

    @classmethod
    def from_labels(cls, k_uu: Tensor, k_uf: Tensor, noise: Tensor, y: Tensor) -> Self:
        """Return the belief after labels y (n,), given minus the prior mean; sites must be independent."""
        root = torch.linalg.cholesky(k_uu)
        weighted = torch.linalg.solve_triangular(root, k_uf, upper=False) / noise.sqrt()
        inner = torch.linalg.cholesky(torch.eye(len(k_uu), dtype=y.dtype) + weighted @ weighted.T)
        mean = (weighted @ (y / noise.sqrt()))[:, None]
        return cls(root, inner, torch.linalg.solve_triangular(inner, mean, upper=False)[:, 0])

    def project(self, k_us: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean (s,), factor (R, s) and explained prior root (R, s) at points with kernel k_us (R, s)."""
        explained = torch.linalg.solve_triangular(self.root, k_us, upper=False)
        factor = torch.linalg.solve_triangular(self.inner, explained, upper=False)
        return self.weights @ factor, factor, explained
