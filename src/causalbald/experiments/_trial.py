"""One simulated study: measure a few units at random, then fit, compare with the true effects, and choose a batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from time import perf_counter
from typing import get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone

from causalbald import acquisition as acq
from causalbald import metrics
from causalbald._choices import BatchRule, Track
from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald._typing import Array, Positions, Treatment
from causalbald._validation import (
    check_both_arms,
    check_choice,
    check_cost,
    check_int,
    check_positions,
    check_probability,
)
from causalbald.datasets import Benchmark, Split
from causalbald.diagnostics import EQUAL_ARMS, is_outside
from causalbald.errors import InputError
from causalbald.experiments._state import TrialState
from causalbald.models import CateEstimator, PropensityModel, PropensityNetwork
from causalbald.models import load as load_model
from causalbald.pools import MemoryPool, batch_rule, choose_batch

LEAST_NUMBERS = {"warm_start": 2, "batch_size": 1, "steps": 0}
"""The smallest ``warm_start``, ``batch_size`` and ``steps`` that a trial may have."""


@one_thread()
def run_trial(
    benchmark: Benchmark,
    *,
    model: str | CateEstimator,
    acquisition: acq.AcquisitionLike,
    warm_start: int,
    batch_size: int,
    steps: int,
    temperature: float | None = None,
    batch: BatchRule | None = None,
    seed: int,
    track: Track = "paid",
    propensity: Array | None = None,
    cost: ArrayLike | None = None,
    state: TrialState | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Simulate one study on one thread, and return a table with a row for each of its ``steps`` + 1 fits.

    Parameters
    ----------
    benchmark : Benchmark
        The data, with known effects.
    model : str or CateEstimator
        A name, or an estimator. An estimator is cloned for each fit, and not changed.
    acquisition : str or callable
        Decides which units to measure next.
    warm_start : int
        How many units are measured at random at first. They depend on the seed alone, and have both arms.
    batch_size, steps : int
        How many units are chosen at a time, and how often.
    temperature, batch
        As for :func:`causalbald.pools.choose_batch`.
    seed : int
        Determines the warm start, the model's random numbers and the batches.
    track : "paid" or "paper"
        ``paper`` does as the original experiments did: the model gets the outcomes of the validation split for free,
        and the softmax temperature does not apply to the propensity. ``paid`` counts every outcome that the model gets.
    propensity : (N,), optional
        P(treated given x) of the pool. By default it is estimated, if the acquisition function needs it or the
        benchmark does not know the true one.
    cost : (N,), optional
        What measuring each unit costs. Units are then chosen by importance per cost. All labels together may cost as
        much as the planned number of average units: a batch gets what earlier batches left. Functions registered with
        ``per_cost=False``, such as random, choose ``batch_size`` units whatever they cost.
    state : TrialState, optional
        Where an earlier run of the same trial stopped. The state is changed in place: it gets a row and a batch after
        each fit, before ``progress`` is called. The trial continues after its last row, with the same result as an
        uninterrupted one. Batches after that row, except the next one, are dropped from the state.
    progress : callable, optional
        Called with (fits done, fits in all) after each fit.

    Returns
    -------
    DataFrame
        ``step, labels``; on the test split ``pehe, ate_error, policy_regret, coverage95``;
        ``width_inside, width_outside, overlap_share, treated_share``; ``seconds_fit, seconds_score``; and ``spent`` if
        units have costs.

        - ``policy_regret`` is the mean loss per unit if the units with a positive estimated effect are treated,
          relative to treating the units with a positive true effect.
        - ``coverage95`` is the share of test units whose 95 % interval contains the true effect.
        - ``overlap_share`` is the share of measured units whose propensity lies in [0.1, 0.9], whatever the share of
          treated units is. The propensity is the true one if the benchmark has it, otherwise an estimate.
        - ``width_inside`` and ``width_outside`` are mean widths of 95 % intervals for the effects of test units whose
          true propensity lies inside or outside [0.1, 0.9]; NaN if the benchmark does not know it.
        - ``attrs["acquired"]`` holds the pool positions measured before each fit, a list per row.

    Raises
    ------
    InputError
        If a number is too small, the pool is too small for the plan or lacks an arm, a name is unknown, or a cost is
        not above 0.

    Examples
    --------
    >>> from causalbald import datasets
    >>> from causalbald.experiments import run_trial
    >>> benchmark = datasets.load("synthetic", 0, pool=60, test=20)
    >>> options = {"warm_start": 8, "batch_size": 4, "steps": 1, "seed": 0}
    >>> run_trial(benchmark, model="gp", acquisition="random", **options)["labels"].tolist()
    [8, 12]
    """
    pool, function = benchmark.pool, acq.load(acquisition)
    _check_numbers(len(pool), warm_start=warm_start, batch_size=batch_size, steps=steps)
    check_choice(track, "track", get_args(Track))
    price = None if cost is None else check_cost(cost, len(pool))
    if propensity is None and needs_estimated_propensity(pool, function):
        propensity = fit_propensity(pool, seed)
    study = _Study(
        benchmark,
        template=load_model(model, random_state=seed) if isinstance(model, str) else model,
        function=function,
        planned_labels=[warm_start + batch_size * step for step in range(steps + 1)],
        temperature=temperature,
        batch=function.batch if batch is None else batch,
        seed=seed,
        track=track,
        propensity=propensity,
        cost=price,
    )
    state = TrialState() if state is None else state
    del state.acquired[len(state.rows) + 1 :]  # chosen after a fit whose row was not noted any more
    if not state.acquired:
        state.acquired.append(warm_start_positions(pool.t, warm_start, seed).tolist())
    for step in range(len(state.rows), steps + 1):
        measured = np.fromiter(chain.from_iterable(state.acquired), dtype=np.intp)
        started = perf_counter()
        fitted = study.fit(measured)
        fit_done = perf_counter()
        if step < steps:
            state.acquired.append(study.choose(fitted, measured, step).tolist())
        seconds = {"seconds_fit": fit_done - started, "seconds_score": perf_counter() - fit_done}
        state.rows.append({"step": step, **study.describe(fitted, measured), **seconds})
        if progress is not None:
            progress(step + 1, steps + 1)
    return state.table()


@dataclass(frozen=True, eq=False)
class _Study:
    """What stays the same from fit to fit of a trial: the arguments of :func:`run_trial`, checked and loaded."""

    benchmark: Benchmark
    template: CateEstimator
    function: acq.AcquisitionFunction
    planned_labels: list[int]  # before each fit
    temperature: float | None
    batch: BatchRule
    seed: int
    track: Track
    propensity: Array | None  # (N,), given or estimated
    cost: Array | None  # (N,)

    def fit(self, measured: Positions) -> CateEstimator:
        """Return a new model, fitted on the outcomes of the measured units, by :func:`refit`."""
        return refit(self.benchmark, self.template, measured, free_validation=self.track == "paper")

    def choose(self, model: CateEstimator, measured: Positions, step: int) -> Positions:
        """Return the units (size,) to measure after fit number ``step``, counted from 0; none if nothing can be paid.

        The same ``seed`` and ``step`` give the same draws.
        """
        pool, rule, temperature, propensity = self.benchmark.pool, self.batch, self.temperature, self.propensity
        available = np.setdiff1d(np.arange(len(pool)), measured)
        size, budget = self._limits(self.planned_labels[step + 1], measured, available)
        if self.track == "paper":  # the temperature decides how propensities are raised
            rule = batch_rule(model, MemoryPool(pool.x, pool.t), rule)
            if rule == "softmax" and temperature is None:
                temperature = self.function.temperature
            propensity = _untempered(propensity, pool.t, temperature)
        return choose_batch(
            model,
            MemoryPool(pool.x, pool.t, propensity=propensity, cost=self.cost),
            self.function,
            size,
            available=available,
            rng=generator(self.seed, "choose", step),
            batch=rule,
            temperature=temperature,
            budget=budget,
        )

    def _limits(self, planned: int, measured: Positions, available: Positions) -> tuple[int, float | None]:
        """Return the largest size of the next batch, and the budget for it; None if there is no budget.

        ``planned`` is the number of labels that the trial should have after the batch. With costs, all labels together
        may cost as much as ``planned`` average units. Without costs, and for functions with ``per_cost=False``, the
        batch fills up to ``planned`` labels. Called by ``choose``.
        """
        if self.cost is None or not self.function.per_cost:
            return planned - len(measured), None
        budget = planned * float(self.cost.mean()) - float(self.cost[measured].sum())
        cheapest = self.cost[available].min(initial=np.inf)
        return int(np.clip(budget / cheapest, 0, len(available))), budget

    def describe(self, model: CateEstimator, measured: Positions) -> dict[str, float]:
        """Return a row of :func:`run_trial`'s table, without the step and the seconds.

        The estimated effects are the middles of the model's 95 % intervals.
        """
        pool, test, truth = self.benchmark.pool, self.benchmark.test, self.benchmark.test.effect
        lower, upper = model.effect_interval(test.x, alpha=0.05)
        effect, width = (lower + upper) / 2, upper - lower
        propensity = self.propensity if pool.propensity is None else pool.propensity
        assert propensity is not None
        outside = None if test.propensity is None else is_outside(test.propensity, EQUAL_ARMS)
        spent = {} if self.cost is None else {"spent": float(self.cost[measured].sum())}
        return {
            "labels": len(measured),
            "pehe": metrics.sqrt_pehe(effect, truth),
            "ate_error": metrics.ate_error(effect, truth),
            "policy_regret": metrics.policy_regret(effect, truth),
            "coverage95": metrics.interval_coverage(lower, upper, truth),
            "width_inside": math.nan if outside is None else _mean(width[~outside]),
            "width_outside": math.nan if outside is None else _mean(width[outside]),
            "overlap_share": float((~is_outside(propensity[measured], EQUAL_ARMS)).mean()),
            "treated_share": float(pool.t[measured].mean()),
            **spent,
        }


@one_thread()
def refit(
    benchmark: Benchmark, template: CateEstimator, positions: ArrayLike, *, free_validation: bool = False
) -> CateEstimator:
    """Return a copy of a model, fitted as in a trial on the outcomes of some units of the pool.

    Parameters
    ----------
    benchmark : Benchmark
        The data.
    template : CateEstimator
        The model. It is cloned, and not changed.
    positions : (n,)
        Units of the pool that were measured.
    free_validation : bool
        Whether the model also gets the outcomes of the validation split, as on track ``paper``.

    Returns
    -------
    CateEstimator

    Raises
    ------
    InputError
        If a position is repeated or not in the pool, or the units do not have both arms.

    Examples
    --------
    >>> from causalbald import datasets
    >>> from causalbald.experiments import refit
    >>> from causalbald.models import GaussianProcess
    >>> benchmark = datasets.load("synthetic", 0, pool=60, test=20)
    >>> refit(benchmark, GaussianProcess(max_iter=3), range(30)).effect(benchmark.test.x).shape
    (20,)
    """
    labels = benchmark.pool.take(check_positions(positions, len(benchmark.pool), "positions"))
    split = benchmark.validation
    validation = (split.y, split.t, split.x) if free_validation else None
    model: CateEstimator = clone(template)
    return model.fit(labels.y, labels.t, X=labels.x, pool=benchmark.pool.x, validation=validation)


def needs_estimated_propensity(pool: Split, function: acq.AcquisitionFunction) -> bool:
    """Return whether a trial needs an estimate of the propensity, if its caller gives none.

    It needs one for an acquisition function that uses propensities, and for the ``overlap_share`` of a pool whose true
    propensity is unknown.
    """
    return pool.propensity is None or "propensity" in function.needs


@one_thread()
def fit_propensity(pool: Split, seed: int) -> Array:
    """Return estimated P(treated given x) of the pool, (N,). Each unit's comes from a model that has not seen its arm.

    Images get a :class:`PropensityNetwork`, tables a :class:`PropensityModel`; ``seed`` is its ``random_state``.
    """
    model = PropensityModel(random_state=seed) if pool.x.ndim == 2 else PropensityNetwork(random_state=seed)
    cross_fitted: Array = model.fit(pool.x, pool.t).cross_fitted_
    return cross_fitted


def warm_start_positions(treatment: Treatment, size: int, seed: int) -> Positions:
    """Return ``size`` random positions that include both arms.

    If chance leaves an arm out, the last position is replaced by the next random position of that arm.

    Parameters
    ----------
    treatment : (N,)
        The arm of each unit of the pool.
    size : int
        How many units, at least 2. It is not checked.
    seed : int
        The same seed gives the same units, whatever the acquisition function and the model are.

    Returns
    -------
    positions (size,)

    Raises
    ------
    InputError
        If the pool lacks an arm.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.experiments import warm_start_positions
    >>> 7 in warm_start_positions(np.arange(50) == 7, 4, seed=0)
    True
    """
    arms = np.asarray(treatment, dtype=np.intp)
    check_both_arms(arms, "units of the pool")
    order = generator(seed, "warm-start").permutation(len(arms))
    positions, remaining = order[:size].copy(), order[size:]
    for arm in (0, 1):
        if not (arms[positions] == arm).any():
            positions[-1] = remaining[arms[remaining] == arm][0]
    return positions


def _mean(values: Array) -> float:
    """Return the mean, or NaN if there are no values."""
    return float(values.mean()) if len(values) else math.nan


def _untempered(propensity: Array | None, treatment: Treatment, temperature: float | None) -> Array | None:
    """Return propensities raised to the temperature T, so that scores divided by T have the untempered ones.

    The score has the term log(1 - pi_t), with pi_t = P(arm t given x). Softmax divides the score by T.
    With (1 - pi_t)^T in place of 1 - pi_t, the exponent becomes T log(1 - pi_t) / T = log(1 - pi_t).
    Propensities are returned unchanged if there is no temperature, or if it is 0. Raises InputError for a propensity
    that is no probability. Called by ``_Study.choose``.
    """
    if propensity is None or not temperature:
        return propensity
    propensity = check_probability(propensity, len(treatment))
    other_arm = np.where(treatment == 1, 1 - propensity, propensity) ** temperature
    return np.where(treatment == 1, 1 - other_arm, other_arm)


def _check_numbers(pool_size: int, **numbers: int) -> None:
    """Raise InputError if a number is below ``LEAST_NUMBERS``, or the trial needs more units than the pool has.

    ``numbers`` are ``warm_start``, ``batch_size`` and ``steps``.
    """
    for name, value in numbers.items():
        check_int(value, name, low=LEAST_NUMBERS[name])
    warm_start, batch_size, steps = numbers["warm_start"], numbers["batch_size"], numbers["steps"]
    labels = warm_start + batch_size * steps
    if labels > pool_size:
        raise InputError(
            f"{warm_start} + {steps} x {batch_size} = {labels} labels asked for, but the pool has {pool_size} units: "
            "take fewer steps or smaller batches."
        )
