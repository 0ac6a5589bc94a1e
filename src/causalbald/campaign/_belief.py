"""What can be concluded from the outcomes so far: a fitted model and the pool it speaks of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr

from causalbald import models
from causalbald._gaussian import interval
from causalbald._random import generator
from causalbald._threads import CHUNK_UNITS, one_thread
from causalbald._typing import Array, Positions
from causalbald._validation import check_alpha
from causalbald.acquisition import Targets
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._state import State
from causalbald.errors import InputError
from causalbald.models import CateEstimator
from causalbald.pools import _choosing
from causalbald.posterior import Posterior

Mask = NDArray[np.bool_]
SURE = 0.95
_SAMPLE = 1000
_ENOUGH_PER_ARM = 2


@dataclass(frozen=True)
class Effects:
    """Belief about the effect of each of some units: mean and spread (n,), and how many spreads an interval reaches.

    No interval goes beyond ± ``largest``, the largest effect that the outcome's range allows.
    """

    mean: Array
    sd: Array
    reach: float
    n_draws: int | None
    largest: float

    @property
    def lower(self) -> Array:
        """Lower ends of the intervals."""
        return interval(self.mean, self.reach * self.sd, self.largest)[0]

    @property
    def upper(self) -> Array:
        """Upper ends of the intervals."""
        return interval(self.mean, self.reach * self.sd, self.largest)[1]

    def probability_above(self, threshold: float, sign: int) -> Array:
        """Return the probability that sign * effect exceeds ``threshold``, (n,)."""
        return probability_above(sign * self.mean - threshold, self.sd, self.n_draws)


@dataclass(frozen=True)
class AverageEffect:
    """Belief about the average effect of a group, from the joint belief about its members."""

    effect: float
    sd: float
    lower: float
    upper: float


class Belief:
    """A model fitted on the outcomes told so far, and everything that follows from it."""

    def __init__(self, model: CateEstimator, pool: CampaignPool, settings: CampaignSettings, labels: int) -> None:
        self.model = model
        self.pool = pool
        self.settings = settings
        self.labels = labels

    @classmethod
    def after(cls, state: State, pool: CampaignPool, settings: CampaignSettings) -> Belief:
        """Fit the campaign's model on all known outcomes."""
        missing = lacking_arm(state, pool)
        if missing is not None:
            raise InputError(
                f"an effect needs at least {_ENOUGH_PER_ARM} outcomes from each arm, and "
                f"{settings.arm_names[missing]!r} has fewer: tell some first ({len(state.outcomes)} are known)."
            )
        where = pool.units.positions(state.outcomes)
        y = np.fromiter(state.outcomes.values(), dtype=np.float64, count=len(where))
        order = np.argsort(where)  # the order of telling must not matter
        where, y = where[order], y[order]
        model = campaign_model(settings)
        with one_thread():
            model.fit(y, pool.arm[where], X=pool.x[where], pool=pool.x)
        return cls(model, pool, settings, len(y))

    def effects(self, x: Array, alpha: float = 0.05) -> Effects:
        """Return the belief about the effects of units with covariates x (n, D), each by itself."""
        level, means, spreads = check_alpha(alpha), [], []
        for posterior in self._posteriors(x, joint=False):  # kept no longer than needed: a million take 2 GB
            means.append(posterior.effect_mean)
            spreads.append(np.sqrt(posterior.effect_variance))
        reach, draws, largest = posterior.quantile(level), posterior.n_draws, posterior.largest_effect
        return Effects(np.concatenate(means), np.concatenate(spreads), reach, draws, largest)

    def averages(self, x: Array, weights: Array, alpha: float = 0.05) -> list[AverageEffect]:
        """Return the belief about weighted sums of effects, one for each row of ``weights`` (G, n)."""
        mean, shared, local, reach, start = np.zeros(len(weights)), 0.0, np.zeros(len(weights)), 0.0, 0
        for posterior in self._posteriors(x, joint=True):
            p, w = posterior.linearised(), weights[:, start : start + len(posterior)]
            mean = mean + w @ p.effect_mean
            shared = shared + w @ (p.factor[:, 1] - p.factor[:, 0])
            r = p.residual
            local += w**2 @ (r[:, 0, 0] + r[:, 1, 1] - r[:, 0, 1] - r[:, 1, 0])
            if start == 0:
                posterior.warn_if_mostly_local()
            reach, start = posterior.quantile(check_alpha(alpha)), start + len(posterior)
        sd = np.sqrt((np.asarray(shared) ** 2).sum(axis=1) + local)
        # A sum of effects is no larger than the largest effect times the sum of the sizes of its weights.
        largest = (
            np.inf if np.isinf(posterior.largest_effect) else posterior.largest_effect * np.abs(weights).sum(axis=1)
        )
        ends = interval(mean, reach * sd, largest)
        return [AverageEffect(*map(float, numbers)) for numbers in zip(mean, sd, *ends, strict=True)]

    @cached_property
    def targets(self) -> Targets:
        """The pool as the population that matters, with the effect at which the decision whom to treat changes."""
        threshold = self.settings.sign * self.settings.worthwhile
        return _choosing.pool_targets(len(self.pool), weights=self.pool.weight, threshold=threshold)

    def scores(self, rng: np.random.Generator) -> Array:
        """Return how important it would be to measure each unit of the pool, (N,), by the campaign's function."""
        pool = self.pool
        return _choosing.score_pool(
            self.model,
            pool.x,
            pool.arm,
            self.settings.acquisition,
            propensity=pool.propensity,
            targets=self.targets,
            rng=rng,
        )

    def treats(self, effects: Effects) -> Mask:
        """Return whom the policy treats, (n,): those whose expected effect is better than the worthwhile one."""
        better: Mask = self.settings.sign * effects.mean > self.settings.worthwhile
        return better

    def settled(self, effects: Effects) -> Mask:
        """Return for whom it is settled, at 95 %, whether the effect is worthwhile, (n,)."""
        p = effects.probability_above(self.settings.worthwhile, self.settings.sign)
        decided: Mask = np.maximum(p, 1 - p) >= SURE
        return decided

    @property
    def sample(self) -> Positions:
        """A fixed random sample of the pool, all of it if it is small, on which progress is followed."""
        size = min(_SAMPLE, len(self.pool))
        return np.sort(generator(self.settings.seed, "sample").choice(len(self.pool), size=size, replace=False))

    @cached_property
    def focus(self) -> tuple[Positions, Array]:
        """On whom advice is based, and how much each of them counts: the sample, or some of those who matter."""
        weight = self.pool.weight
        if weight is None:
            return self.sample, np.full(len(self.sample), 1 / len(self.sample))
        mattering = np.flatnonzero(weight)
        size = min(_SAMPLE, len(mattering))
        rows = np.sort(generator(self.settings.seed, "focus").choice(mattering, size=size, replace=False))
        return rows, weight[rows] / weight[rows].sum()

    @one_thread()
    def summary(self) -> dict[str, Any]:
        """Return in a few numbers what is believed now, to be recorded with a batch."""
        x = self.pool.x[self.sample]
        effects = self.effects(x)
        average = self.averages(x, np.full((1, len(x)), 1 / len(x)))[0]
        treated = self.treats(effects)
        return {
            "labels": self.labels,
            "expected_error": float(np.sqrt(np.mean(effects.sd**2))),
            "ate": average.effect,
            "ate_lower": average.lower,
            "ate_upper": average.upper,
            "settled": float(self.settled(effects).mean()),
            "treated": float(treated.mean()),
            "policy": "".join("1" if t else "0" for t in treated),
        }

    def _posteriors(self, x: Array, *, joint: bool) -> Iterator[Posterior]:
        for start in range(0, len(x), CHUNK_UNITS):
            yield self.model.posterior(x[start : start + CHUNK_UNITS], joint=joint)


def lacking_arm(state: State, pool: CampaignPool) -> int | None:
    """Return an arm with too few outcomes for a model, if there is one."""
    if not state.outcomes:
        return 1
    counts = np.bincount(pool.arm[pool.units.positions(state.outcomes)], minlength=2)
    return int(np.argmin(counts)) if counts.min() < _ENOUGH_PER_ARM else None


def probability_above(distance: Array, sd: Array, n_draws: int | None) -> Array:
    """Return the probability of being positive, of beliefs with these means and spreads."""
    z = distance / np.maximum(sd, 1e-300)
    found: Array = ndtr(z) if n_draws is None else stdtr(n_draws - 1, z / np.sqrt(1 + 1 / n_draws))
    return found


def campaign_model(settings: CampaignSettings) -> CateEstimator:
    """Return the campaign's model. Effects on events are risk differences with all but the deep models."""
    model = models.load(settings.model, random_state=settings.seed)
    return model.set_params(outcome=settings.outcome_type) if "outcome" in model.get_params() else model
