"""The mixture of models that best predicts bought labels which it has not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from causalbald._random import generator
from causalbald._scaling import outcome_range
from causalbald._typing import AnyArray, Array, Treatment
from causalbald._validation import check_int
from causalbald.errors import InputError
from causalbald.models._arm_means import ArmMeans
from causalbald.models._base import CateEstimator, CrossBelief, CrossBeliefOf, LabelSet, balanced_folds
from causalbald.models._cross_belief import between_members, of_arm
from causalbald.models._registry import load, register
from causalbald.posterior import Posterior

# A candidate with a smaller share costs as much as the others and changes nothing.
_LEAST_SHARE = 0.1
_EM_STEPS = 500
_SURE = 0.005  # a model that takes a binary outcome for a number may expect less than 0 or more than 1
_MEANS = "arm means"  # the last candidate if outcomes have two values
# Arm means say the same of everyone, and no person would teach more than another: models of covariates keep a share.
_LEAST_OF_COVARIATES = 0.25


@register("auto")
class AutoEstimator(CateEstimator):
    """Mixture of ``candidates``, weighed by how likely each makes labels that were held out from it.

    Every candidate is refitted up to ``folds`` times without a share of the bought labels, until they differ clearly,
    and the weights maximise the log density of what was held out (stacking). Bought labels are no random sample of the
    pool: the weights say who predicts units like the measured ones. No free labels are used. With few labels, or one
    candidate, the first one is taken.

    Outcomes of two values are compared as events, and arm means, the same risk for everyone in an arm, are always a
    candidate. Expected outcomes, effects and their intervals stay within what the two values allow.

    Parameters
    ----------
    candidates : sequence of str
        Names of models. ``index`` is left out where there is but one covariate, of which it is a part of ``gp``, and
        where outcomes have two values, of which it explains noise.
    folds : int
    min_labels, max_labels : int
        Labels below which nothing is compared, and that are compared at most.
    random_state : int
        Of folds and models.
    """

    accepts_images = True

    def __init__(
        self,
        *,
        candidates: Sequence[str] = ("gp", "index"),
        folds: int = 4,
        min_labels: int = 40,
        max_labels: int = 300,
        random_state: int = 0,
    ) -> None:
        self.candidates = candidates
        self.folds = folds
        self.min_labels = min_labels
        self.max_labels = max_labels
        self.random_state = random_state

    def _fit(self, data: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None:
        self._limits = outcome_range(data.y)
        # On events, too, an index explains noise: beside gp and arm means it made risks worse at 50 to 600 labels.
        indexed = data.x[0].size > 1 and self._limits is None
        names = [name for name in self.candidates if name != "index" or indexed]
        if not names:
            raise InputError("candidates names no model that can be used here: give at least one, for example 'gp'.")
        if self._limits is not None:
            names.append(_MEANS)
        folds = check_int(self.folds, "folds", low=2)
        enough = max(check_int(self.min_labels, "min_labels", low=2), 2 * folds)
        groups = math.ceil(len(data.y) / check_int(self.max_labels, "max_labels", low=enough))
        some = data.take(np.flatnonzero(balanced_folds(data.t, groups, generator(self.random_state, "compared")) == 0))
        if len(some.y) < enough or min(np.bincount(some.t, minlength=2)) < 2:
            self.weights_ = {names[0]: 1.0} if self._limits is None else {names[0]: 0.5, _MEANS: 0.5}
        elif len(names) == 1:
            self.weights_ = {names[0]: 1.0}
        else:
            densities = self._held_out(names, some, pool, folds)
            weights = stacking_weights(densities)
            self.weights_ = _kept(names, weights if self._limits is None else _with_covariates(weights))
        self.models_ = [self._fitted_on(name, data, pool) for name in self.weights_]

    def _held_out(self, names: list[str], data: LabelSet, pool: AnyArray, folds: int) -> Array:
        """Return log densities (n, M) of labels by models that have not seen them, until the models differ clearly."""
        fold, found = balanced_folds(data.t, folds, generator(self.random_state, "folds")), np.empty((0, len(names)))
        for k in range(folds):
            known, out = (data.take(np.flatnonzero(rows)) for rows in (fold != k, fold == k))
            models = [self._fitted_on(name, known, pool) for name in names]
            beliefs = [self._limited(model.posterior(out.x, joint=False)) for model in models]
            found = np.concatenate([found, _log_densities(beliefs, out)])
            if k > 0 and _decided(found):
                break
        return found

    def _fitted_on(self, name: str, data: LabelSet, pool: AnyArray) -> CateEstimator:
        if name == _MEANS and self._limits is not None:
            model: CateEstimator = ArmMeans(limits=self._limits)
        else:
            model = load(name, random_state=self.random_state)
        return model.fit(data.y, data.t, X=data.x, pool=pool)

    def _limited(self, belief: Posterior) -> Posterior:
        """Return a belief of a candidate that knows of the outcome's two values, if it has but two."""
        return belief if self._limits is None else belief._derived(limits=self._limits)

    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        return self._mixed([model.posterior(x, joint=joint) for model in self.models_])

    def _mixed(self, beliefs: list[Posterior]) -> Posterior:
        beliefs = [self._limited(belief) for belief in beliefs]
        if len(beliefs) == 1:
            return beliefs[0]
        if _of_several_links(beliefs):
            beliefs = [belief.linearised() for belief in beliefs]
        return Posterior.mixture(beliefs, list(self.weights_.values()))

    def cross_belief(self, X: Any) -> CrossBeliefOf | None:
        """Return what ties other units to those in ``X``, if every model of the mixture knows it."""
        others = self._check_new(X)
        links = [found for model in self.models_ if (found := model.cross_belief(others)) is not None]
        if len(links) < len(self.models_):
            return None
        if len(links) == 1:
            return links[0]
        weights = np.array([*self.weights_.values()])
        beliefs = [self._limited(model.posterior(others, joint=False)) for model in self.models_]
        there = np.stack([belief.expected.T for belief in beliefs])  # (M, K, J)

        def at(x: AnyArray) -> CrossBelief:
            units = [found(x) for found in links]
            here = np.stack([self._limited(unit.belief).expected.T for unit in units])

            def covariance(rows: slice, own: Treatment, arm: int | None) -> Array:
                means = here[..., rows][:, own, np.arange(len(own))]
                within = np.stack([unit.covariance(rows, own, arm) for unit in units])
                return np.tensordot(weights, within, 1) + between_members(means, of_arm(there, arm), weights)

            return CrossBelief(self._mixed([unit.belief for unit in units]), covariance)

        return at


def _of_several_links(beliefs: Sequence[Posterior]) -> bool:
    """Return whether some beliefs are about a binary outcome and others take it for a number."""
    return len({belief.link for belief in beliefs}) > 1


def _log_densities(beliefs: Sequence[Posterior], out: LabelSet) -> Array:
    """Return log densities (n, M) of outcomes; of two values, log probabilities.

    The Gaussian density of one of two values has no bound, and is the larger the surer a model is; a probability has.
    """
    limits = next((b.limits for b in beliefs if b.limits is not None), None)
    if limits is None:
        return np.stack([b.log_density(out.t, out.y) for b in beliefs], axis=1)
    low, high = limits
    own = np.arange(len(out.y)), out.t
    risk = np.stack([np.clip((b.expected[own] - low) / (high - low), _SURE, 1 - _SURE) for b in beliefs], axis=1)
    return np.log(np.where(out.y[:, None] > low, risk, 1 - risk))


def stacking_weights(log_density: Array) -> Array:
    """Return weights (M,) that maximise the mean log density of a mixture, from those of its members (n, M).

    The problem is concave; each step of expectation maximisation gets closer.
    """
    likelihood = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    weights = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(_EM_STEPS):
        share = likelihood * weights
        weights = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
    return weights


def _decided(log_density: Array) -> bool:
    """Return whether one model is ahead of every other by more than two standard errors of the difference."""
    best = log_density.sum(axis=0).argmax()
    ahead = log_density[:, [best]] - np.delete(log_density, best, axis=1)
    return bool((ahead.mean(axis=0) > 2 * ahead.std(axis=0) / math.sqrt(len(ahead))).all())


def _with_covariates(weights: Array) -> Array:
    """Return weights of which arm means, the last candidate, leave enough to the best of the others."""
    if 1 - weights[-1] >= _LEAST_OF_COVARIATES:
        return weights
    least = np.zeros(len(weights))
    least[weights[:-1].argmax()], least[-1] = _LEAST_OF_COVARIATES, 1 - _LEAST_OF_COVARIATES
    return least


def _kept(names: list[str], weights: Array) -> dict[str, float]:
    kept = weights >= min(_LEAST_SHARE, weights.max())
    left = weights[kept] / weights[kept].sum()
    return dict(zip(np.array(names)[kept].tolist(), left.tolist(), strict=True))
