"""What uncertain hyper-parameters add to a belief, to first order.

Hyper-parameters theta that maximise evidence times prior are not certain. The belief about them is roughly
N(theta, A⁻¹), where A is the prior's precision plus the Fisher information of the labels. Expected outcomes move by
J dtheta with them, so J A⁻¹ Jᵀ is added to their covariance, as in Garnett, Osborne and Hennig, Active Learning of
Linear Embeddings for Gaussian Processes (2014, arXiv:1310.6740).

The p free directions, in this order: the D weights of the index, if there is one; a common factor of the lengthscales
of each part; the parts' weights; the means; the log noises. Lengthscales relative to each other are taken as certain.

Symbols: P parts, K = 2 arms; n labels x with arms a, outcomes y minus prior means m; w_pa the weight of part p in
arm a; E_p the kernel of part p; K_n (n, n) the covariance of the outcomes with noise; α = K_n⁻¹ (y - m).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from causalbald.models._effect_kernel import ARMS, Hyperparameters

GENERAL_PARTS = 2  # the first parts; the parts after them are functions of the index


@dataclass(frozen=True)
class Tangent:
    """How expected outcomes move with the hyper-parameters, in standard deviations of the belief about those."""

    x: Tensor  # (n, D), the labels
    arm: Tensor  # (n,)
    weights: Tensor  # (n,), α
    indirect: Tensor  # (n, p), dα / dtheta
    root: Tensor  # (p, p), with root rootᵀ = A⁻¹

    @classmethod
    def of(
        cls, h: Hyperparameters, x: Tensor, arm: Tensor, y: Tensor, precision: Tensor, probes: Tensor | None = None
    ) -> Self:
        """Return the tangent after outcomes y (n,) of units x (n, D) with arms (n,).

        ``precision`` (p,) is the prior's, in the order of the free directions. With ``probes`` (n, s) the information
        of the labels is estimated; without them it is exact. Called by ``GaussianProcess._fit``.
        """
        # The mean at unit z is mu(z) = m + Σ_i α_i k(z, x_i), so that
        #   dmu(z) = [dm + Σ_i α_i dk(z, x_i)] + Σ_i dα_i k(z, x_i),
        # where α solves K_n α = y - m, hence dα = -K_n⁻¹ (dK_n α + dm). The bracket is `moves`, and dK_n α + dm is
        # `moves` at the labels themselves, plus the noise: by log noise a, (dK_n α)_i = noise_a α_i if a_i = a.
        covariance = h.kernel(x, arm, x, arm) + torch.diag(h.noise[arm])
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
        weights = inverse @ (y - h.means[arm])
        squared = h.squared_distances(x, x)
        at_labels = moves(h, x, arm, weights, x, squared, torch.exp(-0.5 * squared))[torch.arange(len(x)), arm]
        at_labels[:, -ARMS:] = (h.noise * weights[:, None]) * _arm_indicators(arm)
        information = fisher_information(h, x, arm) if probes is None else estimated_information(h, x, arm, probes)
        eigenvalues, vectors = torch.linalg.eigh(information + torch.diag(precision))  # A, no less than the prior's
        return cls(x, arm, weights, -inverse @ at_labels, vectors / eigenvalues.clamp_min(precision.min()).sqrt())

    def factor(self, h: Hyperparameters, z: Tensor) -> Tensor:
        """Return J A^-½ (N, K, p) for units z (N, D): a factor of the covariance that is added to their belief."""
        # Σ_i k((z, a), x_i) dα_i = Σ_p w_pa Σ_i E_p(z, x_i) w_p,a_i dα_i
        squared = h.squared_distances(z, self.x)
        parts = torch.exp(-0.5 * squared)
        by_part = parts @ (h.weights[:, self.arm, None] * self.indirect)  # (P, N, p)
        indirect = torch.einsum("anp,ak->nkp", by_part, h.weights)
        return (moves(h, z, self.arm, self.weights, self.x, squared, parts) + indirect) @ self.root


def moves(
    h: Hyperparameters, z: Tensor, arm: Tensor, weights: Tensor, x: Tensor, squared: Tensor, parts: Tensor
) -> Tensor:
    """Return the derivatives (N, K, p) of expected outcomes by the p free directions, while α is held fixed.

    The expected outcomes are m + Σ_i α_i k(z, x_i) for units z (N, D) under each arm. ``weights`` (n,) are α, and
    ``x`` (n, D) and ``arm`` (n,) are the labels. ``squared`` (P, N, n) are squared distances of z from x in each part,
    and ``parts`` their kernels E_p. Called by :class:`Tangent`.
    """
    # mu(z, a) = m_a + Σ_p w_pa v_p(z) with v_p(z) = Σ_i E_p(z, x_i) w_p,a_i α_i.
    by_arm = parts @ (weights[:, None] * _arm_indicators(arm))  # Σ_i of arm b: E_p α_i, (P, N, K)
    label_weights = h.weights[:, arm] * weights  # w_p,a_i α_i, (P, n)
    value = (by_arm * h.weights[:, None, :]).sum(-1)  # v_p(z), (P, N)
    # A step of the log scale of part p multiplies its squared distances by exp(2 step): dE_p = -squared_p E_p.
    scale = -((parts * squared) @ label_weights[:, :, None])[:, :, 0]
    columns = [scale.T[:, None, :] * h.weights.T[None]]
    eye = torch.eye(ARMS, dtype=z.dtype)
    for part, a in _free_weights(h):
        # By w_pa: v_p(z) in arm a, and w_pb Σ_(i of arm a) E_p α_i in each arm b.
        slope = value[part][:, None] * eye[a] + by_arm[part, :, a, None] * h.weights[part]
        columns.append((slope * _weight_speed(h, part, a))[:, :, None])
    columns.append(eye.expand(len(z), ARMS, ARMS))
    columns.append(torch.zeros(len(z), ARMS, ARMS, dtype=z.dtype))
    if h.index is not None and h.log_index_scales is not None:
        # E_p = exp(-½ s² (index · (z - x_i))²) with s the scale: by index_d, -s² (index · (z - x_i)) (z - x_i)_d E_p.
        gap = (z @ h.index)[:, None] - (x @ h.index)[None, :]
        squared_scales = (2 * h.log_index_scales).exp()[:, None, None]
        pull = parts[GENERAL_PARTS:] * gap * label_weights[GENERAL_PARTS:, None, :] * squared_scales
        turned = pull @ x - pull.sum(-1, keepdim=True) * z  # Σ_i pull_i (x_i - z), (2, N, D)
        columns.insert(0, torch.einsum("pnd,pk->nkd", turned, h.weights[GENERAL_PARTS:]))
    return torch.cat(columns, -1)


def fisher_information(h: Hyperparameters, x: Tensor, arm: Tensor) -> Tensor:
    """Return the expected information (p, p) of outcomes about the free directions. Units x (n, D) have arms (n,).

    For N(m, K_n) it is ½ tr(K_n⁻¹ dK_a K_n⁻¹ dK_b) + dm_aᵀ K_n⁻¹ dm_b for directions a and b.
    """
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(h.kernel(x, arm, x, arm) + torch.diag(h.noise[arm])))
    squared = h.squared_distances(x, x)
    products = inverse @ torch.stack([*_derivatives(h, squared, arm)])  # K_n⁻¹ dK_a, (q, n, n)
    information = 0.5 * torch.einsum("aij,bji->ab", products, products)
    c = _index_generator(h, squared, x, arm)
    if c is not None:
        # dK_d = C X_d - X_d C with X_d = diag(x_d) and C antisymmetric. With V = K_n⁻¹, ½ tr(V dK_d V dK_e) is
        #   Σ_ij x_id ((C V)_ij (C V)_ji - V_ij (C V C)_ij) x_je,
        # and ½ tr(dK_d V dK_b V) = -Σ_i x_id Σ_j C_ij (V dK_b V)_ji: sums over pairs of labels, without D traces.
        turned = c @ inverse
        index = x.T @ (turned * turned.T - inverse * (turned @ c)) @ x
        across = -x.T @ torch.einsum("ij,qji->iq", c, products @ inverse)
        information = torch.cat([torch.cat([index, across], 1), torch.cat([across.T, information], 1)])
    indicators = _arm_indicators(arm).to(x)  # dm by the means
    return _with_means(information, indicators.T @ inverse @ indicators)


def estimated_information(h: Hyperparameters, x: Tensor, arm: Tensor, probes: Tensor) -> Tensor:
    """Return an estimate of :func:`fisher_information` that takes one product with ``probes`` (n, s) per direction.

    With K_n = R Rᵀ and M_a = R⁻¹ dK_a R⁻ᵀ, the information is ½ tr M_a M_b. It is the expected inner product of
    ½ M_a Z and M_b Z if the expectation of Z Zᵀ is the identity. The estimate has no negative eigenvalue.
    """
    root = torch.linalg.cholesky(h.kernel(x, arm, x, arm) + torch.diag(h.noise[arm]))
    inward = torch.linalg.solve_triangular(root.T, probes, upper=True)  # R⁻ᵀ Z
    squared = h.squared_distances(x, x)
    products = [derivative @ inward for derivative in _derivatives(h, squared, arm)]
    c = _index_generator(h, squared, x, arm)
    if c is not None:
        c_inward = c @ inward
        products = [c @ (column[:, None] * inward) - column[:, None] * c_inward for column in x.T] + products
    whitened = [torch.linalg.solve_triangular(root, product, upper=False).flatten() for product in products]
    sketch = torch.stack(whitened)  # M_a Z, one row per direction
    indicators = torch.linalg.solve_triangular(root, _arm_indicators(arm).to(x), upper=False)
    return _with_means(0.5 * sketch @ sketch.T, indicators.T @ indicators)


def _arm_indicators(arm: Tensor) -> Tensor:
    """Return booleans (n, K): whether each of n labels is in each arm."""
    return arm[:, None] == torch.arange(ARMS)


def _with_means(by_covariance: Tensor, by_mean: Tensor) -> Tensor:
    """Return the information (p, p) of all directions, from that of the others (q, q) and that of the means (K, K).

    The last ``ARMS`` of the others are the log noises. The means go before these.
    """
    q = len(by_covariance)
    order = torch.tensor([*range(q - ARMS), q, q + 1, q - ARMS, q - 1])
    information: Tensor = torch.block_diag(by_covariance, by_mean)  # type: ignore[no-untyped-call]
    return information[order[:, None], order]


def _derivatives(h: Hyperparameters, squared: Tensor, arm: Tensor) -> Iterator[Tensor]:
    """Yield derivatives (n, n) of K_n by the log scale of each part, each free weight and each log noise, in order.

    ``squared`` (P, n, n) are squared distances between labels in each part. A log scale is minus a log lengthscale.
    """
    indicators = _arm_indicators(arm).to(squared)
    kernels = torch.exp(-0.5 * squared)
    for distances, kernel, weight in zip(squared, kernels, h.weights[:, arm], strict=True):
        yield -distances * kernel * weight[:, None] * weight
    for part, a in _free_weights(h):
        one_side = kernels[part] * indicators[:, a, None] * h.weights[part, arm][None, :]
        yield (one_side + one_side.T) * _weight_speed(h, part, a)
    for a in range(ARMS):
        yield torch.diag(h.noise[a] * indicators[:, a])


def _index_generator(h: Hyperparameters, squared: Tensor, x: Tensor, arm: Tensor) -> Tensor | None:
    """Return C (n, n) with dK_n = C X_d - X_d C by weight d of the index, X_d = diag(x_d); None without an index."""
    # By index_d, dE_p,ij = -s_p² g_ij (x_id - x_jd) E_p,ij with g_ij = index · (x_i - x_j). (C X_d - X_d C)_ij is
    # C_ij (x_jd - x_id), so that C_ij = g_ij Σ_p s_p² w_p,a_i w_p,a_j E_p,ij.
    if h.index is None or h.log_index_scales is None:
        return None
    index_values, total = x @ h.index, torch.zeros_like(squared[0])
    squared_scales = (2 * h.log_index_scales).exp()
    index_parts = zip(squared[GENERAL_PARTS:], h.weights[GENERAL_PARTS:, arm], squared_scales, strict=True)
    for distances, weight, squared_scale in index_parts:
        total += torch.exp(-0.5 * distances) * weight[:, None] * weight * squared_scale
    return total * (index_values[:, None] - index_values[None, :])


def _free_weights(h: Hyperparameters) -> list[tuple[int, int]]:
    """Return the pairs (part, arm) whose weight is free: both arms of a shared part, only arm 1 of an effect part.

    Shared parts have even numbers.
    """
    return [(part, a) for part in range(len(h.weights)) for a in range(ARMS) if part % 2 == 0 or a == 1]


def _weight_speed(h: Hyperparameters, part: int, a: int) -> Tensor:
    """Return the derivative of the weight of ``part`` in arm ``a`` by its free parameter.

    It is 1 for a shared part in arm 1, whose weight is free. Otherwise it is the weight itself, whose log is free.
    """
    is_shared_in_treated = part % 2 == 0 and a == 1
    return torch.ones_like(h.weights[part, a]) if is_shared_in_treated else h.weights[part, a]
