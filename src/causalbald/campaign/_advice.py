"""Should one go on? What the next batch would teach, what is settled, and what has changed. Advice, never a block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from causalbald._money import spendable
from causalbald._threads import one_thread
from causalbald._words import amount
from causalbald.campaign._asking import propose
from causalbald.campaign._belief import Belief, lacking_arm
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._state import State
from causalbald.pools import _choosing
from causalbald.selection._conditioning import DowndatedBelief

# Below these, another batch is unlikely to change what is done.
_LITTLE_GAIN = 0.02
_LITTLE_DRIFT = 0.02
_MOSTLY_SETTLED = 0.9
_BATCHES = 3
_NOBODY = "stop: nobody is left to measure"


@dataclass(frozen=True)
class Advice:
    """What speaks for going on and what for stopping.

    ``expected_error`` is the root mean square, over people, of the belief's spread about their effects: the error one
    has to expect if the model is right. In a campaign with weights, people count by them. ``after_pending`` is what it
    will be once pending outcomes are told, and ``after_next`` once the next batch is, too; both are known before any
    outcome is. ``drift`` is the share of people whose recommendation has changed over the last three batches. None
    means that it cannot be said yet; stopping is not advised before it can, since early beliefs tend to be too sure of
    themselves.
    """

    verdict: str
    reasons: tuple[str, ...]
    expected_error: float | None = None
    after_pending: float | None = None
    after_next: float | None = None
    settled: float | None = None
    drift: float | None = None
    left: float | None = None
    size: int | None = None
    """How many measurements ``after_next`` is about: as many as were thought of, if people and money suffice."""


def advise(
    state: State, pool: CampaignPool, settings: CampaignSettings, size: int, belief: Callable[[], Belief]
) -> Advice:
    """Return advice on asking for ``size`` more measurements."""
    left = settings.left(state.spent)
    available = len(pool) - len(state.closed)
    broke = available > 0 and left is not None and _cheapest(state, pool) > spendable(left)
    if lacking_arm(state, pool) is not None:
        verdict = "stop: the budget is spent" if broke else "go on" if available else _NOBODY
        return Advice(verdict, ("there are too few outcomes yet for a model.",), left=left)
    known = belief()
    rows, weights = known.focus
    effects = known.effects(pool.x[rows])
    now, settled = float(np.sqrt(weights @ effects.sd**2)), float(weights @ known.settled(effects))
    drift = _drift(state, known)
    who = "people" if settings.weight is None else f"those who matter, by {settings.weight!r},"
    reasons = [f"for {settled:.0%} of {who} it is settled at 95 % whether the treatment is worthwhile."]
    after_pending = after_next = gain = None
    if (
        _choosing.batch_rule(known.model, pool.x) == "greedy"
    ):  # five members cannot say what further outcomes would teach
        after_pending, after_next, size = _errors(known, state, min(size, available), left)
        gain = 1 - after_next / after_pending if after_pending > 0 else 0.0
        waiting = f", which it will be once {len(state.pending)} pending outcomes are told," if state.pending else ""
        if size:
            reasons.append(
                f"{size} more measurements are expected to cut the error of effects from {after_pending:.3g}{waiting} "
                f"to {after_next:.3g} ({gain:.0%})."
            )
    if drift is not None:
        reasons.append(f"the recommendation has changed for {drift:.0%} of {who} over the last {_BATCHES} batches.")
    if left is not None and settings.budget is not None:
        reasons.append(f"{amount(left)} of the budget of {amount(settings.budget)} is left.")
    verdict = "stop: the budget is spent" if broke else _verdict(gain, settled, drift, available)
    errors = (now, after_pending, after_next)
    return Advice(verdict, tuple(reasons), *errors, settled, drift, left, None if after_next is None else size)


def _cheapest(state: State, pool: CampaignPool) -> float:
    """Return what the next measurement costs at least."""
    if pool.cost is None:
        return 1.0
    closed = pool.units.positions(state.closed)
    return float(np.delete(pool.cost, closed).min(initial=np.inf))


def _verdict(gain: float | None, settled: float, drift: float | None, available: int) -> str:
    if available == 0:
        return _NOBODY
    if settled >= _MOSTLY_SETTLED and drift is not None and drift <= _LITTLE_DRIFT:
        return "consider stopping: what to do is settled for nearly everyone, and no longer changes"
    if gain is not None and gain <= _LITTLE_GAIN and drift is not None and drift <= _LITTLE_DRIFT:
        return "consider stopping: more measurements would teach little, and the recommendation no longer changes"
    return "go on"


@one_thread()
def _errors(belief: Belief, state: State, size: int, left: float | None) -> tuple[float, float, int]:
    """Return the expected error after pending outcomes, after the next batch, and how many that batch would have."""
    pool, settings = belief.pool, belief.settings
    pending = np.sort(pool.units.positions(state.pending))
    money = left is None or left > 0
    batch = propose(state, pool, settings, size, left, lambda: belief) if size and money else None
    chosen = pool.units.positions([u["id"] for u in batch.units]) if batch else np.empty(0, dtype=np.intp)
    focus, weights = belief.focus
    rows = np.unique(np.concatenate([focus, pending, chosen]))
    after = DowndatedBelief(belief.model.posterior(pool.x[rows]).linearised(), pool.arm[rows], None)
    here = np.searchsorted(rows, focus)
    errors = []
    for group in (pending, chosen):
        for position in np.searchsorted(rows, group):
            after.measure(int(position))
        errors.append(float(np.sqrt(weights @ after.belief.effect_variance[here])))
    return errors[0], errors[1], len(chosen)


def _drift(state: State, belief: Belief) -> float | None:
    """Return the share of the sample whose recommendation was another one when one of the last batches was chosen."""
    earlier = [r["belief"]["policy"] for r in state.rounds if r.get("belief")][-_BATCHES:]
    if len(earlier) < _BATCHES:
        return None
    policy = belief.summary()["policy"]
    changed = np.array([len(set(choices)) > 1 for choices in zip(policy, *earlier, strict=True)])
    weight = belief.pool.weight
    counted = np.ones(len(changed)) if weight is None else weight[belief.sample]
    return float(counted @ changed / counted.sum()) if counted.any() else float(changed.mean())
