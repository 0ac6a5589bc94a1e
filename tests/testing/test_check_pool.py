"""Pools in memory, in a campaign and on disk pass the conformance suite; pools that break a rule do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from causalbald.pools import Block, MemoryPool
from causalbald.testing import check_pool
from tests.helpers.campaigns import new_campaign, people
from tests.pools.test_pools_on_disk import open_pool, write

X, ARM = np.random.default_rng(0).normal(size=(10, 3)), np.arange(10) % 2


@pytest.mark.parametrize(
    "pool",
    [
        MemoryPool(X, ARM),
        MemoryPool(X, ARM, propensity=np.full(10, 0.3), cost=1.0 + np.arange(10)),
        MemoryPool(X.reshape(10, 1, 1, 3), ARM),
    ],
    ids=["plain", "propensity and cost", "images"],
)
def test_pools_in_memory(pool: MemoryPool) -> None:
    check_pool(pool)


def test_the_pool_of_a_campaign() -> None:
    check_pool(new_campaign(people()).pool)
    check_pool(new_campaign(people().assign(price=2.0), cost="price").pool)


@pytest.mark.parametrize("rows", [64, 600])
def test_a_pool_on_disk(tmp_path: Path, rows: int) -> None:
    check_pool(open_pool(write(tmp_path / "pool.parquet", rows=rows)))


class Reversed(MemoryPool):
    """Yields its units in another order than that of their positions."""

    def blocks(self, size: int) -> Iterator[Block]:
        return reversed(list(super().blocks(size)))


class Sorting(MemoryPool):
    """Returns units sorted by position."""

    def take(self, positions: ArrayLike) -> Block:
        return super().take(np.sort(np.asarray(positions)))


class Lenient(MemoryPool):
    """Takes positions from the end."""

    def take(self, positions: ArrayLike) -> Block:
        return super().take(np.asarray(positions) % len(self))


class Forgetful(MemoryPool):
    """Yields blocks without the propensities that its units have."""

    def blocks(self, size: int) -> Iterator[Block]:
        return (block._replace(propensity=np.zeros(len(block.x))) for block in super().blocks(size))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Reversed, "only the last block may be smaller|in the order of their positions"),
        (Sorting, "in the order of the positions"),
        (Lenient, "must raise InputError"),
        (Forgetful, "all units"),
    ],
)
def test_pools_that_break_a_rule_are_told_so(broken: type[MemoryPool], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_pool(broken(X, ARM, propensity=np.full(10, 0.3)))
