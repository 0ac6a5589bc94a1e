"""The collapsed bound and its closed-form gradient, against the dense formula and automatic differentiation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from causalbald.errors import TrainingError
from causalbald.models import DeepKernelGP, GaussianProcess
from causalbald.models._evidence import collapsed_bound, noisy_root
from causalbald.models._sites import Single

Arguments = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def arguments(inducing: int, labels: int) -> Arguments:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    root = normal(inducing, inducing)
    k_uu = root @ root.T + torch.eye(inducing)
    values = (k_uu, normal(inducing, labels), normal(labels).exp() + 20, normal(labels).exp(), normal(labels))
    for value in values:
        value.requires_grad_()
    return values


def dense(k_uu: Tensor, k_uf: Tensor, k_diagonal: Tensor, noise: Tensor, y: Tensor) -> Tensor:
    """Return log N(y; 0, Q + N) - 1/2 tr N⁻¹ (K - Q) with every (n, n) matrix written out."""
    q = k_uf.T @ torch.linalg.solve(k_uu, k_uf)
    covariance = q + torch.diag(noise)
    log_density = -0.5 * (y @ torch.linalg.solve(covariance, y) + torch.logdet(2 * torch.pi * covariance))
    missed: Tensor = ((k_diagonal - q.diagonal()) / noise).sum()
    bound: Tensor = log_density - 0.5 * missed
    return bound


@pytest.mark.parametrize(("inducing", "labels"), [(5, 9), (4, 4), (6, 3)])
def test_value_and_gradient(inducing: int, labels: int) -> None:
    values = arguments(inducing, labels)
    ours, theirs = collapsed_bound(*values), dense(*values)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-10)
    got, expected = torch.autograd.grad(3 * ours, values), torch.autograd.grad(3 * theirs, values)
    for name, a, b in zip(("k_uu", "k_uf", "k_diagonal", "noise", "y"), got, expected, strict=True):
        # Only the symmetric part of the first gradient has a meaning.
        a, b = ((a + a.T) / 2, (b + b.T) / 2) if name == "k_uu" else (a, b)
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-9, msg=name)


@pytest.mark.parametrize(
    "model",
    [
        GaussianProcess(max_exact=30, inducing=25, sites=10, max_iter=3),
        DeepKernelGP(max_exact=25, sites=10, members=2, folds=1, hidden=8, max_epochs=2),
    ],
    ids=["gp", "due"],
)
def test_beyond_exact_labels_single_units_are_believed_as_jointly(model: GaussianProcess | DeepKernelGP) -> None:
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(60, 3)), np.arange(60) % 2
    model.fit(np.sin(x[:, 0]) + t * x[:, 1] + 0.1 * rng.normal(size=60), t, X=x)
    z = rng.normal(size=(20, 3))
    alone, jointly = model.posterior(z, joint=False), model.posterior(z)
    np.testing.assert_allclose(alone.mean, jointly.mean, rtol=1e-8)
    np.testing.assert_allclose(alone.covariance, jointly.covariance, rtol=1e-6, atol=1e-9)
    assert alone.factor.shape[-1] < jointly.factor.shape[-1]


def test_the_triangular_product_leaves_nothing_out() -> None:
    """More labels than a block of rows: against the textbook formula with a solve."""
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(150, 2)), np.arange(150) % 2
    model = GaussianProcess(max_iter=2, sites=5).fit(x[:, 0] + t + rng.normal(size=150), t, X=x)
    h, z, units = model.hyperparameters_, model._standardise(x), model._standardise(rng.normal(size=(7, 2)))
    arm, y = torch.as_tensor(t), torch.as_tensor(rng.normal(size=150))
    belief = Single.of(h, z, arm, y).posterior(h, units)
    covariance = h.kernel(z, arm, z, arm) + torch.diag(h.noise[arm])
    for a in (0, 1):
        at = torch.full((7,), a)
        k = h.kernel(z, arm, units, at)
        mean = h.means[a] + k.T @ torch.linalg.solve(covariance, y - h.means[arm])
        variance = h.between_arms[a, a] - (k * torch.linalg.solve(covariance, k)).sum(0)
        np.testing.assert_allclose(belief.mean[:, a], mean, rtol=1e-7)
        np.testing.assert_allclose(belief.variance[:, a], variance, rtol=1e-6)


def test_more_noise_where_rounding_errors_outweigh_it_and_nowhere_else() -> None:
    x = torch.linspace(0, 1, 300)
    smooth = 9 * torch.exp(-0.5 * (x[:, None] - x).square())
    good = smooth + torch.eye(300)
    assert torch.linalg.cholesky_ex(smooth + 1e-6 * torch.eye(300)).info > 0
    roots = noisy_root(torch.stack([good, smooth + 1e-6 * torch.eye(300)]))
    assert torch.equal(roots[0], torch.linalg.cholesky(good))
    torch.testing.assert_close(roots[1] @ roots[1].T, smooth, rtol=1e-3, atol=1e-3)


def test_what_no_noise_can_mend_is_an_error() -> None:
    with pytest.raises(TrainingError, match="smaller learning_rate"):
        noisy_root(torch.full((2, 2), torch.nan))
