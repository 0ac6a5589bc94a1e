"""Whom to measure next, and why: the first batch, chosen batches, and random audits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from causalbald import loop
from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald._typing import Array, Positions
from causalbald.campaign.belief import Belief, lacking_arm
from causalbald.campaign.pool import Pool
from causalbald.campaign.settings import Settings
from causalbald.campaign.state import State
from causalbald.diagnostics.support import OVERLAP
from causalbald.errors import InputError
from causalbald.selection import MIN_DRAWS_FOR_GREEDY

_ENOUGH_TO_CLUSTER = 20_000


@dataclass(frozen=True)
class Proposal:
    """A batch before it is recorded: an entry per unit, and what was believed when it was chosen."""

    units: list[dict[str, Any]]
    belief: dict[str, Any] | None


def propose(
    state: State, pool: Pool, settings: Settings, size: int, budget: float | None, belief: Callable[[], Belief]
) -> Proposal:
    """Choose the next batch from the state of a campaign; the same state and seed give the same batch."""
    number = len(state.rounds) + 1
    closed = pool.units.positions(state.closed)
    available = np.setdiff1d(np.arange(len(pool)), closed)
    if size > len(available):
        raise InputError(f"{size} units asked for, but only {len(available)} can be measured: ask for fewer.")
    rng = generator(settings.seed, "ask", number)
    pending = np.sort(pool.units.positions(state.pending))
    with one_thread():
        audits = _audits(state, settings, available, size, pool.cost, budget, rng)
        rest = np.setdiff1d(available, audits)
        left = None if budget is None else budget - _price(pool, audits)
        wanted, waiting = size - len(audits), np.concatenate([pending, audits])
        if lacking_arm(state, pool) is not None:
            chosen, why = _spread(pool, settings, rest, wanted, waiting, left, rng)
            entries = _entries(pool, settings, chosen, "spread", why)
            entries = _audit_entries(pool, settings, audits, len(available)) + entries
            return Proposal(_ranked(entries), None)
        known = belief()
        scores = loop.score_pool(
            known.model, pool.x, pool.arm, settings.acquisition, propensity=pool.propensity, rng=rng
        )
        chosen = loop.choose(
            known.model,
            pool.x,
            pool.arm,
            settings.acquisition,
            wanted,
            available=rest,
            rng=rng,
            batch=_rule(known),
            pending=waiting,
            propensity=pool.propensity,
            cost=pool.cost,
            budget=left,
            scores=scores,
        )
        explained = _explain(known, scores, available, chosen)
        entries = _audit_entries(pool, settings, audits, len(available))
        entries += _entries(pool, settings, chosen, "score", explained)
        return Proposal(_ranked(_with_effects(entries, known)), known.summary())


def _rule(belief: Belief) -> loop.Batch:
    """Greedy where the belief says how units hang together, else softmax."""
    draws = belief.model.posterior(belief.pool.x[:1]).n_draws
    return "greedy" if draws is None or draws >= MIN_DRAWS_FOR_GREEDY else "softmax"


def _audits(
    state: State,
    settings: Settings,
    available: Positions,
    size: int,
    cost: Array | None,
    budget: float | None,
    rng: np.random.Generator,
) -> Positions:
    """Return units drawn at random, so that their share of all units asked for so far is the one wanted."""
    if not settings.audit:
        return np.empty(0, dtype=np.intp)
    so_far = sum(unit["by"] == "audit" for r in state.rounds for unit in r["units"])
    count = min(size, int(settings.audit * (state.asked + size) + 1e-9) - so_far)
    drawn: Positions = rng.choice(available, size=max(0, count), replace=False)
    if budget is None:
        return drawn
    price = np.ones(len(drawn)) if cost is None else cost[drawn]
    paid: Positions = drawn[np.cumsum(price) <= budget]
    return paid


def _spread(
    pool: Pool,
    settings: Settings,
    available: Positions,
    size: int,
    waiting: Positions,
    budget: float | None,
    rng: np.random.Generator,
) -> tuple[Positions, list[str]]:
    """Return units that stand for their arm: balanced over arms, spread over covariates, before a model can say more.

    Each arm's units are clustered, one cluster for each unit to be chosen; the unit nearest to each centre is taken.
    """
    quota = _quota(pool.arm[waiting], pool.arm[available], size)
    scale = pool.x.std(axis=0)
    z = (pool.x - pool.x.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    chosen, why = [], []
    for arm, count in enumerate(quota):
        own = available[pool.arm[available] == arm]
        taken = waiting[pool.arm[waiting] == arm]
        picked, sizes = _medoids(z, own, taken, count, rng)
        chosen += picked
        name = settings.arm_names[arm]
        why += [f"before a model can say more: stands for {n} people like this under {name}" for n in sizes]
    order = _alternating(quota)
    positions = np.asarray(chosen, dtype=np.intp)[order]
    kept = loop.affordable(positions, pool.cost, budget)
    return positions[kept], [why[k] for k in np.asarray(order)[kept]]


def _quota(waiting: Positions, available: Positions, size: int) -> tuple[int, int]:
    """Return how many to take of each arm so that both have as many, counting those asked for and not yet told."""
    have, limit = np.bincount(waiting, minlength=2), np.bincount(available, minlength=2)
    treated = int(np.clip((size + have[0] - have[1]) // 2, size - limit[0], limit[1]))
    treated = int(np.clip(treated, 0, size))
    return size - treated, treated


def _medoids(
    z: Array, own: Positions, taken: Positions, count: int, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Return ``count`` of ``own``, each nearest to the centre of a cluster without any of ``taken``, and cluster sizes."""
    if count == 0:
        return [], []
    from sklearn.cluster import KMeans

    sample = own if len(own) <= _ENOUGH_TO_CLUSTER else rng.choice(own, size=_ENOUGH_TO_CLUSTER, replace=False)
    clusters = min(count + len(taken), len(sample))
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


def _explain(belief: Belief, scores: Array, available: Positions, chosen: Positions) -> list[tuple[str, float]]:
    """Return in words and numbers why each of the chosen units was chosen, and its score."""
    pool, settings = belief.pool, belief.settings
    posterior = belief.model.posterior(pool.x[chosen], joint=False)
    arm = pool.arm[chosen]
    own = np.sqrt(posterior.variance[np.arange(len(chosen)), arm])
    effect = np.sqrt(posterior.effect_variance)
    other = np.where(arm == 1, 1 - pool.propensity[chosen], pool.propensity[chosen])
    beaten = np.searchsorted(np.sort(scores[available]), scores[chosen]) / len(available)
    return [
        (
            f"outcome under {settings.arm_names[a]} uncertain by ±{o:.2g} and effect by ±{e:.2g}; {p:.0%} of people "
            f"like this got the other arm; before this batch, score above {b:.0%} of those left",
            float(s),
        )
        for a, o, e, p, b, s in zip(arm, own, effect, other, beaten, scores[chosen], strict=True)
    ]


def _entries(pool: Pool, settings: Settings, chosen: Positions, by: str, why: Any) -> list[dict[str, Any]]:
    entries = []
    pi = pool.propensity[chosen]
    outside = (pi < OVERLAP[0]) | (pi > OVERLAP[1])
    for k, (unit, position) in enumerate(zip(pool.units.at(chosen), chosen, strict=True)):
        words, score = why[k] if isinstance(why[k], tuple) else (why[k], None)
        entry: dict[str, Any] = {"id": unit, "by": by, "arm": int(pool.arm[position]), "why": words, "score": score}
        entry["probability"] = None
        entry["propensity"] = float(pool.propensity[position])
        entry["outside_support"] = bool(outside[k])
        if pool.cost is not None:
            entry["cost"] = float(pool.cost[position])
        entries.append(entry)
    return entries


def _audit_entries(pool: Pool, settings: Settings, audits: Positions, available: int) -> list[dict[str, Any]]:
    share = len(audits) / available
    words = f"drawn at random as an audit: {len(audits)} of {available} people"
    return [
        entry | {"probability": share} for entry in _entries(pool, settings, audits, "audit", [words] * len(audits))
    ]


def _with_effects(entries: list[dict[str, Any]], belief: Belief) -> list[dict[str, Any]]:
    where = belief.pool.units.positions([e["id"] for e in entries])
    found = belief.effects(belief.pool.x[where])
    columns = (found.mean, found.lower, found.upper)
    return [
        entry | dict(zip(("effect", "lower", "upper"), map(float, numbers), strict=True))
        for entry, *numbers in zip(entries, *columns, strict=True)
    ]


def _ranked(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry | {"rank": k} for k, entry in enumerate(entries, start=1)]


def _price(pool: Pool, positions: Positions) -> float:
    return float(len(positions)) if pool.cost is None else float(pool.cost[positions].sum())
