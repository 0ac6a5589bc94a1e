"""The acquisition functions of Causal-BALD, as log-importances.

Jesson, Tigas, van Amersfoort, Kirsch, Shalit and Gal (2021), "Causal-BALD: Deep Bayesian Active Learning of Outcomes to
Infer Treatment-Effects from Observational Data", NeurIPS 34, arXiv:2111.02275. Equation numbers refer to this paper.

Notation: t is the arm that a unit got and t' the other arm. v_t and v_t' are the variances of the belief about both
expected outcomes, mu(x, t) and mu(x, t'), and v_tau is the variance of the belief about the effect tau.
The scores are logs; factors that are the same for all units are left out, since they do not change a batch.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from causalbald._gaussian import bernoulli_entropy, expectation
from causalbald._typing import Array, Treatment
from causalbald.acquisition._registry import register
from causalbald.posterior import Posterior

# Variances below this fraction of the outcome noise cannot be told from rounding errors.
_MIN_VARIANCE_PER_NOISE = 1e-9
_MAX_PROBIT_INDEX = 8.0  # the entropy of Phi(f) is below 1e-13 for larger |f|
_MIN_TYPE_S_INFORMATION = 1e-7  # the floor of the paper's implementation
_TYPE_S_REACH = 9  # standard deviations of the difference beyond which g is negligible


def _log_variance(variance: Array, posterior: Posterior) -> Array:
    """Return the logs of variances (N,). A variance counts as at least 1e-9 of the unit's outcome noise."""
    floor = _MIN_VARIANCE_PER_NOISE * posterior.outcome_noise.mean(axis=1) + 1e-300
    result: Array = np.log(np.maximum(variance, floor))
    return result


def _under_arm(values: Array, arm: Treatment) -> Array:
    """Return the entries (N,) of values (N, K) that belong to the arm of each unit."""
    return values[np.arange(len(values)), arm]


@register("random", per_cost=False)
def random_score(treatment: Treatment) -> Array:
    """Every unit counts the same.

    The paper's baseline "random": the softmax rule then draws uniformly.

    Parameters
    ----------
    treatment : (N,)
        The arm of each unit.

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> import numpy as np
    >>> random_score(np.array([0, 1]))
    array([0., 0.])
    """
    return np.zeros(len(treatment))


@register("propensity")
def propensity_score(treatment: Treatment, *, propensity: Array) -> Array:
    """Probability of the other arm: log(1 - pi_t).

    Equation 4, counterfactual propensity acquisition. pi_t is the probability of the arm t that the unit got.

    Parameters
    ----------
    treatment : (N,)
        The arm of each unit.
    propensity : (N,)
        P(treated given x).

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(propensity_score(np.array([0, 1]), propensity=np.array([0.2, 0.2]))).round(1)
    array([0.2, 0.8])
    """
    other_arm = np.where(treatment == 1, 1 - propensity, propensity)
    result: Array = np.log(np.maximum(other_arm, 1e-300))
    return result


@register("tau-bald")
def tau_bald(posterior: Posterior, treatment: Treatment) -> Array:
    """Uncertainty about the effect: log v_tau.

    Equation 5, tau-BALD. v_tau is the variance of the belief about the unit's effect. For binary outcomes the effect is
    the difference of two probabilities.

    Parameters
    ----------
    posterior : Posterior
        The belief about the N units.
    treatment : (N,)
        Not used: the score is the same under both arms.

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.testing import fake_posterior
    >>> belief = fake_posterior(3)
    >>> np.allclose(np.exp(tau_bald(belief, np.array([0, 1, 0]))), belief.effect_variance)
    True
    """
    return _log_variance(posterior.effect_variance, posterior)


@register("mu-bald")
def mu_bald(posterior: Posterior, treatment: Treatment) -> Array:
    """Uncertainty about the outcome that would be measured: log v_t; for binary outcomes log of the information.

    Equation 6, mu-BALD. v_t is the variance of the belief about the expected outcome under the unit's arm t. For binary
    outcomes the score is that of :func:`mu_information`.

    Parameters
    ----------
    posterior : Posterior
        The belief about the N units.
    treatment : (N,)
        The arm of each unit.

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.testing import fake_posterior
    >>> belief = fake_posterior(2)
    >>> np.allclose(np.exp(mu_bald(belief, np.array([1, 1]))), belief.variance[:, 1])
    True
    """
    if posterior.link == "probit":
        return mu_information(posterior, treatment)
    return _log_variance(_under_arm(posterior.variance, treatment), posterior)


@register("mu-info")
def mu_information(posterior: Posterior, treatment: Treatment) -> Array:
    """Information in the outcome, log of 1/2 log(1 + v_t / s2); its greedy batch is BatchBALD.

    For continuous outcomes, v_t is the variance of the belief about the expected outcome under the unit's arm t, and s2
    is the variance of the outcome noise. For binary outcomes, the score is the log of H(E p) - E H(p): p is the
    probability of outcome 1 under the arm, H is the entropy of a binary outcome, and E is the expectation over the
    belief. E H(p) is computed by quadrature.

    The information is I(Y; W | x, t), the left-hand side of equation 6, without the paper's approximation. W are the
    parameters of the model. With units chosen one by one and the belief conditioned after each, it is Kirsch, van
    Amersfoort and Gal (2019), "BatchBALD: Efficient and Diverse Batch Acquisition for Deep Bayesian Active Learning",
    NeurIPS 32, arXiv:1906.08158, whose joint information is equation 2 of Causal-BALD.

    Parameters
    ----------
    posterior : Posterior
        The belief about the N units.
    treatment : (N,)
        The arm of each unit.

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.testing import fake_posterior
    >>> belief = fake_posterior(2, noise=0.5)
    >>> np.allclose(np.exp(mu_information(belief, np.array([1, 1]))), np.log1p(belief.variance[:, 1] / 0.5) / 2)
    True
    """
    if posterior.link == "identity":
        # Gaussian outcome: H(Y) - H(Y | mu) = 1/2 log((v_t + s2) / s2).
        variance = _under_arm(posterior.variance, treatment)
        noise = np.maximum(_under_arm(posterior.noise, treatment), 1e-300)
        information = 0.5 * np.log1p(np.maximum(variance / noise, _MIN_VARIANCE_PER_NOISE))
    else:
        # Binary outcome with p = Phi(f), f ~ N(mean, sd²): H(E p) - E H(p), the expectation by quadrature over f.
        p = _under_arm(posterior.expected, treatment)
        mean = _under_arm(posterior.mean, treatment)
        sd = np.sqrt(_under_arm(_latent_variance(posterior), treatment))
        expected_entropy = expectation(
            lambda f: bernoulli_entropy(ndtr(f)), mean, sd, -_MAX_PROBIT_INDEX, _MAX_PROBIT_INDEX
        )
        information = np.maximum(bernoulli_entropy(p) - expected_entropy, _MIN_VARIANCE_PER_NOISE)
    result: Array = np.log(information)
    return result


@register("rho-bald")
def rho_bald(posterior: Posterior, treatment: Treatment) -> Array:
    """Information about the effect in the outcome: log v_tau - log v_t'.

    v_tau is the variance of the belief about the unit's effect. v_t and v_t' are the variances of the beliefs about the
    expected outcomes mu_t under the unit's arm and mu_t' under the other arm. For binary outcomes, these are
    probabilities.

    Equation 8, rho-BALD, is 1/2 log((v_t - 2 Cov(mu_t, mu_t')) / v_t' + 1). This equals 1/2 log(v_tau / v_t'), because
    v_tau = v_t + v_t' - 2 Cov(mu_t, mu_t'). As in the paper's implementation, the importance is the ratio v_tau / v_t'
    itself, without the increasing function 1/2 log(.) around it. The ratio orders units alike.

    Parameters
    ----------
    posterior : Posterior
        The belief about the N units.
    treatment : (N,)
        The arm of each unit.

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.testing import fake_posterior
    >>> belief = fake_posterior(2)
    >>> ratio = belief.effect_variance / belief.variance[:, 0]
    >>> np.allclose(np.exp(rho_bald(belief, np.array([1, 1]))), ratio)
    True
    """
    other_arm = _log_variance(_under_arm(posterior.variance, 1 - treatment), posterior)
    return _log_variance(posterior.effect_variance, posterior) - other_arm


@register("mu-pi-bald")
def mu_pi_bald(posterior: Posterior, treatment: Treatment, *, propensity: Array) -> Array:
    """Uncertain outcomes where the other arm is likely: mu-bald + propensity.

    Equation 7, mu-pi-BALD: (1 - pi_t) v_t. pi_t is the probability of the unit's arm t, and v_t is the variance of the
    belief about the expected outcome under this arm. For binary outcomes, the information of :func:`mu_information`
    takes the place of v_t.

    Parameters
    ----------
    posterior : Posterior
        The belief about the N units.
    treatment : (N,)
        The arm of each unit.
    propensity : (N,)
        P(treated given x).

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.testing import fake_posterior
    >>> belief, arm, pi = fake_posterior(2), np.array([1, 1]), np.array([0.2, 0.5])
    >>> np.allclose(np.exp(mu_pi_bald(belief, arm, propensity=pi)), (1 - pi) * belief.variance[:, 1])
    True
    """
    return mu_bald(posterior, treatment) + propensity_score(treatment, propensity=propensity)


@register("mu-rho-bald")
def mu_rho_bald(posterior: Posterior, treatment: Treatment) -> Array:
    """Uncertain outcomes whose counterfactual is known: mu-bald + rho-bald.

    Equation 9, mu-rho-BALD: v_t v_tau / v_t'. v_t and v_t' are the variances of the beliefs about the expected outcomes
    under the unit's arm and under the other arm, and v_tau is the variance of the belief about the effect. For binary
    outcomes, the information of :func:`mu_information` takes the place of v_t.

    Parameters
    ----------
    posterior : Posterior
        The belief about the N units.
    treatment : (N,)
        The arm of each unit.

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.testing import fake_posterior
    >>> belief, arm = fake_posterior(2), np.array([0, 1])
    >>> np.allclose(mu_rho_bald(belief, arm), mu_bald(belief, arm) + rho_bald(belief, arm))
    True
    """
    return mu_bald(posterior, treatment) + rho_bald(posterior, treatment)


@register("type-s", temperature=1.0)
def type_s(posterior: Posterior, treatment: Treatment) -> Array:
    """Information about the sign of the effect (Sundin et al., 2019, as adapted in the paper).

    Sundin, Schulam, Siivola, Vehtari, Saria and Kaski (2019), "Active Learning for Decision-Making from Imbalanced
    Observational Data", ICML, arXiv:1904.05268; adapted in the appendix of Causal-BALD, the baseline "gamma".

    The importance is max(I, 1e-7) with I = H(E g) - E H(g). H is the entropy of a binary variable, and expectations E
    are over the belief about the effect tau. The probability of a wrong sign is g = Phi(-abs(tau) / c), and c² is the
    sum of the noise variances of both arms.

    Parameters
    ----------
    posterior : Posterior
        The belief about the N units.
    treatment : (N,)
        Not used: the score is the same under both arms.

    Returns
    -------
    scores (N,)

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.testing import fake_posterior
    >>> type_s(fake_posterior(3), np.array([0, 1, 0])).shape
    (3,)
    """
    mean = posterior.effect_mean
    sd = np.sqrt(np.exp(_log_variance(posterior.effect_variance, posterior)))
    c = np.sqrt(np.maximum(posterior.outcome_noise.sum(axis=1), 1e-300))
    upper = _TYPE_S_REACH * c
    rate = np.zeros(len(mean))  # E g
    expected_entropy = np.zeros(len(mean))  # E H(g)
    # g has a kink at tau = 0, so each side is integrated by itself, up to where g is negligible.
    for sign in (-1.0, 1.0):
        rate += expectation(lambda tau: ndtr(-tau / c[:, None]), sign * mean, sd, 0.0, upper)
        expected_entropy += expectation(
            lambda tau: bernoulli_entropy(ndtr(-tau / c[:, None])), sign * mean, sd, 0.0, upper
        )
    information = bernoulli_entropy(np.clip(rate, 0.0, 1.0)) - expected_entropy
    result: Array = np.log(np.maximum(information, _MIN_TYPE_S_INFORMATION))
    return result


def _latent_variance(posterior: Posterior) -> Array:
    """Return the variances (N, K) of the latent outcomes of all units and arms, at least 1e-18."""
    diagonal = np.diagonal(posterior.latent_covariance, axis1=1, axis2=2)
    result: Array = np.maximum(diagonal, 1e-18)
    return result
