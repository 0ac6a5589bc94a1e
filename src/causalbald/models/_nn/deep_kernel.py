"""Deep kernel: a stationary kernel on features of the covariates, with the treatment as one feature more."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from causalbald.models._nn.encoders import Architecture, feature_width, make_encoder
from causalbald.models._nn.kernels import KERNELS, squared_distances
from causalbald.models._nn.random_streams import RandomStreams

ARMS = 2
# Of a standardised outcome. Keeps covariances invertible in single precision.
_LEAST_NOISE = 1e-4


class DeepKernel(nn.Module):
    """M deep kernels with a mean and a noise variance per arm, for standardised outcomes."""

    def __init__(
        self,
        shape: tuple[int, ...],
        architecture: Architecture,
        streams: RandomStreams,
        kernel: str,
        own: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.streams, self.kernel_name, members = streams, kernel, len(streams)
        comparing = replace(architecture, compares=True)
        self.encoder = make_encoder(shape, comparing, streams, activate_output=True, own=own)
        feature_width(self.encoder, shape, members)
        self.log_lengthscale = nn.Parameter(torch.zeros(members, 1, 1))
        self.log_treatment = nn.Parameter(torch.zeros(members, 1, 1))
        self.log_variance = nn.Parameter(torch.zeros(members, 1, 1))
        self.means = nn.Parameter(torch.zeros(members, ARMS))
        self.log_noise = nn.Parameter(torch.full((members, ARMS), math.log(0.3)))

    @torch.no_grad()
    def start_at(self, x: Tensor) -> None:
        """Set the lengthscale to the mean distance between the features of x (M, n, ...), the treatment to half."""
        self.eval()
        features = self.encoder(x)
        distance = torch.cdist(features, features).mean((1, 2), keepdim=True).clamp_min(1e-6)
        self.log_lengthscale.copy_(distance.log())
        self.log_treatment.copy_((distance / 2).log())

    def features(self, x: Tensor, t: Tensor) -> Tensor:
        """Return features (M, n, F + 1) of covariates x (M, n, ...) under arms t (M, n)."""
        treatment = t[..., None].to(x) * self.log_treatment.exp()
        return torch.cat([self.encoder(x), treatment], -1)

    def covariance(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the kernel (M, n, m) between features a (M, n, F + 1) and b (M, m, F + 1)."""
        squared = squared_distances(a, b) * (-2 * self.log_lengthscale).exp()
        return self.log_variance.exp() * KERNELS[self.kernel_name](squared)

    def mean(self, t: Tensor) -> Tensor:
        """Return the prior mean (M, n) under arms t (M, n)."""
        return self.means.gather(1, t)

    def noise(self, t: Tensor) -> Tensor:
        """Return the noise variance (M, n) under arms t (M, n)."""
        return (self.log_noise.exp() + _LEAST_NOISE).gather(1, t)

    @torch.no_grad()
    def member_kernels(self) -> list[MemberKernel]:
        """Return each member's kernel on features, in double precision on the CPU."""
        values = [
            v.detach().double().cpu()
            for v in (
                self.log_lengthscale.exp()[:, 0, 0],
                self.log_treatment.exp()[:, 0, 0],
                self.log_variance.exp()[:, 0, 0],
                self.means,
                self.log_noise.exp() + _LEAST_NOISE,
            )
        ]
        return [MemberKernel(self.kernel_name, *rest) for rest in zip(*values, strict=True)]

    @torch.no_grad()
    def encode(self, x: Tensor, chunk: int) -> Tensor:
        """Return features (M, n, F) of the same units x (n, ...) for every member, on the CPU, ``chunk`` at a time.

        They are as exact as the network, in single precision.
        """
        self.eval()
        device, members = self.means.device, len(self.means)
        parts = [self.encoder(part.to(device).expand(members, *part.shape)).cpu() for part in torch.split(x, chunk)]
        return torch.cat(parts, 1)


@dataclass(frozen=True)
class MemberKernel:
    """One member's covariance between units given by their features (n, F), with arms; double precision."""

    kernel_name: str
    lengthscale: Tensor
    treatment: Tensor
    variance: Tensor
    means: Tensor  # (K,)
    noise: Tensor  # (K,)

    @property
    def between_arms(self) -> Tensor:
        """Prior covariance of one unit's outcomes, (K, K)."""
        arms = torch.arange(ARMS, dtype=self.means.dtype)
        return self._covariance(torch.zeros(ARMS, ARMS, dtype=self.means.dtype), arms, arms)

    def kernel(self, x: Tensor, arm_x: Tensor, z: Tensor, arm_z: Tensor) -> Tensor:
        """Return the kernel (n, m) between units x (n, F) and z (m, F) with arms, in their precision."""
        return self._covariance(squared_distances(x, z), arm_x, arm_z)

    def by_arm(self, u: Tensor, arm: Tensor, z: Tensor) -> Tensor:
        """Return the kernel (K, r, n) between sites u (r, F) with arms and units z (n, F), in their precision."""
        squared = squared_distances(u / self.lengthscale, z / self.lengthscale)
        found = squared.new_empty(ARMS, *squared.shape)
        for a in range(ARMS):
            apart = (self.treatment / self.lengthscale * (arm - a)).square()[:, None].to(squared)
            torch.mul(KERNELS[self.kernel_name](squared + apart), self.variance, out=found[a])
        return found

    def with_effects(self, u: Tensor, arm: Tensor, z: Tensor) -> Tensor:
        """Return the kernel (r, n) between sites u (r, F) with arms and the effects of units z (n, F)."""
        by_arm = self.by_arm(u, arm, z)
        return by_arm[1].sub_(by_arm[0])

    def _covariance(self, squared: Tensor, arm_x: Tensor, arm_z: Tensor) -> Tensor:
        apart = (self.treatment * (arm_x[:, None] - arm_z[None, :])).square().to(squared)
        return self.variance * KERNELS[self.kernel_name]((squared + apart) / self.lengthscale.square())
