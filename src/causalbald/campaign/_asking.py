"""Whom to measure next, and why: the first batch, chosen batches, and random audits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from causalbald import acquisition
from causalbald._money import spendable
from causalbald._random import generator
from causalbald._scaling import column_scale
from causalbald._threads import one_thread
from causalbald._typing import Array, Positions
from causalbald._validation import check_int, check_number
from causalbald._words import amount
from causalbald.campaign._belief import Belief, lacking_arm
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._state import State
from causalbald.diagnostics._support import is_outside
from causalbald.errors import InputError
from causalbald.pools import _choosing

_ENOUGH_TO_CLUSTER = 20_000


@dataclass(frozen=True)
class Proposal:
    """A batch before it is recorded: an entry per unit, and what was believed when it was chosen."""

    units: list[dict[str, Any]]
    belief: dict[str, Any] | None


@dataclass(frozen=True)
class _Offer:
    """Who may be chosen beside the audits, how many, and what for."""

    available: Positions
    size: int
    waiting: Positions
    measured: Positions
    budget: float | None
    rng: np.random.Generator


def limits(
    state: State, pool: CampaignPool, settings: CampaignSettings, n: int | None, budget: float | None
) -> tuple[int, float | None]:
    """Return how many units and how much money a batch may take: by default 10, or as many as ``budget`` pays."""
    size = check_int(10 if n is None else n, "n", low=1)
    money = [] if budget is None else [check_number(budget, "budget", above=0.0)]
    left = settings.left(state.spent)
    if left is not None:
        if left <= 0:
            raise InputError(f"the budget of {amount(settings.budget or 0.0)} is spent: nobody else can be asked for.")
        money.append(left)
    open_units = len(pool) - len(state.closed)
    if not open_units:
        raise InputError("everyone has been measured, asked for or withdrawn: nobody is left to ask for.")
    if n is None:
        size = min(size if budget is None else _payable(state, pool, min(money)), open_units)
    return size, min(money) if money else None


def _payable(state: State, pool: CampaignPool, budget: float) -> int:
    """Return how many units a budget pays at most, the cheapest first."""
    if pool.cost is None:
        return int(spendable(budget))
    prices = np.sort(np.delete(pool.cost, pool.units.positions(state.closed)))
    return int(np.searchsorted(np.cumsum(prices), spendable(budget), side="right"))


def propose(
    state: State,
    pool: CampaignPool,
    settings: CampaignSettings,
    size: int,
    budget: float | None,
    belief: Callable[[], Belief],
) -> Proposal:
    """Choose the next batch from the state of a campaign; the same state and seed give the same batch."""
    first, again = _available(state, pool, size, budget)
    available = np.sort(np.concatenate([first, again]))
    rng = generator(settings.seed, "ask", len(state.rounds) + 1)
    pending, measured = (np.sort(pool.units.positions(units)) for units in (state.pending, state.outcomes))
    with one_thread():
        audits, probability = _audits(state, settings, available, size, pool.cost, budget, rng)
        left = None if budget is None else budget - _price(pool, audits)
        entries = _audit_entries(pool, audits, len(available), probability)
        current = belief() if lacking_arm(state, pool) is None else None
        for group in (first, again):
            known = pool.units.positions([entry["id"] for entry in entries])
            rest = _choosing.payable(np.setdiff1d(group, known), pool.cost, left)
            waiting = np.concatenate([pending, known])
            offer = _Offer(rest, min(size - len(entries), len(rest)), waiting, measured, left, rng)
            if offer.size:
                chosen = _informed_batch(current, offer) if current else _first_batch(pool, settings, offer)
                left = None if left is None else left - sum(entry.get("cost", 1.0) for entry in chosen)
                entries = entries + chosen
        if current is None:
            return Proposal(_ranked(entries), None)
        return Proposal(_ranked(_with_effects(entries, current)), current.summary())


def _available(state: State, pool: CampaignPool, size: int, budget: float | None) -> tuple[Positions, Positions]:
    """Return who can be asked for, and those whose measurement has failed before if the others do not suffice."""
    available = np.setdiff1d(np.arange(len(pool)), pool.units.positions(state.closed))
    if size > len(available):
        raise InputError(f"{size} units asked for, but only {len(available)} can be measured: ask for fewer.")
    others = np.setdiff1d(available, pool.units.positions(state.failed))
    enough = size <= len(_choosing.payable(others, pool.cost, budget))
    return others, others[:0] if enough else np.setdiff1d(available, others)


def _first_batch(pool: CampaignPool, settings: CampaignSettings, offer: _Offer) -> list[dict[str, Any]]:
    """Return units that stand for their arm: balanced over arms, spread over covariates, before a model can say more.

    Each arm's units are clustered, with a cluster for each unit to be chosen and each measured or asked for; of the
    clusters to which none of the latter belongs, the unit nearest to the centre is taken.
    """
    known = np.concatenate([offer.waiting, offer.measured])
    quota = _quota(pool.arm[known], pool.arm[offer.available], offer.size)
    z = (pool.x - pool.x.mean(axis=0)) / column_scale(pool.x)
    chosen, why = [], []
    for arm, count in enumerate(quota):
        own, taken = (units[pool.arm[units] == arm] for units in (offer.available, known))
        picked, sizes = _medoids(z, own, taken, count, offer.rng)
        chosen += picked
        name = settings.arm_names[arm]
        why += [f"before a model can say more: stands for {n} people like this under {name}" for n in sizes]
    order = np.asarray(_alternating(quota), dtype=np.intp)
    positions = np.asarray(chosen, dtype=np.intp)
    order = order[_choosing.affordable(positions[order], pool.cost, offer.budget)]
    return _entries(pool, positions[order], "spread", [why[k] for k in order])


def _informed_batch(belief: Belief, offer: _Offer) -> list[dict[str, Any]]:
    """Return units chosen by the campaign's acquisition function, each after conditioning on those before it."""
    pool, function = belief.pool, acquisition.load(belief.settings.acquisition)
    scores = None if function.batchwise else belief.scores(offer.rng)
    chosen = _choosing.choose(
        belief.model,
        pool.x,
        pool.arm,
        function,
        offer.size,
        available=offer.available,
        rng=offer.rng,
        batch="auto",
        pending=offer.waiting,
        measured=offer.measured,
        propensity=pool.propensity,
        targets=belief.targets,
        cost=pool.cost,
        budget=offer.budget,
        scores=scores,
    )
    if not len(chosen):
        return []
    if scores is None:
        return _entries(pool, chosen, "covariates", [f"chosen by {function.name}: {function.summary}"] * len(chosen))
    entries = _entries(pool, chosen, "score", _explain(belief, scores, offer.available, chosen))
    return [entry | {"score": float(scores[k])} for entry, k in zip(entries, chosen, strict=True)]


def _audits(
    state: State,
    settings: CampaignSettings,
    available: Positions,
    size: int,
    cost: Array | None,
    budget: float | None,
    rng: np.random.Generator,
) -> tuple[Positions, float | None]:
    """Return units drawn at random, so that their share of all units asked for so far is the one wanted.

    Also the probability with which each was drawn, unless money was short: dear units are then drawn less often.
    """
    if not settings.audit:
        return np.empty(0, dtype=np.intp), None
    price = np.ones(len(available)) if cost is None else cost[available]
    if budget is not None:
        size = min(size, int(np.searchsorted(np.cumsum(np.sort(price)), spendable(budget), side="right")))
    so_far = sum(unit["by"] == "audit" for r in state.rounds for unit in r["units"])
    count = max(0, min(size, int(settings.audit * (state.asked + size) + 1e-9) - so_far))
    drawn = rng.choice(len(available), size=count, replace=False)
    paid = drawn[np.cumsum(price[drawn]) <= spendable(budget)]
    return available[paid], count / len(available) if len(paid) == count else None


def _quota(known: Positions, available: Positions, size: int) -> tuple[int, int]:
    """Return how many to take of each arm so that both come to as many, counting those measured or asked for."""
    have, limit = np.bincount(known, minlength=2), np.bincount(available, minlength=2)
    treated = int(np.clip((size + have[0] - have[1]) // 2, size - limit[0], limit[1]))
    treated = int(np.clip(treated, 0, size))
    return size - treated, treated


def _medoids(
    z: Array, own: Positions, taken: Positions, count: int, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Return ``count`` of ``own``, nearest to centres of clusters without any of ``taken``, and the clusters' sizes."""
    if count == 0:
        return [], []
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    sample = own if len(own) <= _ENOUGH_TO_CLUSTER else rng.choice(own, size=_ENOUGH_TO_CLUSTER, replace=False)
    clusters = min(count + len(taken), len(sample))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # clusters without members, where people are alike
        found = KMeans(clusters, n_init=1, random_state=int(rng.integers(2**31))).fit(z[sample])
    covered = set(found.predict(z[taken]).tolist()) if len(taken) else set()
    sizes = np.bincount(found.labels_, minlength=clusters)
    order = sorted(range(clusters), key=lambda c: (c in covered, -sizes[c], c))
    picked: list[int] = []
    free = np.ones(len(sample), dtype=bool)
    for cluster in order[:count]:
        distance = ((z[sample] - found.cluster_centers_[cluster]) ** 2).sum(axis=1)
        nearest = int(np.argmin(np.where(free, distance, np.inf)))
        free[nearest] = False
        picked.append(int(sample[nearest]))
    people = sizes[order[:count]] * (len(own) / len(sample))
    return picked, [max(1, round(float(n))) for n in people]


def _alternating(quota: tuple[int, int]) -> list[int]:
    """Return an order in which both arms come in turn, so that a batch cut short stays balanced."""
    first, second = range(quota[0]), range(quota[0], sum(quota))
    keyed = [(k / max(quota[0], 1), i) for k, i in enumerate(first)]
    keyed += [((k + 0.5) / max(quota[1], 1), i) for k, i in enumerate(second)]
    return [i for _, i in sorted(keyed)]


def _explain(belief: Belief, scores: Array, available: Positions, chosen: Positions) -> list[str]:
    """Return in words and numbers why each of the chosen units was chosen."""
    pool, settings = belief.pool, belief.settings
    posterior = belief.model.posterior(pool.x[chosen], joint=False)
    arm = pool.arm[chosen]
    own = np.sqrt(posterior.variance[np.arange(len(chosen)), arm])
    effect = np.sqrt(posterior.effect_variance)
    other = np.where(arm == 1, 1 - pool.propensity[chosen], pool.propensity[chosen])
    beaten = np.searchsorted(np.sort(scores[available]), scores[chosen]) / len(available)
    return [
        f"outcome under {settings.arm_names[a]} uncertain by ±{o:.2g} and effect by ±{e:.2g}; {p:.0%} of people "
        f"like this got the other arm; before this batch, score above {b:.0%} of those left"
        for a, o, e, p, b in zip(arm, own, effect, other, beaten, strict=True)
    ]


def _entries(pool: CampaignPool, chosen: Positions, by: str, why: Sequence[str]) -> list[dict[str, Any]]:
    pi = pool.propensity[chosen]
    outside = is_outside(pi, pool.share_treated)
    entries: list[dict[str, Any]] = [
        {"id": unit, "by": by, "arm": int(a), "why": words, "propensity": float(p), "outside_support": bool(o)}
        for unit, a, words, p, o in zip(pool.units.at(chosen), pool.arm[chosen], why, pi, outside, strict=True)
    ]
    if pool.cost is None:
        return entries
    return [entry | {"cost": float(cost)} for entry, cost in zip(entries, pool.cost[chosen], strict=True)]


def _audit_entries(
    pool: CampaignPool, audits: Positions, available: int, probability: float | None
) -> list[dict[str, Any]]:
    words = f"drawn at random as an audit: {len(audits)} of {available} people"
    entries = _entries(pool, audits, "audit", [words] * len(audits))
    return entries if probability is None else [entry | {"probability": probability} for entry in entries]


def _with_effects(entries: list[dict[str, Any]], belief: Belief) -> list[dict[str, Any]]:
    if not entries:
        return []
    where = belief.pool.units.positions([e["id"] for e in entries])
    found = belief.effects(belief.pool.x[where])
    columns = (found.mean, found.lower, found.upper)
    return [
        entry | dict(zip(("effect", "lower", "upper"), map(float, numbers), strict=True))
        for entry, *numbers in zip(entries, *columns, strict=True)
    ]


def _ranked(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry | {"rank": k} for k, entry in enumerate(entries, start=1)]


def _price(pool: CampaignPool, positions: Positions) -> float:
    return float(len(positions)) if pool.cost is None else float(pool.cost[positions].sum())
