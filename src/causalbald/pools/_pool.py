"""What a pool is, and the pool that lives in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from causalbald._covariate_names import fitted_names
from causalbald._typing import AnyArray, Array, Treatment
from causalbald._validation import check_cost, check_inputs, check_positions, check_probability, check_treatment
from causalbald.models import CateEstimator


class Block(NamedTuple):
    """Some units of a pool.

    Parameters
    ----------
    x : (n, D), or images (n, C, H, W)
        Covariates.
    arm : (n,)
        The arm of each unit.
    propensity : (n,), optional
        P(treated given x).
    unit_weight : (n,), optional
        The weight of each unit's effect among the units that a sample of targets stands for. None if there is no such
        sample, or all weights are the same; see :class:`causalbald.acquisition.TargetPopulation`.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.pools import Block
    >>> Block(np.zeros((2, 3)), np.array([0, 1])).propensity is None
    True
    """

    x: AnyArray
    arm: Treatment
    propensity: Array | None = None
    unit_weight: Array | None = None


class Pool(Protocol):
    """All units that might be measured, wherever they are kept. Positions are counted from 0 in a fixed order.

    :class:`MemoryPool`, the pool of a stored campaign and :class:`ParquetPool` are pools;
    :func:`causalbald.testing.check_pool` checks others.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.pools import MemoryPool, Pool
    >>> pool: Pool = MemoryPool(np.eye(3), [0, 1, 0])
    >>> [len(block.x) for block in pool.blocks(2)], pool.take([2]).arm.tolist(), pool.cost
    ([2, 1], [0], None)
    """

    def __len__(self) -> int:
        """How many units there are, N."""

    @property
    def cost(self) -> Array | None:
        """What measuring each unit costs, (N,); None if each costs 1."""

    def take(self, positions: ArrayLike) -> Block:
        """Return some units, in the order of ``positions``; raise InputError if one repeats or is out of range."""

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield all units in their order, ``size`` at a time; the last block may be smaller."""


class MemoryPool:
    """A pool in memory.

    Parameters
    ----------
    X : (N, D) array or DataFrame, or images (N, C, H, W)
        Covariates of all units. A DataFrame may have its columns in another order than the model's: see `for_model`.
    treatment : (N,)
        The arm, 0 or 1, that each unit got.
    propensity : (N,), optional
        P(treated given x), for the acquisition functions that take it.
    cost : (N,), optional
        What measuring each unit costs; each costs 1 by default.

    Raises
    ------
    InputError
        If lengths differ, or values are missing or out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.pools import MemoryPool
    >>> len(MemoryPool(np.zeros((4, 2)), [0, 1, 0, 1], cost=[1.0, 2.0, 2.0, 5.0]))
    4
    """

    def __init__(
        self, X: Any, treatment: ArrayLike, *, propensity: ArrayLike | None = None, cost: ArrayLike | None = None
    ) -> None:
        """Check all arguments, and keep ``X`` itself too, for `for_model`."""
        self._table = X
        self.x = check_inputs(X, images=True)
        self.arm = check_treatment(treatment, len(self.x))
        self.propensity = None if propensity is None else check_probability(propensity, len(self.x))
        self.cost: Array | None = None if cost is None else check_cost(cost, len(self.x))

    def __len__(self) -> int:
        return len(self.x)

    def take(self, positions: ArrayLike) -> Block:
        """Return some units, in the order of ``positions``; raise InputError if one repeats or is out of range."""
        return self._block(check_positions(positions, len(self)))

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield all units in their order, ``size`` at a time; the last block may be smaller."""
        return (self._block(slice(start, start + size)) for start in range(0, len(self), size))

    def for_model(self, model: CateEstimator) -> MemoryPool:
        """Return a pool of the same units whose columns are in the order of a fitted model's.

        An array without column names gives this pool itself, unchecked, and images do if the model accepts images.
        Raises InputError if the names differ from the model's, or if the model does not accept images.
        """
        if isinstance(self._table, np.ndarray) and (self.x.ndim == 2 or model.accepts_images):
            return self
        x = check_inputs(self._table, images=model.accepts_images, names=fitted_names(model))
        return MemoryPool(x, self.arm, propensity=self.propensity, cost=self.cost)

    def _block(self, rows: Any) -> Block:
        """Return the units ``rows``: checked positions, or a slice."""
        return Block(self.x[rows], self.arm[rows], None if self.propensity is None else self.propensity[rows])


def for_model(pool: Pool, model: CateEstimator) -> Pool:
    """Return a pool of the same units whose covariates are in the order of a fitted model's.

    A pool that is no MemoryPool is returned as it is. For a MemoryPool, raises InputError if names differ.
    """
    return pool.for_model(model) if isinstance(pool, MemoryPool) else pool


def all_units(pool: Pool) -> Block:
    """Return all units of a pool as one block. The whole pool is loaded into memory."""
    return pool.take(np.arange(len(pool)))
