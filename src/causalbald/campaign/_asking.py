"""Whom to measure next, and why: the first batch, chosen batches, and random audits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from causalbald._money import Budget
from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald._typing import Positions
from causalbald._validation import check_int, check_number
from causalbald._words import amount
from causalbald.campaign._choices import Candidates, Choice
from causalbald.campaign._effects import Effects
from causalbald.campaign._events import Pick
from causalbald.campaign._first_batch import spread_batch
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._state import State
from causalbald.errors import InputError

if TYPE_CHECKING:
    from causalbald.campaign._belief import Belief

DEFAULT_BATCH_SIZE = 10
_AUDIT_ROUNDING = 1e-9
"""An audit share times a number of units may fall short of a whole number by this much."""


def limits(
    state: State, pool: CampaignPool, settings: CampaignSettings, n: int | None, budget: float | None
) -> tuple[int, Budget]:
    """Return how many units the next batch may have, and how much money it may cost. Called by ``Campaign.ask``.

    If ``n`` is None, the size is what ``budget`` and the campaign's own budget pay for. Without ``budget`` it is
    ``DEFAULT_BATCH_SIZE``, or all units if fewer are left. The money is the smaller of ``budget`` and what is left of
    the campaign's budget. Without either there is no limit.

    Raises InputError if ``n`` is below 1, ``budget`` is not above 0, the campaign's budget is spent, or nobody or fewer
    than ``n`` units are left.
    """
    size = check_int(DEFAULT_BATCH_SIZE if n is None else n, "n", low=1)
    asked_budget = Budget(None if budget is None else check_number(budget, "budget", above=0.0))
    left = settings.whole_budget.after(state.spent)
    if left.limit is not None and left.limit <= 0:
        raise InputError(f"the budget of {amount(settings.budget or 0.0)} is spent: nobody else can be asked for.")
    open_units = pool.without(state.closed)
    if not len(open_units):
        raise InputError("everyone has been measured, asked for or withdrawn: nobody is left to ask for.")
    money = left.within(asked_budget)
    if n is None:
        size = min(len(open_units), size if budget is None else money.most_units(pool.costs(open_units)))
    if size > len(open_units):
        raise InputError(f"{size} units asked for, but only {len(open_units)} can be measured: ask for fewer.")
    return size, money


@one_thread()
def choose_picks(
    state: State,
    pool: CampaignPool,
    settings: CampaignSettings,
    size: int,
    budget: Budget,
    belief: Belief | None,
) -> tuple[Pick, ...]:
    """Return the next batch, of at most ``size`` units. Nothing is recorded.

    The same state and seed give the same batch. Audits are drawn first. Then the acquisition function chooses units. If
    ``belief`` is None, units are spread over the covariates instead. Units whose measurement has failed before are
    chosen only if there are too few others. If ``budget`` does not pay for ``size`` units, the batch is smaller and may
    be empty. Called by ``Campaign.ask`` and by ``advise``.
    """
    rng = generator(settings.seed, "ask", len(state.rounds) + 1)
    pending, measured = (np.sort(pool.units.positions(ids)) for ids in (state.pending, state.outcomes))
    groups = _groups_in_turn(state, pool, size, budget)
    choices = [_audits(state, pool, settings, np.sort(np.concatenate(groups)), size, budget, rng)]
    for group in groups:
        chosen = np.concatenate([choice.units for choice in choices])
        left = budget.after(float(pool.costs(chosen).sum()))
        payable = np.setdiff1d(group, chosen)
        payable = payable[left.pays_each(pool.costs(payable))]
        part_size = min(size - len(chosen), len(payable))
        candidates = Candidates(payable, part_size, np.concatenate([pending, chosen]), measured, left, rng)
        if part_size:
            choice = (
                spread_batch(pool, settings, candidates) if belief is None else _chosen_by_model(belief, candidates)
            )
            choices.append(choice)
    return _picks(pool, settings, choices, belief)


def _groups_in_turn(state: State, pool: CampaignPool, size: int, budget: Budget) -> tuple[Positions, Positions]:
    """Return the positions to choose from first, and the positions to choose from if the first do not suffice.

    The first are the open units that never failed. The second are the open units that failed before. The second are
    empty if ``budget`` pays for at least ``size`` of the first, each alone.
    """
    available = pool.without(state.closed)
    never_failed = np.setdiff1d(available, pool.units.positions(state.failed))
    is_enough = size <= budget.pays_each(pool.costs(never_failed)).sum()
    return never_failed, never_failed[:0] if is_enough else np.setdiff1d(available, never_failed)


def _audits(
    state: State,
    pool: CampaignPool,
    settings: CampaignSettings,
    available: Positions,
    size: int,
    budget: Budget,
    rng: np.random.Generator,
) -> Choice:
    """Return the audits of a batch of ``size`` units, drawn at random from ``available``. Called by ``choose_picks``.

    The number of audits is the audit share of all units asked for, this batch included, minus earlier audits, rounded
    down. Without an audit share there are none. Drawn units are taken until ``budget`` does not pay for the next unit.
    If a drawn unit was not taken, the probability is None, because expensive units are then taken less often.
    """
    if not settings.audit:
        return Choice("audit", available[:0], [])
    costs = pool.costs(available)
    size = min(size, budget.most_units(costs))
    count = max(0, min(size, int(settings.audit * (state.asked + size) + _AUDIT_ROUNDING) - state.audits))
    drawn = rng.choice(len(available), size=count, replace=False)
    paid = drawn[: budget.pays_until(costs[drawn])]
    words = f"drawn at random as an audit: {len(paid)} of {len(available)} people"
    probability = count / len(available) if len(paid) == count else None
    return Choice("audit", available[paid], [words] * len(paid), probability=probability)


def _chosen_by_model(belief: Belief, candidates: Candidates) -> Choice:
    """Return the units that the campaign's acquisition function chooses among ``candidates``.

    A batch function chooses from covariates, and its units have no scores. A score function chooses by scores:
    greedily, with the belief conditioned on each pick, or by softmax if the model cannot say how units covary. The
    scores returned are those before the batch.
    """
    from causalbald import acquisition  # heavy, as pools is: a first batch needs neither
    from causalbald.pools import choose_batch

    pool, function = belief.pool, acquisition.load(belief.settings.acquisition)
    scores = None if isinstance(function, acquisition.BatchFunction) else belief.scores(candidates.rng)
    chosen = choose_batch(
        belief.model,
        pool,
        function,
        candidates.size,
        available=candidates.units,
        rng=candidates.rng,
        batch="auto",
        pending=candidates.waiting,
        measured=candidates.measured,
        population=belief.population,
        budget=candidates.budget.limit,
        scores=scores,
    )
    if scores is None:
        return Choice("covariates", chosen, [f"chosen by {function.name}: {function.summary}"] * len(chosen))
    beaten = np.searchsorted(np.sort(scores[candidates.units]), scores[chosen]) / len(candidates.units)
    reasons = [f"before this batch, score above {share:.0%} of those left" for share in beaten]
    return Choice("score", chosen, reasons, scores=scores[chosen])


def _picks(
    pool: CampaignPool, settings: CampaignSettings, choices: Sequence[Choice], belief: Belief | None
) -> tuple[Pick, ...]:
    """Return the chosen units as picks, ranked in the order of ``choices``.

    Picks have an expected effect and its interval if there is a belief. The reason of a unit chosen by score begins
    with what is uncertain about the unit.
    """
    units = np.concatenate([choice.units for choice in choices])
    effects = belief.effects(pool.x[units]) if belief is not None and len(units) else None
    ids, outside, costs = pool.units.at(units), pool.outside_support(units), pool.costs(units)
    picks: list[Pick] = []
    for choice in choices:
        for k, reason in enumerate(choice.reasons):
            row = len(picks)
            unit = units[row]
            if effects is not None and choice.scores is not None:
                reason = f"{_doubts(pool, settings, effects, row, unit)}; {reason}"
            picks.append(
                Pick(
                    id=ids[row],
                    by=choice.by,
                    arm=int(pool.arm[unit]),
                    why=reason,
                    propensity=float(pool.propensity[unit]),
                    outside_support=bool(outside[row]),
                    cost=None if pool.cost is None else float(costs[row]),
                    probability=choice.probability,
                    score=None if choice.scores is None else float(choice.scores[k]),
                    effect=None if effects is None else float(effects.mean[row]),
                    lower=None if effects is None else float(effects.lower[row]),
                    upper=None if effects is None else float(effects.upper[row]),
                    rank=row + 1,
                )
            )
    return tuple(picks)


def _doubts(pool: CampaignPool, settings: CampaignSettings, effects: Effects, row: int, unit: int) -> str:
    """Return in words how uncertain a unit's outcome and effect are, and how rare the other arm is among its like.

    ``unit`` is the unit's position in the pool, and ``row`` its row in ``effects``.
    """
    arm = pool.arm[unit]
    other_arm = 1 - pool.propensity[unit] if arm == 1 else pool.propensity[unit]
    return (
        f"outcome under {settings.arm_names[arm]} uncertain by ±{effects.outcome_sd[row, arm]:.2g} and effect by "
        f"±{effects.sd[row]:.2g}; {other_arm:.0%} of people like this got the other arm"
    )
