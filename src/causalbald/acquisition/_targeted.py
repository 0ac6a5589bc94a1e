"""Targeted acquisition: what a unit's outcome would teach about the effects of everyone who matters.

Notation: y is the outcome that unit i would give under its own arm t, v its variance of expectation and s2 its noise;
C_j = Cov(mu_t(x_i), tau(x_j)) for targets j with weights w_j that sum to 1. For binary outcomes all of them are
those of the best linear approximation. All are exact for Gaussian beliefs: measuring y moves E tau_j by C_j / (v + s2)
times its surprise, and takes C_j² / (v + s2) off the variance of tau_j, whatever the outcome is.

Where a sample of J units stands for N, the unit itself is left out of it and its own effect counts as one of N, or with
its own weight. With its share of the sample, members would be worth more than others by the chance of being drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from causalbald._typing import Array, Positions, Treatment
from causalbald.acquisition._paper import mu_rho_bald
from causalbald.acquisition._registry import Targets, register
from causalbald.posterior import Posterior

_CHUNK = 1024  # units whose covariances with targets are worked out together
_CACHED = 128  # units looked at together: arrays of so many rows and 1,000 targets stay in the cache
_TINY = 1e-300
# A correlation that rounding errors, or few draws, bring to 1 or beyond would be worth infinitely much.
_CERTAIN = 1 - 1e-9
_FAR = 40.0**2  # standard deviations, squared, beyond which no outcome changes a decision
_NOTHING = 1e-200  # squared covariance of what has none
_NEGLIGIBLE = 80.0  # a decision whose z² is larger by that gains e^-40 times as much
_FACTORS = 32  # that are multiplied before a logarithm is taken; more could be too small a number


@register("tau-vr", linked=True)
def tau_vr(posterior: Posterior, treatment: Treatment, *, targets: Targets) -> Array:
    """Expected drop of the squared error of effects: sum_j w_j C_j² / (v + s2)."""

    def drop(covariance: Array, spread: Array, about: _Effects) -> Array:
        return np.asarray(_squared(covariance, spread, about) @ about.weights / spread[:, 1])

    return _over_targets(posterior, treatment, targets, drop)


@register("epig-tau", linked=True)
def epig_tau(posterior: Posterior, treatment: Treatment, *, targets: Targets) -> Array:
    """Information about the effects: -1/2 sum_j w_j log(1 - C_j² / ((v + s2) v_tau_j))."""

    def information(covariance: Array, spread: Array, about: _Effects) -> Array:
        share = _squared(covariance, spread, about) / spread[:, 1:] / about.variance
        return -0.5 * _mean_log_rest(share, about.weights)

    return _over_targets(posterior, treatment, targets, information)


@register("epig-mu", linked=True)
def epig_mu(posterior: Posterior, treatment: Treatment, *, targets: Targets) -> Array:
    """Information about both potential outcomes: as epig-tau, with c_jᵀ Σ_j⁻¹ c_j for C_j² / v_tau_j."""
    belief = posterior.linearised()
    goal, total = _Goal(belief, targets), np.empty(len(belief))
    scale = np.trace(goal.both, axis1=1, axis2=2).mean() / 2
    inverse = np.linalg.inv(goal.both + (1e-9 * scale + _TINY) * np.eye(2))
    for rows in _chunks(len(belief), _CHUNK):
        both = [_covariance(belief, treatment, goal, rows, arm) for arm in (0, 1)]
        expectation, outcome = _spread(belief, treatment, rows)
        for part in _chunks(len(outcome), _CACHED):
            c0, c1 = both[0][part], both[1][part]
            quadratic = c0 * (c0 * inverse[:, 0, 0] + c1 * (2 * inverse[:, 0, 1])) + c1**2 * inverse[:, 1, 1]
            if belief.n_draws is not None and belief.n_draws > 3:  # as the adjusted R² of two regressors
                v, n = expectation[part, None], belief.n_draws - 1
                quadratic = v - (v - quadratic) * (n / (n - 2))
            total[rows][part] = -0.5 * _mean_log_rest(quadratic / outcome[part, None], goal.about.weights)
        # Of a unit itself, c is a column of its own Σ, so that cᵀ Σ⁻¹ c = v.
        itself = -0.5 * _mean_log_rest((expectation / outcome)[:, None], np.ones(1))
        total[rows] = goal.with_own(total[rows], itself, rows)
    return _log(total)


@register("regret", linked=True)
def regret(posterior: Posterior, treatment: Treatment, *, targets: Targets) -> Array:
    """Expected gain of deciding whom to treat after the outcome: sum_j w_j [h phi(m/h) - abs(m) Phi(-abs(m)/h)].

    The knowledge gradient of the decision: m is E tau_j minus the effect that is worthwhile, and
    h = abs(C_j) / sqrt(v + s2) is how far the outcome is expected to move it.
    """

    def gain(covariance: Array, spread: Array, about: _Effects) -> Array:
        moved = _squared(covariance, spread, about)  # h² times the outcome's variance
        squared = about.distance**2 * spread[:, 1:] / (moved + _NOTHING)  # (m / h)²
        closest = np.minimum(squared.min(axis=1, keepdims=True) + _NEGLIGIBLE, _FAR)
        unit, target = np.nonzero(squared < closest)
        z = np.sqrt(squared[unit, target])
        h = np.sqrt(moved[unit, target] / spread[unit, 1])
        each = h * (np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) - z * ndtr(-z)) * about.weights[target]
        return np.bincount(unit, each, minlength=len(moved)).astype(np.float64, copy=False)

    return _over_targets(posterior, treatment, targets, gain)


@register("default", batch="auto", linked=True)
def default(posterior: Posterior, treatment: Treatment, *, targets: Targets) -> Array:
    """What we recommend: tau-vr, one unit after the other; from a few draws mu-rho-bald, if all matter alike."""
    if targets.everyone and not posterior.relates_units:
        return mu_rho_bald(posterior, treatment)
    return tau_vr(posterior, treatment, targets=targets)


class _Effects(NamedTuple):
    """Effects that a unit may be worth something to: of J targets, arrays (J,); of n units themselves, (n, 1)."""

    weights: Array  # (J,) or (1,)
    variance: Array
    distance: Array  # of the expectation from the effect that is worthwhile
    draws: int | None

    @classmethod
    def of(cls, belief: Posterior, weights: Array, rows: Positions | slice, threshold: float) -> _Effects:
        """Return the effects of some units of a belief."""
        variance = np.maximum(belief.effect_variance[rows], _TINY)
        return cls(weights, variance, np.abs(belief.effect_mean[rows] - threshold), belief.n_draws)


class _Goal:
    """What is believed of the targets."""

    def __init__(self, belief: Posterior, targets: Targets) -> None:
        self.positions, self.own, self.threshold = targets.positions, targets.own, targets.threshold
        known = belief if targets.belief is None else targets.belief.linearised()
        self.factor = known.factor[self.positions].astype(np.float64, copy=False)
        self.effect = self.factor[:, 1] - self.factor[:, 0]
        self.both = known.covariance[self.positions]
        self.about = _Effects.of(known, targets.weights, self.positions, targets.threshold)
        self.covariance = targets.covariance
        # Where each unit is among the targets, or -1: a unit's own residual links its outcome to its own effect.
        self.place = np.full(len(belief), -1) if targets.place is None else targets.place
        if targets.place is None and targets.belief is None:
            self.place[self.positions] = np.arange(len(self.positions))

    def with_own(self, to_others: Array, to_itself: Array, rows: slice) -> Array:
        """Return what units are worth to everyone, if the targets are a sample from which each is left out."""
        if self.own is None:
            return to_others
        place = self.place[rows]
        left = 1 - np.where(place < 0, 0.0, self.about.weights[place])
        own = self.own[rows] if isinstance(self.own, np.ndarray) else self.own
        return np.asarray((1 - own) * to_others / np.maximum(left, _TINY) + own * to_itself)


Worth = Callable[[Array, Array, _Effects], Array]


def _over_targets(posterior: Posterior, treatment: Treatment, targets: Targets, worth: Worth) -> Array:
    """Return the log of what ``worth`` makes of the covariances of each unit's outcome with all targets' effects."""
    belief = posterior.linearised()
    goal, total = _Goal(belief, targets), np.empty(len(belief))
    for rows in _chunks(len(belief), _CHUNK):
        covariance = _covariance(belief, treatment, goal, rows)
        spread = np.stack(_spread(belief, treatment, rows), axis=1)
        for part in _chunks(len(spread), _CACHED):
            total[rows][part] = worth(covariance[part], spread[part], goal.about)
        if goal.own is not None:
            total[rows] = goal.with_own(total[rows], _to_itself(belief, treatment, goal, rows, spread, worth), rows)
    return _log(total)


def _to_itself(belief: Posterior, treatment: Treatment, goal: _Goal, rows: slice, spread: Array, worth: Worth) -> Array:
    """Return what some units' outcomes are worth to their own effects, (n,)."""
    own = belief.covariance[rows][np.arange(len(spread)), treatment[rows]]
    alone = _Effects.of(belief, np.ones(1), rows, goal.threshold)
    alone = alone._replace(variance=alone.variance[:, None], distance=alone.distance[:, None])
    return worth((own[:, 1] - own[:, 0])[:, None], spread, alone)


def _covariance(belief: Posterior, treatment: Treatment, goal: _Goal, rows: slice, arm: int | None = None) -> Array:
    """Return Cov(mu_t(x_i), mu_arm(x_j)) of some units and all targets, (n, J); of their effects without an arm.

    With targets that are a sample, a unit's with itself is 0: it counts apart.
    """
    own, place = treatment[rows], goal.place[rows]
    here = np.arange(len(own))
    target = place >= 0
    if goal.covariance is not None:
        covariance = goal.covariance(rows, arm)
    else:
        factor, local = belief.factor[rows][here, own].astype(np.float64, copy=False), belief.residual[rows][here, own]
        covariance = factor @ (goal.effect if arm is None else goal.factor[:, arm]).T
        covariance[here[target], place[target]] += (local[:, 1] - local[:, 0] if arm is None else local[:, arm])[target]
    if goal.own is not None:  # in place, also where they are kept for the next pick: these are never looked at
        covariance[here[target], place[target]] = 0.0
    return covariance


def _spread(belief: Posterior, treatment: Treatment, rows: slice) -> tuple[Array, Array]:
    """Return v and v + s2 of some units."""
    own = treatment[rows]
    here = np.arange(len(own))
    expectation = belief.variance[rows][here, own]
    return expectation, np.maximum(expectation + belief.noise[rows][here, own], _TINY)


def _squared(covariance: Array, spread: Array, about: _Effects) -> Array:
    """Return C_j²; from S draws without the bias of squaring an estimate, where that leaves more than nothing.

    With n = S - 1, E C² = C² (n + 1) / n + v v_tau / n and E[v v_tau] = v v_tau + 2 C² / n for sample moments of
    Gaussian draws, which are solved for C².
    """
    square = covariance**2
    if about.draws is None:
        return square
    n = about.draws - 1
    both = spread[:, :1] * about.variance
    return np.maximum(n * (n * square - both) / ((n + 2) * (n - 1)), 0.0) if n > 1 else square


def _mean_log_rest(share: Array, weights: Array) -> Array:
    """Return sum_j w_j log(1 - share_j) of shares (n, J); where weights are equal, few logarithms of products do."""
    rest = 1.0 - np.clip(share, 0.0, _CERTAIN)
    if (weights == weights[0]).all():
        rest = np.multiply.reduceat(rest, np.arange(0, len(weights), _FACTORS), axis=1)
        return np.asarray(np.log(rest).sum(axis=1) * weights[0])
    return np.asarray(np.log(rest) @ weights)


def _log(values: Array) -> Array:
    result: Array = np.log(np.maximum(values, _TINY))
    return result


def _chunks(length: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, length, size))
