"""Where the time of a Gaussian process fit goes, and how it grows. Run by `make bench`.

1. One evaluation of evidence and gradient, ours against GPyTorch's, same kernel, same data, one thread, alternating.
2. Fit and joint posterior of 1,000 units, against labels and dimensions.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import gpytorch
import numpy as np
import torch

from causalbald.models import GaussianProcess
from causalbald.models._effect_kernel import Prior
from causalbald.models._evidence import log_evidence


def make_data(n: int, dimension: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(n, dimension)), rng.integers(0, 2, n)
    return np.sin(x[:, 0]) + t * x[:, -1] + 0.3 * rng.normal(size=n), t, x


def seconds(function: Any, repeats: int) -> float:
    """Return the mean seconds of a call."""
    started = perf_counter()
    for _ in range(repeats):
        function()
    return (perf_counter() - started) / repeats


def evaluation_ratio(n: int, dimension: int, rounds: int = 5) -> tuple[float, float]:
    """Return milliseconds per evaluation of value and gradient: ours and GPyTorch's, medians over rounds."""
    y, t, x = (torch.as_tensor(v) for v in make_data(n, dimension))
    prior = Prior(dimension)

    def ours() -> None:
        """Compute value and gradient once, by this package."""
        free = torch.tensor(prior.centre, requires_grad=True)
        h = prior.unpack(free)
        value = log_evidence(h.kernel(x, t, x, t) + torch.diag(h.noise[t]), y - h.means[t])
        torch.autograd.grad(value, free)

    def part() -> Any:
        base = gpytorch.kernels.RBFKernel(ard_num_dims=dimension, active_dims=list(range(dimension)))
        arms = gpytorch.kernels.IndexKernel(num_tasks=2, rank=1, active_dims=[dimension])
        return base * arms

    class Peer(gpytorch.models.ExactGP):
        """The same process in GPyTorch."""

        def __init__(self, inputs: Any, outcomes: Any, likelihood: Any) -> None:
            super().__init__(inputs, outcomes, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = part() + part()

        def forward(self, inputs: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))

    inputs = torch.cat([x, t[:, None].double()], 1)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    peer = Peer(inputs, y, likelihood).double()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood.double(), peer)
    peer.train()

    def theirs() -> None:
        peer.zero_grad()
        with gpytorch.settings.fast_computations(False, False, False):
            objective(peer(inputs), y).backward()

    for warm_up in (ours, theirs):
        warm_up()
    pairs = [(seconds(ours, 5), seconds(theirs, 5)) for _ in range(rounds)]
    mine, other = np.median(pairs, axis=0) * 1e3
    return float(mine), float(other)


def main() -> None:
    torch.set_num_threads(1)
    print("labels  dims  ours ms  GPyTorch ms  ratio   (one evaluation of evidence and gradient)")
    for n, dimension in ((50, 1), (100, 25), (300, 25), (1000, 25)):
        mine, other = evaluation_ratio(n, dimension)
        print(f"{n:6d} {dimension:5d} {mine:8.1f} {other:12.1f} {other / mine:6.1f}")
    print("\nlabels  dims  fit s  iterations  joint s  per unit s  rank   (posteriors of 1,000 units)")
    for n, dimension in ((100, 1), (100, 25), (300, 25), (1000, 25), (3000, 25), (300, 100)):
        y, t, x = make_data(n, dimension)
        pool = np.random.default_rng(1).normal(size=(1000, dimension))
        model = GaussianProcess()
        fit = seconds(lambda m=model, y=y, t=t, x=x, pool=pool: m.fit(y, t, X=x, pool=pool), 1)
        whole = seconds(lambda m=model, pool=pool: m.posterior(pool), 3)
        single = seconds(lambda m=model, pool=pool: m.posterior(pool, joint=False), 3)
        rank = len(model.joint_.x)
        print(f"{n:6d} {dimension:5d} {fit:6.2f} {model.n_iter_:11d} {whole:8.3f} {single:11.3f} {rank:5d}")


if __name__ == "__main__":
    main()
