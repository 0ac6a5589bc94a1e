"""The cost of a pick of a greedy batch: downdates compared with a new joint belief, in one run on one thread.

    python benchmarks/greedy.py

4,096 units, the first 1,000 of them targets; a Gaussian process with 300 labels in 25 dimensions.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
import torch

from causalbald import acquisition
from causalbald.models import GaussianProcess
from causalbald.selection._conditioning import SequentialBelief, SequentialJoint, sequential_belief

UNITS, TARGETS, LABELS, DIMENSIONS, PICKS = 4096, 1000, 300, 25, 10


def milliseconds(
    state: SequentialBelief,
    function: acquisition.ScoreFunction,
    arm: np.ndarray,
    population: acquisition.TargetPopulation | None,
) -> float:
    """Return the time of a pick: score everyone, take the highest score, condition on the outcome."""

    def scores() -> np.ndarray:
        return function(state.belief, arm, population=population, targets=state.targets)

    scores()
    started = perf_counter()
    for _ in range(PICKS):
        state.measure(int(scores().argmax()))
    return (perf_counter() - started) / PICKS * 1e3


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(UNITS, DIMENSIONS)), rng.integers(0, 2, UNITS)
    y = x[:, 0] + t * x[:, 1] + rng.normal(size=UNITS)
    model = GaussianProcess().fit(y[:LABELS], t[:LABELS], X=x[:LABELS], pool=x)
    posterior = model.posterior(x)
    print(f"{posterior}\nfunction     joint, ms  downdates, ms  ratio")
    for name in ("mu-rho-bald", "tau-vr", "epig-mu"):
        function = acquisition.load_score_function(name)
        population = None
        if function.needs_population:
            population = acquisition.TargetPopulation.of(np.arange(TARGETS), UNITS)
        slow = milliseconds(SequentialJoint(posterior, t), function, t, population)
        fast = milliseconds(sequential_belief(posterior, t, function, population), function, t, population)
        print(f"{name:12} {slow:9.1f} {fast:14.1f} {slow / fast:6.1f}")


if __name__ == "__main__":
    main()
