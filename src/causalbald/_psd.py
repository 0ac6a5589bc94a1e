"""Whether small symmetric matrices, one for each unit, can be covariances."""

from __future__ import annotations

import numpy as np

from causalbald._typing import Array, Positions
from causalbald.errors import InputError

_CHUNK_UNITS = 8192  # units at a time: their blocks stay in the cache


def impossible_blocks(blocks: Array, tolerance: float) -> Positions:
    """Return sorted positions of the blocks (N, K, K) that cannot be covariances; empty if all can.

    A block passes if it is symmetric up to ``tolerance``, for rounding, and no eigenvalue is below -``tolerance``.
    """
    starts = range(0, len(blocks), _CHUNK_UNITS)
    bad = [start + np.flatnonzero(~_possible(blocks[start : start + _CHUNK_UNITS], tolerance)) for start in starts]
    return np.concatenate([np.empty(0, dtype=np.intp), *bad])


def not_a_covariance(blocks: Array, bad: Positions, what: str) -> InputError:
    """Return, not raise, an error that shows the first of the blocks (N, K, K) at positions ``bad``, and the remedy.

    ``what`` names the argument in the message.
    """
    block = blocks[bad[0]]
    least = np.linalg.eigvalsh((block + block.T) / 2)[0]
    return InputError(
        f"{what} is not a covariance for {len(bad)} of {len(blocks)} units. For the unit at position {bad[0]} it is "
        f"{block.tolist()}: it must be symmetric and positive semi-definite, and its smallest eigenvalue is "
        f"{least:.3g}. Give each unit a covariance between arms, for example root @ root.transpose(0, 2, 1), or 0.0."
    )


def _possible(blocks: Array, tolerance: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return whether each block (N, K, K) can be a covariance up to ``tolerance``, (N,). For :func:`impossible_blocks`.

    Up to two arms this is decided without eigenvalues.
    """
    arms = blocks.shape[1]
    if arms > 2:
        asymmetry = np.abs(blocks - blocks.transpose(0, 2, 1)).max(axis=(1, 2))
        least = np.linalg.eigvalsh((blocks + blocks.transpose(0, 2, 1)) / 2)[:, 0]
        return np.asarray((asymmetry <= tolerance) & (least >= -tolerance))
    # No eigenvalue is below -tolerance if and only if the block plus tolerance * identity is positive semi-definite.
    # [[a, b], [b, d]] is that if and only if a >= 0, d >= 0 and |b| <= sqrt(a) sqrt(d). The roots are taken one by one,
    # since a * d can overflow.
    diagonal = [blocks[:, k, k] + tolerance for k in range(arms)]
    possible = np.logical_and.reduce([entry >= 0 for entry in diagonal])
    if arms == 2:
        a, d = (np.sqrt(np.maximum(entry, 0.0)) for entry in diagonal)
        possible &= np.abs(blocks[:, 0, 1]) <= a * d
        possible &= np.abs(blocks[:, 0, 1] - blocks[:, 1, 0]) <= tolerance
    return np.asarray(possible)
