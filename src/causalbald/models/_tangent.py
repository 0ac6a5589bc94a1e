"""What uncertain hyper-parameters add to a belief, to first order.

Hyper-parameters theta that maximise evidence times prior are not known exactly: the belief about them is roughly
N(theta, A⁻¹), where A is the prior's precision plus the Fisher information of the labels. Expected outcomes move by
J dtheta with them, so that J A⁻¹ Jᵀ is added to their covariance, as Garnett, Osborne and Hennig (2014) do for linear
embeddings. Free are the weights of the index, if there is one, a common factor of the lengthscales of each part, the
parts' weights, means and noises; lengthscales relative to each other are taken as known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from causalbald.models._effect_kernel import ARMS, Hyperparameters

GENERAL = 2  # parts that are no functions of the index


@dataclass(frozen=True)
class Tangent:
    """How expected outcomes move with the hyper-parameters, in standard deviations of the belief about these."""

    x: Tensor  # (n, D), the labels
    arm: Tensor  # (n,)
    weights: Tensor  # (n,), precision of the outcomes times their surprise
    indirect: Tensor  # (n, p), how weights move with the hyper-parameters
    root: Tensor  # (p, p)

    @classmethod
    def of(
        cls, h: Hyperparameters, x: Tensor, arm: Tensor, y: Tensor, precision: Tensor, probes: Tensor | None = None
    ) -> Self:
        """Return the tangent after outcomes y (n,).

        ``precision`` (p,) is that of the prior, in the order of :func:`moves`. With ``probes`` the information of many
        labels is estimated.
        """
        covariance = h.kernel(x, arm, x, arm) + torch.diag(h.noise[arm])
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
        weights = inverse @ (y - h.means[arm])
        squared = h.squared_distances(x, x)
        own = moves(h, x, arm, weights, x, squared, torch.exp(-0.5 * squared))[torch.arange(len(x)), arm]
        own[:, -ARMS:] = (h.noise * weights[:, None]) * _of_arm(arm)
        known = fisher_information(h, x, arm) if probes is None else estimated_information(h, x, arm, probes)
        eigenvalues, vectors = torch.linalg.eigh(known + torch.diag(precision))
        return cls(x, arm, weights, -inverse @ own, vectors / eigenvalues.clamp_min(precision.min()).sqrt())

    def factor(self, h: Hyperparameters, z: Tensor) -> Tensor:
        """Return a factor (N, K, p) of the covariance that is added for units z (N, D)."""
        squared = h.squared_distances(z, self.x)
        parts = torch.exp(-0.5 * squared)
        by_part = parts @ (h.weights[:, self.arm, None] * self.indirect)  # (P, N, p)
        indirect = torch.einsum("anp,ak->nkp", by_part, h.weights)
        return (moves(h, z, self.arm, self.weights, self.x, squared, parts) + indirect) @ self.root


def moves(
    h: Hyperparameters, z: Tensor, arm: Tensor, weights: Tensor, x: Tensor, squared: Tensor, parts: Tensor
) -> Tensor:
    """Return the derivative (N, K, p) of sum_i weights_i k(z, x_i) + mean by the free parameters, weights fixed.

    ``squared`` are the distances (P, N, n) of z from x, and ``parts`` the kernels. In order: index, scales, weights,
    means, noises.
    """
    by_arm = parts @ (weights[:, None] * _of_arm(arm))  # (P, N, K)
    own = h.weights[:, arm] * weights  # (P, n)
    value = (by_arm * h.weights[:, None, :]).sum(-1)  # (P, N)
    scale = -((parts * squared) @ own[:, :, None])[:, :, 0]
    columns = [scale.T[:, None, :] * h.weights.T[None]]
    eye = torch.eye(ARMS, dtype=z.dtype)
    for part, a in _free_weights(h):
        moved = value[part][:, None] * eye[a] + by_arm[part, :, a, None] * h.weights[part]
        columns.append((moved * _speed(h, part, a))[:, :, None])
    columns.append(eye.expand(len(z), ARMS, ARMS))
    columns.append(torch.zeros(len(z), ARMS, ARMS, dtype=z.dtype))
    if h.index is not None and h.log_index_scales is not None:
        apart = (z @ h.index)[:, None] - (x @ h.index)[None, :]
        towards = parts[GENERAL:] * apart * own[GENERAL:, None, :] * (2 * h.log_index_scales).exp()[:, None, None]
        turned = towards @ x - towards.sum(-1, keepdim=True) * z  # (2, N, D)
        columns.insert(0, torch.einsum("pnd,pk->nkd", turned, h.weights[GENERAL:]))
    return torch.cat(columns, -1)


def fisher_information(h: Hyperparameters, x: Tensor, arm: Tensor) -> Tensor:
    """Return the expected information (p, p) of outcomes of units x with arms about the free parameters."""
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(h.kernel(x, arm, x, arm) + torch.diag(h.noise[arm])))
    squared = h.squared_distances(x, x)
    moved = inverse @ torch.stack([*_derivatives(h, squared, arm)])  # (q, n, n)
    information = 0.5 * torch.einsum("aij,bji->ab", moved, moved)
    c = _turned(h, squared, x, arm)
    if c is not None:
        # dK/dindex_d = C X_d - X_d C with X_d = diag(x_d), C antisymmetric: traces become sums over pairs of labels.
        turned = c @ inverse
        index = x.T @ (turned * turned.T - inverse * (turned @ c)) @ x
        across = -x.T @ torch.einsum("ij,qji->iq", c, moved @ inverse)
        information = torch.cat([torch.cat([index, across], 1), torch.cat([across.T, information], 1)])
    of_arm = _of_arm(arm).to(x)
    return _with_means(information, of_arm.T @ inverse @ of_arm)


def estimated_information(h: Hyperparameters, x: Tensor, arm: Tensor, probes: Tensor) -> Tensor:
    """Return an estimate of :func:`fisher_information` that takes a product with ``probes`` (n, s) per parameter.

    With the covariance R Rᵀ and M_a = R⁻¹ dK/da R⁻ᵀ, the information is ½ tr M_a M_b, which is expected of the inner
    product of M_a Z and M_b Z if the expectation of Z Zᵀ is the identity. An estimate, too, is never negative.
    """
    root = torch.linalg.cholesky(h.kernel(x, arm, x, arm) + torch.diag(h.noise[arm]))
    inward = torch.linalg.solve_triangular(root.T, probes, upper=True)
    squared = h.squared_distances(x, x)
    moved = [derivative @ inward for derivative in _derivatives(h, squared, arm)]
    c = _turned(h, squared, x, arm)
    if c is not None:
        along = c @ inward
        moved = [c @ (column[:, None] * inward) - column[:, None] * along for column in x.T] + moved
    whitened = [torch.linalg.solve_triangular(root, each, upper=False).flatten() for each in moved]
    gram = torch.stack(whitened)
    of_arm = torch.linalg.solve_triangular(root, _of_arm(arm).to(x), upper=False)
    return _with_means(0.5 * gram @ gram.T, of_arm.T @ of_arm)


def _of_arm(arm: Tensor) -> Tensor:
    return arm[:, None] == torch.arange(ARMS)


def _with_means(by_covariance: Tensor, by_mean: Tensor) -> Tensor:
    """Return the information of all parameters: means come before the noises, which are last."""
    q = len(by_covariance)
    order = torch.tensor([*range(q - ARMS), q, q + 1, q - ARMS, q - 1])
    both: Tensor = torch.block_diag(by_covariance, by_mean)  # type: ignore[no-untyped-call]
    return both[order[:, None], order]


def _derivatives(h: Hyperparameters, squared: Tensor, arm: Tensor) -> Iterator[Tensor]:
    """Yield derivatives (n, n) of the outcomes' covariance by scales, weights and noises."""
    of_arm = _of_arm(arm).to(squared)
    kernels = torch.exp(-0.5 * squared)
    for apart, kernel, weight in zip(squared, kernels, h.weights[:, arm], strict=True):
        yield -apart * kernel * weight[:, None] * weight
    for part, a in _free_weights(h):
        one_side = kernels[part] * of_arm[:, a, None] * h.weights[part, arm][None, :]
        yield (one_side + one_side.T) * _speed(h, part, a)
    for a in range(ARMS):
        yield torch.diag(h.noise[a] * of_arm[:, a])


def _turned(h: Hyperparameters, squared: Tensor, x: Tensor, arm: Tensor) -> Tensor | None:
    """Return C (n, n), with which the derivative of the covariance by weight d of the index is C X_d - X_d C."""
    if h.index is None or h.log_index_scales is None:
        return None
    along, total = x @ h.index, torch.zeros_like(squared[0])
    speeds = (2 * h.log_index_scales).exp()
    for apart, weight, speed in zip(squared[GENERAL:], h.weights[GENERAL:, arm], speeds, strict=True):
        total += torch.exp(-0.5 * apart) * weight[:, None] * weight * speed
    return total * (along[:, None] - along[None, :])


def _free_weights(h: Hyperparameters) -> list[tuple[int, int]]:
    """Return parts and arms whose weight is free: a shared part has one in each arm, an effect part only in arm 1."""
    return [(part, a) for part in range(len(h.weights)) for a in range(ARMS) if part % 2 == 0 or a == 1]


def _speed(h: Hyperparameters, part: int, a: int) -> Tensor:
    """Return how fast a weight moves with its free parameter, its log but for the shared part's in arm 1."""
    shared_treated = part % 2 == 0 and a == 1
    return torch.ones_like(h.weights[part, a]) if shared_treated else h.weights[part, a]
