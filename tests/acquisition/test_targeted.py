"""Targeted acquisition against brute force: refits with and without the unit, Monte Carlo over outcomes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from causalbald import acquisition
from causalbald._typing import Array, Positions
from causalbald.pools import pool_population
from causalbald.posterior import Link, Posterior
from causalbald.testing import fake_posterior

NAMES = ("tau-vr", "epig-tau", "epig-mu", "regret")
UNITS = 9
ARM = np.arange(UNITS) % 2
TARGETS = acquisition.TargetPopulation.of([0, 2, 3, 7], UNITS, [1.0, 2.0, 3.0, 4.0])


def joint_covariance(p: Posterior) -> Array:
    """Return the covariance of all expected outcomes, (2N, 2N), written out."""
    flat = p.factor.reshape(2 * len(p), -1)
    full = flat @ flat.T
    for i in range(len(p)):
        full[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] += p.residual[i]
    return full


def after_measuring(p: Posterior, i: int) -> tuple[Array, Array]:
    """Return the covariance of all expected outcomes after unit i's outcome, and how far it moves their means."""
    full, k = joint_covariance(p), 2 * i + ARM[i]
    outcome = full[k, k] + p.noise[i, ARM[i]]
    return full - np.outer(full[k], full[k]) / outcome, full[k] / np.sqrt(outcome)


def effect_variance(full: Array) -> Array:
    contrast = np.kron(np.eye(len(full) // 2), [-1.0, 1.0])
    return np.asarray(np.diag(contrast @ full @ contrast.T))


def brute_force(name: str, p: Posterior, targets: acquisition.TargetPopulation) -> Array:
    """Return what each unit is worth from the definition of the score, without its closed form."""
    before = joint_covariance(p)
    contrast = np.kron(np.eye(len(p)), [-1.0, 1.0])
    j, w = targets.positions, targets.weights
    worth = []
    for i in range(len(p)):
        after, move = after_measuring(p, i)
        if name == "tau-vr":
            worth.append(w @ (effect_variance(before) - effect_variance(after))[j])
        elif name == "epig-tau":
            worth.append(0.5 * w @ np.log(effect_variance(before) / effect_variance(after))[j])
        elif name == "epig-mu":
            gains = []
            for unit in j:
                block = slice(2 * unit, 2 * unit + 2)
                gains.append(0.5 * np.log(np.linalg.det(before[block, block]) / np.linalg.det(after[block, block])))
            worth.append(w @ np.array(gains))
        else:
            surprise = norm.ppf((np.arange(20_000) + 0.5) / 20_000)[:, None]
            mean = p.effect_mean - targets.threshold
            moved = mean + surprise * (contrast @ move)
            worth.append(w @ (np.maximum(moved, 0).mean(axis=0) - np.maximum(mean, 0))[j])
    return np.log(np.maximum(worth, 1e-300))


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_closed_forms_are_what_measuring_does(name: str, residual: bool) -> None:
    p = fake_posterior(UNITS, residual=residual, rank=5)
    targets = acquisition.TargetPopulation.of(TARGETS.positions, UNITS, TARGETS.weights, threshold=0.3)
    got = acquisition.score(name, p, ARM, population=targets)
    np.testing.assert_allclose(got, brute_force(name, p, targets), rtol=2e-3 if name == "regret" else 1e-5, atol=1e-4)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_of_a_sample_a_unit_is_left_out_and_its_own_effect_is_one_of_all(
    name: str, residual: bool, weighted: bool
) -> None:
    p, unit_shares = fake_posterior(UNITS, residual=residual, rank=5), np.linspace(0.0, 0.3, UNITS)
    unit_weight = unit_shares if weighted else 0.05
    sample = acquisition.TargetPopulation.of(
        TARGETS.positions, UNITS, TARGETS.weights, threshold=0.3, unit_weight=unit_weight
    )
    got = acquisition.score(name, p, ARM, population=sample)
    for i in range(UNITS):
        other_units = np.zeros(UNITS)
        other_units[sample.positions] = sample.weights
        other_units[i] = 0.0
        share = unit_shares[i] if weighted else 0.05
        weights = (1 - share) * other_units / other_units.sum() + share * (np.arange(UNITS) == i)
        everyone = acquisition.TargetPopulation.of(np.arange(UNITS), UNITS, weights, threshold=0.3)
        expected = brute_force(name, p, everyone)[i]
        assert got[i] == pytest.approx(expected, rel=2e-3 if name == "regret" else 1e-5, abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_everyone_the_same_is_a_case_of_weights(name: str) -> None:
    """Equal weights have a faster way, over several groups of targets."""
    p = fake_posterior(75, rank=5)
    arm = np.arange(75) % 2
    equal = acquisition.TargetPopulation.of(np.arange(75), 75, threshold=0.3)
    nearly = acquisition.TargetPopulation.of(np.arange(75), 75, 1 + 1e-9 * np.arange(75), threshold=0.3)
    got = acquisition.score(name, p, arm, population=equal)
    np.testing.assert_allclose(got, acquisition.score(name, p, arm, population=nearly), rtol=1e-6, atol=1e-6)


def test_gains_that_are_tiny_everywhere_are_still_told_apart() -> None:
    """A decision is nearly settled for everyone: what is left to gain is small, and not the same for all."""
    p = fake_posterior(UNITS, rank=5)
    sure = replace(p, mean=p.mean + np.array([0.0, 20.0]))
    got = acquisition.score("regret", sure, ARM, population=acquisition.TargetPopulation.of(np.arange(UNITS), UNITS))
    assert got.max() < -20
    assert len(np.unique(got.round(6))) > UNITS // 2


def test_the_drop_is_that_of_conditioning() -> None:
    p = fake_posterior(UNITS)
    gain = np.exp(acquisition.score("tau-vr", p, ARM, population=TARGETS))
    for i in range(UNITS):
        after = p.condition(i, int(ARM[i])).effect_variance
        drop = TARGETS.weights @ (p.effect_variance - after)[TARGETS.positions]
        assert gain[i] == pytest.approx(drop, rel=1e-9)


def test_the_drop_is_that_of_refitting_a_process_with_one_more_label() -> None:
    from causalbald.models import GaussianProcess
    from causalbald.models._sites import Single

    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(40, 2)), np.arange(40) % 2
    y = x[:, 0] + t * x[:, 1] + 0.3 * rng.normal(size=40)
    model = GaussianProcess(sites=40, hyper_uncertainty=False).fit(y[:15], t[:15], X=x[:15], pool=x)
    h, z = model.hyperparameters_, model._standardise(x)
    score = acquisition.score("tau-vr", model.posterior(x), t)

    def error(labels: Positions) -> float:
        import torch

        at = torch.as_tensor(labels)
        belief = Single.of(h, z[at], torch.as_tensor(t)[at], torch.zeros(len(labels), dtype=torch.float64))
        return float(belief.posterior(h, z).effect_variance.mean()) * model.y_scale_**2

    for unit in (20, 31, 38):
        drop = error(np.arange(15)) - error(np.append(np.arange(15), unit))
        assert np.exp(score[unit]) == pytest.approx(drop, rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_that_says_nothing_about_the_targets_is_worth_nothing(name: str) -> None:
    p = fake_posterior(UNITS)
    factor, residual = p.factor.copy(), p.residual.copy()
    factor[5], residual[5] = 0.0, np.eye(2)
    alone = Posterior(p.mean, factor, residual, p.noise)
    scores = acquisition.score(name, alone, ARM, population=TARGETS)
    assert scores[5] < -200
    assert (np.delete(scores, 5) > -20).all()


@pytest.mark.parametrize("name", NAMES)
def test_chunks_do_not_matter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    p = fake_posterior(UNITS)
    whole = acquisition.score(name, p, ARM, population=TARGETS)
    monkeypatch.setattr("causalbald.acquisition._targeted._BLOCK_UNITS", 2)
    np.testing.assert_allclose(acquisition.score(name, p, ARM, population=TARGETS), whole, rtol=1e-9)


def test_squared_covariances_from_draws_are_unbiased_before_they_are_floored() -> None:
    """The mean of the score's sum over many sets of draws is that of the belief they are drawn from."""
    rng = np.random.default_rng(0)
    exact = fake_posterior(UNITS, residual=False, rank=4)
    worth = np.exp(acquisition.score("tau-vr", exact, ARM, population=TARGETS)) * (
        exact.variance[np.arange(UNITS), ARM] + exact.noise[0, 0]
    )
    sums = []
    for _ in range(4000):
        p = Posterior.from_draws(exact.draws(8, rng), 0.5)
        spread = p.variance[np.arange(UNITS), ARM] + 0.5
        # Without the floor at zero, which is a bias of its own, for a sum over many targets.
        from causalbald.acquisition import _targeted

        targets = acquisition.TargetBelief.within(p, ARM, TARGETS)
        effects = _targeted._Effects.of(p, TARGETS.weights, TARGETS.positions, TARGETS.threshold)
        c = _targeted._covariance(targets, slice(None), 1) - _targeted._covariance(targets, slice(None), 0)
        n = 7
        product = p.variance[np.arange(UNITS), ARM][:, None] * effects.variance
        square = n * (n * c**2 - product) / ((n + 2) * (n - 1))
        np.testing.assert_allclose(
            _targeted._squared(c, np.stack([p.variance[np.arange(UNITS), ARM], spread], axis=1), effects),
            np.maximum(square, 0),
        )
        sums.append(square @ TARGETS.weights)
    standard_error = np.std(sums, axis=0) / np.sqrt(len(sums))
    assert (np.abs(np.mean(sums, axis=0) - worth) < 4 * standard_error).all()


def test_draws_of_independent_units_say_little_about_both_outcomes() -> None:
    """Without the adjustment for two regressors, chance correlations with 200 targets would be worth thrice as much."""
    draws = np.random.default_rng(0).normal(size=(50, 200, 2))
    p, arm = Posterior.from_draws(draws, 0.1), np.arange(200) % 2
    everyone = acquisition.TargetPopulation.of(np.arange(200), 200)
    worth = np.exp(acquisition.score("epig-mu", p, arm, population=everyone))
    to_itself = 0.5 * np.log(1 / (0.1 / 1.1)) / 200  # what an outcome says of itself
    assert (
        to_itself < worth.mean() < to_itself + 0.5 * 2 / 49
    )  # chance: R² of two regressors is 2 / 49, of which half stays


@pytest.mark.parametrize("name", ["tau-vr", "epig-tau", "epig-mu", "regret"])
def test_targets_of_no_weight_are_none(name: str) -> None:
    """Only unit 0 is undecided, and it does not matter: what it would gain must not hide what others gain."""
    p = fake_posterior(9, rank=5)
    mean = p.mean.copy()
    mean[:, 1] = mean[:, 0] + 8
    mean[0, 1] = mean[0, 0]
    p, arm = Posterior(mean, p.factor, p.residual, p.noise), np.arange(9) % 2
    without = acquisition.TargetPopulation.of(np.arange(9), 9, [0.0] + [1.0] * 8)
    other_units = acquisition.TargetPopulation.of(np.arange(1, 9), 9)
    got, expected = (acquisition.score(name, p, arm, population=t) for t in (without, other_units))
    np.testing.assert_allclose(got, expected)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_arms_that_mirror_each_other_have_one_outcome_to_learn(sign: float) -> None:
    factor = np.random.default_rng(0).normal(size=(4, 2, 2))
    factor[:, 1] = sign * factor[:, 0]
    p, arm = Posterior(np.zeros((4, 2)), factor, np.zeros(()), np.array(0.5)), np.array([0, 1, 0, 1])
    shared = factor[:, 0] @ factor[:, 0].T
    explained = shared**2 / (np.diag(shared) + 0.5)[:, None] / np.diag(shared)
    got = np.exp(acquisition.score("epig-mu", p, arm))
    np.testing.assert_allclose(got, -0.5 * np.log(1 - explained).mean(axis=1), rtol=1e-6)


@pytest.mark.parametrize("name", ["tau-vr", "regret"])
def test_binary_outcomes_are_close_to_monte_carlo(name: str) -> None:
    """Draw functions, draw the outcome, weigh the draws by it: what the outcome does to the beliefs about risks."""
    link: Link = "probit"
    base = fake_posterior(UNITS, link=link, seed=2)
    p = Posterior(base.mean * 0.2, base.factor * 0.6, base.residual * 0.3, base.noise, link)
    draws = p.draws(200_000, np.random.default_rng(1))
    effect = (draws[:, :, 1] - draws[:, :, 0])[:, TARGETS.positions]
    worth = []
    for i in range(UNITS):
        probability = draws[:, i, ARM[i]]
        kept, regret_after = 0.0, 0.0
        for weight in (probability, 1 - probability):
            mean = (weight[:, None] * effect).mean(axis=0) / weight.mean()
            second = (weight[:, None] * effect**2).mean(axis=0) / weight.mean()
            kept += weight.mean() * (TARGETS.weights @ (second - mean**2))
            regret_after += weight.mean() * (TARGETS.weights @ np.maximum(mean, 0))
        before = TARGETS.weights @ np.maximum(effect.mean(axis=0), 0)
        worth.append(TARGETS.weights @ effect.var(axis=0) - kept if name == "tau-vr" else regret_after - before)
    got = np.exp(acquisition.score(name, p, ARM, population=TARGETS))
    if name == "tau-vr":
        np.testing.assert_allclose(got, worth, rtol=0.25)
    assert np.corrcoef(got, worth)[0, 1] > 0.9


@pytest.mark.parametrize("index", [6.0, 8.5, 12.0, 40.0])
@pytest.mark.parametrize("name", NAMES)
def test_outcomes_that_are_all_but_certain_are_worth_little_whichever_they_are(name: str, index: float) -> None:
    p = fake_posterior(units=12, link="probit")
    mean = p.mean.copy()
    mean[0] = index * np.sqrt(1 + np.diagonal(p.latent_covariance[0]))
    mirrored = [Posterior(sign * mean, p.factor, p.residual, p.noise, "probit") for sign in (1, -1)]
    likely, unlikely = (acquisition.score(name, belief, np.arange(12) % 2) for belief in mirrored)
    np.testing.assert_allclose(likely, unlikely, rtol=1e-6)
    assert likely[0] < likely[1:].min()
    other_units = Posterior(p.mean, p.factor, p.residual, p.noise, "probit").take(np.arange(1, 12))
    weights = np.delete(np.full(12, 1 / 12), 0)
    alone = acquisition.score(
        name, other_units, np.arange(1, 12) % 2, population=acquisition.TargetPopulation.of(np.arange(11), 11, weights)
    )
    np.testing.assert_allclose(likely[1:], alone + np.log(11 / 12), atol=0.02)


@pytest.mark.parametrize(
    ("draws", "targets", "same_as"),
    [
        (5, None, "mu-rho-bald"),
        (5, pool_population(UNITS), "mu-rho-bald"),
        (5, pool_population(UNITS, weights=ARM + 1.0), "tau-vr"),
        (5, TARGETS, "tau-vr"),
        (100, None, "tau-vr"),
        (None, None, "tau-vr"),
    ],
)
def test_default_trusts_covariances_of_many_draws_only(
    draws: int | None, targets: acquisition.TargetPopulation | None, same_as: str
) -> None:
    p = fake_posterior(UNITS)
    if draws is not None:
        p = Posterior.from_draws(p.draws(draws, np.random.default_rng(0)), p.noise)
    got, expected = (acquisition.score(name, p, ARM, population=targets) for name in ("default", same_as))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("units", [50, 50_000])
def test_a_pool_of_people_who_count_the_same_is_known_as_such(units: int) -> None:
    assert pool_population(units).is_whole_pool
    assert not pool_population(units, weights=np.arange(units)).is_whole_pool
    assert not acquisition.TargetPopulation.of(np.arange(10), units).is_whole_pool
