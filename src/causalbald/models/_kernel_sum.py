"""A weighted sum of squared-exponential kernels, with its gradient in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Return squared distances (n, m) between the rows of a (n, D) and b (m, D)."""
    apart = torch.addmm(b.square().sum(-1)[None, :], a, b.T, alpha=-2.0)
    return apart.add_(a.square().sum(-1)[:, None]).clamp_min_(0.0)


class _KernelSum(torch.autograd.Function):
    """sum_p l_p r_pᵀ ∘ E_p, where E_p = exp(-½ squared distances of a_p and b_p).

    A gradient G with respect to it goes to l_p as H r_p, to r_p as Hᵀ l_p, and to a unit's a_p as
    -l_p Σ_j H_j r_pj (a_p - b_pj), where H = G ∘ E_p: two products of (n, m) and (m, D + 1) matrices a part.
    Differentiating the distances step by step writes a dozen (n, m) matrices instead.
    """

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, *points: Tensor) -> Tensor:
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
        left, right, *rest = ctx.saved_tensors
        points, kernels = rest[: 2 * len(left)], rest[2 * len(left) :]
        to_left, to_right = torch.empty_like(left), torch.empty_like(right)
        to_points = []
        for p, kernel in enumerate(kernels):
            h, sides = gradients[0] * kernel, ((left[p], points[2 * p]), (right[p], points[2 * p + 1]))
            for sums, matrix, (own, here), (other, there) in (
                (to_left, h, *sides),
                (to_right, h.T, *reversed(sides)),
            ):
                moved = matrix @ torch.cat([other[:, None], other[:, None] * there], 1)
                sums[p] = moved[:, 0]
                to_points.append(own[:, None] * (moved[:, 1:] - moved[:, :1] * here))
        return to_left, to_right, *to_points


def kernel_sum(left: Tensor, right: Tensor, a: Sequence[Tensor], b: Sequence[Tensor]) -> Tensor:
    """Return the kernel (n, m) of units with weights left (P, n) and places a, P times (n, D), and others likewise."""
    points = [point for pair in zip(a, b, strict=True) for point in pair]
    total: Tensor = _KernelSum.apply(left, right, *points)  # type: ignore[no-untyped-call]
    return total


class _Gram(torch.autograd.Function):
    """The same of units with themselves: as both sides move together, half of the products do."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, *points: Tensor) -> Tensor:
        kernels = [squared_distances(a, a).mul_(-0.5).exp_() for a in points]
        total = torch.zeros_like(kernels[0])
        for weight, kernel in zip(weights, kernels, strict=True):
            total.addcmul_(kernel * weight, weight[:, None])
        ctx.save_for_backward(weights, *points, *kernels)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        weights, *rest = ctx.saved_tensors
        points, kernels = rest[: len(weights)], rest[len(weights) :]
        both, to_weights, to_points = gradients[0] + gradients[0].T, torch.empty_like(weights), []
        for p, (weight, here, kernel) in enumerate(zip(weights[:, :, None], points, kernels, strict=True)):
            moved = (both * kernel) @ torch.cat([weight, weight * here], 1)
            to_weights[p] = moved[:, 0]
            to_points.append(weight * (moved[:, 1:] - moved[:, :1] * here))
        return to_weights, *to_points


def gram(weights: Tensor, points: Sequence[Tensor]) -> Tensor:
    """Return the kernel (n, n) of units with weights (P, n) and places, P times (n, D), with themselves."""
    total: Tensor = _Gram.apply(weights, *points)  # type: ignore[no-untyped-call]
    return total
