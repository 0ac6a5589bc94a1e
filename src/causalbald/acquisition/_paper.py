"""The acquisition functions of Causal-BALD (Jesson, Tigas et al., NeurIPS 2021), as log-importances.

Notation: t is the arm that a unit got, t' the other one; v are variances of the belief about expected outcomes.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from causalbald._gaussian import bernoulli_entropy, expectation
from causalbald._typing import Array, Treatment
from causalbald.acquisition._registry import register
from causalbald.posterior import Posterior

# Variances below this fraction of the outcome noise cannot be told from rounding errors.
_RELATIVE_FLOOR = 1e-9
_PROBIT_REACH = 8.0  # entropy of Phi(f) is below 1e-13 beyond
_TYPE_S_FLOOR = 1e-7


def _log_variance(variance: Array, posterior: Posterior) -> Array:
    floor = _RELATIVE_FLOOR * posterior.outcome_noise.mean(axis=1) + 1e-300
    result: Array = np.log(np.maximum(variance, floor))
    return result


def _of_arm(values: Array, arm: Treatment) -> Array:
    return values[np.arange(len(values)), arm]


@register("random", per_cost=False, blind=True)
def random_score(posterior: Posterior, treatment: Treatment) -> Array:
    """Every unit counts the same."""
    return np.zeros(len(posterior))


@register("propensity", blind=True)
def propensity_score(posterior: Posterior, treatment: Treatment, *, propensity: Array) -> Array:
    """Probability of the other arm: log(1 - pi_t)."""
    other = np.where(treatment == 1, 1 - propensity, propensity)
    result: Array = np.log(np.maximum(other, 1e-300))
    return result


@register("tau-bald")
def tau_bald(posterior: Posterior, treatment: Treatment) -> Array:
    """Uncertainty about the effect: log v_tau."""
    return _log_variance(posterior.effect_variance, posterior)


@register("mu-bald")
def mu_bald(posterior: Posterior, treatment: Treatment) -> Array:
    """Uncertainty about the outcome that would be measured: log v_t; for binary outcomes log of the information."""
    if posterior.link == "probit":
        return mu_information(posterior, treatment)
    return _log_variance(_of_arm(posterior.variance, treatment), posterior)


@register("mu-info")
def mu_information(posterior: Posterior, treatment: Treatment) -> Array:
    """Information in the outcome, log of 1/2 log(1 + v_t / s2); its greedy batch is BatchBALD."""
    if posterior.link == "identity":
        variance = _of_arm(posterior.variance, treatment)
        noise = np.maximum(_of_arm(posterior.noise, treatment), 1e-300)
        information = 0.5 * np.log1p(np.maximum(variance / noise, _RELATIVE_FLOOR))
    else:
        p = _of_arm(posterior.expected, treatment)
        mean, sd = (
            _of_arm(posterior.mean, treatment),
            np.sqrt(_of_arm(_latent_variance(posterior), treatment)),
        )
        within = expectation(lambda f: bernoulli_entropy(ndtr(f)), mean, sd, -_PROBIT_REACH, _PROBIT_REACH)
        information = np.maximum(bernoulli_entropy(p) - within, _RELATIVE_FLOOR)
    result: Array = np.log(information)
    return result


@register("rho-bald")
def rho_bald(posterior: Posterior, treatment: Treatment) -> Array:
    """Information about the effect in the outcome: log v_tau - log v_t'."""
    other = _log_variance(_of_arm(posterior.variance, 1 - treatment), posterior)
    return _log_variance(posterior.effect_variance, posterior) - other


@register("mu-pi-bald")
def mu_pi_bald(posterior: Posterior, treatment: Treatment, *, propensity: Array) -> Array:
    """Uncertain outcomes where the other arm is likely: mu-bald + propensity."""
    return mu_bald(posterior, treatment) + propensity_score(posterior, treatment, propensity=propensity)


@register("mu-rho-bald")
def mu_rho_bald(posterior: Posterior, treatment: Treatment) -> Array:
    """Uncertain outcomes whose counterfactual is known: mu-bald + rho-bald."""
    return mu_bald(posterior, treatment) + rho_bald(posterior, treatment)


@register("type-s", temperature=1.0)
def type_s(posterior: Posterior, treatment: Treatment) -> Array:
    """Information about the sign of the effect (Sundin et al., 2019, as adapted in the paper).

    log max(MI, 1e-7), MI = H[E g] - E H[g], with g = Phi(-abs(tau) / c), c² the sum of both arms' noise
    variances, and the expectation over the belief about tau.
    """
    mean = posterior.effect_mean
    sd = np.sqrt(np.exp(_log_variance(posterior.effect_variance, posterior)))
    c = np.sqrt(np.maximum(posterior.outcome_noise.sum(axis=1), 1e-300))
    rate = np.zeros(len(mean))
    within = np.zeros(len(mean))
    for sign in (-1.0, 1.0):  # g has a kink at tau = 0: integrate either side, where g is not negligible
        rate += expectation(lambda tau: ndtr(-tau / c[:, None]), sign * mean, sd, 0.0, 9 * c)
        within += expectation(lambda tau: bernoulli_entropy(ndtr(-tau / c[:, None])), sign * mean, sd, 0.0, 9 * c)
    result: Array = np.log(np.maximum(bernoulli_entropy(np.clip(rate, 0.0, 1.0)) - within, _TYPE_S_FLOOR))
    return result


def _latent_variance(posterior: Posterior) -> Array:
    diagonal = np.diagonal(posterior.latent_covariance, axis1=1, axis2=2)
    result: Array = np.maximum(diagonal, 1e-18)
    return result
