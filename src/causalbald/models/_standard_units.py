"""Standard units of covariates, as a pool shows them; images are described by their principal components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.utils.extmath import randomized_svd

from causalbald._random import generator
from causalbald._scaling import channel_scale, column_scale
from causalbald._typing import AnyArray, Array

# Of the pool's images, so many are looked at, and of large ones so many that they have this number of pixels in all.
_IMAGES, _PIXELS = 5_000, 20_000_000
_NOTHING = 1e-5  # of the largest singular value: rounding errors of single precision


@dataclass(frozen=True)
class StandardUnits:
    """What is subtracted, (P,), and what it is divided by, (P,), after images were projected onto P directions."""

    centre: Array
    scale: Array
    directions: AnyArray | None = None  # (pixels, P)

    @classmethod
    def of_pool(cls, pool: AnyArray, components: int, random_state: int) -> Self:
        """Return the units of a table (N, D), or of images (N, C, H, W) with so many principal components.

        Components need no outcomes, so that the whole pool teaches them; each has variance 1 afterwards.
        """
        if pool.ndim == 2:
            return cls(pool.mean(axis=0), column_scale(pool))
        size = min(len(pool), _IMAGES, max(components + 1, _PIXELS // pool[0].size))
        rows = generator(random_state, "images").choice(len(pool), size=size, replace=False)
        some = pool[np.sort(rows)]
        scale = channel_scale(some)
        centred = ((some - some.mean(axis=0)) / scale).reshape(size, -1)
        _, values, found = randomized_svd(centred, min(components, *centred.shape), random_state=random_state)
        found = found[: max(1, int((values > _NOTHING * values[0]).sum()))]
        by_channel = found.reshape(-1, *pool.shape[1:]) / scale
        directions = by_channel.reshape(len(found), -1).T.astype(np.float32)
        projected = (some.reshape(size, -1) @ directions).astype(np.float64)
        return cls(projected.mean(axis=0), column_scale(projected), directions)

    def __call__(self, x: AnyArray) -> Array:
        """Return units (N, D) or (N, C, H, W) in standard units, (N, P)."""
        columns = x if self.directions is None else x.reshape(len(x), -1) @ self.directions
        return np.asarray((columns - self.centre) / self.scale, dtype=np.float64)
