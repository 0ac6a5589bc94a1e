"""Covariances with a few units, worked out from labels alone, against those of the joint belief about everyone."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pytest

from causalbald._typing import Array
from causalbald.models import AutoEstimator, CateEstimator, DeepKernelGP, GaussianProcess, IndexProcess, _auto
from causalbald.posterior import Posterior

Model = TypeVar("Model", bound=CateEstimator)
UNITS, OTHERS = np.arange(10), np.arange(5, 30)  # some are both
RNG = np.random.default_rng(0)
X, T = RNG.normal(size=(40, 3)), np.arange(40) % 2
Y = 5 * X[:, 0] + RNG.normal(size=40)


def few_labels(model: Model) -> Model:
    return model.fit(Y[:25], T[:25], X=X[:25], pool=X)


def joint_covariance(belief: Posterior) -> Array:
    """Cov(mu_T(x_i), mu_a(x_j)) of units and others, (N, J, K)."""
    joint: Array = np.einsum("ir,jar->ija", belief.factor[UNITS, T[UNITS]], belief.factor[OTHERS])
    same, other_rows = np.nonzero(UNITS[:, None] == OTHERS[None, :])
    joint[same, other_rows] += belief.residual[UNITS, T[UNITS]][same]
    return joint


def check(model: CateEstimator, tolerance: float) -> None:
    belief, cross_belief = model.posterior(X), model.cross_belief(X[OTHERS])
    assert cross_belief is not None
    joint, atol = joint_covariance(belief), tolerance * belief.variance.max()
    units = cross_belief(X[UNITS])
    for rows in (slice(None), slice(3, 7)):
        covariance = units.covariance
        for arm in (0, 1):
            np.testing.assert_allclose(covariance(rows, T[UNITS][rows], arm), joint[rows, :, arm], atol=atol)
        np.testing.assert_allclose(
            covariance(rows, T[UNITS][rows], None), (joint[..., 1] - joint[..., 0])[rows], atol=atol
        )
    alone = model.posterior(X[UNITS], joint=False)
    np.testing.assert_array_equal(units.belief.mean, alone.mean)
    np.testing.assert_array_equal(units.belief.covariance, alone.covariance)


@pytest.mark.parametrize("max_exact", [100, 10])
@pytest.mark.parametrize("kind", [GaussianProcess, IndexProcess])
def test_of_a_process_through_everyone(kind: type[GaussianProcess], max_exact: int) -> None:
    check(few_labels(kind(max_iter=3, sites=40, max_exact=max_exact, inducing=15)), 1e-6)


@pytest.mark.parametrize("max_exact", [100, 10])
def test_of_networks_that_differ_in_means_too(max_exact: int) -> None:
    model = DeepKernelGP(hidden=16, depth=1, members=3, max_epochs=3, sites=40, max_exact=max_exact)
    check(few_labels(model), 1e-5)


def test_of_a_mixture_of_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_auto, "stacking_weights", lambda _: np.array([0.3, 0.7]))
    model = few_labels(AutoEstimator(folds=2, min_labels=8))
    assert model.weights_ == {"gp": 0.3, "index": 0.7}
    check(model, 1e-6)


def test_a_mixture_of_one_has_its_cross_belief_and_one_without_has_none() -> None:
    assert few_labels(AutoEstimator(candidates=("gp",))).cross_belief(X[:2]) is not None
    assert few_labels(AutoEstimator(candidates=("ensemble",))).cross_belief(X[:2]) is None


def test_sites_that_tell_all_need_no_cross_belief() -> None:
    x = RNG.normal(size=(200, 1))
    model = GaussianProcess(max_iter=3).fit(np.sin(x[:, 0]) + RNG.normal(size=200), np.arange(200) % 2, X=x)
    assert model.posterior(x).residual_share < 1e-6
    assert model.cross_belief(x[:5]) is None


def test_binary_outcomes_have_covariances_through_sites_alone() -> None:
    model = DeepKernelGP(hidden=16, depth=1, members=1, max_epochs=1, epoch_steps=1)
    assert model.fit((Y > 0).astype(float), T, X=X).cross_belief(X[:2]) is None
