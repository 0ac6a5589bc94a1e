"""Every acquisition function against a closed form written out here or a Monte Carlo estimate from draws."""

from __future__ import annotations

import importlib.metadata
import os
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, stats

from causalbald import Posterior, acquisition
from causalbald._registry import PLUGINS_VARIABLE
from causalbald._typing import Array
from causalbald.errors import InputError, PluginWarning, UnknownNameError
from causalbald.testing import check_acquisition, fake_posterior

PAPER = {"random", "propensity", "tau-bald", "mu-bald", "rho-bald", "mu-pi-bald", "mu-rho-bald", "type-s"}
UNITS = 10
TREATMENT = np.arange(UNITS) % 2
PROPENSITY = np.linspace(0.05, 0.95, UNITS)


@pytest.fixture(scope="module")
def belief() -> Posterior:
    return fake_posterior(units=UNITS, seed=3)


@pytest.fixture(scope="module")
def draws(belief: Posterior) -> Array:
    return belief.draws(400_000, np.random.default_rng(0))


def under_arm(draws: Array) -> Array:
    return draws[:, np.arange(UNITS), TREATMENT]


def under_other_arm(draws: Array) -> Array:
    return draws[:, np.arange(UNITS), 1 - TREATMENT]


def score(name: str, belief: Posterior) -> Array:
    return acquisition.score(name, belief, TREATMENT, propensity=PROPENSITY)


def test_the_papers_eight_are_there() -> None:
    assert set(acquisition.names()) >= PAPER


@pytest.mark.parametrize("name", acquisition.names())
def test_conformance(name: str) -> None:
    check_acquisition(name)


def test_random_is_flat(belief: Posterior) -> None:
    np.testing.assert_array_equal(score("random", belief), np.zeros(UNITS))


def test_propensity_is_the_log_probability_of_the_other_arm(belief: Posterior) -> None:
    expected = [np.log(1 - p if t == 1 else p) for p, t in zip(PROPENSITY, TREATMENT, strict=True)]
    np.testing.assert_allclose(score("propensity", belief), expected)


def test_tau_bald_against_draws(belief: Posterior, draws: Array) -> None:
    variance = (draws[:, :, 1] - draws[:, :, 0]).var(axis=0)
    np.testing.assert_allclose(score("tau-bald", belief), np.log(variance), atol=0.02)


def test_mu_bald_against_draws(belief: Posterior, draws: Array) -> None:
    np.testing.assert_allclose(score("mu-bald", belief), np.log(under_arm(draws).var(axis=0)), atol=0.02)


def test_rho_bald_is_the_papers_formula_on_draws(belief: Posterior, draws: Array) -> None:
    """Equation rho_def: (Var(mu_t) - 2 Cov(mu_t, mu_t')) / Var(mu_t') + 1, without the increasing 1/2 log."""
    factual, counterfactual = under_arm(draws), under_other_arm(draws)
    covariance = ((factual - factual.mean(0)) * (counterfactual - counterfactual.mean(0))).mean(0)
    ratio = (factual.var(0) - 2 * covariance) / counterfactual.var(0) + 1
    np.testing.assert_allclose(score("rho-bald", belief), np.log(ratio), atol=0.02)


def test_mu_rho_bald_is_the_papers_product_on_draws(belief: Posterior, draws: Array) -> None:
    effect = draws[:, :, 1] - draws[:, :, 0]
    product = under_arm(draws).var(0) * effect.var(0) / under_other_arm(draws).var(0)
    np.testing.assert_allclose(score("mu-rho-bald", belief), np.log(product), atol=0.03)


def test_mu_pi_bald_is_the_papers_product_on_draws(belief: Posterior, draws: Array) -> None:
    chance = np.where(TREATMENT == 1, 1 - PROPENSITY, PROPENSITY)
    np.testing.assert_allclose(score("mu-pi-bald", belief), np.log(chance * under_arm(draws).var(0)), atol=0.02)


def test_mu_info_is_the_mutual_information_of_a_gaussian_outcome(belief: Posterior, draws: Array) -> None:
    """I(Y; mu) = H(Y) - H(Y | mu), with entropies of Gaussians."""
    predictive = stats.norm(scale=np.sqrt(under_arm(draws).var(0) + 0.5)).entropy()
    conditional = stats.norm(scale=np.sqrt(0.5)).entropy()
    np.testing.assert_allclose(np.exp(score("mu-info", belief)), predictive - conditional, atol=0.01)


def bernoulli_information(mean: float, sd: float) -> float:
    """H[E Phi(f)] - E H[Phi(f)] for f ~ N(mean, sd²), by adaptive quadrature."""
    density = stats.norm(mean, sd)
    reach = (mean - 9 * sd, mean + 9 * sd)
    kinks = np.clip([mean, 0.0], *reach)

    def average(function: Callable[[float], float]) -> float:
        value, _ = integrate.quad(lambda f: density.pdf(f) * function(f), *reach, points=kinks, limit=200)
        return float(value)

    within = average(lambda f: float(stats.bernoulli(stats.norm.cdf(f)).entropy()))
    return float(stats.bernoulli(average(stats.norm.cdf)).entropy()) - within


@pytest.mark.parametrize("scale", [0.05, 1.0, 5.0])
def test_bernoulli_information_against_adaptive_quadrature(scale: float) -> None:
    base = fake_posterior(units=UNITS, link="probit", seed=3)
    p = Posterior(2 * base.mean, scale * base.factor, scale**2 * base.residual, base.noise, "probit")
    got = np.exp(score("mu-bald", p))
    for i, arm in enumerate(TREATMENT):
        expected = bernoulli_information(p.mean[i, arm], np.sqrt(p.latent_covariance[i, arm, arm]))
        assert got[i] == pytest.approx(expected, rel=1e-4, abs=2e-9)


def test_type_s_against_draws(belief: Posterior, draws: Array) -> None:
    """The paper's listing, with the outcome noise of both arms as the variance of the difference."""
    tau = draws[:, :, 1] - draws[:, :, 0]
    g = stats.norm.cdf(-np.abs(tau) / np.sqrt(0.5 + 0.5))
    information = stats.bernoulli(g.mean(0)).entropy() - stats.bernoulli(g).entropy().mean(0)
    np.testing.assert_allclose(np.exp(score("type-s", belief)), information, rtol=0.02)


@pytest.mark.parametrize(("effect_sd", "noise"), [(0.01, 1.0), (50.0, 1.0), (1.0, 1e-4)])
def test_type_s_where_scales_differ_widely(effect_sd: float, noise: float) -> None:
    mean = np.array([[0.0, 0.3]])
    p = Posterior(mean, np.array([[[0.0], [effect_sd]]]), np.zeros(()), np.array(noise))
    tau = stats.norm(0.3, effect_sd).ppf((np.arange(1_000_000) + 0.5) / 1_000_000)
    g = stats.norm.cdf(-np.abs(tau) / np.sqrt(2 * noise))
    entropy = -(g * np.log(g + 1e-300) + (1 - g) * np.log1p(-g))
    information = stats.bernoulli(g.mean()).entropy() - entropy.mean()
    assert np.exp(acquisition.score("type-s", p, [1]))[0] == pytest.approx(max(information, 1e-7), rel=1e-3)


def test_scores_do_not_depend_on_the_outcomes_unit_beyond_a_constant(belief: Posterior) -> None:
    k = 1000.0
    scaled = Posterior(k * belief.mean, k * belief.factor, k**2 * belief.residual, k**2 * belief.noise)
    for name in acquisition.names():
        if isinstance(acquisition.load(name), acquisition.BatchFunction):
            continue
        shift = score(name, scaled) - score(name, belief)
        np.testing.assert_allclose(shift, shift[0], atol=1e-9, err_msg=name)


def test_targets_are_checked_and_normalised() -> None:
    population = acquisition.TargetPopulation.of([2, 0], 4, [1.0, 3.0])
    np.testing.assert_allclose(population.weights, [0.25, 0.75])
    with pytest.raises(InputError, match="at least one unit"):
        acquisition.TargetPopulation.of([], 4)
    with pytest.raises(InputError, match="at least one unit"):
        acquisition.TargetPopulation.of([1], 4, [-1.0])


def test_a_function_gets_the_extras_it_asks_for(belief: Posterior) -> None:
    seen: dict[str, object] = {}

    def greedy_for_all(
        posterior: Posterior, treatment: Array, *, population: acquisition.TargetPopulation, rng: np.random.Generator
    ) -> Array:
        """All."""
        seen.update(population=population, rng=rng)
        return np.zeros(len(posterior))

    function = acquisition.load_score_function(greedy_for_all)
    assert function.name == "greedy-for-all"
    assert function.needs_population
    function(belief, TREATMENT, rng=np.random.default_rng(0))
    assert len(seen["population"].positions) == UNITS  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="rng"):
        function(belief, TREATMENT)


def test_errors_name_the_remedy(belief: Posterior) -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean 'mu-rho-bald'.*Known: random"):
        acquisition.score("mu-rho-bold", belief, TREATMENT)
    with pytest.raises(InputError, match="PropensityModel"):
        acquisition.score("mu-pi-bald", belief, TREATMENT)
    with pytest.raises(InputError, match=r"0 \(control\) or 1"):
        acquisition.score("mu-bald", belief, TREATMENT + 1)
    with pytest.raises(InputError, match="one per unit"):
        acquisition.score("mu-bald", belief, TREATMENT[:3])
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        acquisition.score("propensity", belief, TREATMENT, propensity=PROPENSITY + 1)
    with pytest.raises(InputError, match="NaN"):
        acquisition.score(lambda posterior, treatment: np.full(len(posterior), np.nan), belief, TREATMENT)
    with pytest.raises(InputError, match="shape"):
        acquisition.score(lambda posterior, treatment: np.zeros(2), belief, TREATMENT)


def test_a_taken_name_is_refused() -> None:
    with pytest.raises(InputError, match="exists already"):
        acquisition.register("random")(lambda posterior, treatment: np.zeros(len(posterior)))


def test_broken_plugins_warn_and_missing_files_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from causalbald._registry import Registry

    broken = importlib.metadata.EntryPoint("bad", "no_such_module_of_ours", "causalbald.things")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [broken])
    registry: Registry[int] = Registry("thing", "things")
    with pytest.warns(PluginWarning, match="'bad'"):
        registry.names()
    with warnings.catch_warnings():
        assert list(registry) == []
    monkeypatch.setenv(PLUGINS_VARIABLE, os.pathsep.join(["/does/not/exist.py"]))
    with pytest.raises(InputError, match="does not exist"):
        registry.names()
