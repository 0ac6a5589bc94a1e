"""Beliefs after one outcome after another, against the joint belief conditioned as a whole."""

from __future__ import annotations

import numpy as np
import pytest

from causalbald import Posterior, acquisition
from causalbald.acquisition import TargetPopulation
from causalbald.selection import SequentialMarginals, select_greedy
from causalbald.selection._conditioning import SequentialJoint, sequential_belief
from causalbald.testing import fake_posterior

UNITS = 14
ARM = np.arange(UNITS) % 2
TARGETED = ["tau-vr", "epig-tau", "epig-mu", "regret"]
POINTWISE = ["mu-bald", "mu-rho-bald", "tau-bald", "type-s", "mu-info"]


def draws() -> Posterior:
    values = np.random.default_rng(3).normal(size=(120, UNITS, 2))
    return Posterior.from_draws(values @ np.array([[1.0, 0.4], [0.0, 0.8]]), 0.3)


BELIEFS = {
    "closed form": fake_posterior(UNITS, seed=1),
    "no residual": fake_posterior(UNITS, seed=2, residual=False),
    "probit": fake_posterior(UNITS, seed=3, link="probit"),
    "draws": draws(),
    "noiseless": fake_posterior(UNITS, seed=5, noise=0.0),
}


@pytest.mark.parametrize(
    ("name", "unit_weight"), [*((name, None) for name in [*TARGETED, *POINTWISE]), *((name, 0.02) for name in TARGETED)]
)
@pytest.mark.parametrize("kind", list(BELIEFS))
def test_scores_are_those_of_the_joint_belief(kind: str, name: str, unit_weight: float | None) -> None:
    """Before any outcome, and after each of three, one of them of a target and one of a unit that is none."""
    posterior, function = BELIEFS[kind], acquisition.load_score_function(name)
    sample = TargetPopulation.of([1, 4, 5, 9], UNITS, [1.0, 2.0, 3.0, 4.0], threshold=0.2, unit_weight=unit_weight)
    population = sample if function.needs_population else None
    scale = posterior.linearised() if function.needs_population else posterior
    fast, slow = sequential_belief(posterior, ARM, function, population), SequentialJoint(scale, ARM)
    assert isinstance(fast, SequentialMarginals)
    for unit in (4, 0, 7, None):
        got, expected = (function(s.belief, ARM, population=population, targets=s.targets) for s in (fast, slow))
        is_certain = np.isin(np.arange(UNITS), [4, 0, 7]) if kind == "noiseless" else np.zeros(UNITS, dtype=bool)
        np.testing.assert_allclose(got[~is_certain], expected[~is_certain], rtol=1e-6, atol=1e-8)
        if unit is not None:
            fast.measure(unit)
            slow.measure(unit)


def test_binary_outcomes_to_come_leave_expected_effects_alone_and_take_what_monte_carlo_says() -> None:
    base = BELIEFS["probit"]
    p = Posterior(base.mean * 0.3, base.factor * 2, base.residual, base.noise, "probit")
    state = sequential_belief(p, ARM, acquisition.load_score_function("tau-vr"), None)
    state.measure(4)
    np.testing.assert_allclose(state.belief.effect_mean, p.effect_mean)
    assert (state.belief.effect_variance <= p.effect_variance + 1e-12).all()
    draws = p.draws(200_000, np.random.default_rng(0))
    effect, chance = draws[:, :, 1] - draws[:, :, 0], draws[:, 4, ARM[4]]
    means = [np.average(effect, axis=0, weights=w) for w in (chance, 1 - chance)]
    dropped = sum(w.mean() * (m - effect.mean(axis=0)) ** 2 for w, m in zip((chance, 1 - chance), means, strict=True))
    got = (p.effect_variance - state.belief.effect_variance).sum()
    assert got == pytest.approx(dropped.sum(), rel=0.15)


@pytest.mark.parametrize("name", ["tau-vr", "mu-bald"])
@pytest.mark.parametrize("seed", range(5))
def test_copies_of_units_without_noise_leave_nothing_to_learn(name: str, seed: int) -> None:
    """Rounding errors must not become the square root of a negative variance."""
    few = fake_posterior(4, seed=seed, noise=0.0, residual=False)
    rows = np.repeat(np.arange(4), 5)
    twins = Posterior(few.mean[rows], few.factor[rows], np.zeros(()), np.zeros(()))
    chosen = select_greedy(twins, np.zeros(20, dtype=np.intp), name, 12, rng=np.random.default_rng(seed))
    assert set(rows[chosen[:4]]) == {0, 1, 2, 3}
    assert len(set(chosen)) == 12


def test_single_precision_factors_lose_no_more_than_that() -> None:
    p = BELIEFS["closed form"]
    single = Posterior(p.mean, p.factor.astype(np.float32), p.residual, p.noise)
    after = SequentialMarginals(single, ARM)
    for unit in (4, 0, 7):
        after.measure(unit)
    expected = p.condition(4, 0).condition(0, 0).condition(7, 1).latent_covariance
    np.testing.assert_allclose(after.belief.latent_covariance, expected, atol=1e-5)


def test_earlier_beliefs_stay_as_they_were() -> None:
    after = SequentialMarginals(BELIEFS["closed form"], ARM)
    before, copy = after.belief, after.belief.latent_covariance.copy()
    after.measure(2)
    np.testing.assert_array_equal(before.latent_covariance, copy)


def test_functions_that_want_the_joint_belief_get_it() -> None:
    def everything(posterior: Posterior, treatment: object, *, population: TargetPopulation) -> np.ndarray:
        return np.asarray(posterior.factor[:, 0] @ posterior.factor[population.positions, 1].sum(axis=0))

    state = sequential_belief(BELIEFS["probit"], ARM, acquisition.load_score_function(everything), None)
    state.measure(3)
    assert state.belief.factor.shape[-1] == 6
    np.testing.assert_allclose(
        state.belief.latent_covariance, BELIEFS["probit"].condition(3, int(ARM[3])).latent_covariance
    )
