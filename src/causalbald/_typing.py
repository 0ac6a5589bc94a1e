"""Aliases of array types. Shapes: N units, K arms, R columns of a factor, S draws, D covariates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Positions = NDArray[np.intp]
Treatment = NDArray[np.intp]
Mask = NDArray[np.bool_]
AnyArray = NDArray[Any]
