"""Deep kernel: a stationary kernel on features of the covariates, with the treatment as one more feature.

The encoder is that of DUE (van Amersfoort et al., 2021, On Feature Collapse and Deep Kernel Learning for Single Forward
Pass Uncertainty, arXiv:2102.11409); Causal-BALD (Jesson et al., 2021, arXiv:2111.02275) adds the treatment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from causalbald.models._nn.encoders import Architecture, feature_width, make_encoder
from causalbald.models._nn.kernels import KERNELS, squared_distances
from causalbald.models._nn.random_streams import RandomStreams

ARMS = 2
# Least noise variance of a standardised outcome. It keeps covariances invertible in single precision.
_LEAST_NOISE = 1e-4


class DeepKernel(nn.Module):
    """M deep kernels with a prior mean and a noise variance per arm, for standardised outcomes.

    With features z(x), arm t, lengthscale l and variance v, the kernel of two units is
    v κ((|z(x) - z(x')|² + (w t - w t')²) / l²). κ is one of ``KERNELS``, and w is the feature of a treated unit; a
    control has the feature 0. Do not rename the parameters: saved models contain their names.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        architecture: Architecture,
        streams: RandomStreams,
        kernel: str,
        custom: nn.Module | None = None,
    ) -> None:
        """Make a kernel for each of ``streams``, for units with covariates of this ``shape``.

        ``kernel`` is a name in ``KERNELS``. ``custom`` is the user's own encoder; without it, the encoder follows from
        ``architecture``. Raises InputError if ``custom`` is no module, or does not return features (n, F).
        """
        super().__init__()
        self.streams, self.kernel_name, members = streams, kernel, len(streams)
        comparing = replace(architecture, compares=True)
        self.encoder = make_encoder(shape, comparing, streams, activate_output=True, custom=custom)
        feature_width(self.encoder, shape, members)
        self.log_lengthscale = nn.Parameter(torch.zeros(members, 1, 1))
        self.log_treatment = nn.Parameter(torch.zeros(members, 1, 1))
        self.log_variance = nn.Parameter(torch.zeros(members, 1, 1))
        self.means = nn.Parameter(torch.zeros(members, ARMS))
        self.log_noise = nn.Parameter(torch.full((members, ARMS), math.log(0.3)))

    @torch.no_grad()
    def initialise(self, x: Tensor) -> None:
        """Set the first lengthscale to the mean distance between the features of x (M, n, ...).

        The treatment's feature starts at half of that distance. The network is in evaluation mode afterwards.
        """
        self.eval()
        features = self.encoder(x)
        distance = torch.cdist(features, features).mean((1, 2), keepdim=True).clamp_min(1e-6)
        self.log_lengthscale.copy_(distance.log())
        self.log_treatment.copy_((distance / 2).log())

    def features(self, x: Tensor, t: Tensor) -> Tensor:
        """Return features (M, n, F + 1) of covariates x (M, n, ...) under arms t (M, n), for M members.

        The last feature is that of the treatment.
        """
        treatment = t[..., None].to(x) * self.log_treatment.exp()
        return torch.cat([self.encoder(x), treatment], -1)

    def covariance(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the kernel (M, n, m) of M members between features a (M, n, F + 1) and b (M, m, F + 1).

        The features are those that ``features`` returns, with the treatment's feature.
        """
        squared = squared_distances(a, b) * (-2 * self.log_lengthscale).exp()
        return self.log_variance.exp() * KERNELS[self.kernel_name](squared)

    def mean(self, t: Tensor) -> Tensor:
        """Return the prior mean (M, n) of n outcomes under arms t (M, n), for M members."""
        return self.means.gather(1, t)

    def noise(self, t: Tensor) -> Tensor:
        """Return the noise variance (M, n) of n outcomes under arms t (M, n), at least ``_LEAST_NOISE``."""
        return (self.log_noise.exp() + _LEAST_NOISE).gather(1, t)

    @torch.no_grad()
    def member_kernels(self) -> list[MemberKernel]:
        """Return a copy of each member's parameters as its kernel on features, in double precision on the CPU."""
        parameters = [
            v.detach().double().cpu()
            for v in (
                self.log_lengthscale.exp()[:, 0, 0],
                self.log_treatment.exp()[:, 0, 0],
                self.log_variance.exp()[:, 0, 0],
                self.means,
                self.log_noise.exp() + _LEAST_NOISE,
            )
        ]
        return [MemberKernel(self.kernel_name, *values) for values in zip(*parameters, strict=True)]

    @torch.no_grad()
    def encode(self, x: Tensor, chunk: int) -> Tensor:
        """Return features (M, n, F) of the same units x (n, ...) for every member, without the treatment's feature.

        ``chunk`` units at a time pass through the network, which is in evaluation mode afterwards. The features are
        float32 on the CPU.
        """
        self.eval()
        device, members = self.means.device, len(self.means)
        parts = [self.encoder(part.to(device).expand(members, *part.shape)).cpu() for part in torch.split(x, chunk)]
        return torch.cat(parts, 1)


@dataclass(frozen=True)
class MemberKernel:
    """The Gaussian process of one member: its prior means, noise, and covariances between units.

    Units are given by their features (n, F) and arms (n,). The parameters are those of ``DeepKernel``, in double
    precision; covariances have the precision of the features. The methods are those of ``Process`` in ``_sites``.
    """

    kernel_name: str
    lengthscale: Tensor
    treatment: Tensor
    variance: Tensor
    means: Tensor  # (K,)
    noise: Tensor  # (K,)

    @property
    def between_arms(self) -> Tensor:
        """Prior covariance (K, K) of one unit's expected outcomes under the K arms."""
        arms = torch.arange(ARMS, dtype=self.means.dtype)
        return self._covariance(torch.zeros(ARMS, ARMS, dtype=self.means.dtype), arms, arms)

    def kernel(self, x: Tensor, arm_x: Tensor, z: Tensor, arm_z: Tensor) -> Tensor:
        """Return the kernel (n, m) between units x (n, F) with arms (n,) and units z (m, F) with arms (m,)."""
        return self._covariance(squared_distances(x, z), arm_x, arm_z)

    def by_arm(self, u: Tensor, arm: Tensor, z: Tensor) -> Tensor:
        """Return the kernel (K, r, n) between sites u (r, F) with arms (r,) and units z (n, F) under each of K arms.

        Faster than one call of ``kernel`` per arm: both arms share the distances of the features.
        """
        squared = squared_distances(u / self.lengthscale, z / self.lengthscale)
        kernel = squared.new_empty(ARMS, *squared.shape)
        for a in range(ARMS):
            between_arms = (self.treatment / self.lengthscale * (arm - a)).square()[:, None].to(squared)
            torch.mul(KERNELS[self.kernel_name](squared + between_arms), self.variance, out=kernel[a])
        return kernel

    def with_effects(self, u: Tensor, arm: Tensor, z: Tensor) -> Tensor:
        """Return the kernel (r, n) between sites u (r, F) with arms (r,) and the effects of units z (n, F).

        The kernel with an effect is the kernel with the treated unit minus the kernel with the same unit as a control.
        """
        by_arm = self.by_arm(u, arm, z)
        return by_arm[1].sub_(by_arm[0])

    def _covariance(self, squared: Tensor, arm_x: Tensor, arm_z: Tensor) -> Tensor:
        """Return the kernel (n, m) for squared distances (n, m) of features and for arms (n,) and (m,)."""
        between_arms = (self.treatment * (arm_x[:, None] - arm_z[None, :])).square().to(squared)
        return self.variance * KERNELS[self.kernel_name]((squared + between_arms) / self.lengthscale.square())
