"""What a deep kernel is trained for: the evidence of random batches, or the variational bound of the paper."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from causalbald._typing import Positions
from causalbald.models._evidence import log_evidence, noisy_root
from causalbald.models._nn.deep_kernel import DeepKernel
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels, Score

_LOG_2, _LOG_2PI = math.log(2), math.log(2 * math.pi)
_JITTER = 1e-5
_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(20)


class BatchEvidence:
    """Evidence of random batches: the process is integrated out exactly, nothing but the kernel is learned.

    A new batch each step, without repetition, keeps the encoder from fitting the labels one by one, which the
    evidence of all labels at once rewards. ``condition_on``: which of a member's rows predict the held-out ones.
    """

    def __init__(
        self, network: DeepKernel, study: MemberLabels, batch_size: int | None, condition_on: Positions, chunk: int
    ) -> None:
        self.network, self.study, self.chunk = network, study, chunk
        self.batch_size = len(study.labels) if batch_size is None else batch_size
        self.condition_on = condition_on

    def loss(self) -> Tensor:
        """Return minus the log evidence per label, (M,)."""
        batch = self.study.batch(self.network.streams, self.batch_size, repeat=False)
        features = self.network.features(batch.x, batch.t)
        covariance = self.network.covariance(features, features) + torch.diag_embed(self.network.noise(batch.t))
        return -log_evidence(covariance, batch.y - self.network.mean(batch.t)) / batch.y.shape[1]

    @torch.no_grad()
    def predictive(self) -> Score:
        """Return the expected log-likelihood of new labels (M, v) given ``condition_on``, as a function."""
        network, rows = self.network, self.study.train.columns(self.condition_on)
        known, keep = self.study.labels.take(rows.index), rows.counts.double()
        parts = zip(torch.split(known.x, self.chunk, 1), torch.split(known.t, self.chunk, 1), strict=True)
        a = torch.cat([network.features(x, t) for x, t in parts], 1)
        # Rows that only fill up are taken out: no covariance with others, noise 1, residual 0.
        prior = network.covariance(a, a).double() * keep[:, :, None] * keep[:, None, :]
        noise = network.noise(known.t).double() * keep + (1 - keep)
        root = noisy_root(prior + torch.diag_embed(noise))
        residual = (known.y - network.mean(known.t)).double() * keep
        explained = torch.linalg.solve_triangular(root, residual[:, :, None], upper=False)

        def score(new: LabelTensors) -> Tensor:
            across = network.covariance(a, network.features(new.x, new.t)).double() * keep[:, :, None]
            towards = torch.linalg.solve_triangular(root, across, upper=False)
            variance = network.log_variance.exp()[:, 0].double() - towards.square().sum(1)
            mean = network.mean(new.t) + (towards * explained).sum(1)
            return gaussian_expectation(new.y, mean, variance.clamp_min(0.0), network.noise(new.t).double())

        return score


class VariationalBound(nn.Module):
    """The paper's bound with inducing points: for more labels than one batch holds, and for binary outcomes.

    The belief about the whitened process at the inducing points is N(mean, root rootᵀ); it is learned along with
    the points and the kernel. Variance and noise start where GPyTorch's do, at log 2: with less noise, and few labels,
    training often ends at once, where noise explains everything.
    """

    def __init__(
        self, network: DeepKernel, study: MemberLabels, batch_size: int, points: Tensor, *, binary: bool
    ) -> None:
        super().__init__()
        members, inducing, _ = points.shape
        with torch.no_grad():
            for start in (network.log_noise, network.log_variance):
                start.fill_(math.log(_LOG_2))
        self.network, self.study, self.batch_size, self.binary = network, study, batch_size, binary
        self.points = nn.Parameter(points)
        self.mean = nn.Parameter(torch.zeros(members, inducing, device=points.device))
        self.root = nn.Parameter(torch.eye(inducing, device=points.device).repeat(members, 1, 1))

    def loss(self) -> Tensor:
        """Return minus the bound per label, (M,)."""
        batch = self.study.batch(self.network.streams, self.batch_size, repeat=True)
        labels = torch.as_tensor(self.study.train.lengths, device=batch.y.device)
        return self.divergence() / labels - self.expected(batch).mean(1)

    def predictive(self) -> Score:
        """Return the expected log-likelihood of new labels (M, v), as a function."""
        return self.expected

    def expected(self, labels: LabelTensors) -> Tensor:
        """Return each label's expected log-likelihood, (M, n)."""
        mean, variance = self._moments(self.network.features(labels.x, labels.t))
        mean = mean + self.network.mean(labels.t)
        if self.binary:
            return probit_expectation(labels.y, mean, variance)
        return gaussian_expectation(labels.y, mean, variance, self.network.noise(labels.t))

    def divergence(self) -> Tensor:
        """Return the divergence of the belief at the inducing points from the prior, (M,)."""
        root = self.root.tril()
        volume = root.diagonal(dim1=1, dim2=2).square().clamp_min(1e-30).log().sum(1)
        return 0.5 * (root.square().sum((1, 2)) + self.mean.square().sum(1) - self.mean.shape[1] - volume)

    @torch.no_grad()
    def belief(self) -> dict[str, Tensor]:
        """Return where the belief is held and what it is, in double precision on the CPU."""
        values = {"points": self.points, "mean": self.mean, "root": self.root.tril(), "prior_root": self.prior_root()}
        return {name: value.detach().double().cpu().contiguous() for name, value in values.items()}

    def prior_root(self) -> Tensor:
        """Return the Cholesky factor of the prior covariance at the inducing points, (M, m, m), double precision."""
        points = self.points.double()
        covariance = self.network.covariance(points, points)
        jitter = _JITTER * self.network.log_variance.exp().double()
        root: Tensor = torch.linalg.cholesky(covariance + jitter * torch.eye(covariance.shape[-1]).to(covariance))
        return root

    def _moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        across = self.network.covariance(self.points.double(), features.double())
        explained = torch.linalg.solve_triangular(self.prior_root(), across, upper=False).to(features)
        spread = self.root.tril().mT @ explained
        variance = self.network.log_variance.exp()[:, 0] - explained.square().sum(1) + spread.square().sum(1)
        return (self.mean[:, :, None] * explained).sum(1), variance.clamp_min(1e-8)


def gaussian_expectation(y: Tensor, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    """Return E log N(y; f, noise) for f ~ N(mean, variance)."""
    return -0.5 * (_LOG_2PI + noise.log() + ((y - mean).square() + variance) / noise)


def probit_expectation(y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Return E log P(y | f) for f ~ N(mean, variance) and P(1 | f) = Phi(f), by quadrature."""
    points, weights = torch.as_tensor(_POINTS).to(mean), torch.as_tensor(_WEIGHTS / _WEIGHTS.sum()).to(mean)
    scores = mean[..., None] + variance.sqrt()[..., None] * points
    expected: Tensor = torch.special.log_ndtr((2 * y - 1)[..., None] * scores) @ weights
    return expected
