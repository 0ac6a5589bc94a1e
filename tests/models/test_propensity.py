"""The propensity model, against known propensities."""

from __future__ import annotations

import numpy as np
import pytest

from causalbald import datasets
from causalbald.errors import InputError
from causalbald.models import PropensityModel
from causalbald.models._propensity import check_folds


def test_recovers_a_logistic_propensity_and_is_calibrated() -> None:
    pool = datasets.load("synthetic", 0, pool=4000).pool
    model = PropensityModel().fit(pool.x, pool.t)
    assert pool.propensity is not None
    assert model.kind_ == "logistic"
    assert np.abs(model.cross_fitted_ - pool.propensity).mean() < 0.02
    new = datasets.load("synthetic", 9, pool=2000).pool
    assert new.propensity is not None
    assert np.abs(model.predict(new.x) - new.propensity).mean() < 0.02
    for low in (0.1, 0.4, 0.7):
        group = (model.cross_fitted_ > low) & (model.cross_fitted_ < low + 0.2)
        assert pool.t[group].mean() == pytest.approx(model.cross_fitted_[group].mean(), abs=0.06)


def test_takes_trees_where_a_line_does_not_fit() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2))
    truth = np.where(np.abs(x[:, 0]) < 0.7, 0.85, 0.15)
    model = PropensityModel().fit(x, rng.binomial(1, truth))
    assert model.kind_ == "trees"
    assert np.abs(model.cross_fitted_ - truth).mean() < 0.07


def test_cross_fitting_does_not_learn_noise() -> None:
    rng = np.random.default_rng(0)
    t = rng.binomial(1, 0.5, size=200)
    model = PropensityModel().fit(rng.normal(size=(200, 20)), t)
    assert abs(np.corrcoef(model.cross_fitted_, t)[0, 1]) < 0.25


def test_stays_within_the_clip_and_repeats() -> None:
    x = np.linspace(-3, 3, 200)[:, None]
    t = (x[:, 0] > 0).astype(int)
    first, second = (PropensityModel(clip=0.05).fit(x, t) for _ in range(2))
    assert first.cross_fitted_.min() == pytest.approx(0.05)
    assert first.cross_fitted_.max() == pytest.approx(0.95)
    np.testing.assert_array_equal(first.cross_fitted_, second.cross_fitted_)


@pytest.mark.parametrize("treatment", [[0] * 6, [1] * 6, [0] * 5 + [1], [0, 0, 1]])
def test_folds_are_refused_if_an_arm_has_fewer_than_two_units(treatment: list[int]) -> None:
    with pytest.raises(InputError, match="at least two units in each arm"):
        check_folds(5, np.array(treatment))


def test_small_arms_and_bad_input() -> None:
    x = np.random.default_rng(0).normal(size=(30, 2))
    few = (np.arange(30) < 3).astype(int)
    assert len(PropensityModel().fit(x, few).models_) == 3
    with pytest.raises(InputError, match="at least two units in each arm"):
        PropensityModel().fit(x, np.arange(30) == 0)
    with pytest.raises(InputError, match="no units in arm 1"):
        PropensityModel().fit(x, np.zeros(30))
    with pytest.raises(InputError, match="clip"):
        PropensityModel(clip=0.6).fit(x, few)
    with pytest.raises(InputError, match="2 are needed"):
        PropensityModel().fit(x, few).predict(x[:, :1])
