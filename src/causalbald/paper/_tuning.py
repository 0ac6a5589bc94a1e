"""Search for hyper-parameters of the deep models in the paper's two spaces; many workers can share one study."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from time import sleep
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import log_ndtr

from causalbald import models
from causalbald._addresses import without_passwords
from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald._typing import AnyArray, Array, Treatment
from causalbald._validation import check_int
from causalbald.datasets import Benchmark, Split
from causalbald.errors import InputError, TrainingError
from causalbald.experiments import default_settings, preset_of, warm_start_positions
from causalbald.models import DeepKernelGP, TarnetEnsemble, presets
from causalbald.models._network_parameters import make_schedule
from causalbald.posterior import Posterior

if TYPE_CHECKING:
    import optuna

_BOTH: dict[str, tuple[Any, ...]] = {
    "hidden": (100, 200, 400),
    "depth": (2, 3, 4),
    "negative_slope": (0.0, 0.1, 0.2, -1.0),  # 0 is ReLU, -1 is ELU
    "dropout": (0.05, 0.1, 0.2, 0.5),
    "spectral_norm": (None, 0.95, 1.5, 3.0),
    "batch_size": (32, 64, 100, 200),
    "learning_rate": (2e-4, 5e-4, 1e-3),
}
# The paper's tables. ``nu`` is searched where the kernel is Matern; the model knows both as one name.
SEARCH_SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    "due": {"kernel": ("rbf", "matern"), "nu": (0.5, 1.5, 2.5), "inducing": (20, 50, 100, 200), **_BOTH},
    "ensemble": _BOTH,
}
# Looks at held-out labels at which trials compete, and the share of them that goes on.
_FIRST_RUNG, _FACTOR = 16, 4
# TOML has no null; a limit that no layer reaches is the same as none.
_NO_LIMIT = 1e9
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)


@dataclass(frozen=True)
class TuningResult:
    """The best trial of a study: its score, in nats per label, and the model's options; and how all trials ended."""

    study: str
    model: str
    labels: int
    score: float
    options: dict[str, Any]
    complete: int
    pruned: int
    failed: int

    def toml(self) -> str:
        """Return the options as the table of an experiment's TOML file."""
        values = {**self.options, "spectral_norm": self.options["spectral_norm"] or _NO_LIMIT}
        return "\n".join([f"[model_options.{self.model}]", *(f"{k} = {json.dumps(v)}" for k, v in values.items())])


@one_thread()
def tune(
    benchmark: Benchmark,
    *,
    model: str,
    labels: int | None = None,
    trials: int = 50,
    seed: int = 0,
    data_seed: int = 1331,
    options: dict[str, Any] | None = None,
    storage: str | None = None,
    study_name: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TuningResult:
    """Find the options of a model under which validation labels are most likely, on one thread.

    Candidates come from a tree-structured Parzen estimator; asynchronous successive halving stops poor ones early. As
    in the paper, the validation split both ends the training and is the judge. A trial that cannot be trained is
    recorded as failed.

    Parameters
    ----------
    benchmark : Benchmark
    model : "due" or "ensemble"
    labels : int, optional
        Random units of the pool to train on; by default :func:`default_labels`.
    trials : int
        Trials that the study is to have in the end. Those that it has already, of whatever worker, count.
    seed : int
        Of the candidates; which ones come also depends on the results known when they are drawn.
    data_seed : int
        Of the choice of labels and of the networks' weights.
    options : dict, optional
        Options of the model that are fixed, not searched.
    storage : str, optional
        URL of a database, ``sqlite:///tuning.db`` or ``postgresql+psycopg://...``, through which workers share the
        study and an interrupted one goes on. By default the study is forgotten afterwards.
    study_name : str, optional
    progress : callable, optional
        Called with (trials done, trials in all).
    """
    _check_installed()
    task = _Task.of(benchmark, model, labels, check_int(data_seed, "data_seed", low=0), options or {})
    check_int(trials, "trials", low=1)
    check_int(seed, "seed", low=0)
    name = study_name or f"{model}-{benchmark.name}-{len(task.known)}-{data_seed}"
    with _open_study(storage, name) as study:
        _check_same(study, {"dataset": benchmark.name, "units": len(task.pool), "data_seed": data_seed, **task.named})
        while True:
            done = len(_finished(study))
            if progress is not None:
                progress(min(done, trials), trials)
            if done >= trials:
                return _best(study, task)
            _run_one(study, task, seed)


def expected_log_likelihood(belief: Posterior, treatment: Treatment, y: Array) -> float:
    """Return the mean over units of E log p(y | f), f the belief about the unit's (latent) outcome in its own arm.

    Closed form for continuous outcomes; Gauss-Hermite quadrature with the probit link.

    Parameters
    ----------
    belief : Posterior
        About N units.
    treatment, y : (N,)
        Arm and outcome of each.
    """
    i = np.arange(len(belief))
    mean, variance = belief.mean[i, treatment], np.maximum(belief.latent_covariance[i, treatment, treatment], 0.0)
    if belief.link == "probit":
        scores = mean[:, None] + np.sqrt(variance)[:, None] * _NODES
        return float((log_ndtr((2 * y - 1)[:, None] * scores) @ _WEIGHTS).mean() / _WEIGHTS.sum())
    noise = belief.noise[i, treatment]
    if (noise == 0).any():
        raise InputError("outcomes without noise have no likelihood: give a belief whose noise is positive.")
    return float(-0.5 * (np.log(2 * np.pi * noise) + ((y - mean) ** 2 + variance) / noise).mean())


def default_labels(benchmark: Benchmark) -> int:
    """Return how many labels to tune with: half way along the paper's curve, else half of the pool, at most 300."""
    plan, pool = default_settings(benchmark.name), len(benchmark.pool)
    return min(300, pool // 2) if plan is None else min(plan.warm_start + plan.batch_size * plan.steps // 2, pool)


def suggest(trial: optuna.trial.BaseTrial, space: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return a candidate of a search space as options of the model."""
    found = {name: trial.suggest_categorical(name, values) for name, values in space.items() if name != "nu"}
    if found.get("kernel") == "matern":
        found["nu"] = trial.suggest_categorical("nu", space["nu"])
    return _as_options(found)


def _as_options(parameters: dict[str, Any]) -> dict[str, Any]:
    found = dict(parameters)
    if "nu" in found:
        found["kernel"] = f"matern{round(2 * found.pop('nu'))}2"
    return found


@dataclass(frozen=True)
class _Task:
    """What the trials of a study have in common."""

    model: str
    fixed: dict[str, Any]
    space: dict[str, tuple[Any, ...]]
    max_epochs: int
    known: Split
    pool: AnyArray
    validation: Split

    @classmethod
    def of(cls, data: Benchmark, model: str, labels: int | None, seed: int, options: dict[str, Any]) -> _Task:
        models.load(model)
        if model not in SEARCH_SPACES:
            raise InputError(f"model {model!r} has no search space: choose one of {', '.join(SEARCH_SPACES)}.")
        for name, value in options.items():
            if not isinstance(value, str | int | float):
                raise InputError(f"option {name!r} must be a number or text to be kept with a study, got {value!r}.")
        size = default_labels(data) if labels is None else labels
        if check_int(size, "labels", low=2) > len(data.pool):
            raise InputError(f"{size} labels asked for, but the pool has {len(data.pool)} units: take fewer labels.")
        searched = SEARCH_SPACES[model]
        preset = {k: v for k, v in presets(model).get(preset_of(data.name), {}).items() if k not in searched}
        fixed = {**preset, "random_state": seed, **options}
        space = {k: values for k, values in searched.items() if k not in fixed}
        known = data.pool.take(warm_start_positions(data.pool.t, size, seed))
        return cls(model, fixed, space, _made(model, fixed).max_epochs, known, data.pool.x, data.validation)

    @property
    def named(self) -> dict[str, Any]:
        """What trials must share to be compared."""
        return {"model": self.model, "labels": len(self.known), "options": self.fixed}

    def limits(self) -> list[int]:
        """Return after how many looks at held-out labels a trial is compared with others; the last is its end."""
        rungs = (_FIRST_RUNG * _FACTOR**k for k in range(10))
        return [*(r for r in rungs if r < self.max_epochs), self.max_epochs]

    def fit(self, options: dict[str, Any], limit: int) -> tuple[float, bool]:
        """Train for at most ``limit`` looks; return the score and whether the training ended by itself."""
        known, free = self.known, self.validation
        model = _made(self.model, {**self.fixed, **options, "max_epochs": limit})
        model.fit(known.y, known.t, X=known.x, pool=self.pool, validation=(free.y, free.t, free.x))
        if isinstance(model, DeepKernelGP):
            plan = model._schedule
        else:
            plan = make_schedule(model.epoch_steps, model.patience, limit)
        ended = max(model.steps_) + plan.patience * plan.every <= plan.max_steps
        return expected_log_likelihood(model.posterior(free.x, joint=False), free.t, free.y), ended


def _made(model: str, options: dict[str, Any]) -> DeepKernelGP | TarnetEnsemble:
    return cast(DeepKernelGP | TarnetEnsemble, models.load(model, **options))


def _run_one(study: optuna.Study, task: _Task, seed: int) -> None:
    """Run one trial. Its candidate depends on its number and the study, not on the worker or on a restart."""
    import optuna

    trial = study.ask()
    drawn = int(generator(seed, "tune", trial.number).integers(2**32))
    study.sampler = optuna.samplers.TPESampler(seed=drawn, multivariate=False)
    options = suggest(trial, task.space)
    score = 0.0
    try:
        for limit in task.limits():
            score, ended = task.fit(options, limit)
            trial.report(score, limit)
            behind = trial.should_prune()  # also enters the score for those that come later
            if ended:
                break
            if behind and limit < task.max_epochs:
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                return
    except RuntimeError as error:  # a TrainingError, torch's of linear algebra or of memory
        trial.set_user_attr("error", str(error))
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return
    study.tell(trial, score)


def _finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Return trials that have ended. Those of a killed worker seem to run for ever and do not count."""
    return [t for t in study.get_trials(deepcopy=False) if t.state.is_finished()]


def _best(study: optuna.Study, task: _Task) -> TuningResult:
    from optuna.trial import TrialState

    ends = [t.state for t in _finished(study)]
    counts = [ends.count(state) for state in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)]
    if not counts[0]:
        reason = next((t.user_attrs["error"] for t in _finished(study) if "error" in t.user_attrs), "none known")
        why = reason.removesuffix(".")
        raise TrainingError(
            f"no trial of study {study.study_name!r} was trained to its end ({why}): fix other options, or none."
        )
    best = study.best_trial
    fixed = {k: v for k, v in task.fixed.items() if k != "random_state"}
    return TuningResult(
        study.study_name, task.model, len(task.known), study.best_value, {**fixed, **_as_options(best.params)}, *counts
    )


def _check_installed() -> None:
    if find_spec("optuna") is None:
        raise InputError('tuning needs optuna, which is not installed: pip install "causalbald[tune]".')


def _check_same(study: optuna.Study, settings: dict[str, Any]) -> None:
    """Refuse to add trials to a study whose scores could not be compared with theirs."""
    before = study.user_attrs.get("settings")
    if before is None:
        study.set_user_attr("settings", settings)
        return
    different = [k for k in settings if before.get(k) != settings[k]]
    if different:
        k = different[0]
        raise InputError(
            f"study {study.study_name!r} was made with {k} {before.get(k)!r}, not {settings[k]!r}: "
            "give the same settings, or another study name."
        )


@contextmanager
def _open_study(url: str | None, name: str) -> Iterator[optuna.Study]:
    """Yield the study of that name, new or as others have left it; meanwhile optuna does not report every trial."""
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    database = None
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=_FIRST_RUNG, reduction_factor=_FACTOR)
    try:
        try:
            database = None if url is None else _connect(url)
            study = optuna.create_study(
                storage=database, study_name=name, load_if_exists=True, direction="maximize", pruner=pruner
            )
        except (SQLAlchemyError, optuna.exceptions.OptunaError, ImportError, ValueError, RuntimeError) as error:
            reason = without_passwords(str(error).partition("\n")[0], [url or ""])
            raise InputError(
                f"the storage cannot be used ({reason}). Give the URL of a database that can be reached, such as "
                "sqlite:///tuning.db or postgresql+psycopg://user@host/database."
            ) from error
        yield study
    finally:
        if database is not None:
            database.remove_session()
            database.engine.dispose()
        optuna.logging.set_verbosity(before)


def _connect(url: str) -> optuna.storages.RDBStorage:
    import optuna
    from sqlalchemy.exc import DBAPIError

    # SQLite lets one worker write at a time, the others wait.
    wait = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
    for pause in (0.5, 2.0):
        try:
            return optuna.storages.RDBStorage(url, engine_kwargs=wait)
        except DBAPIError:  # perhaps another worker was making the tables at the same moment
            sleep(pause)
    return optuna.storages.RDBStorage(url, engine_kwargs=wait)
