"""The mixture of models that predicts held-out labels best."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

from causalbald import models
from causalbald.errors import InputError
from causalbald.models import AutoEstimator, GaussianProcess, IndexProcess, LabelSet
from causalbald.models._auto import _is_decided, _log_densities, stacking_weights
from causalbald.posterior import Posterior
from causalbald.testing import check_model
from tests.models.test_index import study


def test_stacking_weights_maximise_the_log_score_of_the_mixture() -> None:
    rng = np.random.default_rng(0)
    y = rng.standard_t(4, size=200)
    densities = np.stack([stats.norm(0, s).logpdf(y) for s in (0.8, 3.0)], axis=1)

    def minus_score(weight: float) -> float:
        return -float(np.log(weight * np.exp(densities[:, 0]) + (1 - weight) * np.exp(densities[:, 1])).mean())

    best = minimize_scalar(minus_score, bounds=(0, 1), method="bounded").x
    np.testing.assert_allclose(stacking_weights(densities), [best, 1 - best], atol=1e-3)
    assert 0.2 < best < 0.98


def test_a_model_that_predicts_better_takes_over_and_is_the_belief() -> None:
    """One steep direction in ten dimensions: the index. No direction at all: the general process."""
    y, t, x = study(120, 0)
    auto = AutoEstimator().fit(y, t, X=x)
    assert auto.weights_ == {"index": 1.0}
    alone = IndexProcess().fit(y, t, X=x)
    np.testing.assert_array_equal(auto.effect(x), alone.effect(x))
    noise = np.random.default_rng(2).normal(size=120)
    assert AutoEstimator().fit(noise, t, X=x).weights_["gp"] > 0.8


def test_between_models_the_belief_is_their_weighted_mixture() -> None:
    y, t, x = study(120, 0)
    auto = AutoEstimator().fit(y, t, X=x)
    auto.weights_ = {"gp": 0.25, "index": 0.75}
    auto.models_ = [GaussianProcess().fit(y, t, X=x), IndexProcess().fit(y, t, X=x)]
    parts, mixed = [m.posterior(x) for m in auto.models_], auto.posterior(x)
    np.testing.assert_allclose(mixed.mean, 0.25 * parts[0].mean + 0.75 * parts[1].mean)
    within = 0.25 * parts[0].variance + 0.75 * parts[1].variance
    np.testing.assert_allclose(mixed.variance, within + 0.25 * 0.75 * (parts[0].mean - parts[1].mean) ** 2)


def test_few_labels_or_one_covariate_leave_nothing_to_compare() -> None:
    y, t, x = study(120, 0)
    assert AutoEstimator().fit(y[:30], t[:30], X=x[:30]).weights_ == {"gp": 1.0}
    assert AutoEstimator().fit(y, t, X=x[:, :1]).weights_ == {"gp": 1.0}
    once = np.zeros_like(t)
    once[0] = 1
    assert AutoEstimator().fit(y, once, X=x).weights_ == {"gp": 1.0}


def test_outcomes_that_are_numbers_have_no_range_and_the_belief_of_version_0_1() -> None:
    rng = np.random.default_rng(1)
    x, t = rng.normal(size=(100, 5)), np.arange(100) % 2
    y = x[:, 0] + t * x[:, 1] + rng.normal(size=100)
    model = AutoEstimator().fit(y[:80], t[:80], X=x[:80], pool=x)
    lower, upper = model.effect_interval(x[80:83])
    numbers = [
        model.weights_["gp"], *model.effect(x[80:83]), *lower, *upper, model.ate(x), *model.ate_interval(x)
    ]  # fmt: skip
    before = [0.7522146866775293, 0.09361933798273547, 0.7710626574494234, 0.8831417798218355]
    before += [-1.187846730667012, -0.36304565254886245, -0.5848372384690705]
    before += [1.375085406632483, 1.905170967447709, 2.3511207981127416]
    before += [0.2661067944846358, -0.26130645441559913, 0.793520043384426]
    np.testing.assert_allclose(numbers, before, rtol=1e-4)
    assert model.posterior(x).limits is None


def test_only_so_many_labels_are_compared_and_all_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    fit = GaussianProcess._fit

    def spy(self: GaussianProcess, data: object, *arguments: object) -> None:
        seen.append(len(data.y))  # type: ignore[attr-defined]
        fit(self, data, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(GaussianProcess, "_fit", spy)
    y, t, x = study(120, 0)
    AutoEstimator(max_labels=50).fit(y, t, X=x)
    assert max(seen[:4]) < 50
    assert seen[-1] == 120


def test_folds_go_on_until_models_differ_clearly() -> None:
    rng = np.random.default_rng(0)
    close = rng.normal(size=(50, 2))
    assert not _is_decided(close)
    assert _is_decided(close + np.array([0.0, 2.0]))
    assert not _is_decided(np.column_stack([close + np.array([0.0, 2.0]), close[:, 1] + 2.0]))


def test_conformance_and_bad_parameters() -> None:
    check_model(AutoEstimator())
    y, t, x = study(60, 0)
    with pytest.raises(InputError, match="candidates names no model"):
        AutoEstimator(candidates=()).fit(y, t, X=x)
    with pytest.raises(InputError, match="folds"):
        models.load("auto", folds=1).fit(y, t, X=x)


def test_binary_outcomes_are_weighed_by_probabilities_and_mixed_on_their_own_scale() -> None:
    """`gp` takes 0 and 1 for numbers, the ensemble does not; a density of 0.2 per unit is no probability of 0.2."""
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(60, 3)), np.arange(60) % 2
    y = (x[:, 0] + t * x[:, 1] + rng.normal(size=60) > 0).astype(float)
    model = AutoEstimator(candidates=("gp", "ensemble"), folds=2).fit(y, t, X=x)
    model.weights_ = {"gp": 0.6, "ensemble": 0.4}
    model.models_ = [models.load(name).fit(y, t, X=x) for name in model.weights_]
    risks = [np.clip(m.posterior(x).expected, 0, 1) for m in model.models_]
    np.testing.assert_allclose(model.effect(x), np.diff(0.6 * risks[0] + 0.4 * risks[1])[:, 0])

    true, high = np.full((300, 2), 0.04), np.full((300, 2), 0.12)
    events, nothing = (np.arange(300) % 25 == 0).astype(float), np.zeros((300, 2, 0))
    right = Posterior(stats.norm.ppf(true), nothing, np.zeros(()), np.array(1.0), "probit")
    wrong = Posterior(high, nothing, np.zeros(()), np.array(0.04 * 0.96))
    data = LabelSet(events, np.arange(300) % 2, np.zeros((300, 1)))
    assert stacking_weights(_log_densities([right, wrong], data))[0] > 0.95
    low = Posterior(np.full((300, 2), 0.01), nothing, np.zeros(()), np.array(0.04 * 0.96))
    assert stacking_weights(_log_densities([right, low], data))[0] > 0.9


def test_log_density_of_outcomes() -> None:
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(4, 2, 3))
    belief = Posterior(rng.normal(size=(4, 2)), factor, np.zeros((4, 2, 2)), np.array(0.5))
    t, y = np.array([0, 1, 1, 0]), rng.normal(size=4)
    spread = np.sqrt((factor[np.arange(4), t] ** 2).sum(1) + 0.5)
    np.testing.assert_allclose(belief.log_density(t, y), stats.norm(belief.mean[np.arange(4), t], spread).logpdf(y))
    binary = Posterior(belief.mean, factor, belief.residual, np.array(0.0), "probit")
    events = np.array([0.0, 1.0, 0.0, 1.0])
    chance = binary.expected[np.arange(4), t]
    np.testing.assert_allclose(np.exp(binary.log_density(t, events)), np.where(events == 1, chance, 1 - chance))
    sure = Posterior(np.full((1, 2), 12.0), np.zeros((1, 2, 1)), np.zeros((1, 2, 2)), np.array(0.0), "probit")
    np.testing.assert_allclose(sure.log_density([0], [0.0]), stats.norm.logcdf(-12.0))


def test_weights_of_a_mixture_are_checked() -> None:
    belief = Posterior(np.zeros((2, 2)), np.zeros((2, 2, 0)), np.zeros((2, 2, 2)), np.array(1.0))
    with pytest.raises(InputError, match="weights of a mixture"):
        Posterior.mixture([belief, belief], [1.0, -1.0])
