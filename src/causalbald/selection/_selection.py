"""From scores to a batch: softmax sampling, top-k, or greedy with conditioning after each pick."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from causalbald import acquisition as acq
from causalbald._money import spendable
from causalbald._typing import Array, Positions
from causalbald._validation import check_cost, check_int, check_positions, check_treatment
from causalbald.errors import InputError
from causalbald.posterior import MIN_DRAWS, Posterior
from causalbald.selection._conditioning import conditioned

_CHUNK = 1 << 20


def select(scores: ArrayLike, size: int, *, temperature: float, rng: np.random.Generator) -> Positions:
    """Choose ``size`` distinct units and return their positions, in the order of choice.

    Parameters
    ----------
    scores : (N,)
        Log-importances. Units with -inf are never chosen.
    size : int
    temperature : float
        T > 0 draws without replacement with probability proportional to exp(score / T), as Gumbel
        top-k; T = 0 takes the largest scores, ties broken by ``rng``.
    rng : numpy.random.Generator
    """
    values = np.asarray(scores, dtype=np.float64)
    size = check_int(size, "size", low=0)
    if values.ndim != 1:
        raise InputError(f"scores have shape {values.shape}, but one number per unit (N,) is needed.")
    if np.isnan(values).any() or np.isposinf(values).any():
        raise InputError("scores contain NaN or +inf: use -inf for units that must not be chosen.")
    if not temperature >= 0 or np.isinf(temperature):
        raise InputError(f"temperature must be a finite number of at least 0, got {temperature!r}.")
    available = int(np.isfinite(values).sum())
    if size > available:
        raise InputError(f"{size} units asked for, but only {available} can be chosen: ask for fewer.")
    best, keys, noise = np.empty(0, dtype=np.intp), np.empty(0), np.empty(0)
    for start in range(0, len(values), _CHUNK):  # a part at a time, so that pools of many millions need little memory
        part = values[start : start + _CHUNK]
        candidates = np.flatnonzero(np.isfinite(part))
        drawn = rng.gumbel(size=len(candidates))  # with T = 0 it only breaks ties
        found = part[candidates] / temperature + drawn if temperature > 0 else part[candidates]
        best = np.concatenate([best, candidates + start])
        keys, noise = np.concatenate([keys, found]), np.concatenate([noise, drawn])
        kept = _largest(keys, noise, size)
        best, keys, noise = best[kept], keys[kept], noise[kept]
    return best


def _largest(keys: Array, ties: Array, size: int) -> Positions:
    """Return where the largest keys are, in order."""
    worth = np.flatnonzero(keys >= np.partition(keys, -size)[-size]) if 0 < size < len(keys) else np.arange(len(keys))
    return worth[np.lexsort((ties[worth], keys[worth]))[::-1][:size]]


def check_relates_units(posterior: Posterior) -> None:
    """Refuse a belief that cannot say how units hang together."""
    if not posterior.relates_units:
        raise InputError(
            f"greedy batches need covariances between units, and {posterior.n_draws} draws or members cannot give "
            f"them (at least {MIN_DRAWS}): use batch='softmax', or a Gaussian-process model."
        )


def select_greedy(
    posterior: Posterior,
    treatment: ArrayLike,
    acquisition: str | acq.Acquisition | acq.Score,
    size: int,
    *,
    pending: Iterable[int] = (),
    excluded: Iterable[int] = (),
    propensity: ArrayLike | None = None,
    targets: acq.Targets | None = None,
    cost: ArrayLike | None = None,
    budget: float | None = None,
    temperature: float = 0.0,
    rng: np.random.Generator | None = None,
    picked: Callable[[int, int], None] | None = None,
) -> Positions:
    """Choose ``size`` units one by one, each time conditioning on the pick before scoring again.

    Parameters
    ----------
    posterior : Posterior
        Joint belief about the N units; must carry covariance between units (a GP or at least 100 draws).
    treatment : (N,)
    acquisition : str or callable
    size : int
    pending : positions
        Units chosen earlier whose outcome is still to come: conditioned on first, never chosen.
    excluded : positions
        Units that must not be chosen, for example because they are measured already.
    propensity, targets
        As for :func:`causalbald.acquisition.score`.
    cost : (N,), optional
        Of measuring each unit: importance is then per cost, except at random.
    budget : float, optional
        Stop when no unit can be paid from what is left; with fewer than ``size`` units if need be.
    temperature : float
        0 takes the best unit at each pick; above 0, each pick is drawn by softmax.
    rng : numpy.random.Generator, optional
        Needed for a temperature above 0 and for stochastic scores; breaks ties.
    picked : function, optional
        Called after each pick with the number of units picked so far and of all.
    """
    arm = check_treatment(treatment, len(posterior))
    function = acq.load(acquisition)
    size = check_int(size, "size", low=0)
    waiting = check_positions(list(pending), len(posterior), "pending")
    closed = np.zeros(len(posterior), dtype=bool)
    closed[waiting] = True
    closed[check_positions(list(excluded), len(posterior), "excluded")] = True
    if size > (~closed).sum():
        raise InputError(f"{size} units asked for, but only {(~closed).sum()} can be chosen: ask for fewer.")
    check_relates_units(posterior)
    if temperature > 0 and rng is None:
        raise InputError("a temperature above 0 draws at random: pass rng=np.random.default_rng(seed).")
    ties = rng or np.random.default_rng(0)
    posterior.warn_if_mostly_local()
    state = conditioned(posterior, arm, function, targets)
    for position in waiting:
        state.measure(int(position))
    price = np.ones(len(posterior)) if cost is None else check_cost(cost, len(posterior))
    left = spendable(budget)
    chosen: list[int] = []
    while len(chosen) < size and not (closed := closed | (price > left)).all():
        scores = function(state.belief, arm, propensity=propensity, targets=state.targets, rng=rng)
        scores = np.where(closed, -np.inf, scores - np.log(price) if function.per_cost else scores)
        pick = int(select(scores, 1, temperature=temperature, rng=ties)[0])
        chosen.append(pick)
        closed[pick] = True
        left -= price[pick]
        if picked is not None:
            picked(len(chosen), size)
        if len(chosen) < size:
            state.measure(pick)
    return np.asarray(chosen, dtype=np.intp)
