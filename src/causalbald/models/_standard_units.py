"""Standard units of a pool's covariates, and principal components that describe its images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.utils.extmath import randomized_svd

from causalbald._random import generator
from causalbald._scaling import channel_scale, column_scale
from causalbald._typing import AnyArray, Array

# Images from which components are learned, and their pixels in all, at the most.
_MAX_IMAGES, _MAX_PIXELS = 5_000, 20_000_000
# Share of the largest singular value. Smaller ones are rounding errors of single precision.
_MIN_SINGULAR_SHARE = 1e-5


@dataclass(frozen=True)
class StandardUnits:
    """How covariates become P columns in standard units: (x @ directions - centre) / scale."""

    centre: Array  # (P,)
    scale: Array  # (P,)
    directions: AnyArray | None = None  # (pixels, P) for images, None for tables

    @classmethod
    def of_pool(cls, pool: AnyArray, components: int, random_state: int) -> Self:
        """Return the standard units of a pool's covariates. Called by ``GaussianProcess._fit``.

        A table (N, D) keeps its columns; ``components`` and ``random_state`` are not used. Images (N, C, H, W) become
        at most ``components`` principal components, at least one. The components are learned from a random sample of
        the pool: at most 5,000 images, fewer if images are large. ``random_state`` draws the sample. In these units
        each column of the pool has variance 1, except constant columns and rare marks (see ``column_scale``).
        """
        if pool.ndim == 2:
            return cls(pool.mean(axis=0), column_scale(pool))
        size = min(len(pool), _MAX_IMAGES, max(components + 1, _MAX_PIXELS // pool[0].size))
        rows = generator(random_state, "images").choice(len(pool), size=size, replace=False)
        images = pool[np.sort(rows)]
        # Principal components of images whose channels have variance 1; then the scale moves into the directions.
        scale = channel_scale(images)
        centred = ((images - images.mean(axis=0)) / scale).reshape(size, -1)
        _, values, vectors = randomized_svd(centred, min(components, *centred.shape), random_state=random_state)
        vectors = vectors[: max(1, int((values > _MIN_SINGULAR_SHARE * values[0]).sum()))]
        by_channel = vectors.reshape(-1, *pool.shape[1:]) / scale
        directions = by_channel.reshape(len(vectors), -1).T.astype(np.float32)
        projected = (images.reshape(size, -1) @ directions).astype(np.float64)
        return cls(projected.mean(axis=0), column_scale(projected), directions)

    def __call__(self, x: AnyArray) -> Array:
        """Return a table (N, D), or images (N, C, H, W) if the pool had images, in standard units, (N, P)."""
        columns = x if self.directions is None else x.reshape(len(x), -1) @ self.directions
        return np.asarray((columns - self.centre) / self.scale, dtype=np.float64)
