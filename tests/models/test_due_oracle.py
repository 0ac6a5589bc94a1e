"""The deep kernel's bounds and beliefs against GPyTorch, on a fixed small problem."""

from __future__ import annotations

from typing import Any

import gpytorch
import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from torch import Tensor

from causalbald.models._cross_belief import ProcessCrossBelief
from causalbald.models._evidence import log_evidence
from causalbald.models._member_beliefs import MIN_NOISE_SHARE
from causalbald.models._nn.deep_kernel import DeepKernel, MemberKernel
from causalbald.models._nn.encoders import Architecture
from causalbald.models._nn.kernels import KERNELS
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels
from causalbald.models._nn.objectives import _JITTER, BatchEvidence, VariationalBound, probit_expectation
from causalbald.models._nn.random_streams import RandomStreams
from causalbald.models._sites import Single, SiteBelief, Sites

N, INDUCING = 30, 7


def gpytorch_kernel(name: str, network: DeepKernel) -> Any:
    nu = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
    base = gpytorch.kernels.RBFKernel() if name == "rbf" else gpytorch.kernels.MaternKernel(nu=nu[name])
    base.lengthscale = network.log_lengthscale.exp().item()
    kernel = gpytorch.kernels.ScaleKernel(base)
    kernel.outputscale = network.log_variance.exp().item()
    return kernel.double()


@pytest.fixture
def labels() -> LabelTensors:
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(N, 3)), np.arange(N) % 2
    y = np.sin(x[:, 0]) + t * x[:, 1] + 0.1 * rng.normal(size=N)
    return LabelTensors(
        torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(t), torch.as_tensor(y, dtype=torch.float32)
    )


def make_network(labels: LabelTensors, kernel: str) -> DeepKernel:
    architecture = Architecture(hidden=8, depth=2, slope=-1.0, dropout=0.0, coefficient=0.95)
    network = DeepKernel((3,), architecture, RandomStreams([3]), kernel)
    network.initialise(labels.x[None])
    with torch.no_grad():
        network.log_variance.fill_(0.4)
        network.means.copy_(torch.tensor([[0.3, -0.2]]))
        network.log_noise.copy_(torch.tensor([[-1.5, -1.0]]))
    return network.eval()


def double_features(network: DeepKernel, labels: LabelTensors) -> Tensor:
    return network.features(labels.x[None], labels.t[None])[0].detach().double()


@pytest.mark.parametrize("name", KERNELS)
def test_kernel(labels: LabelTensors, name: str) -> None:
    network = make_network(labels, name)
    features = double_features(network, labels)
    oracle_value = gpytorch_kernel(name, network)(features, features[:5]).to_dense().detach()
    torch.testing.assert_close(
        network.covariance(features[None], features[None, :5])[0].detach(), oracle_value, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("name", ["rbf", "matern32"])
def test_evidence_of_a_batch(labels: LabelTensors, name: str) -> None:
    network = make_network(labels, name)
    member_labels = MemberLabels.of_all(labels, 1)
    value = BatchEvidence(network, member_labels, None, np.arange(N), 64).loss().item()
    features = double_features(network, labels)
    noise = network.noise(labels.t[None])[0].detach().double()
    covariance = gpytorch_kernel(name, network)(features).to_dense() + torch.diag(noise)
    mean = network.mean(labels.t[None])[0].detach().double()
    oracle_value = gpytorch.distributions.MultivariateNormal(mean, covariance).log_prob(labels.y.double())
    assert value == pytest.approx(-oracle_value.item() / N, abs=1e-4)
    batched = log_evidence(covariance.expand(2, N, N), (labels.y.double() - mean).expand(2, N))
    torch.testing.assert_close(batched, oracle_value.expand(2))


class Oracle(gpytorch.models.ApproximateGP):
    """GPyTorch's whitened variational process with given points, mean and root."""

    def __init__(self, bound: VariationalBound, kernel: Any) -> None:
        belief = gpytorch.variational.CholeskyVariationalDistribution(INDUCING)
        points = bound.points[0].detach().double()
        strategy = gpytorch.variational.VariationalStrategy(
            self, points, belief, learn_inducing_locations=False, jitter_val=_JITTER * kernel.outputscale.item()
        )
        super().__init__(strategy)
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), kernel
        with torch.no_grad():
            belief.variational_mean.data = bound.mean[0].detach().double()
            belief.chol_variational_covar.data = bound.root[0].detach().double()
        strategy.variational_params_initialized.fill_(1)

    def forward(self, x: Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def make_bound(labels: LabelTensors, name: str, *, binary: bool = False) -> tuple[VariationalBound, Oracle]:
    network = make_network(labels, name)
    rng = np.random.default_rng(1)
    points = network.features(labels.x[None, :INDUCING], labels.t[None, :INDUCING]).detach()
    bound = VariationalBound(network, MemberLabels.of_all(labels, 1), N, points, binary=binary)
    with torch.no_grad():
        bound.mean.copy_(torch.as_tensor(rng.normal(size=(1, INDUCING))))
        bound.root.copy_(torch.as_tensor(np.tril(0.3 * rng.normal(size=(INDUCING, INDUCING))) + 0.5 * np.eye(INDUCING)))
    return bound, Oracle(bound, gpytorch_kernel(name, network)).eval()


@pytest.mark.parametrize("name", ["rbf", "matern32"])
def test_variational_bound(labels: LabelTensors, name: str) -> None:
    bound, oracle = make_bound(labels, name)
    batch = LabelTensors(labels.x[None], labels.t[None], labels.y[None])
    value = (bound.expected_log_likelihood(batch).mean(1) - bound.divergence() / N).item()
    noise = bound.network.noise(batch.t)[0].detach().double()
    residual = (labels.y - bound.network.mean(batch.t)[0]).detach().double()
    likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(noise)
    with gpytorch.settings.cholesky_jitter(double_value=0.0):
        mll = gpytorch.mlls.VariationalELBO(likelihood, oracle, num_data=N)
        oracle_value = mll(oracle(double_features(bound.network, labels)), residual).item()
    assert value == pytest.approx(oracle_value, abs=1e-4)


@pytest.mark.parametrize("name", ["rbf", "matern32"])
def test_belief_from_the_bound(labels: LabelTensors, name: str) -> None:
    bound, oracle = make_bound(labels, name)
    network, belief = bound.network, bound.belief()
    kernel = network.member_kernels()[0]
    points = belief["points"][0]
    sites = Sites(
        points[:, :-1],
        points[:, -1] / kernel.treatment,
        SiteBelief(belief["prior_root"][0], belief["mean"][0], belief["root"][0]),
    )
    posterior = sites.posterior(kernel, network.encode(labels.x, 64)[0].double(), joint=True)
    for arm in (0, 1):
        treated = LabelTensors(labels.x, torch.full((N,), arm), labels.y)
        oracle_belief = oracle(double_features(network, treated))
        mean = oracle_belief.mean.detach().numpy() + kernel.means[arm].item()
        np.testing.assert_allclose(posterior.mean[:, arm], mean, atol=1e-4)
        f = posterior.factor[:, arm]
        np.testing.assert_allclose(
            f @ f.T + np.diag(posterior.residual[:, arm, arm]),
            oracle_belief.covariance_matrix.detach().numpy()
            - (1 - np.eye(N)) * (_outside(sites, kernel, network.encode(labels.x, 64)[0].double(), arm)),
            atol=1e-4,
        )


def _outside(sites: Sites, kernel: Any, features: Tensor, arm: int) -> np.ndarray:
    """Prior covariance between units that the sites do not explain, which the factor leaves out."""
    arms = torch.full((len(features),), arm)
    _, _, explained = sites.belief.project(kernel.by_arm(sites.x, sites.arm, features)[arm])
    return np.asarray(kernel.kernel(features, arms, features, arms) - explained.T @ explained)


def test_probit_expectation_against_integration() -> None:
    for mean, variance, y in ((-2.0, 0.1, 1.0), (0.5, 1.0, 0.0), (1.5, 4.0, 1.0), (0.0, 9.0, 0.0)):

        def integrand(f: float, m: float = mean, v: float = variance, sign: float = 2 * y - 1) -> float:
            return float(norm.pdf(f, m, np.sqrt(v)) * norm.logcdf(sign * f))

        exact, _ = quad(integrand, mean - 12 * np.sqrt(variance), mean + 12 * np.sqrt(variance))
        values = (torch.tensor([v], dtype=torch.float64) for v in (y, mean, variance))
        assert probit_expectation(*values).item() == pytest.approx(exact, abs=1e-3)


def test_exact_belief_against_gpytorch(labels: LabelTensors) -> None:
    """With all labels as sites the belief is that of an exact process."""
    network = make_network(labels, "matern32")
    kernel, features = network.member_kernels()[0], network.encode(labels.x, 64)[0].double()
    sites = Sites.after_labels(kernel, features, labels.t, labels.y.double(), torch.arange(N), features[:0])
    posterior = sites.posterior(kernel, features[:9], joint=False)
    label_features = double_features(network, labels)
    prior = gpytorch_kernel("matern32", network)
    noisy = prior(label_features).to_dense() + torch.diag(kernel.noise[labels.t])
    for arm in (0, 1):
        new = double_features(network, LabelTensors(labels.x[:9], torch.full((9,), arm), labels.y[:9]))
        across = prior(new, label_features).to_dense()
        mean = kernel.means[arm] + across @ torch.linalg.solve(noisy, labels.y.double() - kernel.means[labels.t])
        variance = (prior(new).to_dense() - across @ torch.linalg.solve(noisy, across.T)).diagonal()
        np.testing.assert_allclose(posterior.mean[:, arm], mean.detach().numpy(), atol=1e-5)
        np.testing.assert_allclose(posterior.variance[:, arm], variance.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("lengthscale", [1.0, 4.0])
def test_single_precision_costs_less_than_a_hundredth_where_it_is_taken(lengthscale: float) -> None:
    """At the least noise for which `due` takes it, with labels that lie close, for units new and nearly known."""
    rng = np.random.default_rng(0)
    x, t = torch.as_tensor(rng.normal(size=(400, 5))), torch.as_tensor(np.arange(400) % 2)
    one = torch.ones((), dtype=torch.float64)
    noise = torch.full((2,), MIN_NOISE_SHARE, dtype=torch.float64)
    kernel = MemberKernel("matern32", lengthscale * one, one, one, torch.zeros_like(noise), noise)
    y, units = x[:, 0] + t, torch.cat([x[:50] + 1e-3, torch.as_tensor(rng.normal(size=(200, 5)))])
    exact = Single.of(kernel, x, t, y)
    singles = (exact, exact.rounded())
    beliefs = [single.posterior(kernel, units) for single in singles]
    for name in ("variance", "effect_variance"):
        right, rounded = (getattr(belief, name) for belief in beliefs)
        np.testing.assert_allclose(rounded, right, rtol=0.01)
    np.testing.assert_allclose(beliefs[1].mean, beliefs[0].mean, atol=1e-3)
    treatment = torch.ones(250, dtype=torch.long)
    covariances = [
        ProcessCrossBelief.of(kernel, s, x[:30] + 0.1).at(units).covariance(slice(None), treatment, None)
        for s in singles
    ]
    assert (covariances[1] - covariances[0]).abs().max() < 1e-3 * covariances[0].abs().max()
