"""The deep-kernel Gaussian process: beliefs against plain linear algebra on its features, files, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.base import clone
from torch import nn

from causalbald import models
from causalbald._typing import Array
from causalbald.errors import InputError, UnknownNameError
from causalbald.models import DeepKernelGP
from causalbald.testing import check_model

TINY: dict[str, Any] = {"members": 1, "folds": 1, "hidden": 16, "depth": 2, "epoch_steps": 5, "max_epochs": 4}
MINIBATCH: dict[str, Any] = {"inference": "minibatch", "inducing": 30, "learning_rate": 2e-2, "dropout": 0.0}


def make_data(n: int, seed: int = 0) -> tuple[Array, Any, Array]:
    """Effect 5 + 5 times the second covariate."""
    rng = np.random.default_rng(seed)
    x, t = rng.normal(size=(n, 2)) * 2 + 1, np.arange(n) % 2
    return 3 * x[:, 0] + t * (5 + 5 * x[:, 1]) + 2 * rng.normal(size=n) + 100, t, x


def make_binary(n: int, seed: int = 0) -> tuple[Array, Any, Array]:
    """Treatment helps where the first covariate is positive and harms elsewhere."""
    rng = np.random.default_rng(seed)
    x, t = rng.normal(size=(n, 2)), np.arange(n) % 2
    p = np.where((x[:, 0] > 0) == (t == 1), 0.95, 0.05)
    return (rng.random(n) < p).astype(float), t, x


def relative_error(effect: Array, x: Array) -> float:
    """Root mean squared error of an effect, in standard deviations of the truth."""
    truth = 5 + 5 * x[:, 1]
    return float(np.sqrt(np.mean((effect - truth) ** 2)) / truth.std())


def covariance_function(name: str, d: Array) -> Array:
    root3 = np.sqrt(3) * d
    shapes = {"rbf": np.exp(-0.5 * d**2), "matern12": np.exp(-d), "matern32": (1 + root3) * np.exp(-root3)}
    return np.asarray(shapes[name])


def inputs(model: DeepKernelGP, pool: Array, x: Array, arm: Any, member: int = 0) -> Array:
    """What a member's kernel sees of units x under arms: features, and the treatment as one more."""
    standard = torch.as_tensor((x - pool.mean(0)) / pool.std(0), dtype=torch.float32)
    features = model.network_.encode(standard, 1000)[member].numpy()
    return np.column_stack([features, float(model.network_.member_kernels()[member].treatment) * arm])


def exact(
    model: DeepKernelGP, data: tuple[Array, Any, Array], pool: Array, new: Array, member: int = 0
) -> tuple[Array, Array]:
    """Exact mean (2 N,) and covariance (2 N, 2 N) given a member's features, arm 0 first, in the outcome's unit."""
    y, t, x = data
    kernel = model.network_.member_kernels()[member]

    def k(a: Array, b: Array) -> Array:
        shape = covariance_function(kernel.kernel_name, cdist(a, b) / float(kernel.lengthscale))
        return float(kernel.variance) * shape

    labels, n = inputs(model, pool, x, t, member), len(new)
    units = np.vstack([inputs(model, pool, new, np.full(n, arm), member) for arm in (0, 1)])
    noise, means = kernel.noise.numpy(), kernel.means.numpy()
    gain = np.linalg.solve(k(labels, labels) + np.diag(noise[t]), k(labels, units)).T
    mean = np.repeat(means, n) + gain @ ((y - y.mean()) / y.std() - means[t])
    return mean * y.std() + y.mean(), (k(units, units) - gain @ k(labels, units)) * y.var()


def blocks(covariance: Array) -> Array:
    """Each unit's covariance between arms, (N, 2, 2), out of that of all, arm 0 first."""
    n = len(covariance) // 2
    return np.moveaxis(np.diagonal(covariance.reshape(2, n, 2, n), axis1=1, axis2=3), -1, 0)


def test_conformance() -> None:
    check_model(DeepKernelGP(hidden=32, depth=2, members=2, folds=2, max_epochs=12))


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern32"])
def test_beliefs_are_those_of_the_exact_process(kernel: str) -> None:
    data, new, pool = make_data(50), make_data(20, seed=1)[2], make_data(150, seed=2)[2]
    model = DeepKernelGP(kernel=kernel, sites=10, **TINY).fit(*data[:2], X=data[2], pool=pool)
    mean, covariance = exact(model, data, pool, new)
    scale = data[0].std()
    for joint in (True, False):
        posterior = model.posterior(new, joint=joint)
        np.testing.assert_allclose(posterior.mean.T.ravel() / scale, mean / scale, atol=1e-5)
        np.testing.assert_allclose(posterior.covariance / scale**2, blocks(covariance) / scale**2, atol=1e-5)
        np.testing.assert_allclose(
            posterior.noise, np.tile(model.network_.member_kernels()[0].noise * scale**2, (20, 1))
        )


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_units_by_themselves_are_as_exact_as_together_with_and_without_noise(noise: float) -> None:
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(300, 5)), np.arange(300) % 2
    y = x[:, 0] + t + noise * rng.normal(size=300)
    model = DeepKernelGP(hidden=32, members=1).fit(y[:100], t[:100], X=x[:100], pool=x)
    single, together = model.posterior(x, joint=False), model.posterior(x)
    np.testing.assert_allclose(single.variance, together.variance, rtol=1e-3)
    np.testing.assert_allclose(single.mean, together.mean, atol=1e-4)


def test_covariances_between_units_are_exact_where_the_pool_is_among_the_sites() -> None:
    data, pool = make_data(40), make_data(30, seed=1)[2]
    model = DeepKernelGP(**TINY).fit(*data[:2], X=data[2], pool=pool)
    _, covariance = exact(model, data, pool, pool)
    posterior = model.posterior(pool)
    flat = np.moveaxis(posterior.factor, 1, 0).reshape(60, -1)
    np.testing.assert_allclose(flat @ flat.T / data[0].var(), covariance / data[0].var(), atol=1e-5)
    assert posterior.residual_share < 1e-4


def test_belief_of_members_is_their_mixture() -> None:
    data, pool = make_data(40), make_data(25, seed=1)[2]
    model = DeepKernelGP(**{**TINY, "members": 2}).fit(*data[:2], X=data[2], pool=pool)
    means, covariances = zip(*(exact(model, data, pool, pool, member) for member in range(2)), strict=True)
    posterior, variance = model.posterior(pool), data[0].var()
    assert np.abs(means[0] - means[1]).max() > 0.01 * data[0].std()
    np.testing.assert_allclose(posterior.mean.T.ravel(), np.mean(means, axis=0), rtol=1e-5)
    mixture = np.mean(covariances, axis=0) + np.cov(np.stack(means).T, ddof=0)
    np.testing.assert_allclose(posterior.covariance / variance, blocks(mixture) / variance, atol=1e-5)
    flat = np.moveaxis(posterior.factor, 1, 0).reshape(50, -1)
    np.testing.assert_allclose(flat @ flat.T / variance, mixture / variance, atol=1e-5)


def test_beyond_max_exact_beliefs_stay_close_to_the_exact_process() -> None:
    data, new = make_data(120), make_data(60, seed=1)[2]
    options: dict[str, Any] = {**TINY, "epoch_steps": 20, "max_exact": 50, "sites": 20}
    model = DeepKernelGP(**options).fit(*data[:2], X=data[2])
    mean, covariance = exact(model, data, data[2], new)
    for joint in (True, False):
        posterior = model.posterior(new, joint=joint)
        assert np.abs(posterior.mean.T.ravel() - mean).max() < 0.1 * data[0].std()
        spread = np.sqrt(np.diagonal(covariance).reshape(2, -1).T)
        np.testing.assert_allclose(np.sqrt(posterior.variance), spread, rtol=0.3)
    assert relative_error(model.effect(new), new) < 0.5


def test_the_papers_bound_learns() -> None:
    y, t, x = make_data(100)
    model = DeepKernelGP(**{**TINY, **MINIBATCH, "epoch_steps": 10, "max_epochs": 20}).fit(y, t, X=x)
    new = make_data(80, seed=1)[2]
    assert relative_error(model.effect(new), new) < 0.5


def test_the_papers_bound_repeats_and_knows_single_units() -> None:
    y, t, x = make_data(60)
    options: dict[str, Any] = {**TINY, **MINIBATCH, "members": 2, "folds": 2}
    model, again, other = (DeepKernelGP(**options, random_state=r).fit(y, t, X=x) for r in (0, 0, 1))
    new = make_data(20, seed=1)[2]
    np.testing.assert_array_equal(again.effect(new), model.effect(new))
    assert np.abs(other.effect(new) - model.effect(new)).max() > 1e-3 * y.std()
    joint, single = model.posterior(new), model.posterior(new, joint=False)
    np.testing.assert_allclose(single.mean, joint.mean, rtol=1e-8)
    np.testing.assert_allclose(single.covariance, joint.covariance, rtol=1e-6, atol=1e-9 * y.var())
    np.testing.assert_allclose(model.effect(new), joint.effect_mean, rtol=1e-6)


def test_the_papers_bound_predicts_as_its_definition_says() -> None:
    """With A = L⁻¹ K(u, x) and L Lᵀ = K(u, u): mean Aᵀ m, covariance K(x, x) - Aᵀ A + Aᵀ R Rᵀ A."""
    y, t, x = make_data(60)
    model = DeepKernelGP(**{**TINY, **MINIBATCH, "kernel": "rbf"}).fit(y, t, X=x)
    kernel, new = model.network_.member_kernels()[0], make_data(15, seed=1)[2]
    points, mean, root = (model.state_[name][0].numpy() for name in ("points", "mean", "root"))

    def k(a: Array, b: Array) -> Array:
        return float(kernel.variance) * covariance_function("rbf", cdist(a, b) / float(kernel.lengthscale))

    units = np.vstack([inputs(model, x, new, np.full(15, arm)) for arm in (0, 1)])
    k_uu = k(points, points) + 1e-5 * float(kernel.variance) * np.eye(len(points))
    explained = np.linalg.solve(np.linalg.cholesky(k_uu), k(points, units))
    spread = np.tril(root).T @ explained
    covariance = k(units, units) - explained.T @ explained + spread.T @ spread
    posterior = model.posterior(new)
    expected = np.repeat(kernel.means.numpy(), 15) + mean @ explained
    np.testing.assert_allclose((posterior.mean.T.ravel() - y.mean()) / y.std(), expected, atol=1e-5)
    np.testing.assert_allclose(posterior.covariance / y.var(), blocks(covariance), atol=1e-5)


def test_binary_outcomes_take_the_bound_and_the_probit_link() -> None:
    y, t, x = make_binary(150)
    model = DeepKernelGP(**{**TINY, **MINIBATCH, "inference": "auto", "epoch_steps": 10, "max_epochs": 20})
    model.fit(y, t, X=x)
    new = make_binary(200, seed=1)[2]
    posterior, effect = model.posterior(new), model.effect(new)
    assert posterior.link == "probit"
    assert not model.collapsed_
    assert np.abs(effect).max() <= 1
    assert np.mean(np.sign(effect) == np.sign(new[:, 0])) > 0.85
    assert np.abs(effect).mean() > 0.3
    with pytest.raises(InputError, match="inference='minibatch'"):
        DeepKernelGP(inference="collapsed", **TINY).fit(y, t, X=x)
    continuous = DeepKernelGP(outcome="continuous", **TINY).fit(y, t, X=x)
    assert continuous.collapsed_
    assert continuous.posterior(new).link == "identity"


@pytest.mark.parametrize("inference", ["collapsed", "minibatch"])
def test_validation_is_what_members_stop_on(inference: str) -> None:
    """Shuffled outcomes follow no law: the longer members train, the less likely they become."""
    y, t, x = make_data(100)
    fresh_y, fresh_t, fresh_x = make_data(100, seed=1)
    shuffled = np.random.default_rng(0).permutation(fresh_y)
    steps = []
    for outcomes in (fresh_y, shuffled):
        model = DeepKernelGP(**{**TINY, **MINIBATCH, "inference": inference, "members": 2, "max_epochs": 20})
        model.set_params(learning_rate=1e-3 if inference == "collapsed" else 2e-2)
        model.fit(y, t, X=x, validation=(outcomes, fresh_t, fresh_x))
        steps.append(model.steps_)
    assert min(steps[0]) > 50
    assert max(steps[1]) < 50


def test_folds_find_out_how_long_all_members_train() -> None:
    y, t, x = make_data(40)
    model = DeepKernelGP(**{**TINY, "members": 3, "folds": 2}).fit(y, t, X=x)
    assert len(model.steps_) == 3
    assert len(set(model.steps_)) == 1
    assert 5 <= model.steps_[0] <= 20
    assert len(DeepKernelGP(**{**TINY, "members": None, "folds": None}).fit(y, t, X=x).steps_) == 4


PAPER = {
    "synthetic": ("rbf", 20, 100, 0.2, 3, 200, 0.95, 0.0),
    "ihdp": ("matern32", 100, 200, 0.1, 3, 100, 0.95, -1.0),
    "cmnist": ("rbf", 100, 200, 0.05, 2, 64, 3.0, -1.0),
}
COLUMNS = ("kernel", "inducing", "hidden", "dropout", "depth", "batch_size", "spectral_norm", "negative_slope")


@pytest.mark.parametrize("name", PAPER)
def test_presets_are_the_papers_table(name: str) -> None:
    """ReLU is slope 0, ELU stands for a negative one."""
    model = DeepKernelGP.preset(name)
    parameters = model.get_params()
    assert tuple(parameters[column] for column in COLUMNS) == PAPER[name]
    assert parameters["learning_rate"] == 0.001
    assert set(DeepKernelGP.presets) == set(PAPER)
    model.set_params(random_state=3)
    assert clone(model).get_params() == {**parameters, "random_state": 3}
    assert DeepKernelGP.preset(name, members=7).members == 7


def test_unknown_names() -> None:
    with pytest.raises(UnknownNameError, match=r"'mnist'.*synthetic, ihdp, cmnist"):
        DeepKernelGP.preset("mnist")
    assert isinstance(models.load("due", members=2), DeepKernelGP)


def same_belief(first: DeepKernelGP, second: DeepKernelGP, x: Array) -> None:
    for joint in (True, False):
        a, b = first.posterior(x, joint=joint), second.posterior(x, joint=joint)
        for name in ("mean", "factor", "residual", "noise"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-12, atol=1e-12)
        assert a.link == b.link


@pytest.mark.parametrize("kind", ["collapsed", "beyond max_exact", "minibatch", "binary", "custom encoder"])
def test_saved_and_loaded_it_is_the_same(kind: str, tmp_path: Path) -> None:
    encoder = nn.Sequential(nn.Linear(2, 8), nn.ELU(), nn.Linear(8, 4))
    options: dict[str, Any] = {
        "collapsed": {},
        "beyond max_exact": {"max_exact": 20},
        "minibatch": MINIBATCH,
        "binary": {"inducing": 12},
        "custom encoder": {"encoder": encoder},
    }[kind]
    y, t, x = make_binary(50) if kind == "binary" else make_data(50)
    model = DeepKernelGP(**{**TINY, "members": 2, **options}).fit(y, t, X=x)
    path, new = tmp_path / "model.safetensors", make_data(12, seed=1)[2]
    model.save(path)
    loaded = DeepKernelGP.load(path, encoder=options.get("encoder"))
    same_belief(model, loaded, new)
    assert loaded.get_params() == model.get_params()
    assert loaded.steps_ == model.steps_
    loaded.save(path)
    same_belief(model, DeepKernelGP.load(path, encoder=options.get("encoder")), new)


def test_a_custom_encoder_learns_and_is_not_changed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(2, 16), nn.ELU(), nn.Linear(16, 8))
    before = [p.clone() for p in encoder.parameters()]
    y, t, x = make_data(80)
    model = DeepKernelGP(**{**TINY, "encoder": encoder, "epoch_steps": 20}).fit(y, t, X=x)
    new = make_data(60, seed=1)[2]
    assert relative_error(model.effect(new), new) < 0.5
    for then, now in zip(before, encoder.parameters(), strict=True):
        torch.testing.assert_close(then, now, rtol=0, atol=0)
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match="give it as encoder="):
        DeepKernelGP.load(tmp_path / "model")


def test_a_custom_encoder_that_gives_no_feature_vectors_is_refused() -> None:
    y, t, _ = make_data(20)
    images = np.random.default_rng(0).normal(size=(20, 1, 6, 6))
    with pytest.raises(InputError, match=r"to features \(n, F\)"):
        DeepKernelGP(**TINY, encoder=nn.Conv2d(1, 2, 3)).fit(y, t, X=images)


def test_folds_of_unequal_size_do_no_harm_to_the_bound() -> None:
    y, t, x = make_data(23)
    model = DeepKernelGP(**{**TINY, "folds": 4, "inference": "minibatch"}).fit(y, t, X=x)
    assert np.isfinite(model.effect(x)).all()


def test_repeated_units_do_no_harm_to_the_bound() -> None:
    y, t, x = make_binary(40)
    assert np.isfinite(DeepKernelGP(**TINY).fit(y, t, X=np.sign(x)).effect(np.sign(x))).all()


def test_too_few_labels_to_stop_on_are_an_error_and_enough_are_not() -> None:
    y, t, x = make_data(30)
    with pytest.raises(InputError, match=r"3 labels are too few.*at least 4.*validation"):
        DeepKernelGP(**TINY).fit(y[:3], t[:3], X=x[:3])
    assert np.isfinite(DeepKernelGP(**TINY).fit(y[:4], t[:4], X=x[:4]).effect(x)).all()
    with_validation = DeepKernelGP(**TINY).fit(y[:2], t[:2], X=x[:2], validation=(y, t, x))
    assert np.isfinite(with_validation.effect(x)).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel", "cosine"),
        ("inference", "exact"),
        ("members", 0),
        ("folds", 0),
        ("inducing", 0),
        ("sites", 0),
        ("max_exact", 0),
        ("hidden", 2),
        ("dropout", 1.0),
        ("spectral_norm", -1),
        ("batch_size", 0),
        ("learning_rate", 0),
        ("patience", 0),
        ("outcome", "count"),
        ("device", "nonsense"),
    ],
)
def test_bad_parameters_are_named(name: str, value: Any) -> None:
    y, t, x = make_data(20)
    with pytest.raises(InputError, match=name):
        DeepKernelGP(**{**TINY, name: value}).fit(y, t, X=x)
