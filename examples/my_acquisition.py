"""A custom acquisition function in one file.

Try it without installing anything::

    causalbald --plugin examples/my_acquisition.py acquisitions
    causalbald --plugin examples/my_acquisition.py trial --acquisition sign-bald --steps 5

To ship it in a package, name this module in the package's pyproject.toml::

    [project.entry-points."causalbald.acquisition"]
    sign-bald = "my_package.my_acquisition"
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from causalbald import Posterior, acquisition


@acquisition.register("sign-bald")
def sign_bald(posterior: Posterior, treatment: NDArray[np.intp]) -> NDArray[np.float64]:
    """Prefer uncertain outcomes of units whose effect may have either sign.

    Returns the score of each unit, (N,): mu-bald plus the log of the probability that the effect's sign is wrong.
    The belief has a mean and a variance of each unit's effect; ``treatment`` (N,) has the units' arms.
    """
    certainty = np.abs(posterior.effect_mean) / np.sqrt(posterior.effect_variance + 1e-12)
    doubt: NDArray[np.float64] = log_ndtr(-certainty)
    return acquisition.mu_bald(posterior, treatment) + doubt
