"""The belief, against explicit joint covariance matrices, exact Bayesian updates and Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from causalbald import Posterior
from causalbald._typing import AnyArray, Array
from causalbald.errors import ApproximationWarning, InputError
from causalbald.models import CateEstimator, LabelSet
from causalbald.posterior import Link
from causalbald.testing import check_model, fake_posterior


def joint_covariance(p: Posterior) -> Array:
    """The (N K, N K) matrix that the factor and the residual stand for, written out."""
    units, arms, rank = p.factor.shape
    flat = p.factor.reshape(units * arms, rank)
    joint: Array = flat @ flat.T
    for i in range(units):
        block = slice(i * arms, (i + 1) * arms)
        joint[block, block] += p.residual[i]
    return joint


def exact_update(joint: Array, row: int, noise: float) -> Array:
    """Covariance after observing one coordinate with noise: the textbook formula."""
    after: Array = joint - np.outer(joint[:, row], joint[:, row]) / (joint[row, row] + noise)
    return after


def test_moments_are_those_of_the_joint_covariance() -> None:
    p = fake_posterior(units=5)
    joint = joint_covariance(p)
    for i in range(5):
        block = joint[2 * i : 2 * i + 2, 2 * i : 2 * i + 2]
        np.testing.assert_allclose(p.covariance[i], block)
        np.testing.assert_allclose(p.variance[i], np.diag(block))
        contrast = np.array([-1.0, 1.0])
        assert p.effect_variance[i] == pytest.approx(contrast @ block @ contrast)
    np.testing.assert_allclose(p.effect_mean, p.mean[:, 1] - p.mean[:, 0])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    position=st.integers(0, 4),
    arm=st.integers(0, 1),
    rank=st.integers(1, 7),
    residual=st.booleans(),
    noise=st.floats(1e-3, 10.0),
)
def test_condition_is_the_exact_bayesian_update(
    seed: int, position: int, arm: int, rank: int, residual: bool, noise: float
) -> None:
    p = fake_posterior(units=5, rank=rank, residual=residual, noise=noise, seed=seed)
    after = p.condition(position, arm)
    expected = exact_update(joint_covariance(p), 2 * position + arm, noise)
    np.testing.assert_allclose(joint_covariance(after), expected, atol=1e-10)
    np.testing.assert_array_equal(after.mean, p.mean)


def test_condition_twice_equals_a_joint_update() -> None:
    p = fake_posterior(units=4, noise=0.3)
    joint = joint_covariance(p)
    rows = [1, 6]
    gain = np.linalg.solve(joint[np.ix_(rows, rows)] + 0.3 * np.eye(2), joint[rows])
    after = p.condition(0, 1).condition(3, 0)
    np.testing.assert_allclose(joint_covariance(after), joint - joint[:, rows] @ gain, atol=1e-12)


def test_condition_on_a_unit_that_only_its_residual_describes() -> None:
    fake = fake_posterior(units=3)
    factor = fake.factor.copy()
    factor[1, 0] = 0.0
    p = Posterior(fake.mean, factor, fake.residual, fake.noise)
    after = p.condition(1, 0)
    np.testing.assert_allclose(joint_covariance(after), exact_update(joint_covariance(p), 2, 0.5), atol=1e-12)


def test_noiseless_measurement_leaves_no_variance_and_no_nan() -> None:
    p = fake_posterior(units=3, residual=False, noise=0.0)
    assert p.condition(1, 0).variance[1, 0] == pytest.approx(0.0, abs=1e-9)


def test_condition_keeps_the_factor_in_single_precision() -> None:
    p = fake_posterior(units=3)
    single = Posterior(p.mean, p.factor.astype(np.float32), p.residual, p.noise)
    after = single.condition(0, 0)
    assert after.factor.dtype == np.float32
    np.testing.assert_allclose(after.variance, p.condition(0, 0).variance, rtol=1e-5)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_probit_condition_gives_the_covariance_expected_after_the_outcome(scale: float) -> None:
    """Draw latent scores, weigh them by the likelihood of each outcome, and average what both outcomes leave."""
    base = fake_posterior(units=3, link="probit")
    p = Posterior(base.mean, base.factor * scale, base.residual * scale**2, base.noise, "probit")
    scores = Posterior(p.mean, p.factor, p.residual, p.noise).draws(400_000, np.random.default_rng(0)).reshape(-1, 6)
    chance = ndtr(scores[:, 3])  # of unit 1 under arm 1
    left = sum(w.mean() * np.cov(scores.T, aweights=w) for w in (chance, 1 - chance))
    moved = joint_covariance(p) - joint_covariance(p.condition(1, 1))
    np.testing.assert_allclose(moved, joint_covariance(p) - left, atol=0.02 * scale**2)
    assert moved[3, 3] > 0.1 * scale**2


def test_probit_condition_on_a_near_certain_outcome_changes_next_to_nothing() -> None:
    p = fake_posterior(units=3, link="probit")
    far = Posterior(p.mean + 40, p.factor, p.residual, p.noise, "probit")
    np.testing.assert_allclose(far.condition(0, 0).latent_covariance, far.latent_covariance, atol=1e-12)


def test_a_mixture_counts_draws_by_their_weight() -> None:
    exact = fake_posterior(units=5, residual=False)
    few, many = (Posterior.from_draws(exact.draws(n, np.random.default_rng(n)), exact.noise) for n in (5, 100))
    assert Posterior.mixture([exact, exact]).n_draws is None
    assert Posterior.mixture([many, many]).n_draws == 199
    assert Posterior.mixture([exact, few], [0.95, 0.05]).relates_units
    assert not Posterior.mixture([few, many], [0.95, 0.05]).relates_units


def test_draws_have_the_joint_moments() -> None:
    p = fake_posterior(units=4)
    draws = p.draws(200_000, np.random.default_rng(0)).reshape(200_000, -1)
    np.testing.assert_allclose(draws.mean(axis=0), p.mean.ravel(), atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), joint_covariance(p), atol=0.03)


def test_probit_moments_agree_with_draws_of_probabilities() -> None:
    p = fake_posterior(units=4, link="probit")
    draws = p.draws(400_000, np.random.default_rng(1))
    assert draws.min() >= 0
    assert draws.max() <= 1
    np.testing.assert_allclose(p.expected, draws.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(p.variance, draws.var(axis=0), atol=2e-3)
    effect = draws[:, :, 1] - draws[:, :, 0]
    np.testing.assert_allclose(p.effect_mean, effect.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(p.effect_variance, effect.var(axis=0), atol=2e-3)
    np.testing.assert_allclose(p.outcome_noise, (draws * (1 - draws)).mean(axis=0), atol=1e-3)


@pytest.mark.parametrize("index", [2.0, 8.5, 9.0])
def test_probit_moments_of_outcomes_that_are_all_but_certain(index: float) -> None:
    """Variance of a probability near 0, as an integral over the latent score; near 1, the same by symmetry."""
    v = 0.5
    mean = index * np.sqrt(1 + v)
    f = np.linspace(-mean - 12, -mean + 12, 200_001)
    density = np.exp(-0.5 * (f + mean) ** 2 / v) / np.sqrt(2 * np.pi * v)
    first, second = (np.trapezoid(ndtr(f) ** k * density, f) for k in (1, 2))
    for sign in (-1.0, 1.0):
        p = Posterior(np.full((1, 2), sign * mean), np.zeros((1, 2, 1)), v * np.eye(2), np.ones(()), "probit")
        np.testing.assert_allclose(p.variance, second - first**2, rtol=1e-3)
        np.testing.assert_allclose(p.outcome_noise, first - second, rtol=1e-3)
        np.testing.assert_allclose(p.effect_variance, 2 * (second - first**2), rtol=1e-3)


def test_from_draws_has_the_sample_moments(rng: np.random.Generator) -> None:
    draws = rng.normal(size=(7, 5, 2)) * 3 + 1
    p = Posterior.from_draws(draws, noise=[0.1, 0.2])
    np.testing.assert_allclose(p.mean, draws.mean(axis=0))
    np.testing.assert_allclose(joint_covariance(p), np.cov(draws.reshape(7, -1).T))
    np.testing.assert_allclose(p.effect_variance, (draws[:, :, 1] - draws[:, :, 0]).var(axis=0, ddof=1))
    assert p.n_draws == 7
    assert p.residual_share == 0.0


def test_mixture_has_the_moments_of_the_pooled_members() -> None:
    members = [fake_posterior(units=3, rank=r, seed=r) for r in (2, 5, 3)]
    mixed = Posterior.mixture(members)
    means = np.stack([m.mean.ravel() for m in members])
    within = np.mean([joint_covariance(m) for m in members], axis=0)
    np.testing.assert_allclose(mixed.mean.ravel(), means.mean(axis=0))
    np.testing.assert_allclose(joint_covariance(mixed), within + np.cov(means.T, ddof=0))


@pytest.mark.parametrize("link", ["identity", "probit"])
def test_average_effect_agrees_with_draws(link: str) -> None:
    p = fake_posterior(units=6, link=link)  # type: ignore[arg-type]
    weights = np.array([0.3, 0.1, 0.2, 0.0, 0.3, 0.1])
    draws = p.draws(200_000, np.random.default_rng(2))
    average = (draws[:, :, 1] - draws[:, :, 0]) @ weights
    mean, variance = p.average_effect(weights)
    assert mean == pytest.approx(average.mean(), abs=0.01)
    # Exact for the identity; covariance between units is linearised for probit.
    assert variance == pytest.approx(average.var(), rel=0.02 if link == "identity" else 0.1)


def test_average_effect_by_default_weighs_units_equally() -> None:
    p = fake_posterior(units=6)
    assert p.average_effect() == pytest.approx(p.average_effect(np.full(6, 1 / 6)))
    assert p.average_effect() == pytest.approx(p.average_effect(np.full(6, 2.0)))
    with pytest.raises(InputError, match="sum above 0"):
        p.average_effect(np.zeros(6))


def test_linearised_keeps_unit_moments_exact() -> None:
    p = fake_posterior(units=4, link="probit")
    flat = p.linearised()
    assert flat.link == "identity"
    np.testing.assert_allclose(flat.covariance, p.covariance, atol=1e-12)
    np.testing.assert_allclose(flat.effect_mean, p.effect_mean)


def test_take_keeps_order_and_covariances() -> None:
    p = fake_posterior(units=6)
    rows = [4, 1]
    part = p.take(rows)
    coordinates = [8, 9, 2, 3]
    np.testing.assert_allclose(joint_covariance(part), joint_covariance(p)[np.ix_(coordinates, coordinates)])


def test_residual_share_is_a_share_of_the_variance() -> None:
    p = fake_posterior(units=6)
    residual = np.trace(p.residual, axis1=1, axis2=2).sum()
    assert p.residual_share == pytest.approx(residual / p.variance.sum())


def test_warns_when_most_variance_is_local() -> None:
    p = fake_posterior(units=6)
    local = Posterior(p.mean, 0.01 * p.factor, p.residual, p.noise)
    with pytest.warns(ApproximationWarning, match="more `sites`"):
        local.average_effect()


def test_is_immutable() -> None:
    p = fake_posterior()
    with pytest.raises(ValueError, match="read-only"):
        p.mean[0, 0] = 1.0
    with pytest.raises(AttributeError):
        p.mean = p.mean + 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"factor": np.zeros((3, 2, 4))}, "disagree"),
        ({"mean": np.zeros(4)}, "disagree"),
        ({"residual": np.zeros((4, 3))}, "broadcast"),
        ({"noise": np.array([0.1, np.nan])}, "NaN"),
        ({"noise": np.array(-1.0)}, "negative"),
        ({"link": "logit"}, "identity"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], message: str) -> None:
    good: dict[str, object] = {
        "mean": np.zeros((4, 2)),
        "factor": np.zeros((4, 2, 3)),
        "residual": np.zeros(()),
        "noise": np.ones(2),
    }
    with pytest.raises(InputError, match=message):
        Posterior(**{**good, **change})  # type: ignore[arg-type]


def test_other_bad_calls() -> None:
    p = fake_posterior(units=3)
    with pytest.raises(InputError, match="position"):
        p.condition(3, 0)
    with pytest.raises(InputError, match="booleans"):
        p.take([True, False, True])
    with pytest.raises(InputError, match="list of integers"):
        p.take([0.5])
    with pytest.raises(InputError, match="arm"):
        p.condition(0, 2)
    with pytest.raises(InputError, match="at least 2 draws"):
        Posterior.from_draws(np.zeros((1, 3, 2)), noise=1.0)
    with pytest.raises(InputError, match="at least one"):
        Posterior.mixture([])
    with pytest.raises(InputError, match="same units"):
        Posterior.mixture([p, fake_posterior(units=4)])
    with pytest.raises(InputError, match="n must be"):
        p.draws(0, np.random.default_rng(0))
    assert "units=3" in repr(p)


def test_interval_from_few_draws_holds_one_draw_more() -> None:
    rng = np.random.default_rng(0)
    draws, truth = rng.normal(size=(5, 20_000, 2)), rng.normal(size=(20_000, 2))
    belief = Posterior.from_draws(draws, noise=1.0)
    reach = belief.quantile(0.1) * np.sqrt(belief.variance)
    assert np.mean(np.abs(truth - belief.mean) <= reach) == pytest.approx(0.9, abs=0.01)
    closed = Posterior(belief.mean, belief.factor, np.zeros(()), belief.noise)
    assert closed.quantile(0.05) == pytest.approx(1.959964, abs=1e-6)


def test_rescaled_is_the_belief_in_another_unit() -> None:
    belief = fake_posterior()
    other = belief.rescaled(10.0, 3.0)
    np.testing.assert_allclose(other.effect_mean, 10 * belief.effect_mean)
    np.testing.assert_allclose(other.covariance, 100 * belief.covariance)
    np.testing.assert_allclose(other.outcome_noise, 100 * belief.outcome_noise)
    np.testing.assert_allclose(other.mean, 10 * belief.mean + 3)


IMPOSSIBLE = {
    "negative": [[-1.0, 0.0], [0.0, -1.0]],
    "slightly negative": [[0.5, 0.0], [0.0, -1e-3]],
    "one arm negative": [[-0.3, 0.0], [0.0, 0.5]],
    "not symmetric": [[0.5, 0.2], [0.1, 0.5]],
    "correlation above one": [[0.5, 0.6], [0.6, 0.5]],
}


@pytest.mark.parametrize("link", ["identity", "probit"])
@pytest.mark.parametrize("block", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_residual_that_is_no_covariance_is_refused(block: list[list[float]], link: Link) -> None:
    base = fake_posterior(units=20_000, link=link)
    residual = base.residual.copy()
    residual[[9_000, 19_000]] = block
    with pytest.raises(InputError, match=r"residual .* 2 of 20000 units.*position 9000.*root @ root"):
        Posterior(base.mean, base.factor, residual, base.noise, link)
    for alone in (residual[9_000], -residual[0]):
        with pytest.raises(InputError, match="20000 of 20000 units"):
            Posterior(base.mean, base.factor, alone, base.noise, link)


def test_a_residual_for_one_or_three_arms_is_a_covariance_too() -> None:
    for arms in (1, 3):
        mean, factor = np.zeros((4, arms)), np.ones((4, arms, 2))
        Posterior(mean, factor, np.eye(arms), np.ones(()))
        for bad in (-np.eye(arms), np.eye(arms) - 1.5 * np.ones((arms, arms)) / arms):
            with pytest.raises(InputError, match="4 of 4 units"):
                Posterior(mean, factor, bad, np.ones(()))
    skewed = np.eye(3)
    skewed[0, 2] = 0.5
    with pytest.raises(InputError, match="symmetric"):
        Posterior(np.zeros((4, 3)), np.ones((4, 3, 2)), skewed, np.ones(()))


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_a_residual_that_rounding_made_slightly_negative_is_accepted(noise: float, scale: float) -> None:
    base = fake_posterior(units=5, residual=False)
    rounded = np.array([[-1e-8, 2e-8], [1e-8, 1e-8]]) * scale**2
    belief = Posterior(base.mean, base.factor * scale, rounded, np.array(noise * scale**2))
    assert (belief.variance > 0).all()


@pytest.mark.parametrize("link", ["identity", "probit"])
def test_beliefs_that_follow_from_a_possible_one_are_not_refused(link: Link) -> None:
    """Of a unit that is measured without noise in both arms, nothing but rounding errors is left."""
    base = fake_posterior(units=3, noise=0.0, link=link)
    for magnitude in (1e-6, 1.0, 1e3):
        root = magnitude * np.array([[1.0, 1.0 + 1e-9], [1.0, 1.0]])
        belief = Posterior(10 * base.mean, magnitude * base.factor, root @ root.T, base.noise, link)
        for _ in range(3):
            for unit, arm in ((0, 0), (0, 1), (1, 1), (1, 0)):
                belief = belief.condition(unit, arm)
        for small in (belief, belief.take([0]), belief.rescaled(1e-3, 2.0), belief.take([0]).linearised()):
            assert (small.variance >= 0).all()
        assert len(Posterior.mixture([belief.take([0]), belief.take([1])])) == 1


def test_probit_beliefs_of_all_scales_have_a_linear_approximation() -> None:
    for sd in (1e-6, 1e-3, 1.0, 30.0):
        for index in (0.0, 3.0, -8.0, 30.0):
            base = fake_posterior(units=50, link="probit")
            belief = Posterior(base.mean + index, sd * base.factor, sd**2 * base.residual, base.noise, "probit")
            assert (belief.linearised().take([3]).variance >= 0).all()


class Impossible(CateEstimator):
    """A model whose belief has a negative residual, whether or not it is joint."""

    def __init__(self, *, random_state: int = 0) -> None:
        self.random_state = random_state

    def _fit(self, data: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None: ...

    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        mean = np.stack([x[:, 0], 1 + x[:, 0] + x[:, 1]], axis=1)
        return Posterior(mean, np.zeros((len(x), 2, 1)), -2 * np.eye(2), np.array(0.1))


def test_the_conformance_suite_names_an_impossible_belief() -> None:
    with pytest.raises(AssertionError, match=r"a belief must be possible, but residual is not a covariance"):
        check_model(Impossible())
