"""The kernel of units with arms and its closed-form gradient, against its definition and automatic differentiation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from causalbald.models._effect_kernel import Hyperparameters, IndexPrior
from causalbald.models._kernel_sum import kernel_sum


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def written_out(left: Tensor, right: Tensor, a: list[Tensor], b: list[Tensor]) -> Tensor:
    kernels = [torch.exp(-0.5 * (u[:, None, :] - v[None, :, :]).square().sum(-1)) for u, v in zip(a, b, strict=True)]
    total: Tensor = sum((u[:, None] * k * v for u, k, v in zip(left, kernels, right, strict=True)), torch.zeros(()))
    return total


def test_value_and_gradient_between_two_sets_of_units() -> None:
    left, right = normal(0, 2, 5), normal(1, 2, 7)
    a, b = [normal(2, 5, 3), normal(3, 5, 1)], [normal(4, 7, 3), normal(5, 7, 1)]
    values = [left, right, *a, *b]
    for value in values:
        value.requires_grad_()
    ours, theirs, towards = kernel_sum(left, right, a, b), written_out(left, right, a, b), normal(6, 5, 7)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    got, expected = torch.autograd.grad(ours, values, towards), torch.autograd.grad(theirs, values, towards)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("gram", [True, False])
def test_gradient_by_the_free_parameters_of_an_index(gram: bool) -> None:
    """One set of units on both sides, whose places both move with the lengthscales and the index."""
    x, arm, towards = normal(0, 6, 3), torch.arange(6) % 2, normal(1, 6, 6)

    def kernel(h: Hyperparameters) -> Tensor:
        return h.gram(x, arm) if gram else h.kernel(x, arm, x, arm)

    free = torch.tensor(IndexPrior(3).centre) + 0.3 * normal(2, 21)

    def along(values: Tensor) -> Tensor:
        h = IndexPrior.unpack(values)
        return (kernel(h) * towards).sum()

    assert torch.autograd.gradcheck(along, free.requires_grad_(), rtol=1e-6)
    h = IndexPrior.unpack(free)
    torch.testing.assert_close(kernel(h), h.kernel(x, arm, x, arm), rtol=1e-12, atol=1e-12)


def test_kernels_by_arm_and_with_effects() -> None:
    h: Hyperparameters = IndexPrior.unpack(torch.tensor(IndexPrior(3).centre) + 0.3 * normal(2, 21))
    u, arm, z = normal(0, 4, 3), torch.tensor([0, 1, 1, 0]), normal(1, 5, 3)
    by_arm = h.by_arm(u, arm, z)
    for k in (0, 1):
        torch.testing.assert_close(by_arm[k], h.kernel(u, arm, z, torch.full((5,), k)), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(h.with_effects(u, arm, z), by_arm[1] - by_arm[0], rtol=1e-10, atol=1e-12)
