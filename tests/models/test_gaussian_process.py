"""The Gaussian process against GPyTorch's exact one, and its pieces against plain linear algebra."""

from __future__ import annotations

from typing import Any

import gpytorch
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import stats
from sklearn.base import clone
from torch import Tensor

from causalbald import datasets, models
from causalbald._typing import Array
from causalbald.errors import InputError
from causalbald.models import GaussianProcess
from causalbald.models._evidence import collapsed_bound, log_evidence
from causalbald.models._sites import SiteBelief, independent_sites
from causalbald.testing import check_model


def make_data(n: int, dimension: int = 3, seed: int = 0) -> tuple[Array, Any, Array]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dimension)) * 2 + 1
    t = rng.binomial(1, 0.4, size=n)
    y = 10 * (np.sin(x[:, 0]) + t * (0.5 + 0.3 * x[:, -1]) + 0.2 * rng.normal(size=n)) + 100
    return y, t, x


class PeerKernel(gpytorch.kernels.Kernel):
    """Our two-part kernel from GPyTorch's own parts; the last input column is the arm."""

    def __init__(self, model: GaussianProcess) -> None:
        super().__init__()
        h = model.hyperparameters_
        self.bases = torch.nn.ModuleList(
            [gpytorch.kernels.RBFKernel(ard_num_dims=h.log_lengthscales.shape[1]) for _ in "se"]
        )
        for base, scale in zip(self.bases, h.log_lengthscales, strict=True):
            base.lengthscale = scale.exp()
        self.weights = h.weights

    def forward(self, a: Tensor, b: Tensor, diag: bool = False, **_: Any) -> Tensor:
        total = torch.zeros(())
        for base, weight in zip(self.bases, self.weights, strict=True):
            left, right = weight[a[..., -1].long()], weight[b[..., -1].long()]
            if diag:
                total = total + base(a[..., :-1], b[..., :-1], diag=True) * left * right
            else:
                total = total + base(a[..., :-1], b[..., :-1]).to_dense() * left[..., :, None] * right[..., None, :]
        return total


class PeerMean(gpytorch.means.Mean):
    def __init__(self, means: Tensor) -> None:
        super().__init__()
        self.means = means

    def forward(self, x: Tensor) -> Tensor:
        return self.means[x[..., -1].long()]


class Peer(gpytorch.models.ExactGP):
    def __init__(self, inputs: Tensor, y: Tensor, model: GaussianProcess) -> None:
        noise = model.hyperparameters_.noise[inputs[:, -1].long()]
        super().__init__(inputs, y, gpytorch.likelihoods.FixedNoiseGaussianLikelihood(noise))
        self.mean_module = PeerMean(model.hyperparameters_.means)
        self.covar_module = PeerKernel(model)

    def forward(self, x: Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def exact_posterior(model: GaussianProcess, y: Array, t: Any, x: Array, new: Array) -> tuple[Array, Array]:
    """GPyTorch's exact mean (2 N,) and covariance (2 N, 2 N), arm 0 first, in the outcome's own unit."""

    def inputs(values: Array, arms: Any) -> Tensor:
        return torch.cat(
            [torch.as_tensor(model.units_(values)), torch.as_tensor(arms, dtype=torch.float64)[:, None]], 1
        )

    target = torch.as_tensor((y - model.y_mean_) / model.y_scale_)
    peer = Peer(inputs(x, t), target, model).double().eval()
    in_each_arm = torch.cat([inputs(new, np.full(len(new), a)) for a in (0, 1)])
    exact = (
        gpytorch.settings.fast_computations(False, False, False),
        gpytorch.settings.fast_pred_var(False),
        gpytorch.settings.skip_posterior_variances(False),
    )
    with torch.no_grad(), exact[0], exact[1], exact[2]:
        prediction = peer(in_each_arm)
        mean = prediction.mean.numpy() * model.y_scale_ + model.y_mean_
        return mean, prediction.covariance_matrix.numpy() * model.y_scale_**2


@pytest.mark.parametrize("dimension", [1, 3, 25])
def test_agrees_with_gpytorch(dimension: int) -> None:
    y, t, x = make_data(60, dimension)
    pool = make_data(400, dimension, seed=1)[2]
    model = GaussianProcess(hyper_uncertainty=False).fit(y, t, X=x, pool=pool)
    mean, covariance = exact_posterior(model, y, t, x, pool)
    posterior = model.posterior(pool)
    n, scale = len(pool), y.std()
    np.testing.assert_allclose(posterior.mean.T.ravel() / scale, mean / scale, atol=1e-5)
    for a in (0, 1):
        for b in (0, 1):
            block = np.diagonal(covariance[a * n : (a + 1) * n, b * n : (b + 1) * n])
            np.testing.assert_allclose(posterior.covariance[:, a, b] / scale**2, block / scale**2, atol=1e-5)
    contrast = np.concatenate([np.full(n, -1 / n), np.full(n, 1 / n)])
    assert posterior.average_effect()[1] == pytest.approx(contrast @ covariance @ contrast, rel=0.05)
    assert posterior.average_effect()[0] == pytest.approx(contrast @ mean)


def test_joint_covariance_between_units_agrees_with_gpytorch() -> None:
    """With every unit a site, nothing is approximated: whole joint covariance, not only averages."""
    y, t, x = make_data(40)
    pool = make_data(50, seed=1)[2]
    model = GaussianProcess(hyper_uncertainty=False).fit(y, t, X=x, pool=pool)
    _, covariance = exact_posterior(model, y, t, x, pool)
    posterior = model.posterior(pool)
    flat = np.moveaxis(posterior.factor, 1, 0).reshape(100, -1)
    np.testing.assert_allclose(flat @ flat.T / y.var(), covariance / y.var(), atol=1e-5)
    assert posterior.residual_share < 1e-6


@pytest.mark.parametrize("sites", [200, 20])
def test_condition_is_a_refit_with_one_more_label(sites: int) -> None:
    """GPyTorch with the unit's label added, hyper-parameters kept, against `condition` without knowing the label.

    With every unit a site, all units agree; with few sites, residuals are in play and the measured unit agrees.
    """
    y, t, x = make_data(40)
    pool = make_data(200, seed=1)[2]
    model = GaussianProcess(sites=sites, hyper_uncertainty=False).fit(y, t, X=x, pool=pool)
    before = model.posterior(pool)
    assert (before.residual_share > 0.01) == (sites == 20)
    for unit, arm in ((3, 0), (77, 1)):
        after = before.condition(unit, arm)
        more = np.append(y, -1234.5), np.append(t, arm), np.vstack([x, pool[unit]])
        _, covariance = exact_posterior(model, *more, pool)
        rows = np.arange(200) if sites == 200 else np.array([unit])
        for a in (0, 1):
            for b in (0, 1):
                block = covariance[200 * a + rows, 200 * b + rows]
                np.testing.assert_allclose(after.covariance[rows, a, b] / y.var(), block / y.var(), atol=1e-5)


@pytest.mark.parametrize("max_exact", [10, 2000])
def test_without_joint_covariances_beliefs_about_single_units_are_the_same(max_exact: int) -> None:
    y, t, x = make_data(80, 5)
    pool = make_data(200, 5, seed=1)[2]
    model = GaussianProcess(max_exact=max_exact, inducing=40, max_iter=20).fit(y, t, X=x, pool=pool)
    joint, single = model.posterior(pool), model.posterior(pool, joint=False)
    np.testing.assert_allclose(single.mean, joint.mean, rtol=1e-7)
    np.testing.assert_allclose(single.covariance, joint.covariance, rtol=1e-5, atol=1e-6 * y.var())


def test_effect_is_learned_and_intervals_are_honest() -> None:
    y, t, x = make_data(200)
    model = GaussianProcess().fit(y, t, X=x)
    new = make_data(300, seed=2)[2]
    truth = 10 * (0.5 + 0.3 * new[:, -1])
    assert np.sqrt(np.mean((model.effect(new) - truth) ** 2)) < 1.5
    lower, upper = model.effect_interval(new)
    assert np.mean((lower <= truth) & (truth <= upper)) > 0.85


@pytest.mark.parametrize("seed", range(4))
def test_arms_that_go_opposite_ways_are_understood_from_few_labels(seed: int) -> None:
    """With one sign to start from, the search often ends where noise explains a surface that is rough in both arms."""
    rng = np.random.default_rng(seed)
    x, t = rng.uniform(-3, 3, size=(50, 1)), np.arange(50) % 2
    surface = (2 * t - 1) * 2 * np.sin(3 * x[:, 0]) + 0.5 * x[:, 0]
    model = GaussianProcess().fit(surface + 0.5 * rng.normal(size=50), t, X=x)
    shared = model.hyperparameters_.weights[0]
    assert shared[0] * shared[1] < 0
    grid = np.linspace(-2.5, 2.5, 50)[:, None]
    assert np.sqrt(np.mean((model.effect(grid) - 4 * np.sin(3 * grid[:, 0])) ** 2)) < 1.0


def test_conformance() -> None:
    check_model(GaussianProcess())


def test_registry_and_parameters() -> None:
    assert "gp" in models.names()
    model = models.load("gp", sites=10, random_state=3)
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(InputError, match="no option 'site'"):
        models.load("gp", site=10)
    with pytest.raises(InputError, match="unknown model 'gb'"):
        models.load("gb")


def test_any_frame_is_welcome() -> None:
    y, t, x = make_data(40)
    frame = pl.DataFrame(x, schema=["a", "b", "c"])
    from_frame = GaussianProcess(max_iter=5).fit(pl.Series(y), pl.Series(t), X=frame).effect(frame)
    other = pd.DataFrame(x, columns=["a", "b", "c"])
    from_pandas = GaussianProcess(max_iter=5).fit(y, t, X=other).effect(other)
    np.testing.assert_array_equal(from_frame, GaussianProcess(max_iter=5).fit(y, t, X=x).effect(x))
    np.testing.assert_array_equal(from_frame, from_pandas)


def test_constant_columns_and_outcomes_do_no_harm() -> None:
    y, t, x = make_data(40)
    with_constant = np.column_stack([x, np.full(40, 7.0)])
    effect = GaussianProcess(max_iter=30).fit(y, t, X=with_constant).effect(with_constant)
    assert np.isfinite(effect).all()
    np.testing.assert_allclose(GaussianProcess().fit(np.full(40, 3.0), t, X=x).effect(x), 0.0, atol=0.05)


def test_bad_input_is_named() -> None:
    y, t, x = make_data(30)
    frame = pl.DataFrame(x, schema=["a", "b", "c"])
    model = GaussianProcess(max_iter=2).fit(y, t, X=x)
    with pytest.raises(InputError, match="3 are needed"):
        model.effect(x[:, :2])
    with pytest.raises(InputError, match=r"'b'.*1 of 30, at position 4"):
        model.fit(y, t, X=frame.with_columns(b=np.where(np.arange(30) == 4, np.nan, x[:, 1])))
    with pytest.raises(InputError, match=r"'b'\] is not numeric: found 'tall'"):
        model.fit(y, t, X=frame.with_columns(b=pl.lit("tall")))
    with pytest.raises(InputError, match="more than one column 'a'"):
        model.fit(y, t, X=pd.DataFrame(x, columns=["a", "a", "b"]))
    with pytest.raises(InputError, match="at least one row"):
        model.effect(x[:0])
    with pytest.raises(InputError, match=r"Y has shape \(30, 1\)"):
        model.fit(y[:, None], t, X=x)
    dates = pd.DataFrame({"a": np.arange(3.0), "born": np.array(["1950-01-01", "NaT", "1960-02-03"], "datetime64[ns]")})
    with pytest.raises(InputError, match=r"'born'\] holds dates"):
        GaussianProcess().fit([1.0, 2.0, 3.0], [0, 1, 0], X=dates)
    with pytest.raises(InputError, match="X is not numeric"):
        model.effect([["a", "b", "c"]])
    with pytest.raises(InputError, match="no labelled units in arm 1"):
        model.fit(y, np.zeros(30), X=x)
    with pytest.raises(InputError, match="Images"):
        model.fit(y, t, X=np.zeros((30, 4, 4)))
    with pytest.raises(InputError, match="alpha"):
        model.effect_interval(x, alpha=0)
    with pytest.raises(InputError, match="T0 and T1"):
        model.effect(x, T1=2)
    with pytest.raises(InputError, match="triple"):
        model.fit(y, t, X=x, validation=(y, t))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="sites must be"):
        GaussianProcess(sites=0).fit(y, t, X=x)
    with pytest.raises(ValueError, match="not fitted"):
        GaussianProcess().effect(x)


def test_evidence_and_its_gradient() -> None:
    torch.manual_seed(0)
    root = torch.randn(6, 6, dtype=torch.float64)
    covariance = (root @ root.T + torch.eye(6)).requires_grad_()
    y = torch.randn(6, dtype=torch.float64, requires_grad=True)
    expected = stats.multivariate_normal(np.zeros(6), covariance.detach().numpy()).logpdf(y.detach().numpy())
    assert log_evidence(covariance, y).item() == pytest.approx(expected)

    def symmetric(c: Tensor, v: Tensor) -> Tensor:
        return log_evidence((c + c.T) / 2, v)

    assert torch.autograd.gradcheck(symmetric, (covariance, y))


def kernel(a: Tensor, b: Tensor) -> Tensor:
    return torch.exp(-0.5 * torch.cdist(a, b) ** 2)


def test_collapsed_bound_is_the_evidence_when_every_label_is_a_site_and_below_it_otherwise() -> None:
    torch.manual_seed(0)
    x = torch.randn(12, 2, dtype=torch.float64) * 2
    y, noise = torch.randn(12, dtype=torch.float64), torch.linspace(0.1, 0.5, 12, dtype=torch.float64)
    evidence = log_evidence(kernel(x, x) + torch.diag(noise), y).item()
    ones = torch.ones(12, dtype=torch.float64)
    full = collapsed_bound(kernel(x, x) + 1e-10 * torch.eye(12), kernel(x, x), ones, noise, y).item()
    assert full == pytest.approx(evidence, abs=1e-6)
    few = collapsed_bound(kernel(x[:4], x[:4]), kernel(x[:4], x), ones, noise, y).item()
    assert few < evidence - 0.1
    q = kernel(x[:4], x).T @ torch.linalg.solve(kernel(x[:4], x[:4]), kernel(x[:4], x))
    by_hand = log_evidence(q + torch.diag(noise), y) - 0.5 * ((1 - q.diagonal()) / noise).sum()
    assert few == pytest.approx(by_hand.item(), abs=1e-8)


def test_redundant_sites_are_dropped_without_changing_the_belief() -> None:
    torch.manual_seed(0)
    x = torch.rand(300, 1, dtype=torch.float64)
    keep = independent_sites(kernel(x, x))
    assert 5 < len(keep) < 40
    y, noise = torch.sin(6 * x[:, 0]), torch.full((300,), 0.01, dtype=torch.float64)
    u = x[keep]
    mean, factor, explained = SiteBelief.from_labels(kernel(u, u), kernel(u, x), noise, y).project(kernel(u, x))
    gain = torch.linalg.solve(kernel(x, x) + torch.diag(noise), kernel(x, x))
    np.testing.assert_allclose(mean, gain.T @ y, atol=1e-5)
    covariance = kernel(x, x) - kernel(x, x) @ gain
    np.testing.assert_allclose(factor.T @ factor, covariance, atol=1e-6)
    np.testing.assert_allclose((explained**2).sum(0), 1.0, atol=1e-6)


def test_beyond_max_exact_the_collapsed_fit_is_close_to_the_exact_one() -> None:
    y, t, x = make_data(300)
    exact = GaussianProcess().fit(y, t, X=x)
    sparse = GaussianProcess(max_exact=100, inducing=150).fit(y, t, X=x)
    new = make_data(200, seed=3)[2]
    assert np.corrcoef(exact.effect(new), sparse.effect(new))[0, 1] > 0.98
    spread = np.sqrt(sparse.posterior(new).effect_variance / exact.posterior(new).effect_variance)
    assert 0.5 < np.median(spread) < 2


def test_ihdp_error_stays_where_it_was_measured() -> None:
    """Mean sqrt-PEHE over four seeds at 200 random labels; 0.93 when this was written."""
    errors = []
    for seed in range(4):
        b = datasets.load("ihdp", seed)
        d = b.pool.take(np.random.default_rng(seed).permutation(len(b.pool))[:200])
        model = GaussianProcess().fit(d.y, d.t, X=d.x, pool=b.pool.x)
        errors.append(np.sqrt(np.mean((model.effect(b.test.x) - b.test.effect) ** 2)))
    assert np.mean(errors) < 1.2
