"""Images: models that take them learn from brightness, others say which do, and a study runs from end to end."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from torch import nn

from causalbald import pools
from causalbald._typing import AnyArray, Array
from causalbald.datasets import Benchmark
from causalbald.errors import InputError
from causalbald.experiments import run_trial
from causalbald.models import (
    AutoEstimator,
    CateEstimator,
    DeepKernelGP,
    GaussianProcess,
    PropensityModel,
    PropensityNetwork,
    TarnetEnsemble,
)
from causalbald.models._nn.encoders import ModulePerMember
from causalbald.models._standard_units import StandardUnits

TINY: dict[str, Any] = {"hidden": 16, "depth": 1, "epoch_steps": 3, "max_epochs": 2}
LEARNS: dict[str, Any] = {"hidden": 32, "depth": 1, "epoch_steps": 5, "max_epochs": 15, "learning_rate": 2e-2}
MODELS: dict[str, CateEstimator] = {
    "due": DeepKernelGP(**LEARNS),
    "ensemble": TarnetEnsemble(members=2, components=2, dropout=0.0, batch_size=32, **LEARNS),
    "gp": GaussianProcess(),
    "auto": AutoEstimator(),
}
DEEP: list[CateEstimator] = [DeepKernelGP(**TINY), TarnetEnsemble(members=2, **TINY)]
SHORT: list[CateEstimator] = [*DEEP, GaussianProcess(components=3)]


def make_images(n: int, seed: int = 0) -> tuple[AnyArray, Array]:
    """Noisy 8 x 8 images, and the brightness of each."""
    rng = np.random.default_rng(seed)
    brightness = rng.uniform(-1, 1, size=n)
    return brightness[:, None, None, None] + 0.5 * rng.normal(size=(n, 1, 8, 8)), brightness


def make_data(n: int, seed: int = 0) -> tuple[Array, Any, AnyArray]:
    """Effect 1 + 2 times the brightness."""
    x, brightness = make_images(n, seed)
    t = np.arange(n) % 2
    noise = np.random.default_rng(seed + 100).normal(size=n)
    return 2 * brightness + t * (1 + 2 * brightness) + 0.1 * noise, t, x


@pytest.mark.parametrize("name", MODELS)
def test_effect_of_brightness_is_learned(name: str) -> None:
    y, t, x = make_data(60)
    new, brightness = make_images(80, seed=1)
    model = clone(MODELS[name]).fit(y, t, X=x)
    truth = 1 + 2 * brightness
    assert np.sqrt(np.mean((model.effect(new) - truth) ** 2)) < 0.5 * truth.std()
    posterior = model.posterior(new)
    assert posterior.mean.shape == (80, 2)
    assert posterior.factor.shape[:2] == (80, 2)
    np.testing.assert_allclose(posterior.effect_mean, model.effect(new), rtol=1e-4, atol=1e-4)
    single = model.posterior(new, joint=False)
    np.testing.assert_allclose(single.mean, posterior.mean, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(single.covariance, posterior.covariance, rtol=1e-3, atol=1e-6)
    lower, upper = model.effect_interval(new)
    assert (lower < upper).all()


@pytest.mark.parametrize("model", SHORT)
def test_precision_of_the_pixels_and_chunks_do_not_matter(model: CateEstimator) -> None:
    """More new images than pass through a network at a time, in one call and one by one."""
    y, t, x = make_data(40)
    new = make_images(70, seed=1)[0]
    single, double = (clone(model).fit(y, t, X=x.astype(p)) for p in (np.float32, np.float64))
    effect = single.effect(new)
    assert effect.std() > 0
    np.testing.assert_array_equal(effect, double.effect(new))
    np.testing.assert_array_equal(effect, single.effect(new.astype(np.float32)))
    effect_one_by_one = np.concatenate([single.effect(new[i : i + 1]) for i in (0, 63, 64, 69)])
    np.testing.assert_allclose(effect_one_by_one, effect[[0, 63, 64, 69]], rtol=1e-4, atol=1e-5)


def test_channels_are_brought_to_the_same_scale() -> None:
    y, t, x = make_data(40)
    colours = np.concatenate([x, make_images(40, seed=5)[0]], axis=1)
    stretched = colours * np.array([1.0, 100.0])[:, None, None] + np.array([0.0, 7.0])[:, None, None]
    for model in (DeepKernelGP(**TINY), GaussianProcess()):
        effects = [clone(model).fit(y, t, X=c).effect(c) for c in (colours, stretched)]
        np.testing.assert_allclose(effects[0], effects[1], rtol=1e-3, atol=1e-3)


def test_images_are_a_table_of_their_principal_components() -> None:
    rng = np.random.default_rng(0)
    strength = rng.normal(size=(290, 4)) * [4, 3, 2, 1]
    patterns = np.linalg.qr(rng.normal(size=(64, 4)))[0].T
    images = (strength @ patterns + 0.01 * rng.normal(size=(290, 64))).reshape(-1, 1, 8, 8)
    x, pool, new = images[:60], images[:260], images[260:]
    t = np.arange(60) % 2
    y = strength[:60, 0] + t * strength[:60, 3] + 0.1 * rng.normal(size=60)
    pca = PCA(4, svd_solver="full").fit(pool.reshape(-1, 64))
    table, pool_table, unseen = (pca.transform(v.reshape(-1, 64)) for v in (x, pool, new))
    image = GaussianProcess(components=4).fit(y, t, X=x, pool=pool)
    column = GaussianProcess().fit(y, t, X=table, pool=pool_table)
    np.testing.assert_allclose(image.effect(new), column.effect(unseen), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(np.cov(image.units_(pool.astype(np.float32)).T, ddof=0), np.eye(4), atol=1e-3)


def test_components_that_are_rounding_errors_are_left_out() -> None:
    """Images that differ in two ways have two components; more would be noise, blown up to variance 1."""
    rng = np.random.default_rng(0)
    patterns = rng.normal(size=(2, 1, 8, 8))
    images = np.einsum("nk,kchw->nchw", rng.normal(size=(60, 2)), patterns).astype(np.float32)
    assert StandardUnits.of_pool(images, 20, 0)(images).shape == (60, 2)


def test_components_are_no_more_than_images_can_have() -> None:
    y, t, x = make_data(12)
    assert GaussianProcess(components=50).fit(y, t, X=x).units_(x).shape == (12, 11)  # less their mean
    with pytest.raises(InputError, match="components"):
        GaussianProcess(components=0).fit(y, t, X=x)
    same = np.ones((12, 1, 8, 8))
    assert np.isfinite(GaussianProcess().fit(y, t, X=same).effect(same)).all()


@pytest.mark.parametrize("model", DEEP)
def test_saved_and_loaded_it_is_the_same(model: Any, tmp_path: Path) -> None:
    y, t, x = make_data(40)
    fitted = clone(model).fit(y, t, X=x)
    fitted.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    new = make_images(10, seed=1)[0]
    np.testing.assert_array_equal(loaded.effect(new), fitted.effect(new))
    with pytest.raises(InputError, match=r"\(1, 8, 8\)"):
        loaded.effect(new[:, :, :4])


@pytest.mark.parametrize("kind", [DeepKernelGP, TarnetEnsemble])
def test_a_custom_encoder_of_images(kind: Any) -> None:
    y, t, x = make_data(40)
    encoder = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 6 * 6, 5))
    model = kind(members=2, encoder=encoder, **TINY).fit(y, t, X=x)
    assert isinstance(model.network_.encoder, ModulePerMember)
    assert model.posterior(x).mean.shape == (40, 2)
    assert model.effect(x).std() > 0


def test_models_of_tables_say_who_takes_images() -> None:
    _, t, x = make_data(40)
    with pytest.raises(InputError, match="a model that takes them: auto, gp, due, ensemble or PropensityNetwork"):
        PropensityModel().fit(x, t)


@pytest.mark.parametrize("model", SHORT)
def test_bad_images_are_named(model: CateEstimator) -> None:
    y, t, x = make_data(40)
    fitted = clone(model).fit(y, t, X=x)
    broken = x.copy()
    broken[[3, 7], 0, 2, 2] = np.nan
    for wrong in (x[:, :, :7], np.repeat(x, 3, axis=1)):
        with pytest.raises(InputError, match=r"\(1, 8, 8\) is needed"):
            fitted.effect(wrong)
    with pytest.raises(InputError, match=r"must be images \(N, 1, 8, 8\)"):
        fitted.effect(x[:, 0, 0])
    with pytest.raises(InputError, match=r"missing or infinite pixels \(2 of 40, at position 3, 7\)"):
        fitted.effect(broken)
    with pytest.raises(InputError, match="pixels"):
        clone(model).fit(y, t, X=broken)
    with pytest.raises(InputError, match="at least one image"):
        fitted.effect(x[:0])
    with pytest.raises(InputError, match="pool has units of shape"):
        clone(model).fit(y, t, X=x, pool=x[:, :, :7])
    with pytest.raises(InputError, match="is not numeric"):
        fitted.effect(np.full((2, 1, 8, 8), "dark"))


def treat(brightness: Array) -> tuple[Any, Array]:
    """Bright images are treated more often; return arms and the true propensity."""
    p = 1 / (1 + np.exp(-4 * brightness))
    return (np.random.default_rng(5).random(len(p)) < p).astype(int), p


def test_propensity_of_images() -> None:
    x, brightness = make_images(60)
    t, truth = treat(brightness)
    model = PropensityNetwork(dropout=0.0, clip=0.1, **LEARNS).fit(x, t)
    propensity = model.cross_fitted_
    assert propensity.shape == (60,)
    assert 0.1 <= propensity.min() < propensity.max() <= 0.9
    assert roc_auc_score(t, propensity) > 0.75
    assert np.corrcoef(propensity, truth)[0, 1] > 0.6
    new, new_brightness = make_images(30, seed=1)
    predicted = model.predict(new)
    assert predicted.shape == (30,)
    assert 0.1 <= predicted.min() < predicted.max() <= 0.9
    assert np.corrcoef(predicted, new_brightness)[0, 1] > 0.6


def test_propensities_of_units_come_from_networks_that_have_not_seen_them() -> None:
    """Brightness speaks for treatment in one fold, against it in the other: each is foretold wrongly from the other."""
    t = np.arange(60) % 2
    _, fold = next(iter(StratifiedKFold(2, shuffle=True, random_state=0).split(t, t)))
    brightness = np.where(np.isin(np.arange(60), fold), 1, -1) * (2 * t - 1)
    x = brightness[:, None, None, None] + np.random.default_rng(0).normal(size=(60, 1, 8, 8))
    model = PropensityNetwork(dropout=0.0, **LEARNS).fit(x, t)
    assert model.calibration_.slope < -0.1


def test_propensity_network_repeats_and_checks_its_input() -> None:
    x, brightness = make_images(40)
    t = treat(brightness)[0]
    model, again = (PropensityNetwork(**TINY).fit(x, t) for _ in range(2))
    np.testing.assert_array_equal(model.cross_fitted_, again.cross_fitted_)
    with pytest.raises(InputError, match=r"\(1, 8, 8\) is needed"):
        model.predict(x[:, :, :7])
    with pytest.raises(InputError, match="no units in arm 1"):
        PropensityNetwork(**TINY).fit(x, np.zeros(40))
    with pytest.raises(InputError, match="clip"):
        PropensityNetwork(clip=0.5, **TINY).fit(x, t)
    with pytest.raises(InputError, match="folds"):
        PropensityNetwork(folds=1, **TINY).fit(x, t)
    with pytest.raises(InputError, match="device"):
        PropensityNetwork(device="nonsense", **TINY).fit(x, t)
    with pytest.raises(ValueError, match="not fitted"):
        PropensityNetwork().predict(x)


def test_propensity_network_needs_two_units_in_each_arm() -> None:
    with pytest.raises(InputError, match="two units in each arm"):
        PropensityNetwork(**TINY).fit(make_images(40)[0], np.arange(40) == 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", 2),
        ("depth", 0),
        ("dropout", 1.0),
        ("spectral_norm", -1),
        ("batch_size", 0),
        ("learning_rate", 0),
        ("epoch_steps", 0),
        ("patience", 0),
        ("max_epochs", 0),
    ],
)
def test_bad_parameters_of_the_propensity_network_are_named(name: str, value: Any) -> None:
    x, brightness = make_images(20)
    with pytest.raises(InputError, match=name):
        PropensityNetwork(**{**TINY, name: value}).fit(x, treat(brightness)[0])


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    x, brightness = make_images(100)
    t, _ = treat(brightness)
    mu0, mu1 = 2 * brightness, 1 + 4 * brightness
    y = np.where(t == 1, mu1, mu0) + 0.1 * np.random.default_rng(2).normal(size=100)
    return Benchmark.from_arrays(x, t, y, mu0, mu1, seed=0)


def test_scores_of_a_pool_of_images(benchmark: Benchmark) -> None:
    pool = benchmark.pool
    model = DeepKernelGP(**TINY).fit(pool.y[:30], pool.t[:30], X=pool.x[:30], pool=pool.x)
    pi = np.linspace(0.1, 0.9, len(pool))
    scores = pools.score_pool(model, pools.MemoryPool(pool.x, pool.t, propensity=pi), "mu-pi-bald")
    variance = model.posterior(pool.x).variance[np.arange(len(pool)), pool.t]
    other_arm = np.where(pool.t == 1, 1 - pi, pi)
    np.testing.assert_allclose(scores, np.log(variance) + np.log(other_arm), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("track", ["paid", "paper"])
def test_a_study_of_images(benchmark: Benchmark, track: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("causalbald.experiments._trial.PropensityNetwork", partial(PropensityNetwork, **TINY))
    template = DeepKernelGP(random_state=4, **TINY)
    table = run_trial(
        benchmark,
        model=template,
        acquisition="mu-pi-bald",
        warm_start=12,
        batch_size=4,
        steps=1,
        seed=4,
        track=track,
    )
    assert table["labels"].tolist() == [12, 16]
    rows = np.concatenate(table.attrs["acquired"])
    assert len(set(rows.tolist())) == 16
    labels, test, validation_split = benchmark.pool.take(rows), benchmark.test, benchmark.validation
    validation = (validation_split.y, validation_split.t, validation_split.x) if track == "paper" else None
    model = clone(template).fit(labels.y, labels.t, X=labels.x, pool=benchmark.pool.x, validation=validation)
    error = np.sqrt(np.mean((model.effect(test.x) - (test.mu1 - test.mu0)) ** 2))
    assert table["pehe"].iloc[-1] == pytest.approx(error, rel=1e-4)
    pi = PropensityNetwork(random_state=4, **TINY).fit(benchmark.pool.x, benchmark.pool.t).cross_fitted_[rows]
    assert table["overlap_share"].iloc[-1] == pytest.approx(((pi >= 0.1) & (pi <= 0.9)).mean())
