"""Outcomes of two values, as the default model takes them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from causalbald import Posterior
from causalbald._scaling import outcome_range
from causalbald._typing import Array, Treatment
from causalbald.models import AutoEstimator, GaussianProcess, LabelSet, _auto
from causalbald.models._arm_means import ArmMeans, arm_risks
from causalbald.models._auto import _largest, _log_densities, _with_covariates
from tests.helpers.campaigns import measured, new_campaign, people

NOTHING = np.zeros((4, 2, 0))


def rare_events(seed: int, people: int = 500, columns: int = 12) -> tuple[Array, Array, Treatment, Array]:
    """Return the risk of everyone in each arm, who has an event, arms, and covariates that hardly matter."""
    rng = np.random.default_rng(seed)
    x, t = rng.normal(size=(people, columns)), (rng.random(people) < 0.3).astype(int)
    risk = stats.norm.cdf(-1.5 + 0.3 * x[:, :1] + np.array([0.0, 0.2]))
    return risk, (rng.random(people) < risk[np.arange(people), t]).astype(float), t, x


@pytest.mark.parametrize("labels", [30, 100])
def test_rare_events_are_predicted_no_worse_than_by_arm_means(labels: int) -> None:
    error, of_means, off, of_means_off = [], [], [], []
    for seed in range(3):
        risk, y, t, x = rare_events(seed)
        y[:2], t[:4] = 1.0, [0, 1, 0, 1]
        model = AutoEstimator().fit(y[:labels], t[:labels], X=x[:labels], pool=x)
        expected = model.posterior(x).expected
        assert expected.min() >= 0
        assert expected.max() <= 1
        means = np.array([y[:labels][t[:labels] == arm].mean() for arm in (0, 1)])
        error.append(((expected - risk) ** 2).mean())
        of_means.append(((means - risk) ** 2).mean())
        off.append(model.ate(x) - np.diff(risk).mean())
        of_means_off.append(means[1] - means[0] - np.diff(risk).mean())
    assert np.mean(error) < 1.05 * np.mean(of_means)
    assert np.mean(np.abs(off)) < 0.01 + np.mean(np.abs(of_means_off))


def test_an_arm_without_events_keeps_noise() -> None:
    """Nothing has happened to the treated, and nobody has said that nothing can."""
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(60, 3)), np.arange(60) % 2
    y = np.where((t == 0) & (rng.random(60) < 0.3), 1.0, 0.0)
    model = GaussianProcess().fit(y, t, X=x)
    noise, risk = model.posterior(x[:1]).noise[0], arm_risks(y > 0, t)[0]
    assert (noise >= 0.9 * risk * (1 - risk) * (1 - 1e-9)).all()
    assert noise[1] > 0.005
    nothing = GaussianProcess().fit(np.zeros(60), t, X=x)
    assert nothing.posterior(x[:1]).noise.min() > 0.8 * 0.001
    np.testing.assert_allclose(GaussianProcess().fit(10 * y + 1, t, X=x).posterior(x[:1]).noise[0], 100 * noise)


def test_noise_may_be_all_there_is_in_an_arm_that_scatters_more_than_all_outcomes() -> None:
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(300, 2)), (np.arange(300) < 4).astype(int)
    y = np.where(np.arange(300) < 2, 1.0, 0.0)
    noise = GaussianProcess(max_iter=5).fit(y, t, X=x).posterior(x[:1]).noise[0]
    assert noise[1] > 0.9 * 0.25 * 0.8


def test_two_values_are_told_from_numbers() -> None:
    assert outcome_range(np.array([0.0, 1.0])) == (0, 1)
    assert outcome_range(np.zeros(5)) == (0, 1)
    assert outcome_range(np.ones(5)) == (0, 1)
    assert outcome_range(np.empty(0)) == (0, 1)
    assert outcome_range(np.array([1.0, 2.0] * 5)) == (1, 2)
    assert outcome_range(np.array([1.0, 2.0] * 4 + [2.0])) is None
    assert outcome_range(np.array([0.0, 1.0, 2.0] * 5)) is None
    assert outcome_range(np.array([3.0, 4.0])) is None
    assert outcome_range(np.full(20, 3.0)) is None


def test_arm_means_by_hand() -> None:
    y, t = np.array([1.0, 0, 0, 0, 1, 1, 1, 0]), np.array([0, 0, 0, 0, 0, 1, 1, 1])
    x = np.zeros((8, 1))
    model = ArmMeans().fit(y, t, X=x)
    belief = model.posterior(x[:2])
    beta = [stats.beta(2 + 2 * 0.5, 3 + 2 * 0.5), stats.beta(2 + 2 * 0.5, 1 + 2 * 0.5)]  # together 4 of 8, shrunk
    np.testing.assert_allclose(belief.expected, [[b.mean() for b in beta]] * 2)
    np.testing.assert_allclose(belief.variance, [[b.var() for b in beta]] * 2)
    np.testing.assert_allclose(belief.noise[0], [b.mean() * (1 - b.mean()) for b in beta])
    assert belief.average_effect()[1] == pytest.approx(beta[0].var() + beta[1].var())
    coded = ArmMeans(limits=(1.0, 5.0)).fit(1 + 4 * y, t, X=x).posterior(x[:2])
    np.testing.assert_allclose(coded.expected, 1 + 4 * belief.expected)
    np.testing.assert_allclose(coded.variance, 16 * belief.variance)


def test_a_density_of_two_values_is_their_probability() -> None:
    risk = np.array([[0.2, 0.7], [0.9, 0.1], [-3.0, 0.5], [0.4, 7.0]])
    t, y = np.array([0, 1, 0, 1]), np.array([1.0, 0.0, 1.0, 0.0])
    clipped_risk = np.clip(risk[np.arange(4), t], 0.005, 0.995)
    for low, high in ((0.0, 1.0), (1.0, 2.0), (-4.0, 6.0)):
        scale = high - low
        belief = Posterior(low + scale * risk, NOTHING, np.zeros(()), np.full(2, 1e-9), limits=(low, high))
        log_densities = _log_densities([belief], LabelSet(low + scale * y, t, np.zeros((4, 1))))[:, 0]
        np.testing.assert_allclose(log_densities, stats.bernoulli(clipped_risk).logpmf(y), rtol=1e-9)


def test_arm_means_leave_a_share_to_covariates() -> None:
    names = ["gp", "index", "arm means"]
    assert _largest(names, _with_covariates(np.array([0.02, 0.01, 0.97]))) == {"gp": 0.25, "arm means": 0.75}
    assert _largest(names, _with_covariates(np.array([0.0, 0.3, 0.7]))) == {"index": 0.3, "arm means": 0.7}
    np.testing.assert_allclose(_with_covariates(np.array([0.6, 0.4, 0.0])), [0.6, 0.4, 0.0])


def sure(codes: tuple[float, float] = (0.0, 1.0)) -> tuple[AutoEstimator, Array]:
    """Return the default after outcomes that the treatment settles, and people far from these."""
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(24, 2)), np.arange(24) % 2
    y = np.array(codes)[np.where(np.arange(24) < 4, 1 - t, t)]
    return AutoEstimator().fit(y, t, X=x), 6 * rng.normal(size=(50, 2))


@pytest.mark.parametrize("codes", [(0.0, 1.0), (1.0, 2.0), (-5.0, 20.0)])
def test_effects_and_intervals_stay_within_what_two_values_allow(
    codes: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Posterior, "quantile", lambda *_: 1e4)  # an interval that would hold anything
    (model, x), largest = sure(codes), codes[1] - codes[0]
    assert set(model.weights_) == {"gp", "arm means"}
    belief = model.posterior(x)
    assert belief.limits == codes
    assert belief.expected.min() >= codes[0]
    assert belief.expected.max() <= codes[1]
    np.testing.assert_array_equal(model.effect_interval(x), np.full((2, 50), [[-largest], [largest]]))
    np.testing.assert_array_equal(model.effect_interval(x, T0=1, T1=1), np.zeros((2, 50)))
    assert model.ate_interval(x) == (-largest, largest)
    one, far = sure()
    np.testing.assert_allclose(model.effect(x), largest * one.effect(far), rtol=1e-3, atol=1e-3 * largest)


def test_a_member_far_out_of_range_does_not_drag_the_mixture_there() -> None:
    wild = Posterior(np.full((4, 2), -3.0), NOTHING, np.zeros(()), np.ones(()), limits=(0, 1))
    calm = Posterior(np.full((4, 2), 0.2), NOTHING, np.zeros(()), np.ones(()), limits=(0, 1))
    mixed = Posterior.mixture([wild, calm], [0.3, 0.7])
    np.testing.assert_allclose(mixed.expected, 0.14)
    np.testing.assert_allclose(mixed.variance, 0.3 * 0.7 * 0.2**2)
    assert mixed.limits == (0, 1)
    assert mixed.take([0]).condition(0, 1).limits == (0, 1)
    assert mixed.rescaled(2.0, 1.0).limits == (1, 3)
    assert Posterior(np.zeros((4, 2)), NOTHING, np.zeros(()), np.ones(()), "probit").linearised().limits == (0, 1)


def test_covariances_with_others_are_those_of_the_joint_belief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_auto, "stacking_weights", lambda _: np.array([0.5, 0.5]))
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(60, 2)), np.arange(60) % 2
    y = (x[:, 0] + rng.normal(size=60) > 1).astype(float)
    model = AutoEstimator(folds=2).fit(y, t, X=x, pool=np.concatenate([x, 3 * x]))
    other_units, units, treatment = 3 * x[:3], x[10:20], t[10:20]
    cross_belief = model.cross_belief(other_units)
    assert cross_belief is not None
    factor = model.posterior(np.concatenate([units, other_units])).factor
    joint = np.einsum("nr,jkr->njk", factor[np.arange(10), treatment], factor[10:])
    cross = cross_belief(units)
    for arm in (0, 1):
        np.testing.assert_allclose(cross.covariance(slice(0, 10), treatment, arm), joint[..., arm], atol=1e-5)
    effects = joint[..., 1] - joint[..., 0]
    np.testing.assert_allclose(cross.covariance(slice(0, 10), treatment, None), effects, atol=1e-5)
    np.testing.assert_array_equal(cross.belief.expected, model.posterior(units, joint=False).expected)


def test_a_campaign_on_events_concludes_within_what_they_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Posterior, "quantile", lambda *_: 1e4)
    study = people(80)
    study["truth_y"] = (study["truth_y"] > study["truth_y"].median()).astype(float)
    campaign = new_campaign(study)
    campaign.tell(measured(study, study["patient"][:12]))
    average, policy = campaign.ate(), campaign.policy()
    everyone = study.drop(columns=["truth_y", "truth_effect"])
    for table in (campaign.effects(), campaign.subgroups("sex"), campaign.predict(everyone), policy.units):
        np.testing.assert_allclose(table["lower"], -1)
        np.testing.assert_allclose(table["upper"], 1)
    np.testing.assert_allclose((average.lower, average.upper), (-1, 1))
    assert policy.treated > 0
    np.testing.assert_allclose((policy.lower, policy.upper), (-policy.treated, policy.treated))
