"""One round after a fit: score a pool, choose a batch. Campaigns and experiments share it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from causalbald import acquisition as acq
from causalbald._covariate_names import fitted_names
from causalbald._money import spendable
from causalbald._random import generator
from causalbald._threads import CHUNK_UNITS, one_thread
from causalbald._typing import Array, Positions
from causalbald._validation import (
    check_choice,
    check_cost,
    check_inputs,
    check_positions,
    check_probability,
    check_treatment,
)
from causalbald.acquisition._registry import Batch
from causalbald.errors import InputError
from causalbald.models import CateEstimator
from causalbald.pools._scorer import Block, Scorer
from causalbald.selection._selection import check_relates_units, select, select_greedy

SHORTLIST = 4096
_FEW = 2048
_TARGETS = 1000


def score_pool(
    model: CateEstimator,
    X: Any,
    treatment: ArrayLike,
    acquisition: str | acq.Acquisition | acq.Score,
    *,
    propensity: ArrayLike | None = None,
    targets: acq.Targets | None = None,
    rng: np.random.Generator | None = None,
) -> Array:
    """Return the score of every unit of a pool, (N,), in chunks.

    Functions that ask for ``targets`` get those given, by default :func:`pool_targets`, beside each chunk.
    """
    function = acq.load(acquisition)
    x = check_inputs(X, images=model.accepts_images, names=fitted_names(model))
    arm = check_treatment(treatment, len(x))
    pi = None if propensity is None else check_probability(propensity, len(x))
    goal = _goal(function, targets, len(x))

    own = goal.own if goal is not None and isinstance(goal.own, np.ndarray) else None

    def take(rows: Positions | slice) -> Block:
        return Block(x[rows], arm[rows], None if pi is None else pi[rows], None if own is None else own[rows])

    score, scores = Scorer.of(model, function, goal, take), np.empty(len(x))
    everyone = goal is not None and len(goal.positions) == len(x)
    if not everyone:
        size = block_size(score)
        blocks = (take(slice(start, start + size)) for start in range(0, len(x), size))
        scores = np.concatenate(list(score.over(blocks, rng)))
    if goal is not None and (everyone or score.goal_apart):
        with one_thread():
            scores[goal.positions] = score.of_goal(rng)
    return scores


def block_size(score: Scorer) -> int:
    """Return how many units to score at a time: fewer, or more, where covariances with targets are needed.

    With a cross-belief they are an array as wide as there are targets. Without, each block needs the targets' belief
    anew.
    """
    if score.goal is None:
        return CHUNK_UNITS
    return max(1, CHUNK_UNITS // 2) if score.by_itself else 4 * CHUNK_UNITS


def pool_targets(units: int, *, weights: ArrayLike | None = None, threshold: float = 0.0) -> acq.Targets:
    """Return the pool itself as the population that matters: everyone, or of large pools a fixed sample of 1,000.

    ``weights`` (N,) say how much each unit matters, by default all the same; those of large pools are drawn by them,
    and a unit's own effect then counts as one of N, or with its weight, whether the unit was drawn or not.
    """
    rng = generator(0, "targets", units)
    if weights is None and units <= _FEW:
        return acq.Targets.of(np.arange(units), units, threshold=threshold)
    if weights is None:
        positions = np.sort(rng.choice(units, size=_TARGETS, replace=False))
        return acq.Targets.of(positions, units, threshold=threshold, own=1 / units)
    everyone = acq.Targets.of(np.arange(units), units, weights, threshold=threshold)
    if len(everyone.positions) <= _FEW:
        return everyone
    own = np.zeros(units)
    own[everyone.positions] = everyone.weights
    positions, counts = np.unique(rng.choice(units, size=_TARGETS, p=own), return_counts=True)
    return acq.Targets.of(positions, units, counts, threshold=threshold, own=own)


def _goal(function: acq.Acquisition, targets: acq.Targets | None, units: int) -> acq.Targets | None:
    """Return who matters, to functions that ask for it."""
    given = None if targets is None else acq.check_targets(targets, units)
    return None if function.pointwise else given or pool_targets(units)


def _with_targets(rows: Positions, goal: acq.Targets | None) -> tuple[Positions, acq.Targets | None]:
    """Return rows and after them those targets that are not among them, and the targets as positions in these."""
    if goal is None:
        return rows, None
    every = np.concatenate([rows, np.setdiff1d(goal.positions, rows)])
    order = np.argsort(every)
    here = order[np.searchsorted(every[order], goal.positions)]
    return every, among(goal, every, here)


def among(goal: acq.Targets, rows: Positions, positions: Positions) -> acq.Targets:
    """Return targets of a pool as those of some of its rows, in which they are at ``positions``."""
    own = goal.own[rows] if isinstance(goal.own, np.ndarray) else goal.own
    return replace(goal, positions=positions, own=own)


def choose(
    model: CateEstimator,
    X: Any,
    treatment: ArrayLike,
    acquisition: str | acq.Acquisition | acq.Score,
    size: int,
    *,
    available: ArrayLike,
    rng: np.random.Generator,
    batch: Batch | None = None,
    temperature: float | None = None,
    pending: ArrayLike = (),
    measured: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    targets: acq.Targets | None = None,
    cost: ArrayLike | None = None,
    budget: float | None = None,
    scores: ArrayLike | None = None,
    shortlist: int = SHORTLIST,
    picked: Callable[[int, int], None] | None = None,
) -> Positions:
    """Choose the next ``size`` units of a pool to measure, given a fitted model.

    Parameters
    ----------
    model : CateEstimator
        Fitted on what has been measured so far.
    X : (N, D) or (N, C, H, W), treatment : (N,)
        The whole pool.
    acquisition : str or callable
    size : int
    available : positions
        Units that may be chosen.
    rng : numpy.random.Generator
    batch : "softmax", "greedy" or "auto", optional
        Sample all at once by score, or one by one with conditioning after each pick; see :func:`batch_rule`. By
        default the acquisition function's own rule.
        Functions that choose batches by covariates have a rule of their own, without temperature or scores.
    temperature : float, optional
        Of the softmax; by default the acquisition function's own, and 0 for greedy.
    pending : positions
        Units chosen earlier whose outcome is still to come; greedy batches take them into account.
    measured : positions, optional
        For functions that choose batches by covariates, to which pending units are as good as measured; by default
        everyone who is not available.
    propensity, targets
        For acquisition functions that ask for them.
    cost : (N,), optional
        Of measuring each unit: importance is then per cost, except at random.
    budget : float, optional
        What the batch may cost (a unit costs 1 without ``cost``); the batch is smaller if it does not suffice.
    scores : (N,), optional
        What :func:`score_pool` returned for this model, if it is known already.
    shortlist : int
        Greedy batches are chosen among so many units, or ten times ``size`` if that is more, since conditioning needs
        covariances between units: half have the highest scores, half are drawn by softmax from the rest.
    picked : function, optional
        Called after each pick of a greedy batch with the number of units picked so far and of all.

    Returns
    -------
    positions (size,)
        In the order of choice.
    """
    function = acq.load(acquisition)
    x = check_inputs(X, images=model.accepts_images, names=fitted_names(model))
    arm = check_treatment(treatment, len(x))
    waiting = check_positions(pending, len(x), "pending")
    open_units = np.setdiff1d(check_positions(available, len(x), "available"), waiting)
    price = None if cost is None else check_cost(cost, len(x))
    others, paid = np.setdiff1d(np.arange(len(x)), open_units), payable(open_units, price, budget)
    size, open_units = (len(paid) if len(paid) < size <= len(open_units) else size), paid
    if function.batchwise:
        known = others if measured is None else np.union1d(check_positions(measured, len(x), "measured"), waiting)
        chosen = function.choose(x, arm, size, measured=known, available=open_units, rng=rng)
        return chosen[affordable(chosen, price, budget)]
    if size == 0:
        return np.empty(0, dtype=np.intp)

    def importance() -> Array:
        known = scores
        if known is None:
            known = score_pool(model, x, arm, function, propensity=propensity, targets=targets, rng=rng)
        return _offered(np.asarray(known), len(x), open_units, price if function.per_cost else None)

    if batch_rule(model, x, batch or function.batch) == "softmax":
        t = function.temperature if temperature is None else temperature
        return _drawn(importance(), size, t, price, budget, rng)
    looked_at = shortlisted(importance, open_units, max(shortlist, 10 * size), function.temperature, rng)
    rows, here = _with_targets(np.concatenate([looked_at, waiting]), _goal(function, targets, len(x)))
    with one_thread():  # sums of several threads would decide between twins
        chosen = select_greedy(
            model.posterior(x[rows]),
            arm[rows],
            function,
            size,
            pending=np.flatnonzero(np.isin(rows, waiting)),
            excluded=np.flatnonzero(~np.isin(rows, looked_at)),
            propensity=None if propensity is None else check_probability(propensity, len(x))[rows],
            targets=here,
            cost=None if price is None else price[rows],
            budget=budget,
            temperature=temperature or 0.0,
            rng=rng,
            picked=picked,
        )
    return rows[chosen]


def _drawn(
    scores: Array,
    size: int,
    temperature: float,
    price: Array | None,
    budget: float | None,
    rng: np.random.Generator,
) -> Positions:
    """Return units drawn by score; who cannot be paid any more is passed over."""
    if budget is None:
        return select(scores, size, temperature=temperature, rng=rng)
    everyone = select(scores, max(size, int(np.isfinite(scores).sum())), temperature=temperature, rng=rng)
    return everyone[affordable(everyone, price, budget)[:size]]


def _offered(scores: Array, units: int, available: Positions, price: Array | None) -> Array:
    """Return scores, per price if there is one, that are -inf for all who are not available."""
    if scores.shape != (units,):
        raise InputError(f"scores have shape {scores.shape} for {units} units: one for each, in order.")
    offered = np.full(units, -np.inf)
    offered[available] = scores[available] if price is None else (scores - np.log(price))[available]
    return offered


def batch_rule(model: CateEstimator, X: Any, wanted: str = "auto") -> Batch:
    """Return the rule that is wanted; for "auto" greedy, if a fitted model can say how units hang together, or softmax.

    Greedy batches from a model that cannot are refused.
    """
    if check_choice(wanted, "batch", ("softmax", "greedy", "auto")) == "softmax":
        return "softmax"
    belief = model.posterior(X[:1])
    if wanted == "greedy":
        check_relates_units(belief)
    return "greedy" if belief.relates_units else "softmax"


def shortlisted(
    importance: Callable[[], Array], available: Positions, limit: int, temperature: float, rng: np.random.Generator
) -> Positions:
    """Return sorted positions of ``limit`` units worth a closer look, or all that are available if they are no more.

    ``importance`` returns scores that are -inf for all others, asked for only if needed, and changed.
    """
    if len(available) <= limit:
        return available
    scores = importance()
    possible = np.flatnonzero(np.isfinite(scores))
    if len(possible) <= limit:
        return possible
    best = select(scores, limit // 2, temperature=0.0, rng=rng)
    scores[best] = -np.inf
    return np.sort(np.concatenate([best, select(scores, limit - len(best), temperature=temperature, rng=rng)]))


def payable(units: Positions, price: Array | None, budget: float | None) -> Positions:
    """Return those units of whom each alone can be paid."""
    cost = np.ones(len(units)) if price is None else price[units]
    return units[cost <= spendable(budget)]


def affordable(chosen: Positions, price: Array | None, budget: float | None) -> Positions:
    """Return which of the chosen can be paid, first come first served."""
    kept, left = [], spendable(budget)
    for k, unit in enumerate(chosen):
        cost = 1.0 if price is None else float(price[unit])
        if cost <= left:
            kept.append(k)
            left -= cost
    return np.asarray(kept, dtype=np.intp)
