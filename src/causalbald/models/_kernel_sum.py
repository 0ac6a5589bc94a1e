"""A weighted sum of squared-exponential kernels, with its gradient in closed form.

Symbols: P parts; part p has weights l_p (n,) and r_p (m,) and places a_p (n, D_p) and b_p (m, D_p) of the units on the
left and on the right, and the kernel E_p,ij = exp(-½ |a_pi - b_pj|²). The sum is K_ij = Σ_p l_pi E_p,ij r_pj.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Return squared distances (n, m) between the rows of a (n, D) and of b (m, D). Rounding makes none negative."""
    # |a_i - b_j|² = |a_i|² - 2 a_i · b_j + |b_j|²
    squares = torch.addmm(b.square().sum(-1)[None, :], a, b.T, alpha=-2.0)
    return squares.add_(a.square().sum(-1)[:, None]).clamp_min_(0.0)


class _KernelSum(torch.autograd.Function):
    """K of the module's docstring, for units on the left and other units on the right.

    Its gradient takes two products of (n, m) and (m, D + 1) matrices per part. Automatic differentiation of the
    distances, step by step, writes a dozen (n, m) matrices instead.
    """

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, *points: Tensor) -> Tensor:
        """Return K (n, m) for weights ``left`` (P, n) and ``right`` (P, m), l and r of the module's docstring.

        ``points`` are the places in the order a_1, b_1, a_2, b_2, .... Called by torch through ``_KernelSum.apply``.
        """
        total = torch.zeros(left.shape[1], right.shape[1], dtype=left.dtype)
        kernels = []
        for weight_a, weight_b, a, b in zip(left, right, points[::2], points[1::2], strict=True):
            kernel = squared_distances(a, b).mul_(-0.5).exp_()
            total.addcmul_(kernel * weight_b, weight_a[:, None])
            kernels += [kernel] if any(ctx.needs_input_grad) else []
        ctx.save_for_backward(left, right, *points, *kernels)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """Return the gradients by the inputs of ``forward``: left, right and each of the points, in this order.

        ``gradients`` holds one (n, m) gradient by K. Called by torch.
        """
        # K and E_p are those of the module's docstring, G is the gradient by K, and H_p = G ∘ E_p. The gradient by
        #   l_pi is Σ_j H_p,ij r_pj,
        #   a_pi is -l_pi Σ_j H_p,ij r_pj (a_pi - b_pj) = l_pi (Σ_j H_p,ij r_pj b_pj - a_pi Σ_j H_p,ij r_pj).
        # Both sums over j are columns of H_p [r_p, r_p b_p]. By r_p and b_p it is the same with H_pᵀ and sides swapped.
        left, right, *saved = ctx.saved_tensors
        points, kernels = saved[: 2 * len(left)], saved[2 * len(left) :]
        to_left, to_right = torch.empty_like(left), torch.empty_like(right)
        to_points = []
        for p, kernel in enumerate(kernels):
            h = gradients[0] * kernel
            a_side, b_side = (left[p], points[2 * p]), (right[p], points[2 * p + 1])
            for to_weights, matrix, (weight, place), (far_weight, far_place) in (
                (to_left, h, a_side, b_side),
                (to_right, h.T, b_side, a_side),
            ):
                sums = matrix @ torch.cat([far_weight[:, None], far_weight[:, None] * far_place], 1)
                to_weights[p] = sums[:, 0]
                to_points.append(weight[:, None] * (sums[:, 1:] - sums[:, :1] * place))
        return to_left, to_right, *to_points


def kernel_sum(left: Tensor, right: Tensor, a: Sequence[Tensor], b: Sequence[Tensor]) -> Tensor:
    """Return the sum K (n, m) of P weighted kernels, with its gradient by all arguments.

    ``left`` (P, n) and ``right`` (P, m) are weights. ``a`` and ``b`` are P tensors of places each, (n, D_p) and
    (m, D_p).
    """
    points = [point for pair in zip(a, b, strict=True) for point in pair]
    total: Tensor = _KernelSum.apply(left, right, *points)  # type: ignore[no-untyped-call]
    return total


class _Gram(torch.autograd.Function):
    """K with the same units on the left and on the right, at half the products: l_p = r_p and a_p = b_p."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, *points: Tensor) -> Tensor:
        """Return K (n, n) for weights (P, n) and places a_1, a_2, .... Called by torch through ``_Gram.apply``."""
        kernels = [squared_distances(a, a).mul_(-0.5).exp_() for a in points]
        total = torch.zeros_like(kernels[0])
        for weight, kernel in zip(weights, kernels, strict=True):
            total.addcmul_(kernel * weight, weight[:, None])
        ctx.save_for_backward(weights, *points, *kernels)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """Return the gradients by the inputs of ``forward``: the weights and each of the points. Called by torch."""
        # The gradients of _KernelSum by the left and by the right add up: G + Gᵀ takes the place of G.
        weights, *saved = ctx.saved_tensors
        points, kernels = saved[: len(weights)], saved[len(weights) :]
        symmetric, to_weights, to_points = gradients[0] + gradients[0].T, torch.empty_like(weights), []
        for p, (weight, place, kernel) in enumerate(zip(weights[:, :, None], points, kernels, strict=True)):
            sums = (symmetric * kernel) @ torch.cat([weight, weight * place], 1)
            to_weights[p] = sums[:, 0]
            to_points.append(weight * (sums[:, 1:] - sums[:, :1] * place))
        return to_weights, *to_points


def gram(weights: Tensor, points: Sequence[Tensor]) -> Tensor:
    """Return :func:`kernel_sum` (n, n) of units with themselves, for weights (P, n) and P tensors of places (n, D_p).

    Its gradient takes half the products.
    """
    total: Tensor = _Gram.apply(weights, *points)  # type: ignore[no-untyped-call]
    return total
