"""From scores to a batch: softmax sampling, the largest scores, or greedy with conditioning after each pick."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from causalbald import acquisition as acq
from causalbald._money import Budget, costs_of
from causalbald._typing import Array, Positions
from causalbald._validation import check_cost, check_int, check_positions, check_treatment
from causalbald.errors import InputError
from causalbald.posterior import MIN_DRAWS, Posterior
from causalbald.selection._conditioning import sequential_belief

_BLOCK_UNITS = 1 << 20


def select(scores: ArrayLike, size: int, *, temperature: float, rng: np.random.Generator) -> Positions:
    """Return ``size`` distinct units, chosen by their scores.

    Parameters
    ----------
    scores : (N,)
        Log-importances. Units with -inf are never chosen.
    size : int
        How many units to choose.
    temperature : float
        T > 0 draws unit after unit without replacement, with probability proportional to exp(score / T), as Gumbel
        top-k. T = 0 takes the largest scores, and ``rng`` breaks ties.
    rng : numpy.random.Generator
        Source of randomness, used at every temperature.

    Returns
    -------
    positions (size,)
        In the order of choice.

    Raises
    ------
    InputError
        If scores are not (N,), a score is NaN or +inf, the temperature is negative or not finite, or fewer than
        ``size`` scores are finite.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.selection import select
    >>> select([0.5, 2.0, -np.inf, 1.0], 2, temperature=0, rng=np.random.default_rng(0)).tolist()
    [1, 3]
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
    for start in range(0, len(values), _BLOCK_UNITS):  # in blocks, so that pools of many millions need little memory
        block = values[start : start + _BLOCK_UNITS]
        candidates = np.flatnonzero(np.isfinite(block))
        # Gumbel top-k: the largest of score / T + g, with standard Gumbel g, are a draw without replacement.
        gumbel = rng.gumbel(size=len(candidates))  # with T = 0 it only breaks ties
        block_keys = block[candidates] / temperature + gumbel if temperature > 0 else block[candidates]
        best = np.concatenate([best, candidates + start])
        keys, noise = np.concatenate([keys, block_keys]), np.concatenate([noise, gumbel])
        largest = _largest(keys, noise, size)
        best, keys, noise = best[largest], keys[largest], noise[largest]
    return best


def _largest(keys: Array, ties: Array, size: int) -> Positions:
    """Return the positions of the ``size`` largest keys (n,), the largest first; all positions if n is smaller.

    Equal keys are in the order of ``ties`` (n,), the largest first.
    """
    is_partial = 0 < size < len(keys)
    candidates = np.flatnonzero(keys >= np.partition(keys, -size)[-size]) if is_partial else np.arange(len(keys))
    return candidates[np.lexsort((ties[candidates], keys[candidates]))[::-1][:size]]


def check_relates_units(posterior: Posterior) -> None:
    """Raise InputError if a belief comes from so few draws that its covariances between units mean nothing.

    Fewer than 100 draws, or members of an ensemble, are too few. A belief in closed form is never refused.

    Parameters
    ----------
    posterior : Posterior
        The belief.

    Examples
    --------
    >>> from causalbald.selection import check_relates_units
    >>> from causalbald.testing import fake_posterior
    >>> check_relates_units(fake_posterior(3))
    """
    if not posterior.relates_units:
        raise InputError(
            f"greedy batches need covariances between units, and {posterior.n_draws} draws or members cannot give "
            f"them (at least {MIN_DRAWS}): use batch='softmax', or a Gaussian-process model."
        )


def select_greedy(
    posterior: Posterior,
    treatment: ArrayLike,
    acquisition: acq.AcquisitionLike,
    size: int,
    *,
    pending: Iterable[int] = (),
    excluded: Iterable[int] = (),
    propensity: ArrayLike | None = None,
    population: acq.TargetPopulation | None = None,
    cost: ArrayLike | None = None,
    budget: float | None = None,
    temperature: float = 0.0,
    rng: np.random.Generator | None = None,
    picked: Callable[[int, int], None] | None = None,
) -> Positions:
    """Return ``size`` units chosen one by one: after each pick, the belief is conditioned and all are scored again.

    Warns if most of the variance is treated as independent across units. ``posterior`` is not changed.

    Parameters
    ----------
    posterior : Posterior
        Joint belief about the N units; must carry covariance between units (a GP or at least 100 draws).
    treatment : (N,)
        The arm of each unit.
    acquisition : str or callable
        A score function.
    size : int
        How many units to choose.
    pending : positions
        Units chosen earlier whose outcomes are still to come. The belief is conditioned on these outcomes first, and
        the units are not chosen.
    excluded : positions
        Units that must not be chosen, for example because they are measured already.
    propensity : (N,), optional
        As for :func:`causalbald.acquisition.score`.
    population : TargetPopulation, optional
        As for :func:`causalbald.acquisition.score`.
    cost : (N,), optional
        What measuring each unit costs; by default each costs 1. Importance is divided by cost, unless the function was
        registered with ``per_cost=False``.
    budget : float, optional
        What all units of the batch together may cost; no limit by default. A unit that costs more than what is left is
        passed over. If no unit can be paid, the batch ends with fewer than ``size`` units.
    temperature : float
        0 takes the best unit at each pick; above 0, each pick is drawn by softmax.
    rng : numpy.random.Generator, optional
        Needed for a temperature above 0 and for stochastic scores; breaks ties.
    picked : function, optional
        Called after each pick with the number of units picked so far and with ``size``.

    Returns
    -------
    positions
        In the order of choice; ``size`` of them unless the budget ends before.

    Raises
    ------
    InputError
        If fewer than ``size`` units can be chosen, the belief comes from few draws, ``rng`` is missing, or the
        acquisition function is a batch function.

    Examples
    --------
    >>> from causalbald.selection import select_greedy
    >>> from causalbald.testing import fake_posterior
    >>> len(select_greedy(fake_posterior(6), [0, 1, 0, 1, 0, 1], "mu-bald", 3, excluded=[0]))
    3
    """
    arm = check_treatment(treatment, len(posterior))
    function = acq.load_score_function(acquisition)
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
    state = sequential_belief(posterior, arm, function, population)
    for position in waiting:
        state.measure(int(position))
    price = costs_of(np.arange(len(posterior)), None if cost is None else check_cost(cost, len(posterior)))
    left = Budget(budget).spendable
    chosen: list[int] = []
    while len(chosen) < size and not (closed := closed | (price > left)).all():
        scores = function(
            state.belief, arm, propensity=propensity, population=population, targets=state.targets, rng=rng
        )
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
