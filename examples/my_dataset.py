"""A custom data set in one file: any arrays with known effects.

Try it without installing anything::

    causalbald --plugin examples/my_dataset.py trial --dataset two-moons --warm-start 20 --steps 3
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_moons

from causalbald import datasets


@datasets.register("two-moons")
def two_moons(seed: int = 0, *, units: int = 600) -> datasets.Benchmark:
    """Two interleaved half circles: most units of one are treated, most units of the other are not.

    Returns a benchmark made of ``units`` units. The same ``seed`` gives the same benchmark.
    """
    rng = np.random.default_rng(seed)
    x, moon = make_moons(units, noise=0.15, random_state=seed)
    propensity = np.where(moon == 1, 0.8, 0.2)
    t = rng.binomial(1, propensity)
    mu0, mu1 = x[:, 0], x[:, 0] + np.cos(2 * x[:, 1])
    y = np.where(t == 1, mu1, mu0) + 0.3 * rng.normal(size=units)
    return datasets.Benchmark.from_arrays(x, t, y, mu0, mu1, seed=seed, name="two-moons")
