"""What can be concluded from the outcomes so far: a fitted model, and the pool that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from causalbald import models
from causalbald._gaussian import interval
from causalbald._random import generator
from causalbald._threads import CHUNK_UNITS, one_thread
from causalbald._typing import Array, Mask, Positions
from causalbald.acquisition import TargetPopulation
from causalbald.campaign._effects import AverageEffect, Effects
from causalbald.campaign._events import BeliefSummary
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._state import State
from causalbald.errors import InputError
from causalbald.models import CateEstimator
from causalbald.pools import pool_population, score_pool
from causalbald.posterior import Posterior

SETTLED_PROBABILITY = 0.95
"""Probability from which on it counts as settled whether an effect is worthwhile."""
SAMPLE_UNITS = 1000
"""Units at most on which the progress of a campaign is followed."""
MIN_OUTCOMES_PER_ARM = 2


class Belief:
    """A model fitted on the outcomes told so far, and everything that follows from it.

    Parameters
    ----------
    model : CateEstimator
        Fitted.
    pool : CampaignPool
    settings : CampaignSettings
    labels : int
        Outcomes that the model has learned from.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> columns = {"id": "patient", "treatment": "drug", "outcome": "cd4"}
    >>> campaign = Campaign.create(MemoryStorage(), pool, **columns, model="gp")
    >>> _ = campaign.tell({unit: 0.1 * unit + unit % 2 for unit in range(12)})
    >>> belief = campaign.belief()
    >>> belief.labels, belief.effects(campaign.pool.x).mean.shape
    (12, (40,))
    """

    def __init__(self, model: CateEstimator, pool: CampaignPool, settings: CampaignSettings, labels: int) -> None:
        self.model = model
        self.pool = pool
        self.settings = settings
        self.labels = labels

    @classmethod
    def after(cls, state: State, pool: CampaignPool, settings: CampaignSettings) -> Belief:
        """Fit the campaign's model on all outcomes of a state; :func:`lacking_arm` must have found enough of them."""
        units = pool.units.positions(state.outcomes)
        y = np.fromiter(state.outcomes.values(), dtype=np.float64, count=len(units))
        order = np.argsort(units)  # the order of telling must not matter
        units, y = units[order], y[order]
        model = campaign_model(settings)
        with one_thread():
            model.fit(y, pool.arm[units], X=pool.x[units], pool=pool.x)
        return cls(model, pool, settings, len(y))

    def effects(self, x: Array, alpha: float = 0.05) -> Effects:
        """Return the belief about the effects of units with covariates x (n, D), each by itself."""
        parts = []
        for posterior in self._posteriors(x, joint=False):  # a posterior is dropped at once: a million units take 2 GB
            sd, outcome_sd = np.sqrt(posterior.effect_variance), np.sqrt(posterior.variance)
            parts.append((posterior.effect_mean, sd, *posterior.effect_interval(alpha), outcome_sd))
        mean, sd, lower, upper, outcome_sd = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Effects(mean, sd, lower, upper, outcome_sd, posterior.n_draws)

    def averages(self, x: Array, weights: Array, alpha: float = 0.05) -> list[AverageEffect]:
        """Return the belief about weighted sums of effects, one for each row of ``weights`` (G, n)."""
        mean, shared, local, start = np.zeros(len(weights)), 0.0, np.zeros(len(weights)), 0
        for posterior in self._posteriors(x, joint=True):
            p, w = posterior.linearised(), weights[:, start : start + len(posterior)]
            mean = mean + w @ p.effect_mean
            # Variance of sum_i w_i tau_i: |sum_i w_i (factor_i1 - factor_i0)|² over all units together, ...
            shared = shared + w @ (p.factor[:, 1] - p.factor[:, 0])
            # ... plus sum_i w_i² Var(residual of tau_i), which no units share.
            r = p.residual
            local += w**2 @ (r[:, 0, 0] + r[:, 1, 1] - r[:, 0, 1] - r[:, 1, 0])
            if start == 0:
                posterior.warn_if_mostly_local()
            start += len(posterior)
        sd = np.sqrt((np.asarray(shared) ** 2).sum(axis=1) + local)
        # No sum is larger than the largest effect times the sum of the absolute weights.
        total = np.abs(weights).sum(axis=1)
        largest = np.full(len(weights), np.inf) if posterior.limits is None else posterior.largest_effect * total
        lower, upper = interval(mean, posterior.quantile(alpha) * sd, largest)
        return [AverageEffect(*map(float, cells)) for cells in zip(mean, sd, lower, upper, strict=True)]

    @cached_property
    def population(self) -> TargetPopulation:
        """The pool as the target population, with the effect at which the decision whom to treat changes."""
        threshold = self.settings.sign * self.settings.worthwhile
        return pool_population(len(self.pool), weights=self.pool.weight, threshold=threshold)

    def scores(self, rng: np.random.Generator) -> Array:
        """Return the score of each unit of the pool, (N,), by the campaign's acquisition function."""
        return score_pool(self.model, self.pool, self.settings.acquisition, population=self.population, rng=rng)

    def treats(self, effects: Effects) -> Mask:
        """Return which units the policy treats, (n,): those with an expected effect better than the worthwhile one."""
        is_better: Mask = self.settings.sign * effects.mean > self.settings.worthwhile
        return is_better

    def settled(self, effects: Effects) -> Mask:
        """Return for which units it is settled, at 95 %, whether the effect is worthwhile, (n,)."""
        p = effects.probability_above(self.settings.worthwhile, self.settings.sign)
        is_settled: Mask = np.maximum(p, 1 - p) >= SETTLED_PROBABILITY
        return is_settled

    @cached_property
    def sample(self) -> Positions:
        """A fixed random sample of the pool, all of it if it is small, on which progress is followed."""
        size = min(SAMPLE_UNITS, len(self.pool))
        return np.sort(generator(self.settings.seed, "sample").choice(len(self.pool), size=size, replace=False))

    @cached_property
    def focus(self) -> tuple[Positions, Array]:
        """Units on which advice is based, and how much each counts: the sample, or a sample of those with a weight."""
        weight = self.pool.weight
        if weight is None:
            return self.sample, np.full(len(self.sample), 1 / len(self.sample))
        weighted = np.flatnonzero(weight)
        size = min(SAMPLE_UNITS, len(weighted))
        units = np.sort(generator(self.settings.seed, "focus").choice(weighted, size=size, replace=False))
        return units, weight[units] / weight[units].sum()

    @one_thread()
    def summary(self) -> BeliefSummary:
        """Return in a few numbers what is believed now, to be recorded with a batch and drawn in the report."""
        x = self.pool.x[self.sample]
        effects = self.effects(x)
        average = self.averages(x, np.full((1, len(x)), 1 / len(x)))[0]
        is_treated = self.treats(effects)
        return BeliefSummary(
            labels=self.labels,
            expected_error=float(np.sqrt(np.mean(effects.sd**2))),
            ate=average.effect,
            ate_lower=average.lower,
            ate_upper=average.upper,
            settled=float(self.settled(effects).mean()),
            treated=float(is_treated.mean()),
            policy="".join("1" if t else "0" for t in is_treated),
        )

    def _posteriors(self, x: Array, *, joint: bool) -> Iterator[Posterior]:
        """Yield the beliefs about units with covariates x, a chunk at a time."""
        for start in range(0, len(x), CHUNK_UNITS):
            yield self.model.posterior(x[start : start + CHUNK_UNITS], joint=joint)


def lacking_arm(state: State, pool: CampaignPool) -> int | None:
    """Return an arm with too few outcomes for a model; None if both arms have enough.

    Parameters
    ----------
    state : State
        Where the campaign stands.
    pool : CampaignPool
        All units of the campaign.

    Returns
    -------
    int or None
        0 for control, 1 for treated.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign, lacking_arm
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> columns = {"id": "patient", "treatment": "drug", "outcome": "cd4"}
    >>> campaign = Campaign.create(MemoryStorage(), pool, **columns)
    >>> _ = campaign.tell({0: 1.5, 2: 1.0, 3: 2.0})
    >>> lacking_arm(campaign.state, campaign.pool)
    1
    """
    if not state.outcomes:
        return 1
    counts = np.bincount(pool.arm[pool.units.positions(state.outcomes)], minlength=2)
    return int(np.argmin(counts)) if counts.min() < MIN_OUTCOMES_PER_ARM else None


def too_few_outcomes(state: State, pool: CampaignPool, settings: CampaignSettings) -> InputError:
    """Return the error for a question that needs a model while an arm lacks outcomes."""
    arm = lacking_arm(state, pool)
    return InputError(
        f"an effect needs at least {MIN_OUTCOMES_PER_ARM} outcomes from each arm, and "
        f"{settings.arm_names[arm or 0]!r} has fewer: tell some first ({len(state.outcomes)} are known)."
    )


def campaign_model(settings: CampaignSettings) -> CateEstimator:
    """Return the campaign's model, not fitted. Effects on events are risk differences with all but the deep models."""
    model = models.load(settings.model, random_state=settings.seed)
    return model.set_params(outcome=settings.outcome_type) if "outcome" in model.get_params() else model
