"""What every pool must satisfy."""

from __future__ import annotations

import numpy as np

from causalbald.errors import InputError
from causalbald.pools import Block, Pool


def check_pool(pool: Pool) -> None:
    """Check that a pool returns the same units by position and in blocks of any size.

    Also checks shapes, finite covariates, arms, propensities and costs. Positions that are repeated or out of range
    must be refused with InputError. Reads the whole pool several times: give it a small pool.

    Parameters
    ----------
    pool : Pool
        At least two units.

    Raises
    ------
    AssertionError
        At the first rule that the pool breaks.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.pools import MemoryPool
    >>> from causalbald.testing import check_pool
    >>> check_pool(MemoryPool(np.eye(5), [0, 1, 0, 1, 1]))
    """
    units = len(pool)
    whole = pool.take(np.arange(units))
    assert len(whole.x) == len(whole.arm) == units, "take: one row of covariates and one arm per position"
    assert np.isfinite(whole.x).all(), "take: covariates must be finite"
    assert set(np.unique(whole.arm)) <= {0, 1}, "take: arms must be 0 (control) or 1 (treated)"
    if whole.propensity is not None:
        assert whole.propensity.shape == (units,), "take: one propensity per position"
        assert ((whole.propensity >= 0) & (whole.propensity <= 1)).all(), "take: propensities must lie in [0, 1]"
    if pool.cost is not None:
        assert pool.cost.shape == (units,), "cost: one number per unit, or None"
        assert (np.isfinite(pool.cost) & (pool.cost > 0)).all(), "cost: numbers must be positive"
    for size in (1 + units // 3, units, units + 1):
        blocks = list(pool.blocks(size))
        counts = [len(block.x) for block in blocks]
        assert all(count == size for count in counts[:-1]), f"blocks({size}): only the last block may be smaller"
        _check_same_units(blocks, whole, f"blocks({size}): all units, in the order of their positions")
    positions = np.random.default_rng(0).permutation(units)[: 1 + units // 2]
    expected = _rows(whole, positions)
    _check_same_units([pool.take(positions)], expected, "take: units in the order of the positions")
    for refused in ([0, 0], [units], [-1]):
        try:
            pool.take(refused)
        except InputError:
            continue
        raise AssertionError(f"take({refused}) must raise InputError: positions are distinct and below {units}")


def _rows(block: Block, rows: np.ndarray) -> Block:
    """Return the units of a block at the positions ``rows`` of the block, in that order; weights are dropped."""
    return Block(block.x[rows], block.arm[rows], None if block.propensity is None else block.propensity[rows])


def _check_same_units(blocks: list[Block], expected: Block, message: str) -> None:
    """Raise AssertionError with ``message`` unless the blocks, one after another, hold exactly the expected units.

    Covariates, arms and propensities are compared.
    """
    np.testing.assert_array_equal(np.concatenate([block.x for block in blocks]), expected.x, message)
    np.testing.assert_array_equal(np.concatenate([block.arm for block in blocks]), expected.arm, message)
    propensities = [block.propensity for block in blocks]
    if expected.propensity is None:
        assert all(values is None for values in propensities), message
    else:
        present = [values for values in propensities if values is not None]
        np.testing.assert_array_equal(np.concatenate(present), expected.propensity, message)
