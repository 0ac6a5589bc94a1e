"""What a user would write instead: a deep-kernel GP in GPyTorch, trained with the paper's schedule."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import gpytorch
import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor, nn

from causalbald._typing import Array
from causalbald.datasets import Split


@dataclass(frozen=True)
class PeerSettings:
    """The paper's hyper-parameters for one data set; an epoch is 100 batches, patience 5 epochs."""

    hidden: int
    depth: int
    dropout: float
    elu: bool
    matern: bool
    inducing: int
    batch_size: int


SETTINGS = {
    "ihdp": PeerSettings(200, 3, 0.1, True, True, 100, 100),
    "synthetic": PeerSettings(100, 3, 0.2, False, False, 20, 200),
}


class _Linear(nn.Linear):
    """Linear layer with soft spectral normalisation, one power iteration a step."""

    u: Tensor
    v: Tensor

    def __init__(self, inputs: int, outputs: int, coefficient: float = 0.95) -> None:
        super().__init__(inputs, outputs)
        self.coefficient = coefficient
        self.register_buffer("u", nn.functional.normalize(torch.randn(outputs), dim=0))
        self.register_buffer("v", nn.functional.normalize(torch.randn(inputs), dim=0))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            with torch.no_grad():
                self.v.copy_(nn.functional.normalize(self.weight.T @ self.u, dim=0))
                self.u.copy_(nn.functional.normalize(self.weight @ self.v, dim=0))
        gain = self.u @ self.weight @ self.v
        return nn.functional.linear(x, self.weight / (gain / self.coefficient).clamp_min(1.0), self.bias)


class _Residual(nn.Module):
    def __init__(self, width: int, activation: nn.Module, dropout: float) -> None:
        super().__init__()
        self.inner = nn.Sequential(activation, nn.Dropout(dropout), _Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = x + self.inner(x)
        return outputs


class _Process(gpytorch.models.ApproximateGP):
    def __init__(self, points: Tensor, lengthscale: float, matern: bool) -> None:
        belief = gpytorch.variational.CholeskyVariationalDistribution(len(points))
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, belief))
        base = gpytorch.kernels.MaternKernel(nu=1.5) if matern else gpytorch.kernels.RBFKernel()
        base.lengthscale = lengthscale
        self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), gpytorch.kernels.ScaleKernel(base)

    def forward(self, x: Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Peer:
    """The deep-kernel GP; ``fit`` stops on the validation split, as the paper does. Covariates are taken as they come:
    both data sets are already scaled, and rare binary columns would grow large in standard units.
    """

    def __init__(self, settings: PeerSettings, seed: int) -> None:
        self.settings, self.seed = settings, seed

    def fit(self, known: Split, free: Split) -> Peer:
        torch.manual_seed(self.seed)
        s, n = self.settings, len(known)
        self.y_mean, self.y_sd = known.y.mean(), known.y.std()
        x, t, y = self._tensors(known)
        held_x, held_t, held_y = self._tensors(free)
        activation = nn.ELU() if s.elu else nn.ReLU()
        layers = [_Residual(s.hidden, activation, s.dropout) for _ in range(s.depth - 1)]
        self.encoder = nn.Sequential(_Linear(x.shape[1], s.hidden), *layers, activation)
        self.process = self._process(x)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()
        gp = [*self.process.parameters(), *self.likelihood.parameters()]
        decay = 0.5 * (1 - s.dropout) / n
        groups = [{"params": self.encoder.parameters(), "weight_decay": decay}, {"params": gp, "lr": 2e-3}]
        optimiser = torch.optim.Adam(groups, lr=1e-3)
        bound = gpytorch.mlls.VariationalELBO(self.likelihood, self.process, num_data=n)
        best, since, kept, self.steps, started = -np.inf, 0, self._state(), 0, perf_counter()
        for _ in range(500):
            self._mode(training=True)
            for _ in range(100):
                rows = torch.randint(n, (s.batch_size,))
                optimiser.zero_grad()
                loss = -bound(self.process(self._features(x[rows], t[rows])), y[rows])
                loss.backward()
                optimiser.step()
                self.steps += 1
            self._mode(training=False)
            with torch.no_grad():
                belief = self.process(self._features(held_x, held_t))
                score = float(self.likelihood.expected_log_prob(held_y, belief).mean())
            best, since, kept = (score, 0, self._state()) if score > best else (best, since + 1, kept)
            if since >= 5:
                break
        self.milliseconds_per_step = 1000 * (perf_counter() - started) / self.steps
        for module, state in zip((self.encoder, self.process, self.likelihood), kept, strict=True):
            module.load_state_dict(state)
        return self

    def effect(self, x: Array) -> Array:
        z = torch.as_tensor(x, dtype=torch.float32)
        with torch.no_grad():
            arms = [self.process(self._features(z, torch.full((len(z),), float(a)))).mean for a in (0, 1)]
        return np.asarray((arms[1] - arms[0]).double().numpy() * self.y_sd)

    def _process(self, x: Tensor) -> _Process:
        with torch.no_grad():
            features = self.encoder.eval()(x)
        count = min(self.settings.inducing, len(x))
        centres = KMeans(count, n_init=1, random_state=self.seed).fit(features.numpy()).cluster_centers_
        points = torch.cat([torch.as_tensor(centres, dtype=torch.float32), torch.rand(count, 1)], 1)
        return _Process(points, float(torch.pdist(features).mean()), self.settings.matern)

    def _features(self, x: Tensor, t: Tensor) -> Tensor:
        return torch.cat([self.encoder(x), t[:, None]], 1)

    def _tensors(self, split: Split) -> tuple[Tensor, Tensor, Tensor]:
        y = (split.y - self.y_mean) / self.y_sd
        values = [torch.as_tensor(v, dtype=torch.float32) for v in (split.x, split.t, y)]
        return values[0], values[1], values[2]

    def _mode(self, *, training: bool) -> None:
        for module in (self.encoder, self.process, self.likelihood):
            module.train(training)

    def _state(self) -> list[dict[str, Any]]:
        return [copy.deepcopy(module.state_dict()) for module in (self.encoder, self.process, self.likelihood)]
