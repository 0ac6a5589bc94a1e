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
from causalbald.models import CateEstimator
from causalbald.pools import pool_population, score_pool
from causalbald.posterior import Posterior

SETTLED_PROBABILITY = 0.95
"""Probability from which on it counts as settled whether an effect is worthwhile."""
SAMPLE_UNITS = 1000
"""Units at most on which the progress of a campaign is followed."""


class Belief:
    """A model fitted on the outcomes told so far, and everything that follows from it.

    Parameters
    ----------
    model : CateEstimator
        Fitted.
    pool : CampaignPool
    settings : CampaignSettings
    labels : int
        How many outcomes the model has learned from.

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
        """Return the campaign's model fitted on all outcomes of a state, whatever the order in which they were told.

        The caller must have checked with :func:`lacking_arm` that both arms have enough outcomes.
        """
        units = pool.units.positions(state.outcomes)
        y = np.fromiter(state.outcomes.values(), dtype=np.float64, count=len(units))
        order = np.argsort(units)  # the order of telling must not matter
        units, y = units[order], y[order]
        model = campaign_model(settings)
        with one_thread():
            model.fit(y, pool.arm[units], X=pool.x[units], pool=pool.x)
        return cls(model, pool, settings, len(y))

    def effects(self, x: Array, alpha: float = 0.05) -> Effects:
        """Return the belief about the effect of each unit with covariates ``x`` (n, D), without covariances.

        The interval of one unit misses its expected effect with probability ``alpha``. There must be at least one unit.
        """
        parts = []
        for posterior in self._posteriors(x, joint=False):  # a posterior is dropped at once: a million units take 2 GB
            sd, outcome_sd = np.sqrt(posterior.effect_variance), np.sqrt(posterior.variance)
            parts.append((posterior.effect_mean, sd, *posterior.effect_interval(alpha), outcome_sd))
        mean, sd, lower, upper, outcome_sd = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Effects(mean, sd, lower, upper, outcome_sd, posterior.n_draws)

    def averages(self, x: Array, weights: Array, alpha: float = 0.05) -> list[AverageEffect]:
        """Return the belief about G weighted sums of the effects of units with covariates ``x`` (n, D).

        Each row of ``weights`` (G, n) gives one sum. Covariances between units count. An interval misses with
        probability ``alpha``, and ends at the largest possible sum if outcomes have limits. Warns if units of the first
        chunk share hardly any uncertainty in the approximation. There must be at least one unit.
        """
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
        """The pool as the target population, with the units' weights and the effect from which on treatment pays."""
        threshold = self.settings.sign * self.settings.worthwhile
        return pool_population(len(self.pool), weights=self.pool.weight, threshold=threshold)

    def scores(self, rng: np.random.Generator) -> Array:
        """Return the score of each unit of the pool, (N,), by the campaign's acquisition function."""
        return score_pool(self.model, self.pool, self.settings.acquisition, population=self.population, rng=rng)

    def treats(self, effects: Effects) -> Mask:
        """Return which units the policy treats, (n,).

        The policy treats a unit if its expected effect, counted so that more is better, is above ``worthwhile``.
        """
        is_better: Mask = self.settings.sign * effects.mean > self.settings.worthwhile
        return is_better

    def settled(self, effects: Effects) -> Mask:
        """Return for which units it is settled whether the effect is worthwhile, (n,).

        It is settled if the probability of a worthwhile effect is at least 95 %, or at most 5 %.
        """
        p = effects.probability_above(self.settings.worthwhile, self.settings.sign)
        is_settled: Mask = np.maximum(p, 1 - p) >= SETTLED_PROBABILITY
        return is_settled

    @cached_property
    def sample(self) -> Positions:
        """Sorted positions of a fixed random sample of the pool, or of the whole pool if it is small.

        ``summary`` and the advice follow the progress of the campaign on this sample.
        """
        size = min(SAMPLE_UNITS, len(self.pool))
        return np.sort(generator(self.settings.seed, "sample").choice(len(self.pool), size=size, replace=False))

    @cached_property
    def focus(self) -> tuple[Positions, Array]:
        """Sorted positions of the units on which advice is based, and how much each counts; the counts sum to 1.

        Without weights these are the units of ``sample``, and all count alike. With weights they are a sample of the
        units whose weight is above 0, and each counts by its weight.
        """
        weight = self.pool.weight
        if weight is None:
            return self.sample, np.full(len(self.sample), 1 / len(self.sample))
        weighted = np.flatnonzero(weight)
        size = min(SAMPLE_UNITS, len(weighted))
        units = np.sort(generator(self.settings.seed, "focus").choice(weighted, size=size, replace=False))
        return units, weight[units] / weight[units].sum()

    @one_thread()
    def summary(self) -> BeliefSummary:
        """Return what is believed now about ``sample``, in a few numbers. Units count alike, also with weights.

        ``Campaign.ask`` records the summary with the batch, and the report draws it.
        """
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
        """Yield the beliefs about units with covariates ``x``, ``CHUNK_UNITS`` at a time, with or without covariances.

        Covariances are those within a chunk, and with ``joint`` what all chunks share through the factor.
        """
        for start in range(0, len(x), CHUNK_UNITS):
            yield self.model.posterior(x[start : start + CHUNK_UNITS], joint=joint)


def campaign_model(settings: CampaignSettings) -> CateEstimator:
    """Return the campaign's model, not fitted, with the campaign's seed. Called by ``Belief.after`` and ``simulate``.

    A model with an option ``outcome``, as deep models have it, gets the campaign's outcome type. Other models take
    outcomes of 0 and 1 as numbers. With both, effects on events are risk differences.
    """
    model = models.load(settings.model, random_state=settings.seed)
    return model.set_params(outcome=settings.outcome_type) if "outcome" in model.get_params() else model
