"""Targeted acquisition: what a unit's outcome would teach about the effects of the target population.

Notation: y is the outcome that unit i would give under its arm t, v the variance of its expectation and s2 its noise.
C_j = Cov(mu_t(x_i), tau(x_j)) for targets j with weights w_j that sum to 1. For binary outcomes all of them belong to
the best linear approximation.

Every function here follows from conditioning a Gaussian belief on y, whatever its value will be:

    E tau_j moves by C_j / (v + s2) times the surprise y - E y, so its standard deviation before y is
    h_j = abs(C_j) / sqrt(v + s2), and
    Var tau_j drops by C_j² / (v + s2).

If a sample of J units stands for N units, the scored unit itself is left out of the sample, and its effect counts as
one of N, or with its weight. Otherwise units would be worth more only because they were drawn into the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from causalbald._typing import Array, Positions, Treatment
from causalbald.acquisition._paper import mu_rho_bald
from causalbald.acquisition._registry import register
from causalbald.acquisition._targets import TargetBelief
from causalbald.posterior import Posterior

_BLOCK_UNITS = 1024  # units whose covariances with targets are worked out together
_CACHED_UNITS = 128  # units scored together: arrays of so many rows and 1,000 targets stay in the cache
_TINY = 1e-300
# A correlation that rounding errors, or few draws, bring to 1 or more would be worth infinitely much.
_MAX_SHARE = 1 - 1e-9
_MAX_SQUARED_Z = 40.0**2  # beyond 40 standard deviations no outcome changes a decision
_MIN_SQUARED_COVARIANCE = 1e-200
_MAX_EXTRA_SQUARED_Z = 80.0  # a decision whose z² exceeds the smallest one by 80 gains e^-40 times as much
_FACTORS_PER_LOG = 32  # factors multiplied before a logarithm is taken; more could underflow


@register("tau-vr")
def tau_vr(posterior: Posterior, treatment: Treatment, *, targets: TargetBelief) -> Array:
    """Expected drop of the squared error of effects: sum_j w_j C_j² / (v + s2).

    The score is the log of this sum over targets j, whose weights are w_j: of how much the weighted mean of the
    variances of their effects drops. C_j is the covariance of the unit's expected outcome with the effect of target j,
    v is the variance of this expected outcome, and s2 is the variance of the outcome noise. For binary outcomes all of
    them belong to the best linear approximation.

    This is the integrated variance reduction of Cohn (1996), "Neural Network Exploration Using Optimal Experiment
    Design", Neural Networks 9(6), with effects in place of outcomes.

    Parameters
    ----------
    posterior : Posterior
        The belief about the N units.
    treatment : (N,)
        The arm of each unit.
    targets : TargetBelief
        The belief about the target population.

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> from causalbald import acquisition
    >>> from causalbald.testing import fake_posterior
    >>> acquisition.score("tau-vr", fake_posterior(3), [0, 1, 0]).shape
    (3,)
    """

    def drop(covariance: Array, spread: Array, effects: _Effects) -> Array:
        """Return the expected drop of the weighted mean variance of effects after each outcome, (n,)."""
        return np.asarray(_squared(covariance, spread, effects) @ effects.weights / spread[:, 1])

    return _over_targets(posterior, treatment, targets, drop)


@register("epig-tau")
def epig_tau(posterior: Posterior, treatment: Treatment, *, targets: TargetBelief) -> Array:
    """Information about the effects: -1/2 sum_j w_j log(1 - C_j² / ((v + s2) v_tau_j)).

    The score is the log of this sum over targets j, whose weights are w_j: of the weighted mean of the information
    I(y; tau_j) in the unit's outcome y about the target's effect tau_j. C_j is the covariance of y with tau_j, v_tau_j
    is the variance of tau_j, v is the variance of the expectation of y, and s2 is the variance of the outcome noise.
    For binary outcomes all of them belong to the best linear approximation.

    For jointly Gaussian y and tau_j with correlation r_j, I(y; tau_j) = -1/2 log(1 - r_j²), and
    r_j² = C_j² / ((v + s2) v_tau_j). This is the expected predictive information gain (EPIG) of Bickford Smith, Kirsch,
    Farquhar, Gal, Foster and Rainforth (2023), "Prediction-Oriented Bayesian Active Learning", AISTATS,
    arXiv:2304.08151, with effects in place of predictions.

    Parameters
    ----------
    posterior : Posterior
        The belief about the N units.
    treatment : (N,)
        The arm of each unit.
    targets : TargetBelief
        The belief about the target population.

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> from causalbald import acquisition
    >>> from causalbald.testing import fake_posterior
    >>> acquisition.score("epig-tau", fake_posterior(3), [0, 1, 0]).shape
    (3,)
    """

    def information(covariance: Array, spread: Array, effects: _Effects) -> Array:
        """Return the weighted mean of the information about effects in each outcome, (n,)."""
        share = _squared(covariance, spread, effects) / spread[:, 1:] / effects.variance
        return -0.5 * _mean_log_rest(share, effects.weights)

    return _over_targets(posterior, treatment, targets, information)


@register("epig-mu")
def epig_mu(posterior: Posterior, treatment: Treatment, *, targets: TargetBelief) -> Array:
    """Information about both potential outcomes: as epig-tau, with c_jᵀ Σ_j⁻¹ c_j for C_j² / v_tau_j.

    The score is the log of the weighted mean of I(y; (mu_0(x_j), mu_1(x_j))): of the information in the unit's outcome
    y about both expected outcomes of target j. It is the information gain of EPIG (see :func:`epig_tau`) about pairs of
    predictions.

    c_j (2,) are the covariances of the unit's expected outcome with both expected outcomes of target j, and Σ_j (2, 2)
    is the covariance of these two. v is the variance of the unit's expected outcome, and s2 is the variance of the
    outcome noise. The share of Var y that the pair explains is R_j² = c_jᵀ Σ_j⁻¹ c_j / (v + s2), and the information is
    -1/2 log(1 - R_j²). For binary outcomes all of them belong to the best linear approximation.

    Parameters
    ----------
    posterior : Posterior
        The belief about the N units.
    treatment : (N,)
        The arm of each unit.
    targets : TargetBelief
        The belief about the target population.

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> from causalbald import acquisition
    >>> from causalbald.testing import fake_posterior
    >>> acquisition.score("epig-mu", fake_posterior(3), [0, 1, 0]).shape
    (3,)
    """
    belief, weights = posterior.linearised(), targets.population.weights
    sigma = targets.posterior.covariance[targets.population.positions]  # Σ_j, (J, 2, 2)
    total = np.empty(len(belief))
    # A jitter of 1e-9 of the mean variance keeps Σ_j invertible where both arms are perfectly correlated.
    scale = np.trace(sigma, axis1=1, axis2=2).mean() / 2
    inverse = np.linalg.inv(sigma + (1e-9 * scale + _TINY) * np.eye(2))
    for rows in _slices(len(belief), _BLOCK_UNITS):
        under_arms = [_covariance(targets, rows, arm) for arm in (0, 1)]
        expectation, outcome = _spread(belief, treatment, rows)
        for part in _slices(len(outcome), _CACHED_UNITS):
            c0, c1 = under_arms[0][part], under_arms[1][part]
            # cᵀ Σ⁻¹ c = c_0² S_00 + 2 c_0 c_1 S_01 + c_1² S_11 with S = Σ⁻¹.
            quadratic = c0 * (c0 * inverse[:, 0, 0] + c1 * (2 * inverse[:, 0, 1])) + c1**2 * inverse[:, 1, 1]
            if belief.n_draws is not None and belief.n_draws > 3:
                # Draws: as the adjusted R² of two regressors, 1 - (1 - R²) n / (n - 2) with n = S - 1.
                v, n = expectation[part, None], belief.n_draws - 1
                quadratic = v - (v - quadratic) * (n / (n - 2))
            total[rows][part] = -0.5 * _mean_log_rest(quadratic / outcome[part, None], weights)
        # For the unit itself, c is a column of its Σ, so that cᵀ Σ⁻¹ c = v.
        to_itself = -0.5 * _mean_log_rest((expectation / outcome)[:, None], np.ones(1))
        total[rows] = _with_unit_itself(total[rows], to_itself, targets, rows)
    return _log(total)


@register("regret")
def regret(posterior: Posterior, treatment: Treatment, *, targets: TargetBelief) -> Array:
    """Expected gain of deciding whom to treat after the outcome: sum_j w_j [h phi(m/h) - abs(m) Phi(-abs(m)/h)].

    The score is the log of this sum over targets j, whose weights are w_j. m is the expected effect of target j minus
    the effect that is worthwhile, and h = abs(C_j) / sqrt(v + s2) is how far the unit's outcome is expected to move m.
    C_j is the covariance of the unit's expected outcome with the effect of target j, v is the variance of this expected
    outcome, and s2 is the variance of the outcome noise. phi and Phi are the density and the distribution function of
    the standard normal. For binary outcomes all of them belong to the best linear approximation.

    It is the knowledge gradient of the decision. After the outcome, m becomes m + h z with standard normal z, and the
    best decision gains max(m + h z, 0). The expectation of this gain minus max(m, 0) is the bracket above. See Frazier,
    Powell and Dayanik (2009), "The Knowledge-Gradient Policy for Correlated Normal Beliefs", INFORMS Journal on
    Computing 21(4), doi:10.1287/ijoc.1080.0314.

    Parameters
    ----------
    posterior : Posterior
        The belief about the N units.
    treatment : (N,)
        The arm of each unit.
    targets : TargetBelief
        Its population holds the effect that is worthwhile, ``threshold``.

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> from causalbald import acquisition
    >>> from causalbald.testing import fake_posterior
    >>> acquisition.score("regret", fake_posterior(3), [0, 1, 0]).shape
    (3,)
    """

    def gain(covariance: Array, spread: Array, effects: _Effects) -> Array:
        """Return the expected gain of deciding after each outcome, (n,)."""
        moved = _squared(covariance, spread, effects)  # h² (v + s2)
        squared = effects.distance**2 * spread[:, 1:] / (moved + _MIN_SQUARED_COVARIANCE)  # (m / h)²
        # Gains fall as exp(-(m / h)² / 2): decisions far from the closest one add nothing and are left out.
        closest = np.minimum(squared.min(axis=1, keepdims=True) + _MAX_EXTRA_SQUARED_Z, _MAX_SQUARED_Z)
        unit, target = np.nonzero(squared < closest)
        z = np.sqrt(squared[unit, target])
        h = np.sqrt(moved[unit, target] / spread[unit, 1])
        gains = h * (np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) - z * ndtr(-z)) * effects.weights[target]
        return np.bincount(unit, gains, minlength=len(moved)).astype(np.float64, copy=False)

    return _over_targets(posterior, treatment, targets, gain)


@register("default", batch="auto")
def default(posterior: Posterior, treatment: Treatment, *, targets: TargetBelief) -> Array:
    """What we recommend: tau-vr, one unit after the other; from a few draws mu-rho-bald, if all matter alike.

    Fewer than 100 draws (or members of an ensemble) are few: covariances between units cannot be estimated from them,
    and mu-rho-bald does not need these covariances. If targets are only a part of the pool, or have unequal weights,
    the score is that of tau-vr even from few draws.

    Parameters
    ----------
    posterior : Posterior
        The belief about the N units.
    treatment : (N,)
        The arm of each unit.
    targets : TargetBelief
        The belief about the target population.

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> from causalbald import acquisition
    >>> from causalbald.testing import fake_posterior
    >>> belief = fake_posterior(3)
    >>> bool((acquisition.score("default", belief, [0, 1, 0]) == acquisition.score("tau-vr", belief, [0, 1, 0])).all())
    True
    """
    if targets.population.is_whole_pool and not posterior.relates_units:
        return mu_rho_bald(posterior, treatment)
    return tau_vr(posterior, treatment, targets=targets)


class _Effects(NamedTuple):
    """Effects that an outcome may teach about: the same J targets for all units, or for each of n units its own effect.

    Variances and distances are (J,), or (n, 1) for own effects; weights are (J,) or (1,).
    """

    weights: Array
    variance: Array
    distance: Array  # between the expected effect and the effect that is worthwhile, not negative
    draws: int | None  # from which covariances were estimated; None in closed form

    @classmethod
    def of(cls, belief: Posterior, weights: Array, rows: Positions | slice, threshold: float) -> _Effects:
        """Return the effects of the units ``rows`` of a belief; ``threshold`` is the effect that is worthwhile."""
        variance = np.maximum(belief.effect_variance[rows], _TINY)
        return cls(weights, variance, np.abs(belief.effect_mean[rows] - threshold), belief.n_draws)


# Takes covariances (n, J) of n outcomes with effects, variances (n, 2) of the expectations of the outcomes and of the
# outcomes, and the effects. Returns what each outcome is worth, (n,).
Worth = Callable[[Array, Array, _Effects], Array]


def _over_targets(posterior: Posterior, treatment: Treatment, targets: TargetBelief, worth: Worth) -> Array:
    """Return scores (N,): the log of what each unit's outcome is ``worth`` to the effects of all targets.

    If the targets are a sample, the unit itself is left out of the sample, and its own effect counts separately.
    """
    belief, population = posterior.linearised(), targets.population
    effects = _Effects.of(targets.posterior, population.weights, population.positions, population.threshold)
    total = np.empty(len(belief))
    for rows in _slices(len(belief), _BLOCK_UNITS):
        covariance = _covariance(targets, rows, None)
        spread = np.stack(_spread(belief, treatment, rows), axis=1)
        for part in _slices(len(spread), _CACHED_UNITS):
            total[rows][part] = worth(covariance[part], spread[part], effects)
        if population.unit_weight is not None:
            to_itself = _worth_to_itself(belief, treatment, population.threshold, rows, spread, worth)
            total[rows] = _with_unit_itself(total[rows], to_itself, targets, rows)
    return _log(total)


def _worth_to_itself(
    belief: Posterior, treatment: Treatment, threshold: float, rows: slice, spread: Array, worth: Worth
) -> Array:
    """Return what the outcome of each unit is worth to the unit's own effect, (n,). Called by `_over_targets`."""
    under_arm = belief.covariance[rows][np.arange(len(spread)), treatment[rows]]  # Cov(mu_t, mu_a), (n, 2)
    effects = _Effects.of(belief, np.ones(1), rows, threshold)
    effects = effects._replace(variance=effects.variance[:, None], distance=effects.distance[:, None])
    return worth((under_arm[:, 1] - under_arm[:, 0])[:, None], spread, effects)


def _with_unit_itself(to_others: Array, to_itself: Array, targets: TargetBelief, rows: slice) -> Array:
    """Return what the outcomes of the units ``rows`` are worth to the whole pool for which a sample of targets stands.

    The worth is (1 - u) · to_others / (1 - w_i) + u · to_itself. u is the weight of the unit among all units, and w_i
    is the weight that the unit had in the sample, 0 if it was not drawn. If the targets are no sample, ``to_others`` is
    returned as it is.
    """
    unit_weight = targets.population.unit_weight
    if unit_weight is None:
        return to_others
    place = targets.places[rows]
    others_weight = 1 - np.where(place < 0, 0.0, targets.population.weights[place])
    u = unit_weight[rows] if isinstance(unit_weight, np.ndarray) else unit_weight
    return np.asarray((1 - u) * to_others / np.maximum(others_weight, _TINY) + u * to_itself)


def _covariance(targets: TargetBelief, rows: slice, arm: int | None) -> Array:
    """Return covariances (n, J) of the expected outcomes of the units ``rows`` with those of all targets under ``arm``.

    Each unit is under its own arm. With ``arm`` None, the covariances are with the effects of the targets. If the
    targets are a sample, the covariance of a unit with itself is set to 0, because the unit counts separately.
    """
    covariance = targets.covariance(rows, arm)
    if targets.population.unit_weight is not None:
        # In place, also in arrays that a sequential belief keeps for the next pick: it never reads these entries.
        place = targets.places[rows]
        is_target = place >= 0
        covariance[np.flatnonzero(is_target), place[is_target]] = 0.0
    return covariance


def _spread(belief: Posterior, treatment: Treatment, rows: slice) -> tuple[Array, Array]:
    """Return the variances of the expected outcomes and of the outcomes of the units ``rows``, under their arms."""
    arm = treatment[rows]
    units = np.arange(len(arm))
    expectation = belief.variance[rows][units, arm]
    return expectation, np.maximum(expectation + belief.noise[rows][units, arm], _TINY)


def _squared(covariance: Array, spread: Array, effects: _Effects) -> Array:
    """Return the squares of ``covariance`` (n, J); of covariances estimated from draws, unbiased estimates, at least 0.

    ``spread`` (n, 2) has the variance v of the expected outcome in its first column. For sample moments (hats) of S
    Gaussian draws and n = S - 1, with C the covariance and v_tau the variance of the effect:
        E Ĉ² = C² (n + 1) / n + v v_tau / n  and  E[v̂ v̂_tau] = v v_tau + 2 C² / n.
    Solved for C², the unbiased estimate is n (n Ĉ² - v̂ v̂_tau) / ((n + 2) (n - 1)). Two draws give no such estimate,
    and Ĉ² is returned.
    """
    square = covariance**2
    if effects.draws is None:
        return square
    n = effects.draws - 1
    product = spread[:, :1] * effects.variance
    return np.maximum(n * (n * square - product) / ((n + 2) * (n - 1)), 0.0) if n > 1 else square


def _mean_log_rest(share: Array, weights: Array) -> Array:
    """Return sum_j w_j log(1 - share_j), (n,), of shares (n, J) and weights w (J,).

    Shares are clipped to [0, 1 - 1e-9]. With equal weights, logs of products of 32 factors are summed, which takes
    fewer logarithms.
    """
    rest = 1.0 - np.clip(share, 0.0, _MAX_SHARE)
    if (weights == weights[0]).all():
        rest = np.multiply.reduceat(rest, np.arange(0, len(weights), _FACTORS_PER_LOG), axis=1)
        return np.asarray(np.log(rest).sum(axis=1) * weights[0])
    return np.asarray(np.log(rest) @ weights)


def _log(values: Array) -> Array:
    """Return the logs of values; values below 1e-300 count as 1e-300."""
    result: Array = np.log(np.maximum(values, _TINY))
    return result


def _slices(length: int, size: int) -> Iterator[slice]:
    """Return an iterator over slices of ``size`` that cover ``length`` rows; the last slice may hold fewer rows."""
    return (slice(start, start + size) for start in range(0, length, size))
