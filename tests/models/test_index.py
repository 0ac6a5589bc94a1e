"""The kernel with an index, and what uncertain hyper-parameters add to a belief, against finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from causalbald.models import GaussianProcess, IndexProcess
from causalbald.models._effect_kernel import IndexPrior, Prior
from causalbald.models._tangent import Tangent, estimated_information, fisher_information
from causalbald.testing import check_model

DIMENSION, LABELS = 3, 30
_STEP = 1e-5


def directions(prior: Prior) -> Tensor:
    """Return the free directions as combinations of the search's parameters, in the documented order."""
    eye, d = torch.eye(len(prior.centre), dtype=torch.float64), DIMENSION
    tail = [eye[k] for k in (-4, -3, -2, -1)]
    weights = [eye[k] for k in (-7, -6, -5)]
    first = d + 5 if isinstance(prior, IndexPrior) else 0
    # A larger scale is a smaller lengthscale.
    scales = [-eye[first : first + d].sum(0), -eye[first + d : first + 2 * d].sum(0)]
    if isinstance(prior, IndexPrior):
        return torch.stack([*eye[:d], *scales, *eye[d : d + 2], *weights, *eye[d + 2 : d + 5], *tail])
    return torch.stack([*scales, *weights, *tail])


class Case:
    """Labels, units and hyper-parameters away from the prior's centre; means by plain linear algebra."""

    def __init__(self, prior_class: type[Prior]) -> None:
        rng = np.random.default_rng(0)
        self.prior = prior_class(DIMENSION)
        start, spread = self.prior.centre, self.prior.spread
        self.free = torch.as_tensor(start + 0.7 * spread * rng.normal(size=len(start)))
        self.h = self.prior.unpack(self.free)
        self.x, self.z = (torch.as_tensor(rng.normal(size=(n, DIMENSION))) for n in (LABELS, 7))
        self.arm, self.y = torch.as_tensor(rng.integers(0, 2, LABELS)), torch.as_tensor(rng.normal(size=LABELS))

    def covariance(self, free: Tensor) -> Tensor:
        h = self.prior.unpack(free)
        return h.kernel(self.x, self.arm, self.x, self.arm) + torch.diag(h.noise[self.arm])

    def mean(self, free: Tensor) -> Tensor:
        h = self.prior.unpack(free)
        weights = torch.linalg.solve(self.covariance(free), self.y - h.means[self.arm])
        means: Tensor = (h.by_arm(self.x, self.arm, self.z).mT @ weights).T + h.means
        return means

    def slopes(self, function: object) -> list[Tensor]:
        """Return central differences of a function of the free parameters along each direction."""
        assert callable(function)
        along = [_STEP * v for v in directions(self.prior)]
        return [(function(self.free + v) - function(self.free - v)) / (2 * _STEP) for v in along]


@pytest.mark.parametrize("prior_class", [Prior, IndexPrior])
def test_information_is_that_of_a_gaussian_with_this_mean_and_covariance(prior_class: type[Prior]) -> None:
    case = Case(prior_class)
    precision = torch.linalg.inv(case.covariance(case.free))
    by_covariance = case.slopes(case.covariance)
    by_mean = torch.stack(case.slopes(lambda free: case.prior.unpack(free).means[case.arm]))
    traces = [[0.5 * torch.trace(precision @ a @ precision @ b) for b in by_covariance] for a in by_covariance]
    expected = torch.tensor(traces) + by_mean @ precision @ by_mean.T
    torch.testing.assert_close(fisher_information(case.h, case.x, case.arm), expected, rtol=1e-5, atol=1e-6)
    every = torch.eye(LABELS, dtype=torch.float64)  # a probe in each direction leaves nothing to chance
    torch.testing.assert_close(estimated_information(case.h, case.x, case.arm, every), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("prior_class", [Prior, IndexPrior])
def test_tangent_moves_expected_outcomes_as_the_hyper_parameters_do(prior_class: type[Prior]) -> None:
    case = Case(prior_class)
    precision = torch.as_tensor(case.prior.tangent_precision)
    of_prior = ((directions(case.prior) / torch.as_tensor(case.prior.spread)) ** 2).sum(1)
    torch.testing.assert_close(precision, of_prior)
    tangent = Tangent.of(case.h, case.x, case.arm, case.y, precision)
    jacobian = torch.stack(case.slopes(case.mean), -1)
    covariance = torch.linalg.inv(fisher_information(case.h, case.x, case.arm) + torch.diag(precision))
    factor = tangent.factor(case.h, case.z)
    added = torch.einsum("nkp,pq,mlq->nkml", jacobian, covariance, jacobian)
    torch.testing.assert_close(torch.einsum("nkp,mlp->nkml", factor, factor), added, rtol=1e-5, atol=1e-7)


def test_many_labels_leave_hyper_parameters_as_uncertain_as_their_full_information_does() -> None:
    y, t, x = study(400, 0)
    model = IndexProcess(inducing=100, max_iter=30).fit(y, t, X=x)
    estimated = model.tangent_
    assert estimated is not None
    h, precision = model.hyperparameters_, torch.as_tensor(IndexPrior(10).tangent_precision)
    full = Tangent.of(h, estimated.x, estimated.arm, torch.as_tensor(y), precision)
    added, expected = (
        replace(estimated, root=tangent.root).factor(h, estimated.x).norm(dim=-1) for tangent in (estimated, full)
    )
    torch.testing.assert_close(added, expected, rtol=0.1, atol=0.0)


def surface(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One steep direction in ten dimensions, which both arms follow in their own way."""
    index = x @ np.linspace(1, 2, 10) / np.linalg.norm(np.linspace(1, 2, 10))
    return np.exp(0.8 * index), index


def study(labels: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, t = rng.normal(size=(labels, 10)), rng.binomial(1, 0.4, size=labels)
    y = np.where(t == 1, *surface(x)[::-1]) + 0.3 * rng.normal(size=labels)
    return y, t, x


def test_index_learns_what_depends_on_one_direction_from_fewer_labels() -> None:
    new = np.random.default_rng(9).normal(size=(500, 10))
    control, treated = surface(new)
    errors, covered = [], []
    for model in (IndexProcess(), GaussianProcess()):
        y, t, x = study(160, 0)
        model.fit(y, t, X=x, pool=new)
        lower, upper = model.effect_interval(new)
        errors.append(np.sqrt(np.mean((model.effect(new) - (treated - control)) ** 2)))
        covered.append(np.mean((lower <= treated - control) & (treated - control <= upper)))
    assert errors[0] < 0.6 * errors[1]
    assert covered[0] > 0.85


def test_hyper_uncertainty_widens_and_never_moves_the_belief() -> None:
    y, t, x = study(60, 1)
    new = np.random.default_rng(9).normal(size=(50, 10))
    sure, unsure = (IndexProcess(hyper_uncertainty=on).fit(y, t, X=x, pool=new) for on in (False, True))
    for joint in (False, True):
        narrow, wide = sure.posterior(new, joint=joint), unsure.posterior(new, joint=joint)
        np.testing.assert_array_equal(wide.mean, narrow.mean)
        assert (wide.variance > narrow.variance).all()
    np.testing.assert_allclose(
        unsure.posterior(new).covariance, unsure.posterior(new, joint=False).covariance, rtol=1e-5, atol=1e-6 * y.var()
    )
    assert unsure.posterior(new).average_effect()[1] > sure.posterior(new).average_effect()[1]


def test_conformance() -> None:
    check_model(IndexProcess())
