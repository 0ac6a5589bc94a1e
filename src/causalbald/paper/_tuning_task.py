"""What a search for hyper-parameters tries, in the paper's two spaces, and how a candidate is scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import log_ndtr

from causalbald import models
from causalbald._typing import AnyArray, Array, Treatment
from causalbald._validation import check_int
from causalbald.datasets import Benchmark, Split
from causalbald.errors import InputError
from causalbald.experiments import default_settings, preset_of, warm_start_positions
from causalbald.models import DeepKernelGP, TarnetEnsemble, presets
from causalbald.posterior import Posterior

if TYPE_CHECKING:
    import optuna

_SHARED_SPACE: dict[str, tuple[Any, ...]] = {
    "hidden": (100, 200, 400),
    "depth": (2, 3, 4),
    "negative_slope": (0.0, 0.1, 0.2, -1.0),  # 0 is ReLU, -1 is ELU
    "dropout": (0.05, 0.1, 0.2, 0.5),
    "spectral_norm": (None, 0.95, 1.5, 3.0),
    "batch_size": (32, 64, 100, 200),
    "learning_rate": (2e-4, 5e-4, 1e-3),
}
# The tables of Causal-BALD (arXiv:2111.02275, appendix). They search ``nu`` if the kernel is Matérn; the model has one
# name for kernel and ``nu`` together.
SEARCH_SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    "due": {"kernel": ("rbf", "matern"), "nu": (0.5, 1.5, 2.5), "inducing": (20, 50, 100, 200), **_SHARED_SPACE},
    "ensemble": _SHARED_SPACE,
}
# Number of scores of the held-out labels after which trials are first compared. The next comparison is after
# RUNG_FACTOR times as many, and one in RUNG_FACTOR trials goes on.
FIRST_RUNG_EPOCHS, RUNG_FACTOR = 16, 4
# Labels to tune with, at most, on a data set that the paper does not have.
MAX_DEFAULT_LABELS = 300
# Gauss-Hermite quadrature for a standard normal variable; the weights sum to √(2π).
_QUADRATURE_POINTS, _QUADRATURE_WEIGHTS = np.polynomial.hermite_e.hermegauss(64)


def default_labels(benchmark: Benchmark) -> int:
    """Return how many labels to tune with by default.

    For a data set of the paper, this is the number half way along the paper's curve, at most the pool. Otherwise it is
    half of the pool, at most ``MAX_DEFAULT_LABELS``.
    """
    plan, n_pool = default_settings(benchmark.name), len(benchmark.pool)
    if plan is None:
        return min(MAX_DEFAULT_LABELS, n_pool // 2)
    return min(plan.warm_start + plan.batch_size * plan.steps // 2, n_pool)


def suggest(trial: optuna.trial.BaseTrial, space: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return the model's options for a trial of optuna, which draws a value of each name in ``space``.

    ``nu`` is drawn only for Matérn kernels. The drawn values are recorded in the trial.
    """
    values = {name: trial.suggest_categorical(name, choices) for name, choices in space.items() if name != "nu"}
    if values.get("kernel") == "matern":
        values["nu"] = trial.suggest_categorical("nu", space["nu"])
    return as_options(values)


def as_options(values: dict[str, Any]) -> dict[str, Any]:
    """Return values of the search space as options of the model: ``nu`` becomes the kernel's name.

    ``nu`` 1.5, for example, becomes ``kernel`` ``matern32``. Values without ``nu`` are returned as a copy.
    """
    options = dict(values)
    if "nu" in options:
        options["kernel"] = f"matern{round(2 * options.pop('nu'))}2"
    return options


def expected_log_likelihood(belief: Posterior, treatment: Treatment, y: Array) -> float:
    """Return how likely outcomes are under a belief: the mean over units of E log p(y | f).

    f is the unit's expected outcome under its arm, or its latent score if outcomes are binary.

    Parameters
    ----------
    belief : Posterior
        Belief about N units.
    treatment : (N,)
        Arm of each unit.
    y : (N,)
        Outcome of each unit.

    Returns
    -------
    float
        Nats per label; larger is better.

    Raises
    ------
    InputError
        If the belief about a continuous outcome has no noise.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.paper import expected_log_likelihood
    >>> from causalbald.testing import fake_posterior
    >>> belief = fake_posterior(3)
    >>> likely, unlikely = belief.mean[:, 1], belief.mean[:, 1] + 5
    >>> treatment = np.ones(3, dtype=int)
    >>> expected_log_likelihood(belief, treatment, likely) > expected_log_likelihood(belief, treatment, unlikely)
    True
    """
    # Not shared with the objectives of training: those are single precision torch, with fewer points of quadrature.
    units = np.arange(len(belief))
    mean = belief.mean[units, treatment]
    variance = np.maximum(belief.latent_covariance[units, treatment, treatment], 0.0)
    if belief.link == "probit":
        # E log Phi((2 y - 1) f) = Σ_j w_j log Phi((2 y - 1) (mean + √variance z_j)) / Σ_j w_j
        scores = mean[:, None] + np.sqrt(variance)[:, None] * _QUADRATURE_POINTS
        expectations = log_ndtr((2 * y - 1)[:, None] * scores) @ _QUADRATURE_WEIGHTS
        return float(expectations.mean() / _QUADRATURE_WEIGHTS.sum())
    noise = belief.noise[units, treatment]
    if (noise == 0).any():
        raise InputError("outcomes without noise have no likelihood: give a belief whose noise is positive.")
    # E log N(y; f, noise) = -½ (log 2π noise + ((y - mean)² + variance) / noise)
    return float(-0.5 * (np.log(2 * np.pi * noise) + ((y - mean) ** 2 + variance) / noise).mean())


@dataclass(frozen=True)
class TuningTask:
    """What all trials of a study share: model, fixed options, search space, labels, pool and validation labels."""

    model: str
    fixed: dict[str, Any]
    space: dict[str, tuple[Any, ...]]
    max_epochs: int
    labels: Split
    pool: AnyArray
    validation: Split

    @classmethod
    def of(cls, data: Benchmark, model: str, labels: int | None, seed: int, options: dict[str, Any]) -> TuningTask:
        """Return the task of tuning a model on a benchmark. Called by ``tune``.

        ``seed`` draws the labels, and is the model's ``random_state`` unless ``options`` has one. ``options`` are fixed
        and not searched. Options of the data set's preset that are not in the search space are fixed, too. ``labels``
        None means ``default_labels``.

        Raises InputError if the model has no search space or does not take an option, if an option is no number or
        text, or if ``labels`` is below 2 or above the size of the pool.
        """
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
        measured = data.pool.take(warm_start_positions(data.pool.t, size, seed))
        return cls(model, fixed, space, _load(model, fixed).max_epochs, measured, data.pool.x, data.validation)

    @property
    def settings(self) -> dict[str, Any]:
        """What the trials of a study must have in common: the model, the number of labels, and the fixed options."""
        return {"model": self.model, "labels": len(self.labels), "options": self.fixed}

    def limits(self) -> list[int]:
        """Return the numbers of epochs after which a trial is compared with other trials: 16, 64, and so on.

        The last number is ``max_epochs``, the end of the trial. All others are smaller.
        """
        rungs = (FIRST_RUNG_EPOCHS * RUNG_FACTOR**k for k in range(10))
        return [*(r for r in rungs if r < self.max_epochs), self.max_epochs]

    def fit(self, options: dict[str, Any], limit: int) -> tuple[float, bool]:
        """Train a new model for at most ``limit`` epochs; return its score, and whether its training has ended.

        Training has ended if all members stopped, so that a higher limit would change nothing. The score is the
        expected log-likelihood of the validation labels, which also decide when members stop. Errors of training are
        raised.
        """
        labels, validation = self.labels, self.validation
        model = _load(self.model, {**self.fixed, **options, "max_epochs": limit})
        stop_labels = (validation.y, validation.t, validation.x)
        model.fit(labels.y, labels.t, X=labels.x, pool=self.pool, validation=stop_labels)
        schedule = model._schedule
        has_ended = max(model.steps_) + schedule.patience * schedule.every <= schedule.max_steps
        belief = model.posterior(validation.x, joint=False)
        return expected_log_likelihood(belief, validation.t, validation.y), has_ended


def _load(model: str, options: dict[str, Any]) -> DeepKernelGP | TarnetEnsemble:
    """Return an unfitted model by its name in ``SEARCH_SPACES``, with these options."""
    return cast(DeepKernelGP | TarnetEnsemble, models.load(model, **options))
