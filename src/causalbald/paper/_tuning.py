"""Search for hyper-parameters of the deep models in the paper's two spaces; many workers can share one study."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald._validation import check_int
from causalbald.datasets import Benchmark
from causalbald.errors import InputError, TrainingError
from causalbald.paper._tuning_studies import check_settings, finished_trials, open_study
from causalbald.paper._tuning_task import TuningTask, as_options, suggest

if TYPE_CHECKING:
    import optuna

# TOML has no null. A limit on the gain that no layer reaches is the same as no limit.
_NO_LIMIT = 1e9


@dataclass(frozen=True)
class TuningResult:
    """The best trial of a study, and how many trials ended in which way.

    Parameters
    ----------
    study : str
        Name of the study.
    model : str
        "due" or "ensemble".
    labels : int
        Number of labels that the model was trained on.
    score : float
        Expected log-likelihood of the validation labels, in nats per label.
    options : dict
        The model's options in the best trial, fixed ones included. ``spectral_norm`` must be among them.
    complete, pruned, failed : int
        Number of trials that were trained to their end, stopped early, or could not be trained.

    Examples
    --------
    >>> from causalbald.paper import TuningResult
    >>> options = {"hidden": 100, "spectral_norm": None}
    >>> result = TuningResult("mine", "due", 40, -1.2, options, complete=3, pruned=0, failed=0)
    >>> print(result.toml())
    [model_options.due]
    hidden = 100
    spectral_norm = 1000000000.0
    """

    study: str
    model: str
    labels: int
    score: float
    options: dict[str, Any]
    complete: int
    pruned: int
    failed: int

    def toml(self) -> str:
        """Return the options as a table for the TOML file of an experiment.

        Returns
        -------
        str
            The table ``[model_options.<model>]``. The spectral norm None is written as a number that no layer reaches,
            since TOML has no null.

        Examples
        --------
        See the class.
        """
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
    """Return the options of a model under which validation labels are most likely; the search runs on one thread.

    Candidates come from a tree-structured Parzen estimator. Asynchronous successive halving stops poor candidates
    early. As in the paper, the validation labels decide both when a training ends and which candidate is best. A trial
    that cannot be trained is recorded as failed. A search that is started again runs only the missing trials.

    Parameters
    ----------
    benchmark : Benchmark
        Its pool has the labels, and its validation split the validation labels.
    model : str
        "due" or "ensemble".
    labels : int, optional
        Number of random units of the pool to train on. By default the number half way along the paper's curve, or, for
        a data set that the paper does not have, half of the pool but at most 300.
    trials : int
        Number of trials that the study has in the end, including those of other workers and of earlier calls.
    seed : int
        Seed of the candidates. A candidate also depends on the results that are recorded when it is drawn.
    data_seed : int
        Seed of the labels and of the networks' weights.
    options : dict, optional
        Options of the model that are fixed instead of searched: numbers or text.
    storage : str, optional
        URL of a database, ``sqlite:///tuning.db`` or ``postgresql+psycopg://...``, which records the study and lets
        workers share it. By default the study is not recorded.
    study_name : str, optional
        By default composed of model, data set, number of labels and ``data_seed``.
    progress : callable, optional
        Called with (trials done, trials in all) before each trial and at the end.

    Returns
    -------
    TuningResult
        The best trial.

    Raises
    ------
    InputError
        If an argument makes no sense, optuna is not installed, the database cannot be used, or the study was made
        with other settings.
    TrainingError
        If no trial was trained to its end.

    Examples
    --------
    >>> from causalbald import datasets
    >>> from causalbald.paper import tune
    >>> benchmark = datasets.load("synthetic", 0, pool=60, validation=20, test=10)
    >>> quick = {"hidden": 8, "depth": 1, "max_epochs": 1, "epoch_steps": 1}
    >>> result = tune(benchmark, model="ensemble", labels=20, trials=1, options=quick)
    >>> result.study, result.complete, result.options["hidden"]
    ('ensemble-synthetic-20-1331', 1, 8)
    """
    _check_installed()
    task = TuningTask.of(benchmark, model, labels, check_int(data_seed, "data_seed", low=0), options or {})
    check_int(trials, "trials", low=1)
    check_int(seed, "seed", low=0)
    name = study_name or f"{model}-{benchmark.name}-{len(task.labels)}-{data_seed}"
    with open_study(storage, name) as study:
        data_settings = {"dataset": benchmark.name, "units": len(task.pool), "data_seed": data_seed}
        check_settings(study, {**data_settings, **task.settings})
        while True:
            done = len(finished_trials(study))
            if progress is not None:
                progress(min(done, trials), trials)
            if done >= trials:
                return _best_trial(study, task)
            _run_trial(study, task, seed)


def _run_trial(study: optuna.Study, task: TuningTask, seed: int) -> None:
    """Run one trial and record in the study how it ended: complete, pruned (stopped early) or failed.

    The options to try depend on ``seed``, on the trial's number and on the results in the study. They do not depend on
    the worker or on a restart. Errors of training are recorded, not raised; others leave the trial unfinished.
    """
    import optuna  # an optional dependency

    trial = study.ask()
    sampler_seed = int(generator(seed, "tune", trial.number).integers(2**32))
    study.sampler = optuna.samplers.TPESampler(seed=sampler_seed, multivariate=False)
    options = suggest(trial, task.space)
    score = 0.0
    try:
        for limit in task.limits():
            score, has_ended = task.fit(options, limit)
            trial.report(score, limit)
            is_behind = trial.should_prune()  # also records the score for later trials
            if has_ended:
                break
            if is_behind and limit < task.max_epochs:
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                return
    except RuntimeError as error:  # a TrainingError, or torch's errors of linear algebra and of memory
        trial.set_user_attr("error", str(error))
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return
    study.tell(trial, score)


def _best_trial(study: optuna.Study, task: TuningTask) -> TuningResult:
    """Return the best complete trial of a study; TrainingError with the first recorded reason if there is none."""
    from optuna.trial import TrialState  # an optional dependency

    trials = finished_trials(study)
    states = [t.state for t in trials]
    counts = [states.count(state) for state in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)]
    if not counts[0]:
        reason = next((t.user_attrs["error"] for t in trials if "error" in t.user_attrs), "no error recorded")
        raise TrainingError(
            f"no trial of study {study.study_name!r} was trained to its end ({reason.removesuffix('.')}): "
            "fix other options, or none."
        )
    best = study.best_trial
    fixed = {k: v for k, v in task.fixed.items() if k != "random_state"}
    options = {**fixed, **as_options(best.params)}
    return TuningResult(study.study_name, task.model, len(task.labels), study.best_value, options, *counts)


def _check_installed() -> None:
    """Raise InputError unless optuna, an optional dependency, is installed."""
    if find_spec("optuna") is None:
        raise InputError('tuning needs optuna, which is not installed: pip install "causalbald[tune]".')
