"""One simulated study: start from a few measured units, then choose, measure, refit, and note the error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from time import perf_counter
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone

from causalbald import acquisition as acq
from causalbald import metrics, models
from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald._typing import Array, Positions, Treatment
from causalbald._validation import check_both_arms, check_cost, check_int, check_probability
from causalbald.acquisition._registry import Batch
from causalbald.datasets import Benchmark, Split
from causalbald.diagnostics._support import EQUAL_ARMS, is_outside
from causalbald.errors import InputError
from causalbald.models import CateEstimator, PropensityModel, PropensityNetwork
from causalbald.pools import _choosing

Track = Literal["paid", "paper"]


@dataclass
class TrialState:
    """How far a trial has come: a row per fit, and the pool positions acquired before each fit and the next one."""

    rows: list[dict[str, float]] = field(default_factory=list)
    acquired: list[list[int]] = field(default_factory=list)

    def table(self) -> pd.DataFrame:
        """Return the rows; ``attrs["acquired"]`` holds the positions acquired before each fit."""
        table = pd.DataFrame(self.rows)
        table.attrs["acquired"] = self.acquired[: len(self.rows)]
        return table


@one_thread()
def run_trial(
    benchmark: Benchmark,
    *,
    model: str | CateEstimator,
    acquisition: str | acq.Acquisition | acq.Score,
    warm_start: int,
    batch_size: int,
    steps: int,
    temperature: float | None = None,
    batch: Batch | None = None,
    seed: int,
    track: Track = "paid",
    propensity: Array | None = None,
    cost: ArrayLike | None = None,
    state: TrialState | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Simulate one study, on one thread, and return a table with one row per fit (``steps`` + 1).

    Parameters
    ----------
    benchmark : Benchmark
    model : str or CateEstimator
        A name, or an estimator that is cloned for each fit.
    acquisition : str or callable
    warm_start : int
        Units measured at random before anything is chosen. For one seed they are the same for every
        acquisition function and model; both arms are present.
    batch_size, steps : int
        How many units are chosen at a time, and how often.
    temperature, batch
        As for :func:`causalbald.pools.choose`.
    seed : int
    track : "paid" or "paper"
        ``paper`` gives the model the validation split's outcomes for free and leaves the propensity term
        untempered, as the original experiments did; ``paid`` counts every outcome that is looked at.
    propensity : (N,), optional
        P(treated | x) of the pool, to be used instead of an estimate.
    cost : (N,), optional
        Of measuring each unit. A batch then has as many units as can be paid from what ``batch_size`` units cost on
        average, chosen by importance per cost; a random one has ``batch_size`` units, which on average cost as much.
    state : TrialState, optional
        Where an earlier run of the same trial stopped: it goes on there, with the result of an uninterrupted one.
        Kept up to date after each fit, before ``progress`` is called.
    progress : callable, optional
        Called with (fits done, fits in all).

    Returns
    -------
    DataFrame
        ``step, labels, pehe, ate_error, policy_regret, coverage95, width_inside, width_outside, overlap_share,
        treated_share, seconds_fit, seconds_score``. Errors and coverage are those of the test split; the regret is
        that of treating whoever has a positive estimate. ``overlap_share`` is the share of all
        measured units whose propensity (true where known, else estimated) lies in [0.1, 0.9], whatever the share
        treated is (campaigns allow for it). The widths are mean widths of 95 % intervals for the effect, of test units
        whose true propensity lies inside and outside [0.1, 0.9], where the benchmark knows it. With
        ``cost`` also ``spent``. ``attrs["acquired"]`` holds the pool positions acquired before each fit, a list per
        row.
    """
    pool = benchmark.pool
    function = acq.load(acquisition)
    _check_plan(len(pool), warm_start, batch_size, steps, track)
    price = None if cost is None else check_cost(cost, len(pool))
    template = models.load(model, random_state=seed) if isinstance(model, str) else model
    batch = function.batch if batch is None else batch
    if propensity is None and (pool.propensity is None or "propensity" in function.needs):
        propensity = fit_propensity(pool, seed)
    state = TrialState() if state is None else state
    acquired = state.acquired
    del acquired[len(state.rows) + 1 :]  # chosen by a fit that was cut off before its row was there
    if not acquired:
        acquired.append(warm_start_positions(pool.t, warm_start, seed).tolist())
    for step in range(len(state.rows), steps + 1):
        measured = np.fromiter(chain.from_iterable(acquired), dtype=np.intp)
        started = perf_counter()
        fitted = _fit(template, benchmark, measured, track)
        fit_done = perf_counter()
        if step < steps:
            available = np.setdiff1d(np.arange(len(pool)), measured)
            planned, prices = warm_start + batch_size * (step + 1), price if function.per_cost else None
            size, budget = _paid(planned, prices, measured, available)
            rule = _choosing.batch_rule(fitted, pool.x, batch)
            heat = function.temperature if rule == "softmax" and temperature is None else temperature
            chosen = _choosing.choose(
                fitted,
                pool.x,
                pool.t,
                function,
                size,
                available=available,
                rng=generator(seed, "choose", step),
                batch=rule,
                temperature=heat,
                propensity=_untempered(propensity, pool.t, heat) if track == "paper" else propensity,
                cost=price,
                budget=budget,
            )
            acquired.append(chosen.tolist())
        seconds = {"seconds_fit": fit_done - started, "seconds_score": perf_counter() - fit_done}
        spent = {} if price is None else {"spent": float(price[measured].sum())}
        state.rows.append({"step": step, **_describe(fitted, benchmark, measured, propensity), **spent, **seconds})
        if progress is not None:
            progress(step + 1, steps + 1)
    return state.table()


@one_thread()
def fit_propensity(pool: Split, seed: int) -> Array:
    """Return estimated P(treated | x) of the pool, (N,), each unit's from a model that has not seen its arm."""
    model = PropensityModel(random_state=seed) if pool.x.ndim == 2 else PropensityNetwork(random_state=seed)
    cross_fitted: Array = model.fit(pool.x, pool.t).cross_fitted_
    return cross_fitted


def warm_start_positions(treatment: Treatment, size: int, seed: int) -> Positions:
    """Return ``size`` random positions that depend on the seed alone; both arms are among them.

    Where chance leaves an arm out, the last position is replaced by the next one of that arm.
    """
    check_both_arms(treatment, "units of the pool")
    order = generator(seed, "warm-start").permutation(len(treatment))
    first = order[:size].copy()
    for arm in (0, 1):
        if not (treatment[first] == arm).any():
            first[-1] = order[size:][treatment[order[size:]] == arm][0]
    return first


def _paid(planned: int, cost: Array | None, measured: Positions, available: Positions) -> tuple[int, float | None]:
    """Return how many units the next batch may have at most, and what is left of the money for ``planned`` units."""
    if cost is None:
        return planned - len(measured), None
    left = planned * float(cost.mean()) - float(cost[measured].sum())
    return int(np.clip(left / cost[available].min(initial=np.inf), 0, len(available))), left


def _fit(template: CateEstimator, benchmark: Benchmark, measured: Positions, track: Track) -> CateEstimator:
    known, free = benchmark.pool.take(measured), benchmark.validation
    validation = (free.y, free.t, free.x) if track == "paper" else None
    model: CateEstimator = clone(template)
    return model.fit(known.y, known.t, X=known.x, pool=benchmark.pool.x, validation=validation)


def _describe(
    model: CateEstimator, benchmark: Benchmark, measured: Positions, estimated: Array | None
) -> dict[str, float]:
    pool, test, truth = benchmark.pool, benchmark.test, benchmark.test.effect
    lower, upper = model.effect_interval(test.x, alpha=0.05)
    effect = (lower + upper) / 2
    propensity = pool.propensity if pool.propensity is not None else estimated
    assert propensity is not None
    known = test.propensity
    inside = None if known is None else ~is_outside(known, EQUAL_ARMS)
    return {
        "labels": len(measured),
        "pehe": metrics.sqrt_pehe(effect, truth),
        "ate_error": metrics.ate_error(effect, truth),
        "policy_regret": metrics.policy_regret(effect, truth),
        "coverage95": metrics.interval_coverage(lower, upper, truth),
        "width_inside": float("nan") if inside is None else _mean((upper - lower)[inside]),
        "width_outside": float("nan") if inside is None else _mean((upper - lower)[~inside]),
        "overlap_share": float((~is_outside(propensity[measured], EQUAL_ARMS)).mean()),
        "treated_share": float(pool.t[measured].mean()),
    }


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _untempered(propensity: Array | None, treatment: Treatment, temperature: float | None) -> Array | None:
    """Return propensities whose log, divided by the temperature if there is one, is the log of the given ones."""
    if propensity is None or not temperature:
        return propensity
    propensity = check_probability(propensity, len(treatment))
    other = np.where(treatment == 1, 1 - propensity, propensity) ** temperature
    return np.where(treatment == 1, 1 - other, other)


def _check_plan(pool: int, warm_start: int, batch_size: int, steps: int, track: str) -> None:
    check_int(warm_start, "warm_start", low=2)
    check_int(batch_size, "batch_size", low=1)
    check_int(steps, "steps", low=0)
    if track not in ("paid", "paper"):
        raise InputError(f"track must be 'paid' or 'paper', got {track!r}.")
    needed = warm_start + batch_size * steps
    if needed > pool:
        raise InputError(
            f"{warm_start} + {steps} x {batch_size} = {needed} labels asked for, but the pool has {pool} units: "
            "take fewer steps or smaller batches."
        )
