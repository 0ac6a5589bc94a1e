"""The mixture of models that best predicts bought labels which it has not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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

# A candidate with a smaller weight costs as much as the others and changes nothing.
_MIN_WEIGHT = 0.1
_EM_STEPS = 500
# Distance of a compared risk from 0 and 1: a model that takes a binary outcome for a number may expect less or more.
_MIN_RISK = 0.005
_MEANS = "arm means"  # the last candidate if outcomes have two values
# Least weight of models with covariates. By arm means all units are alike, and no unit would teach more than another.
_MIN_COVARIATES_WEIGHT = 0.25
_MIN_LABELS_PER_ARM = 2


@register("auto")
@dataclass(kw_only=True, eq=False, repr=False)
class AutoEstimator(CateEstimator):
    """Mixture of ``candidates``, weighted by how likely each makes labels that it has not seen.

    Each candidate is fitted again up to ``folds`` times without a share of the bought labels, until the candidates
    differ clearly. The weights maximise the log density of the labels left out (stacking). Bought labels are no random
    sample of the pool: the weights tell which model predicts units like the measured ones. No validation labels are
    used. With few labels, or one candidate, the first candidate is taken.

    Outcomes with two values are compared as events. Arm means, the same risk for all units of an arm, are then always a
    candidate; with few labels they share the weight with the first candidate. Expected outcomes, effects and their
    intervals stay within the range of the two values.

    Parameters
    ----------
    candidates : sequence of str
        Names of models. ``index`` is omitted with a single covariate, where it is a part of ``gp``, and for outcomes
        with two values, where it explains noise.
    folds : int
        Number of folds, at least 2.
    min_labels : int
        Number of labels below which no candidates are compared, at least 2; twice ``folds`` if that is more.
    max_labels : int
        Number of labels that are compared at most; not below ``min_labels``.
    random_state : int
        Chooses folds, and is passed on to the models.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.models import AutoEstimator
    >>> x, t = np.linspace(-2, 2, 20)[:, None], np.arange(20) % 2
    >>> AutoEstimator().fit(x[:, 0] + 3 * t, t, X=x).weights_
    {'gp': 1.0}
    """

    candidates: Sequence[str] = ("gp", "index")
    folds: int = 4
    min_labels: int = 40
    max_labels: int = 300
    random_state: int = 0

    accepts_images = True

    def _fit(self, labels: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None:
        """Set ``weights_`` by candidate, then fit each candidate with a weight on all labels: ``models_``."""
        self._limits = outcome_range(labels.y)
        self.weights_ = self._weights(labels, pool)
        self.models_ = [self._fitted_on(name, labels, pool) for name in self.weights_]

    def _weights(self, labels: LabelSet, pool: AnyArray) -> dict[str, float]:
        """Return the weight of each candidate that is worth a fit, by name; the weights sum to 1.

        Raises InputError if no candidate is left, or an option is out of range. With too few labels, overall or in an
        arm, nothing is compared: the first candidate counts alone, or half, next to arm means.
        """
        # On events, too, an index explains noise: next to gp and arm means it made risks worse at 50 to 600 labels.
        is_index_useful = labels.x[0].size > 1 and self._limits is None
        names = [name for name in self.candidates if name != "index" or is_index_useful]
        if not names:
            raise InputError("candidates names no model that can be used here: give at least one, for example 'gp'.")
        if self._limits is not None:
            names.append(_MEANS)
        folds = check_int(self.folds, "folds", low=2)
        min_labels = max(check_int(self.min_labels, "min_labels", low=2), 2 * folds)
        groups = math.ceil(len(labels.y) / check_int(self.max_labels, "max_labels", low=min_labels))
        group = balanced_folds(labels.t, groups, generator(self.random_state, "compared"))
        compared = labels.take(np.flatnonzero(group == 0))
        if len(compared.y) < min_labels or min(np.bincount(compared.t, minlength=2)) < _MIN_LABELS_PER_ARM:
            return {names[0]: 1.0} if self._limits is None else {names[0]: 0.5, _MEANS: 0.5}
        if len(names) == 1:
            return {names[0]: 1.0}
        weights = stacking_weights(self._held_out(names, compared, pool, folds))
        return _largest(names, weights if self._limits is None else _with_covariates(weights))

    def _held_out(self, names: list[str], labels: LabelSet, pool: AnyArray, folds: int) -> Array:
        """Return log densities (n, M) of labels under M candidates that have not seen these labels.

        The candidates are fitted fold by fold, until they differ clearly; n labels are in these folds.
        """
        fold, densities = balanced_folds(labels.t, folds, generator(self.random_state, "folds")), []
        for k in range(folds):
            learned, held_out = (labels.take(np.flatnonzero(rows)) for rows in (fold != k, fold == k))
            models = [self._fitted_on(name, learned, pool) for name in names]
            beliefs = [self._limited(model.posterior(held_out.x, joint=False)) for model in models]
            densities.append(_log_densities(beliefs, held_out))
            if k > 0 and _is_decided(np.concatenate(densities)):
                break
        return np.concatenate(densities)

    def _fitted_on(self, name: str, labels: LabelSet, pool: AnyArray) -> CateEstimator:
        """Return a new model of the candidate's name, fitted on ``labels`` with the whole pool."""
        if name == _MEANS and self._limits is not None:
            model: CateEstimator = ArmMeans(limits=self._limits)
        else:
            model = load(name, random_state=self.random_state)
        return model.fit(labels.y, labels.t, X=labels.x, pool=pool)

    def _limited(self, belief: Posterior) -> Posterior:
        """Return a candidate's belief, cut to the range of the outcome if that has two values."""
        return belief if self._limits is None else belief._derived(limits=self._limits)

    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        """Return the mixture of the fitted models' beliefs about checked units."""
        return self._mixed([model.posterior(x, joint=joint) for model in self.models_])

    def _mixed(self, beliefs: list[Posterior]) -> Posterior:
        """Return the mixture of the fitted models' beliefs, one per entry of ``weights_``, by these weights.

        Beliefs with the probit link are made linear if other models have the identity link.
        """
        beliefs = [self._limited(belief) for belief in beliefs]
        if len(beliefs) == 1:
            return beliefs[0]
        if len({belief.link for belief in beliefs}) > 1:  # some models take a binary outcome for a number
            beliefs = [belief.linearised() for belief in beliefs]
        return Posterior.mixture(beliefs, list(self.weights_.values()))

    def cross_belief(self, X: Any) -> CrossBeliefOf | None:
        """Return a function from new units to their covariances with the units in ``X``.

        Parameters
        ----------
        X : (J, D) array or DataFrame, or images (J, C, H, W)
            Covariates of the units with which covariances are needed.

        Returns
        -------
        callable or None
            Takes checked covariates (N, D) of new units and returns their :class:`CrossBelief`. None if a model of the
            mixture returns None.
        """
        other_x = self._check_new(X)
        members = [member for model in self.models_ if (member := model.cross_belief(other_x)) is not None]
        if len(members) < len(self.models_):
            return None
        if len(members) == 1:
            return members[0]
        weights = np.array([*self.weights_.values()])
        other_beliefs = [self._limited(model.posterior(other_x, joint=False)) for model in self.models_]
        other_means = np.stack([belief.expected.T for belief in other_beliefs])  # (M, K, J)

        def at(x: AnyArray) -> CrossBelief:
            """Return the cross-belief of units x (N, D)."""
            units = [member(x) for member in members]
            unit_means = np.stack([self._limited(unit.belief).expected.T for unit in units])  # (M, K, N)

            def covariance(rows: slice, treatment: Treatment, arm: int | None) -> Array:
                """Return covariances (n, J) as :class:`CrossBelief` describes."""
                # Cov = Σ_m w_m Cov_m, plus what the members' means differ by.
                means = unit_means[..., rows][:, treatment, np.arange(len(treatment))]
                within = np.stack([unit.covariance(rows, treatment, arm) for unit in units])
                return np.tensordot(weights, within, 1) + between_members(means, of_arm(other_means, arm), weights)

            return CrossBelief(self._mixed([unit.belief for unit in units]), covariance)

        return at


def _log_densities(beliefs: Sequence[Posterior], held_out: LabelSet) -> Array:
    """Return log densities (n, M) of held-out outcomes under M beliefs, which are about these n labels.

    If a belief has limits, the outcome has two values, and log probabilities are returned instead. A Gaussian density
    of one of two values has no bound: it grows with the certainty of the model. A probability is bounded.
    """
    limits = next((belief.limits for belief in beliefs if belief.limits is not None), None)
    if limits is None:
        return np.stack([belief.log_density(held_out.t, held_out.y) for belief in beliefs], axis=1)
    low, high = limits
    index = np.arange(len(held_out.y)), held_out.t
    shares = [(belief.expected[index] - low) / (high - low) for belief in beliefs]
    risk = np.stack([np.clip(share, _MIN_RISK, 1 - _MIN_RISK) for share in shares], axis=1)
    return np.log(np.where(held_out.y[:, None] > low, risk, 1 - risk))


def stacking_weights(log_density: Array) -> Array:
    """Return weights (M,) that maximise the mean log density of a mixture, from log densities (n, M) of its members.

    The weights sum to 1, and none is negative. Yao, Vehtari, Simpson and Gelman, Using Stacking to Average Bayesian
    Predictive Distributions (2018, doi:10.1214/17-BA1091).
    """
    # Maximise Σ_i log Σ_m w_m p_im over the simplex: concave. Expectation maximisation replaces w_m by the mean over i
    # of w_m p_im / Σ_m' w_m' p_im', and each step gets closer. A factor of all p_im of a label cancels.
    likelihood = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    weights = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(_EM_STEPS):
        share = likelihood * weights
        weights = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
    return weights


def _is_decided(log_density: Array) -> bool:
    """Return whether one model's mean log density is ahead of all others by over two standard errors of the difference.

    ``log_density`` is (n, M), for n labels and M models.
    """
    best = log_density.sum(axis=0).argmax()
    lead = log_density[:, [best]] - np.delete(log_density, best, axis=1)
    return bool((lead.mean(axis=0) > 2 * lead.std(axis=0) / math.sqrt(len(lead))).all())


def _with_covariates(weights: Array) -> Array:
    """Return weights (M,) in which models with covariates have at least ``_MIN_COVARIATES_WEIGHT`` together.

    The last weight is that of arm means. If it is too large, the best other model gets the least weight, and the rest
    of the models none.
    """
    if 1 - weights[-1] >= _MIN_COVARIATES_WEIGHT:
        return weights
    raised = np.zeros(len(weights))
    raised[weights[:-1].argmax()], raised[-1] = _MIN_COVARIATES_WEIGHT, 1 - _MIN_COVARIATES_WEIGHT
    return raised


def _largest(names: list[str], weights: Array) -> dict[str, float]:
    """Return the weights of at least ``_MIN_WEIGHT`` by name, scaled to sum 1; if none is so large, the largest."""
    is_large = weights >= min(_MIN_WEIGHT, weights.max())
    scaled = weights[is_large] / weights[is_large].sum()
    return dict(zip(np.array(names)[is_large].tolist(), scaled.tolist(), strict=True))
