"""Gaussian process over both potential outcomes: exact, no validation data, fast for hundreds of labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from causalbald._random import generator
from causalbald._typing import Array
from causalbald.models.base import CateEstimator, Labelled
from causalbald.models.evidence import collapsed_bound, log_evidence
from causalbald.models.registry import register
from causalbald.models.sites import SiteBelief, independent_sites
from causalbald.posterior import Posterior

ARMS = 2
_SCOUT_ITERATIONS = 20


@dataclass(frozen=True)
class Hyperparameters:
    """Everything that is learned from the labels, on standardised scales.

    mu(x, 0) = means[0] + weights[0, 0] s(x), and mu(x, 1) = means[1] + weights[0, 1] s(x) + weights[1, 1] e(x): s is
    shared between arms, e is for the effect. Both are processes of unit variance with a squared-exponential
    kernel and a lengthscale per covariate.
    """

    log_lengthscales: Tensor  # (2, D)
    weights: Tensor  # (2, K)
    means: Tensor  # (K,)
    log_noise: Tensor  # (K,)

    @property
    def noise(self) -> Tensor:
        """Noise variance per arm, (K,)."""
        return self.log_noise.exp()

    @property
    def between_arms(self) -> Tensor:
        """Prior covariance of one unit's two outcomes, (K, K)."""
        return self.weights.T @ self.weights

    def parts(self, x: Tensor, z: Tensor) -> Tensor:
        """Return both parts' unit-variance kernels between x (n, D) and z (m, D): (2, n, m)."""
        scale = self.log_lengthscales.neg().exp()[:, None, :]
        a, b = x * scale, z * scale
        distance = a.square().sum(-1)[:, :, None] + b.square().sum(-1)[:, None, :] - 2 * a @ b.transpose(1, 2)
        return torch.exp(-0.5 * distance.clamp_min(0.0))

    def kernel(self, x: Tensor, arm_x: Tensor, z: Tensor, arm_z: Tensor) -> Tensor:
        """Return the kernel between units with arms: (n, m)."""
        left, right = self.weights[:, arm_x], self.weights[:, arm_z]
        return (self.parts(x, z) * left[:, :, None] * right[:, None, :]).sum(0)


@dataclass(frozen=True)
class Prior:
    """Weakly informative Gaussian priors on the free parameters, for standardised data.

    The free parameters are 2 D log lengthscales, whose centre grows with the square root of the dimension; the log
    weight of the shared part in arm 0, its weight in arm 1 (any sign), the log weight of the effect part; the
    means; the log noises. Weights on a log scale keep a part from vanishing, which would make the arms'
    outcomes look like copies of each other and the belief about effects far too certain.
    """

    dimension: int

    @property
    def centre(self) -> Array:
        """Prior mean of the free parameters."""
        lengthscale = math.log(math.sqrt(self.dimension)) + 0.7
        return np.array([lengthscale] * (2 * self.dimension) + [0.0, 1.0, math.log(0.5), 0.0, 0.0, -2.0, -2.0])

    @property
    def spread(self) -> Array:
        """Prior standard deviation of the free parameters."""
        return np.array([1.0] * (2 * self.dimension) + [0.7, 0.7, 0.7, 1.0, 1.0, 2.0, 2.0])

    @property
    def starts(self) -> list[Array]:
        """Where to start the search: the centre, and a rougher, less noisy surface with a larger effect part.

        With few labels the evidence often has a mode where noise explains everything; one start finds only that.
        """
        rough = self.centre
        rough[: 2 * self.dimension] -= 1.0
        rough[-5] += 0.5
        rough[-2:] -= 1.5
        return [self.centre, rough]

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Limits that keep the algebra well conditioned, far out in the prior's tails."""
        return [(-5.0, 10.0)] * (2 * self.dimension) + [(-5.0, 5.0)] * 5 + [(math.log(1e-6), math.log(10.0))] * ARMS

    @staticmethod
    def unpack(free: Tensor) -> Hyperparameters:
        """Return the hyper-parameters that a vector of free parameters stands for."""
        log_control, treated, log_effect = free[-7:-4]
        shared = torch.stack([log_control.exp(), treated])
        effect = torch.stack([torch.zeros_like(treated), log_effect.exp()])
        return Hyperparameters(free[:-7].reshape(2, -1), torch.stack([shared, effect]), free[-4:-2], free[-2:])


@register("gp")
class GaussianProcess(CateEstimator):
    """Gaussian process with a part shared between arms and a part for the effect, one lengthscale per covariate.

    Hyper-parameters maximise the exact evidence times weak priors (L-BFGS), beyond ``max_exact`` labels the
    collapsed bound. Needs no validation data. Exact beliefs per unit; beliefs about averages and
    batches use the labelled points and ``sites`` units of the pool.

    Parameters
    ----------
    sites : int
        Units of the pool, in both arms, through which covariances between units run.
    max_exact : int
        Labels up to which the evidence and beliefs per unit are exact.
    inducing : int
        Labelled points that stand for all of them beyond ``max_exact``.
    max_iter : int
        Limit on L-BFGS iterations from the better of two starts.
    random_state : int
        Chooses sites and inducing points.
    """

    def __init__(
        self,
        *,
        sites: int = 256,
        max_exact: int = 2000,
        inducing: int = 512,
        max_iter: int = 200,
        random_state: int = 0,
    ) -> None:
        self.sites = sites
        self.max_exact = max_exact
        self.inducing = inducing
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit(self, data: Labelled, pool: Array, validation: Labelled | None) -> None:
        self.x_mean_, self.x_scale_ = pool.mean(axis=0), _scale(pool)
        self.y_mean_, self.y_scale_ = float(data.y.mean()), float(_scale(data.y[:, None])[0])
        x, arm = self._standardise(data.x), torch.as_tensor(data.t)
        y = torch.as_tensor((data.y - self.y_mean_) / self.y_scale_)
        rng = generator(self.random_state, "sites")
        core = torch.arange(len(y))
        if len(y) > self.max_exact:
            core = torch.as_tensor(np.sort(rng.choice(len(y), size=min(self.inducing, len(y)), replace=False)))
        self.hyperparameters_ = self._optimise(x, arm, y, core)
        chosen = rng.choice(len(pool), size=min(self.sites, len(pool)), replace=False)
        self._believe(x, arm, y, core, self._standardise(pool[np.sort(chosen)]))

    def _optimise(self, x: Tensor, arm: Tensor, y: Tensor, core: Tensor) -> Hyperparameters:
        prior = Prior(x.shape[1])
        centre, spread = torch.as_tensor(prior.centre), torch.as_tensor(prior.spread)

        def loss(values: Array) -> tuple[float, Array]:
            free = torch.tensor(values, requires_grad=True)
            deviation = (free - centre) / spread
            value = 0.5 * deviation @ deviation - _log_likelihood(prior.unpack(free), x, arm, y, core)
            (gradient,) = torch.autograd.grad(value, free)
            return value.item(), gradient.numpy()

        def search(start: Array, iterations: int) -> Any:
            options = {"maxiter": iterations, "ftol": 1e-6}
            return minimize(loss, start, jac=True, method="L-BFGS-B", bounds=prior.bounds, options=options)

        first = min((search(start, _SCOUT_ITERATIONS) for start in prior.starts), key=lambda found: found.fun)
        found = search(first.x, self.max_iter)
        self.n_iter_ = int(found.nit)
        return prior.unpack(torch.as_tensor(found.x))

    def _believe(self, x: Tensor, arm: Tensor, y: Tensor, core: Tensor, sites: Tensor) -> None:
        h = self.hyperparameters_
        u = torch.cat([x[core], *([sites] * ARMS)])
        u_arm = torch.cat([arm[core], *(torch.full((len(sites),), a) for a in range(ARMS))])
        keep = independent_sites(h.kernel(u, u_arm, u, u_arm))
        self.site_x_, self.site_arm_ = u[keep], u_arm[keep]
        k_uu = h.kernel(self.site_x_, self.site_arm_, self.site_x_, self.site_arm_)
        k_uf = h.kernel(self.site_x_, self.site_arm_, x, arm)
        self.belief_ = SiteBelief.from_labels(k_uu, k_uf, h.noise[arm], y - h.means[arm])

    def _posterior(self, x: Array) -> Posterior:
        h, z = self.hyperparameters_, self._standardise(x)
        parts = h.parts(self.site_x_, z)
        by_site = h.weights[:, self.site_arm_]
        mean, factor, explained = zip(
            *(
                self.belief_.project((parts * (by_site * h.weights[:, a : a + 1])[:, :, None]).sum(0))
                for a in range(ARMS)
            ),
            strict=True,
        )
        roots = torch.stack(explained)
        residual = h.between_arms - torch.einsum("arn,brn->nab", roots, roots)
        scale = self.y_scale_
        return Posterior(
            mean=(torch.stack(mean, 1) + h.means).numpy() * scale + self.y_mean_,
            factor=torch.stack(factor).permute(2, 0, 1).contiguous().numpy() * scale,
            residual=_positive(residual).numpy() * scale**2,
            noise=h.noise.numpy() * scale**2,
        )

    def _standardise(self, x: Array) -> Tensor:
        return torch.as_tensor((x - self.x_mean_) / self.x_scale_)


def _log_likelihood(h: Hyperparameters, x: Tensor, arm: Tensor, y: Tensor, core: Tensor) -> Tensor:
    noise, centred = h.noise[arm], y - h.means[arm]
    if len(core) == len(y):
        return log_evidence(h.kernel(x, arm, x, arm) + torch.diag(noise), centred)
    u, u_arm = x[core], arm[core]
    k_uu = h.kernel(u, u_arm, u, u_arm)
    jitter = 1e-6 * torch.diag(k_uu.detach().diagonal())
    diagonal = h.between_arms.diagonal()[arm]
    return collapsed_bound(k_uu + jitter, h.kernel(u, u_arm, x, arm), diagonal, noise, centred)


def _scale(x: Array) -> Array:
    sd = x.std(axis=0)
    constant = sd <= 1e-12 * np.maximum(np.abs(x).max(axis=0), 1.0)
    return np.where(constant, 1.0, sd)


def _positive(residual: Tensor) -> Tensor:
    """Return 2 x 2 matrices made positive semi-definite where rounding errors left them slightly not so."""
    root = residual.diagonal(dim1=1, dim2=2).clamp_min(0.0).sqrt()
    limit = root[:, :, None] * root[:, None, :]
    return torch.minimum(torch.maximum(residual, -limit), limit)
