"""What the training of a deep kernel maximises: the evidence of random batches, or the paper's variational bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from causalbald._typing import Positions
from causalbald.models._evidence import log_evidence, noisy_root
from causalbald.models._nn.deep_kernel import DeepKernel
from causalbald.models._nn.member_labels import LabelScore, LabelTensors, MemberLabels

_LOG_2, _LOG_2PI = math.log(2), math.log(2 * math.pi)
# Added to the prior variance of the inducing points, as a share of the kernel's variance.
_JITTER = 1e-5
# Least variance of the process at a label, where rounding errors of single precision would leave less.
_LEAST_VARIANCE = 1e-8
# Gauss-Hermite quadrature for a standard normal variable; the weights sum to √(2π).
_QUADRATURE_POINTS, _QUADRATURE_WEIGHTS = np.polynomial.hermite_e.hermegauss(20)


@dataclass(frozen=True, eq=False)
class BatchEvidence:
    """Log evidence of random batches: the process is integrated out exactly. Kernel, mean and noise are learned.

    With K the kernel between the labels of a batch, N the diagonal matrix of their noise variances and m their prior
    mean, the evidence is log N(y; m, K + N) (Rasmussen and Williams, 2006, equation 2.30). Each step takes a new batch
    without repetition. The evidence of all labels at once would reward an encoder that fits the labels one by one.

    ``batch_size`` None means all labels. ``condition_on`` are the columns of ``member_labels.rows`` from whose labels
    held-out labels are predicted. ``chunk`` labels of each member pass through the network together.
    """

    network: DeepKernel
    member_labels: MemberLabels
    batch_size: int | None
    condition_on: Positions
    chunk: int

    def loss(self) -> Tensor:
        """Return minus the log evidence per label of a new random batch, (M,)."""
        size = self.batch_size or len(self.member_labels.labels)
        batch = self.member_labels.batch(self.network.streams, size, repeat=False)
        features = self.network.features(batch.x, batch.t)
        covariance = self.network.covariance(features, features) + torch.diag_embed(self.network.noise(batch.t))
        return -log_evidence(covariance, batch.y - self.network.mean(batch.t)) / batch.y.shape[1]

    @torch.no_grad()
    def stop_score(self) -> LabelScore:
        """Return a function that scores held-out labels (M, v) by their expected log-likelihood, (M, v).

        The labels of ``condition_on`` count as measured. The function uses the network as it is now, so that
        :func:`training.train` needs a new function each time it scores. Raises TrainingError if the covariance of the
        labels cannot be factorised.
        """
        network, rows = self.network, self.member_labels.rows.take_columns(self.condition_on)
        labels, mask = self.member_labels.labels.take(rows.index), rows.mask.double()
        parts = zip(torch.split(labels.x, self.chunk, 1), torch.split(labels.t, self.chunk, 1), strict=True)
        features = torch.cat([network.features(x, t) for x, t in parts], 1)
        # Padding has no effect: no covariance with other rows, noise 1 and residual 0.
        prior = network.covariance(features, features).double() * mask[:, :, None] * mask[:, None, :]
        noise = network.noise(labels.t).double() * mask + (1 - mask)
        # K + N = R Rᵀ; explained = R⁻¹ (y - m)
        root = noisy_root(prior + torch.diag_embed(noise))
        residual = (labels.y - network.mean(labels.t)).double() * mask
        explained = torch.linalg.solve_triangular(root, residual[:, :, None], upper=False)

        def score(new: LabelTensors) -> Tensor:
            """Return E log p(y | f) (M, v) of ``new`` labels (M, v), in double precision."""
            # With k the kernel between labels and a new label, and a = R⁻¹ k:
            # mean m + kᵀ (K + N)⁻¹ (y - m) = m + aᵀ R⁻¹ (y - m), variance k(x, x) - kᵀ (K + N)⁻¹ k = k(x, x) - aᵀ a.
            across = network.covariance(features, network.features(new.x, new.t)).double() * mask[:, :, None]
            whitened = torch.linalg.solve_triangular(root, across, upper=False)
            variance = network.log_variance.exp()[:, 0].double() - whitened.square().sum(1)
            mean = network.mean(new.t) + (whitened * explained).sum(1)
            return gaussian_expectation(new.y, mean, variance.clamp_min(0.0), network.noise(new.t).double())

        return score


class VariationalBound(nn.Module):
    """The paper's lower bound on the log evidence, with inducing points; also for binary outcomes.

    The bound is Σ_i E_q log p(y_i | f_i) - KL(q ‖ p) (Hensman, Matthews and Ghahramani, 2015, Scalable Variational
    Gaussian Process Classification, arXiv:1411.2005; DUE takes the same: van Amersfoort et al., 2021,
    arXiv:2102.11409). u are the inducing points, K_uu is their kernel, and L is the Cholesky factor of K_uu. The belief
    q about the whitened process L⁻¹ f(u) is N(mean, root rootᵀ), and its prior is N(0, I). The belief is learned along
    with the points and the kernel.

    Variance and noise start at log 2, as in GPyTorch: with less noise and few labels, training often ends at once,
    where noise explains all outcomes.
    """

    def __init__(
        self, network: DeepKernel, member_labels: MemberLabels, batch_size: int, points: Tensor, *, binary: bool
    ) -> None:
        """Start with inducing ``points`` (M, m, F + 1) in the space of features, and with the prior as belief.

        Sets variance and noise of ``network`` in place. ``batch_size`` labels of each member are drawn in a step.
        """
        super().__init__()
        members, inducing, _ = points.shape
        with torch.no_grad():
            for parameter in (network.log_noise, network.log_variance):
                parameter.fill_(math.log(_LOG_2))
        self.network, self.member_labels = network, member_labels
        self.batch_size, self.binary = batch_size, binary
        self.points = nn.Parameter(points)
        self.mean = nn.Parameter(torch.zeros(members, inducing, device=points.device))
        self.root = nn.Parameter(torch.eye(inducing, device=points.device).repeat(members, 1, 1))

    def loss(self) -> Tensor:
        """Return minus the bound per label, (M,), estimated from a new random batch."""
        batch = self.member_labels.batch(self.network.streams, self.batch_size, repeat=True)
        n_labels = torch.as_tensor(self.member_labels.rows.lengths, device=batch.y.device)
        # -(1/n) (Σ_i E_q log p(y_i | f_i) - KL), the sum over n labels estimated by n times the mean over the batch
        return self.divergence() / n_labels - self.expected_log_likelihood(batch).mean(1)

    def stop_score(self) -> LabelScore:
        """Return ``expected_log_likelihood``, by which held-out labels (M, v) are scored."""
        return self.expected_log_likelihood

    def expected_log_likelihood(self, labels: LabelTensors) -> Tensor:
        """Return E_q log p(y_i | f_i) for each label i, (M, n). If y is binary, f_i is its latent score."""
        mean, variance = self._moments(self.network.features(labels.x, labels.t))
        mean = mean + self.network.mean(labels.t)
        if self.binary:
            return probit_expectation(labels.y, mean, variance)
        return gaussian_expectation(labels.y, mean, variance, self.network.noise(labels.t))

    def divergence(self) -> Tensor:
        """Return the divergence KL(q ‖ p) of the belief at the inducing points from the prior, (M,)."""
        root = self.root.tril()
        # KL(N(m, R Rᵀ) ‖ N(0, I)) = ½ (tr R Rᵀ + mᵀ m - dimension - log det R Rᵀ), log det R Rᵀ = Σ log R_jj²
        log_determinant = root.diagonal(dim1=1, dim2=2).square().clamp_min(1e-30).log().sum(1)
        return 0.5 * (root.square().sum((1, 2)) + self.mean.square().sum(1) - self.mean.shape[1] - log_determinant)

    @torch.no_grad()
    def belief(self) -> dict[str, Tensor]:
        """Return the inducing points, the belief there and the prior's root, in double precision on the CPU.

        ``DeepKernelGP`` keeps these tensors, and saves them under the names that are the keys.
        """
        values = {"points": self.points, "mean": self.mean, "root": self.root.tril(), "prior_root": self.prior_root()}
        return {name: value.detach().double().cpu().contiguous() for name, value in values.items()}

    def prior_root(self) -> Tensor:
        """Return L, the Cholesky factor of the prior covariance at the inducing points, (M, m, m), double precision."""
        points = self.points.double()
        covariance = self.network.covariance(points, points)
        jitter = _JITTER * self.network.log_variance.exp().double()
        root: Tensor = torch.linalg.cholesky(covariance + jitter * torch.eye(covariance.shape[-1]).to(covariance))
        return root

    def _moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance (M, n) of the process minus its prior mean, at features (M, n, F + 1)."""
        # With a = L⁻¹ k(u, x): mean aᵀ m, variance k(x, x) - aᵀ a + aᵀ R Rᵀ a.
        across = self.network.covariance(self.points.double(), features.double())
        explained = torch.linalg.solve_triangular(self.prior_root(), across, upper=False).to(features)  # a
        spread = self.root.tril().mT @ explained  # Rᵀ a
        variance = self.network.log_variance.exp()[:, 0] - explained.square().sum(1) + spread.square().sum(1)
        return (self.mean[:, :, None] * explained).sum(1), variance.clamp_min(_LEAST_VARIANCE)


def gaussian_expectation(y: Tensor, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    """Return E log N(y; f, noise) for f ~ N(mean, variance), elementwise; ``noise`` is a variance."""
    # E (y - f)² = (y - mean)² + variance
    return -0.5 * (_LOG_2PI + noise.log() + ((y - mean).square() + variance) / noise)


def probit_expectation(y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Return E log P(y | f) for f ~ N(mean, variance) and P(1 | f) = Phi(f), elementwise, by quadrature."""
    points = torch.as_tensor(_QUADRATURE_POINTS).to(mean)
    weights = torch.as_tensor(_QUADRATURE_WEIGHTS / _QUADRATURE_WEIGHTS.sum()).to(mean)
    # E g(f) = Σ_j w_j g(mean + √variance z_j), g(f) = log Phi((2 y - 1) f)
    scores = mean[..., None] + variance.sqrt()[..., None] * points
    expected: Tensor = torch.special.log_ndtr((2 * y - 1)[..., None] * scores) @ weights
    return expected
