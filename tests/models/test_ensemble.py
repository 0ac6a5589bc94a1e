"""The ensemble of TARNets: members against single networks, beliefs against their definition, files and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.base import clone
from torch import Tensor, distributions, nn
from torch.nn import functional

from causalbald import models
from causalbald._typing import Array
from causalbald.errors import InputError, UnknownNameError
from causalbald.models import DeepKernelGP, TarnetEnsemble
from causalbald.models._nn.encoders import Architecture
from causalbald.models._nn.heads import GaussianMixture
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels, MemberRows
from causalbald.models._nn.random_streams import RandomStreams
from causalbald.models._nn.tarnet import Tarnet, TreatmentAsInput
from causalbald.models._nn.training import Schedule, adam, train
from causalbald.testing import check_model

TINY: dict[str, Any] = {"members": 3, "hidden": 16, "depth": 2, "epoch_steps": 5, "max_epochs": 4}
LEARNS: dict[str, Any] = {"hidden": 32, "depth": 2, "learning_rate": 5e-3, "batch_size": 32, "dropout": 0.0}


def make_data(n: int, dimension: int = 3, seed: int = 0) -> tuple[Array, Any, Array]:
    """Effect 5 + 5 times the last covariate."""
    rng = np.random.default_rng(seed)
    x, t = rng.normal(size=(n, dimension)) * 2 + 1, np.arange(n) % 2
    return 3 * x[:, 0] + t * (5 + 5 * x[:, -1]) + 2 * rng.normal(size=n) + 100, t, x


def make_binary(n: int, seed: int = 0) -> tuple[Array, Any, Array]:
    """Treatment helps where the first covariate is positive and harms elsewhere."""
    rng = np.random.default_rng(seed)
    x, t = rng.normal(size=(n, 2)), np.arange(n) % 2
    p = np.where((x[:, 0] > 0) == (t == 1), 0.95, 0.05)
    return (rng.random(n) < p).astype(float), t, x


@pytest.fixture(scope="module")
def fitted() -> TarnetEnsemble:
    y, t, x = make_data(60)
    return TarnetEnsemble(**TINY).fit(y, t, X=x)


def test_conformance() -> None:
    check_model(TarnetEnsemble(members=3, components=2, epoch_steps=20, max_epochs=10, **LEARNS))


def train_members(seeds: list[int], rows: list[tuple[Any, Any]], labels: LabelTensors) -> Tensor:
    """Train a TARNet per seed on its rows, stopped on other rows; return raw outputs of all labels."""
    streams, head = RandomStreams(seeds), GaussianMixture(2)
    network = Tarnet((3,), Architecture(16, 2, -1.0, 0.2, 0.95), streams, head.outputs)
    cpu = torch.device("cpu")
    member_labels = MemberLabels(
        labels, MemberRows.padded([r for r, _ in rows], cpu), labels, MemberRows.padded([h for _, h in rows], cpu)
    )

    def score(part: LabelTensors) -> Tensor:
        return head.log_likelihood(network.under_arms(part.x, part.t), part.y)

    def loss() -> Tensor:
        return -score(member_labels.batch(streams, 16, repeat=True)).mean(1)

    optimiser = adam(network, network, 1e-2, decay=1e-2)
    train(
        network,
        optimiser,
        loss,
        Schedule(30, 5, 2),
        member_labels.stop_score(lambda: score, 7),
        (member_labels, streams),
    )
    with torch.no_grad():
        return torch.as_tensor(network(labels.x.expand(len(seeds), *labels.x.shape)))


def test_five_members_at_once_are_five_members_alone() -> None:
    y, t, x = make_data(40)
    labels = LabelTensors(
        torch.as_tensor((x - 1) / 2, dtype=torch.float32),
        torch.as_tensor(t),
        torch.as_tensor((y - y.mean()) / y.std(), dtype=torch.float32),
    )
    rng, seeds = np.random.default_rng(0), [3, 1, 4, 15, 9]
    orders = [rng.permutation(40) for _ in seeds]
    rows = [(order[: 25 + m], order[30 + m :]) for m, order in enumerate(orders)]
    together = train_members(seeds, rows, labels)
    for m, seed in enumerate(seeds):
        alone = train_members([seed], [rows[m]], labels)
        torch.testing.assert_close(together[m], alone[0], rtol=1e-4, atol=1e-4)
    assert (together[0] - together[1]).abs().max() > 0.1


@pytest.mark.parametrize("dimension", [1, 3])
def test_draws_are_the_members_means_and_noise_their_mean_variance(dimension: int) -> None:
    y, t, x = make_data(50, dimension)
    pool, new = (make_data(n, dimension, seed=n)[2] for n in (80, 20))
    model = TarnetEnsemble(components=3, **TINY).fit(y, t, X=x, pool=pool)
    assert isinstance(model.network_, TreatmentAsInput if dimension == 1 else Tarnet)
    z = torch.as_tensor((new - pool.mean(0)) / pool.std(0), dtype=torch.float32)
    with torch.no_grad():
        logits, mean, spread = model.network_(z.expand(3, *z.shape)).double().chunk(3, -1)
    mixture = distributions.MixtureSameFamily(
        distributions.Categorical(logits=logits), distributions.Normal(mean, functional.softplus(spread) + 0.01)
    )
    draws = mixture.mean.transpose(1, 2).numpy() * y.std() + y.mean()
    posterior = model.posterior(new)
    assert posterior.n_draws == 3
    assert posterior.link == "identity"
    np.testing.assert_allclose(posterior.mean, draws.mean(0), rtol=1e-5)
    np.testing.assert_allclose(posterior.noise, mixture.variance.mean(0).T.numpy() * y.var(), rtol=1e-4)
    flat = draws.reshape(3, -1)
    factor = posterior.factor.reshape(40, -1)
    np.testing.assert_allclose(factor @ factor.T, np.cov(flat.T), rtol=1e-3, atol=1e-4 * y.var())
    assert not posterior.residual.any()


def test_effect_is_learned() -> None:
    y, t, x = make_data(150)
    model = TarnetEnsemble(members=2, epoch_steps=20, max_epochs=8, **LEARNS).fit(y, t, X=x)
    new = make_data(200, seed=1)[2]
    truth = 5 + 5 * new[:, -1]
    assert np.sqrt(np.mean((model.effect(new) - truth) ** 2)) < 0.4 * truth.std()


def test_binary_outcomes_give_risk_differences() -> None:
    y, t, x = make_binary(150)
    model = TarnetEnsemble(members=3, epoch_steps=10, max_epochs=10, **LEARNS).fit(y, t, X=x)
    new = make_binary(200, seed=1)[2]
    posterior, effect = model.posterior(new), model.effect(new)
    assert posterior.link == "probit"
    assert np.abs(effect).max() <= 1
    assert np.mean(np.sign(effect) == np.sign(new[:, 0])) > 0.85
    assert np.abs(effect).mean() > 0.4
    with torch.no_grad():
        z = torch.as_tensor((new - x.mean(0)) / x.std(0), dtype=torch.float32)
        scores = model.network_(z.expand(3, *z.shape))[..., 0].transpose(1, 2).double().numpy()
    np.testing.assert_allclose(posterior.mean, scores.mean(0), rtol=1e-4, atol=1e-5)


def test_kind_of_outcome_can_be_told() -> None:
    y, t, x = make_binary(40)
    assert TarnetEnsemble(outcome="continuous", **TINY).fit(y, t, X=x).posterior(x).link == "identity"
    assert TarnetEnsemble(outcome="binary", **TINY).fit(y, t, X=x).posterior(x).link == "probit"
    assert TarnetEnsemble(**TINY).fit(y + 1, t, X=x).posterior(x).link == "identity"
    with pytest.raises(InputError, match=r"outcome='binary'.*other values than 0 and 1: 2"):
        TarnetEnsemble(outcome="binary", **TINY).fit(2 * y, t, X=x)
    with pytest.raises(InputError, match="outcome must be one of"):
        TarnetEnsemble(outcome="count", **TINY).fit(y, t, X=x)  # type: ignore[arg-type]


PAPER = {
    "synthetic": {"hidden": 100, "dropout": 0.0, "depth": 4, "spectral_norm": 12, "negative_slope": 0.0},
    "ihdp": {"hidden": 400, "dropout": 0.15, "depth": 3, "spectral_norm": 0.95, "negative_slope": -1.0},
    "cmnist": {"hidden": 100, "dropout": 0.1, "depth": 3, "spectral_norm": 24, "negative_slope": 0.0},
}
FASTER = {"cmnist": {"batch_size": 64}}  # the original: 200


@pytest.mark.parametrize("name", PAPER)
def test_presets_are_the_papers_table(name: str) -> None:
    """ReLU is slope 0, ELU stands for a negative one."""
    model = TarnetEnsemble.preset(name)
    expected = {**PAPER[name], "learning_rate": 0.001, "members": 5, "components": 5, "batch_size": 200}
    expected |= FASTER.get(name, {})
    parameters = model.get_params()
    assert {key: parameters[key] for key in expected} == expected
    assert set(TarnetEnsemble.presets) == set(PAPER)
    model.set_params(random_state=3)
    assert clone(model).get_params() == {**parameters, "random_state": 3}
    assert TarnetEnsemble.preset(name, hidden=8).hidden == 8


def test_unknown_names() -> None:
    with pytest.raises(UnknownNameError, match=r"'mnist'.*synthetic, ihdp, cmnist"):
        TarnetEnsemble.preset("mnist")
    assert isinstance(models.load("ensemble", members=2), TarnetEnsemble)
    with pytest.raises(InputError, match="no option 'member'"):
        models.load("ensemble", member=2)


def test_a_seed_repeats_and_another_differs(fitted: TarnetEnsemble) -> None:
    y, t, x = make_data(60)
    torch.manual_seed(1)
    np.testing.assert_array_equal(TarnetEnsemble(**TINY).fit(y, t, X=x).effect(x), fitted.effect(x))
    other = TarnetEnsemble(random_state=1, **TINY).fit(y, t, X=x).effect(x)
    assert np.abs(other - fitted.effect(x)).max() > 0.01 * y.std()


def test_validation_is_what_members_stop_on() -> None:
    """Shuffled outcomes follow no law: the longer members train, the less likely they become."""
    y, t, x = make_data(150)
    fresh_y, fresh_t, fresh_x = make_data(100, seed=1)
    shuffled = np.random.default_rng(0).permutation(fresh_y)
    steps = []
    for outcomes in (fresh_y, shuffled):
        model = TarnetEnsemble(members=2, patience=4, epoch_steps=5, max_epochs=20, **LEARNS)
        model.set_params(learning_rate=2e-3).fit(y, t, X=x, validation=(outcomes, fresh_t, fresh_x))
        steps.append(model.steps_)
    assert min(steps[0]) > 30
    assert max(steps[1]) < 30


def same_belief(first: Any, second: Any, x: Any) -> None:
    a, b = first.posterior(x), second.posterior(x)
    for name in ("mean", "factor", "residual", "noise"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.link, a.n_draws) == (b.link, b.n_draws)


def test_saved_and_loaded_it_is_the_same(fitted: TarnetEnsemble, tmp_path: Path) -> None:
    new = make_data(15, seed=1)[2]
    fitted.save(tmp_path / "model.safetensors")
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
    loaded = TarnetEnsemble.load(tmp_path / "model.safetensors")
    same_belief(fitted, loaded, new)
    np.testing.assert_array_equal(loaded.effect(new), fitted.effect(new))
    assert loaded.get_params() == fitted.get_params()
    assert loaded.steps_ == fitted.steps_
    with pytest.raises(InputError, match="3 are needed"):
        loaded.effect(new[:, :2])
    loaded.save(tmp_path / "again.safetensors")
    same_belief(TarnetEnsemble.load(str(tmp_path / "again.safetensors")), fitted, new)


@pytest.mark.parametrize("binary", [True, False])
def test_a_custom_encoder_is_passed_again_on_loading(binary: bool, tmp_path: Path) -> None:
    y, t, x = make_binary(40)
    encoder, path = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ELU()), tmp_path / "model"
    encoder.register_buffer("places", torch.ones(3), persistent=False)
    before = [p.clone() for p in encoder.parameters()]
    model = TarnetEnsemble(encoder=encoder, **TINY).fit(y if binary else x[:, 0] + t, t, X=x)
    model.save(path)
    same_belief(TarnetEnsemble.load(path, encoder=encoder), model, x)
    for then, now in zip(before, encoder.parameters(), strict=True):
        torch.testing.assert_close(then, now, rtol=0, atol=0)
    with pytest.raises(InputError, match="give it as encoder="):
        TarnetEnsemble.load(path)


def test_files_that_cannot_be_loaded(fitted: TarnetEnsemble, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    with pytest.raises(InputError, match=r"holds a TarnetEnsemble.*use TarnetEnsemble.load"):
        DeepKernelGP.load(path)
    with pytest.raises(InputError, match="omit encoder="):
        TarnetEnsemble.load(path, encoder=nn.Identity())
    with pytest.raises(InputError, match="there is no file"):
        TarnetEnsemble.load(tmp_path / "nothing")
    short = tmp_path / "short.safetensors"
    for length in (5, 200, path.stat().st_size - 10):
        short.write_bytes(path.read_bytes()[:length])
        with pytest.raises(InputError, match="cut short"):
            TarnetEnsemble.load(short)
    foreign = tmp_path / "foreign.safetensors"
    for metadata in (None, {"format": "pt"}):
        save_file({"weight": torch.zeros(3)}, foreign, metadata=metadata)
        with pytest.raises(InputError, match="not one that causalbald wrote"):
            TarnetEnsemble.load(foreign)


def test_a_failed_save_leaves_nothing_behind(fitted: TarnetEnsemble, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    with pytest.raises((OSError, InputError)):
        fitted.save(taken)
    assert [p.name for p in tmp_path.rglob("*")] == ["taken"]
    with pytest.raises(ValueError, match="not fitted"):
        TarnetEnsemble().save(tmp_path / "unfitted")
    assert [p.name for p in tmp_path.rglob("*")] == ["taken"]


def test_parameters_may_be_numpy_numbers(tmp_path: Path) -> None:
    y, t, x = make_data(30)
    model = TarnetEnsemble(**{**TINY, "random_state": np.int64(3), "dropout": np.float32(0.25)}).fit(y, t, X=x)
    model.save(tmp_path / "model")
    loaded = TarnetEnsemble.load(tmp_path / "model")
    same_belief(model, loaded, x)
    assert loaded.random_state == 3


def test_too_few_labels_to_stop_on_are_an_error_and_enough_are_not() -> None:
    y, t, x = make_data(30)
    with pytest.raises(InputError, match=r"4 labels are too few.*at least 5.*validation"):
        TarnetEnsemble(**{**TINY, "members": 5}).fit(y[:4], t[:4], X=x[:4])
    assert np.isfinite(TarnetEnsemble(**{**TINY, "members": 5}).fit(y[:5], t[:5], X=x[:5]).effect(x)).all()
    with_validation = TarnetEnsemble(**{**TINY, "members": 5}).fit(y[:2], t[:2], X=x[:2], validation=(y, t, x))
    assert np.isfinite(with_validation.effect(x)).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("members", 1),
        ("components", 0),
        ("hidden", 2),
        ("depth", 0),
        ("dropout", 1.0),
        ("dropout", -0.1),
        ("negative_slope", None),
        ("spectral_norm", -1),
        ("spectral_norm", 0.0),
        ("batch_size", 0),
        ("learning_rate", 0),
        ("learning_rate", float("nan")),
        ("epoch_steps", 0),
        ("patience", 0),
        ("max_epochs", 0),
        ("max_validation", 0),
        ("device", "nonsense"),
    ],
)
def test_bad_parameters_are_named(name: str, value: Any) -> None:
    y, t, x = make_data(20)
    with pytest.raises(InputError, match=name):
        TarnetEnsemble(**{**TINY, name: value}).fit(y, t, X=x)
