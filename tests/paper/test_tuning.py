"""Tuning: the paper's search spaces, the objective, resuming, pruning and failing."""

from __future__ import annotations

import json
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import optuna
import pytest
import typer
from scipy.stats import norm
from typer.testing import CliRunner

from causalbald import datasets, models
from causalbald.cli import _tuning as cli
from causalbald.datasets import Benchmark
from causalbald.errors import InputError, TrainingError, UnknownNameError
from causalbald.experiments._plan_file import plan_of
from causalbald.paper import _tuning, _tuning_studies, _tuning_task
from causalbald.posterior import Link, Posterior

QUICK: dict[str, Any] = {"max_epochs": 1, "epoch_steps": 1}
SHARED: dict[str, tuple[Any, ...]] = {
    "hidden": (100, 200, 400),
    "depth": (2, 3, 4),
    "negative_slope": (0.0, 0.1, 0.2, -1.0),
    "dropout": (0.05, 0.1, 0.2, 0.5),
    "spectral_norm": (None, 0.95, 1.5, 3.0),
    "batch_size": (32, 64, 100, 200),
    "learning_rate": (0.0002, 0.0005, 0.001),
}
PAPER: dict[str, dict[str, tuple[Any, ...]]] = {
    "ensemble": SHARED,
    "due": {"kernel": ("rbf", "matern"), "nu": (0.5, 1.5, 2.5), "inducing": (20, 50, 100, 200), **SHARED},
}


@pytest.fixture
def data() -> Benchmark:
    return datasets.load("synthetic", 1331, pool=200, validation=60, test=10)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'tuning.db'}"


def task_of(data: Benchmark, model: str, **options: Any) -> _tuning_task.TuningTask:
    return _tuning_task.TuningTask.of(data, model, 20, 1331, options)


def study_in(url: str) -> list[optuna.trial.FrozenTrial]:
    storage = optuna.storages.RDBStorage(url)
    (study,) = optuna.get_all_study_summaries(storage)
    trials = optuna.load_study(study_name=study.study_name, storage=storage).trials
    storage.remove_session()
    storage.engine.dispose()
    return trials


class Fits:
    """Stands for training: scores a candidate by its size, and notes candidate and limit of each call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, ends_at: int = 10**6) -> None:
        self.seen: list[tuple[dict[str, Any], int]] = []
        self.ends_at = ends_at
        monkeypatch.setattr(_tuning_task.TuningTask, "fit", lambda _, options, limit: self.fit(options, limit))

    def fit(self, options: dict[str, Any], limit: int) -> tuple[float, bool]:
        self.seen.append((options, limit))
        return -options["hidden"] * options["dropout"] - 1 / limit, limit >= self.ends_at

    @property
    def candidates(self) -> list[dict[str, Any]]:
        return [options for options, limit in self.seen if limit == 16]


def test_search_spaces_are_the_papers() -> None:
    assert _tuning_task.SEARCH_SPACES == PAPER


@pytest.mark.parametrize("model", PAPER)
def test_every_value_of_a_space_makes_a_model_that_can_be_trained(model: str, data: Benchmark) -> None:
    members = {"members": 2} if model == "ensemble" else {}
    task, used = task_of(data, model, **members, **QUICK), set()
    for k in range(6 if model == "due" else 4):
        fixed = {name: values[k % len(values)] for name, values in PAPER[model].items()}
        options = _tuning_task.suggest(optuna.trial.FixedTrial(fixed), task.space)
        used |= set(options.items())
        score, _ = task.fit(options, 1)
        assert np.isfinite(score)
    kernels = {("kernel", k) for k in ("rbf", "matern12", "matern32", "matern52")} if model == "due" else set()
    remaining = {(name, v) for name, values in PAPER[model].items() if name not in ("kernel", "nu") for v in values}
    assert used == kernels | remaining


@pytest.mark.parametrize("link", ["identity", "probit"])
def test_expected_log_likelihood_is_the_mean_over_draws(link: Link, rng: np.random.Generator) -> None:
    n = 6
    t, noise = np.arange(n) % 2, rng.uniform(0.2, 2.0, (n, 2))
    y = (rng.random(n) < 0.5).astype(float) if link == "probit" else rng.normal(size=n)
    residual = np.einsum("n,ab->nab", rng.random(n), np.eye(2))
    belief = Posterior(rng.normal(size=(n, 2)), 0.5 * rng.normal(size=(n, 2, 3)), residual, noise, link)
    draws = belief.draws(200_000, rng)[:, np.arange(n), t]
    if link == "probit":
        likelihood = np.where(y == 1, np.log(draws), np.log1p(-draws))
    else:
        likelihood = norm.logpdf(y, draws, np.sqrt(noise[np.arange(n), t]))
    error = likelihood.mean(1).std() / np.sqrt(len(likelihood))
    assert _tuning_task.expected_log_likelihood(belief, t, y) == pytest.approx(likelihood.mean(), abs=4 * error)


def test_expected_log_likelihood_of_a_certain_belief_is_the_log_likelihood() -> None:
    certain, y = Posterior(np.array([[0.3, 2.0]]), np.zeros((1, 2, 1)), 0.0, 1.0, "probit"), np.ones(1)  # type: ignore[arg-type]
    assert _tuning_task.expected_log_likelihood(certain, np.array([1]), y) == pytest.approx(norm.logcdf(2.0))
    noiseless = Posterior(np.zeros((1, 2)), np.ones((1, 2, 1)), 0.0, 0.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="noise is positive"):
        _tuning_task.expected_log_likelihood(noiseless, np.array([0]), y)


@pytest.mark.parametrize("model", PAPER)
def test_training_that_ended_by_itself_would_not_change_with_a_later_limit(model: str, data: Benchmark) -> None:
    task = task_of(data, model, epoch_steps=2, patience=3, members=2)
    options = {"hidden": 16, "depth": 2, "learning_rate": 0.001}
    fits = {limit: task.fit(options, limit) for limit in (3, 4, 16, 64, 400)}
    assert not fits[3][1], "three looks cannot be three looks after the best one"
    assert fits[400][1]
    assert {score for score, ended in fits.values() if ended} == {fits[400][0]}
    assert fits[3][0] != fits[400][0]


def test_a_study_finds_options_and_says_how_trials_ended(data: Benchmark) -> None:
    calls: list[tuple[int, int]] = []
    result = _tuning.tune(
        data, model="ensemble", labels=20, trials=2, options=QUICK, progress=lambda *c: calls.append(c)
    )
    assert calls == [(0, 2), (1, 2), (2, 2)]
    assert (result.study, result.labels) == ("ensemble-synthetic-20-1331", 20)
    assert (result.complete, result.pruned, result.failed) == (2, 0, 0)
    assert result.options.keys() == QUICK.keys() | SHARED.keys()
    again, _ = task_of(data, "ensemble", **QUICK).fit({k: result.options[k] for k in SHARED}, 1)
    assert result.score == pytest.approx(again, abs=1e-9)


def test_poor_trials_stop_early_and_the_best_complete_one_wins(
    data: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = Fits(monkeypatch)
    result = _tuning.tune(data, model="ensemble", trials=40, options={"max_epochs": 100})
    assert {limit for _, limit in fits.seen} == {16, 64, 100}
    assert result.pruned > 10
    assert result.complete + result.pruned == len(fits.candidates) == 40
    ran_out = [options for options, limit in fits.seen if limit == 100]
    assert result.complete == len(ran_out)
    assert result.score == max(-o["hidden"] * o["dropout"] for o in ran_out) - 1 / 100 == -5.01
    later = fits.candidates[20:]
    assert np.mean([o["hidden"] == 100 and o["dropout"] == 0.05 for o in later]) > 0.3, "1 in 12 by chance"


def test_a_trial_whose_training_has_ended_is_complete_without_longer_fits(
    data: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = Fits(monkeypatch, ends_at=16)
    result = _tuning.tune(data, model="ensemble", trials=12)
    assert (result.complete, result.pruned, len(fits.seen)) == (12, 0, 12)


def test_started_again_a_study_does_only_what_is_missing(
    data: Benchmark, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uninterrupted = Fits(monkeypatch)
    _tuning.tune(data, model="due", trials=5)
    parts = Fits(monkeypatch)
    for trials, trials_run in ((2, 2), (2, 2), (5, 5), (1, 5)):
        result = _tuning.tune(data, model="due", trials=trials, storage=url)
        assert len(parts.candidates) == trials_run
    assert result.complete + result.pruned == 5
    assert parts.seen == uninterrupted.seen, "candidates depend on their number, not on restarts"


def test_candidates_depend_on_the_seed_and_differ_from_each_other(
    data: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [Fits(monkeypatch) for _ in range(3)]
    for seed, fits in zip((0, 0, 1), runs, strict=True):
        monkeypatch.setattr(
            _tuning_task.TuningTask, "fit", lambda _, options, limit, fits=fits: fits.fit(options, limit)
        )
        _tuning.tune(data, model="due", trials=15, seed=seed)
    assert runs[0].seen == runs[1].seen
    assert runs[0].candidates[0] != runs[2].candidates[0]
    assert len({str(c) for c in runs[0].candidates[:10]}) == 10


def test_the_trial_of_a_killed_worker_is_made_up_for(
    data: Benchmark, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: object) -> tuple[float, bool]:
        raise KeyboardInterrupt

    monkeypatch.setattr(_tuning_task.TuningTask, "fit", kill)
    with pytest.raises(KeyboardInterrupt):
        _tuning.tune(data, model="due", trials=2, storage=url)
    Fits(monkeypatch)
    result = _tuning.tune(data, model="due", trials=2, storage=url)
    assert result.complete + result.pruned == 2
    assert [t.state.name for t in study_in(url)].count("RUNNING") == 1


def test_workers_that_start_together_make_the_database_once(url: str) -> None:
    barrier = Barrier(4)

    def connect(_: int) -> None:
        barrier.wait()
        storage = _tuning_studies.connect(url)
        storage.remove_session()
        storage.engine.dispose()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(connect, range(4)))


def test_a_failing_trial_is_recorded_and_the_study_goes_on(
    data: Benchmark, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = Fits(monkeypatch, ends_at=16)

    def sometimes(_: object, options: dict[str, Any], limit: int) -> tuple[float, bool]:
        score = fits.fit(options, limit)
        if len(fits.seen) == 2:
            raise TrainingError("no finite score")
        return score

    monkeypatch.setattr(_tuning_task.TuningTask, "fit", sometimes)
    result = _tuning.tune(data, model="due", trials=3, storage=url)
    assert (result.complete, result.failed) == (2, 1)
    assert [t.user_attrs for t in study_in(url) if t.state.name == "FAIL"] == [{"error": "no finite score"}]


def test_a_study_of_failures_says_why(data: Benchmark) -> None:
    with pytest.raises(TrainingError, match=r"'due-synthetic-20-1331'.*a smaller learning_rate\): fix other options"):
        _tuning.tune(data, model="due", labels=20, trials=2, options={"learning_rate": 1e30, **QUICK})


def test_optuna_is_quiet_and_gets_its_voice_back(
    data: Benchmark, url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    Fits(monkeypatch)
    before = optuna.logging.get_verbosity()
    _tuning.tune(data, model="due", trials=2, storage=url)
    with pytest.raises(InputError):
        _tuning.tune(data, model="due", trials=2, storage="nowhere")
    assert optuna.logging.get_verbosity() == before == optuna.logging.INFO
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "gp"}, "'gp' has no search space: choose one of due, ensemble"),
        ({"model": "deu"}, "Did you mean 'due'"),
        ({"labels": 201}, "the pool has 200 units"),
        ({"trials": 0}, "trials must be an integer of at least 1"),
        ({"options": {"width": 3}}, "no option 'width'"),
        ({"options": {"encoder": object()}}, "'encoder' must be a number or text"),
        ({"options": {"hidden": 2}}, "hidden must be an integer of at least 8"),
        ({"storage": "tuning.db"}, r"storage cannot be used \(.*parse.*sqlite:///tuning.db"),
        ({"storage": "nosuch://host/name"}, r"storage cannot be used \(.*nosuch"),
        ({"storage": "sqlite:////no/such/folder/tuning.db"}, r"unable to open database file"),
    ],
)
def test_mistakes_are_named(settings: dict[str, Any], message: str, data: Benchmark) -> None:
    with pytest.raises(InputError, match=message):
        _tuning.tune(data, **{"model": "due", "labels": 20, "trials": 1, **settings})


def test_without_optuna_the_error_names_the_extra(data: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tuning, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r'pip install "causalbald\[tune\]"'):
        _tuning.tune(data, model="due")


def test_a_study_refuses_trials_that_cannot_be_compared(
    data: Benchmark, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Fits(monkeypatch)
    _tuning.tune(data, model="due", trials=1, storage=url, study_name="mine", labels=20)
    changes: list[dict[str, Any]] = [
        {"labels": 21},
        {"data_seed": 2},
        {"model": "ensemble"},
        {"options": {"hidden": 8}},
    ]
    for changed in changes:
        with pytest.raises(InputError, match=f"'mine' was made with {next(iter(changed))}.*another study name"):
            _tuning.tune(data, **{"model": "due", "labels": 20, "storage": url, "study_name": "mine", **changed})


def test_labels_are_half_way_along_the_papers_curves(data: Benchmark) -> None:
    assert _tuning_task.default_labels(data) == 10 + 150
    assert _tuning_task.default_labels(datasets.load("ihdp", 0)) == 100 + 185
    custom = Benchmark("mine", data.pool, data.validation, data.test)
    assert _tuning_task.default_labels(custom) == 100
    small = datasets.load("synthetic", 0, pool=100)
    assert _tuning_task.default_labels(small) == 100


def test_the_toml_table_is_understood_by_experiments_and_means_the_same_model(data: Benchmark) -> None:
    options = {"kernel": "matern12", "hidden": 16, "spectral_norm": None, "learning_rate": 2e-4, **QUICK}
    text = _tuning.TuningResult("name", "due", 20, -1.0, options, 1, 0, 0).toml()
    (spec,) = plan_of(
        {"datasets": ["synthetic"], "models": ["due"], "acquisitions": ["random"], **tomllib.loads(text)}
    ).specs()
    assert spec.model_options == {**options, "spectral_norm": 1e9}
    labels = data.pool.take(np.arange(20))
    limits = (1e9, 1e8, 0.5)
    fits = [models.load("due", **{**options, "spectral_norm": c}).fit(labels.y, labels.t, X=labels.x) for c in limits]
    unlimited, same, limited = (m.effect(data.test.x) for m in fits)
    np.testing.assert_array_equal(unlimited, same)
    assert not np.allclose(limited, unlimited)


def test_what_a_preset_holds_beyond_the_search_space_is_kept(data: Benchmark) -> None:
    images = Benchmark("cmnist", data.pool, data.validation, data.test)
    task = _tuning_task.TuningTask.of(images, "due", 20, 1, {"hidden": 8, "max_epochs": 30})
    assert task.fixed == {"epoch_steps": 25, "max_epochs": 30, "random_state": 1, "hidden": 8}
    assert task.space.keys() == PAPER["due"].keys() - {"hidden"}
    assert task.limits() == [16, 30]


class TestCommand:
    """What a user types and sees."""

    @staticmethod
    def run(*arguments: str) -> Any:
        app = typer.Typer()
        cli.register(app)
        quick = ["--labels", "20", "--trials", "2", "--option", "max_epochs=1", "--option", "epoch_steps=1"]
        return CliRunner().invoke(app, [*quick, *arguments], catch_exceptions=False)

    def test_json(self, url: str) -> None:
        result = self.run("--storage", url, "--study-name", "mine", "--option", "kernel=rbf", "--json")
        (result,) = json.loads(result.stdout)
        assert (result["study"], result["complete"], result["options"]["kernel"]) == ("mine", 2, "rbf")
        table = tomllib.loads(result["toml"])["model_options"]["due"]
        assert table["hidden"] == result["options"]["hidden"]

    def test_table_and_toml(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        Fits(monkeypatch, ends_at=1)
        result = self.run("--storage", url, "--model", "ensemble")
        assert result.stdout.startswith("option,value\n")
        assert "[model_options.ensemble]" in result.stderr
        assert "2 trials complete, 0 stopped early, 0 failed" in result.stderr

    def test_mistakes(self, url: str) -> None:
        with pytest.raises(UnknownNameError, match="Did you mean 'ihdp'"):
            self.run("--storage", url, "--dataset", "idhp")
        with pytest.raises(InputError, match="'hidden' is not NAME=VALUE"):
            self.run("--storage", url, "--option", "hidden")
