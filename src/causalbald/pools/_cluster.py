"""Scores of a pool on disk from a Ray cluster, by Ray Data."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from causalbald import acquisition as acq
from causalbald._typing import Array
from causalbald._workers import ray_pool
from causalbald.errors import CausalBaldError, InputError
from causalbald.pools._parquet import BLOCK_CELLS, Encoding, ParquetPool
from causalbald.pools._scorer import Block, Scorer
from causalbald.tables import to_numbers


def ray_scores(
    pool: ParquetPool, score: Scorer, size: int, address: str | None, weight: tuple[str, float] | None = None
) -> Iterator[Array]:
    """Yield the scores of all units, in order; the cluster's tasks read, encode and score the rows.

    ``weight`` is the column by which units' own effects count, if they do, and its sum over the pool.
    """
    if "rng" in score.function.needs:
        raise InputError(f"acquisition {score.function.name!r} draws at random, row after row: use backend 'local'.")
    start = 0
    with ray_pool(os.cpu_count() or 1, address), _in_order():
        from ray import data

        # One path, and not one for each file: Ray looks at several in threads that get in each other's way.
        files = data.read_parquet(str(pool.path.resolve()), file_extensions=["parquet", "pq"])
        rows = files.select_columns(list(dict.fromkeys([*pool.encoding.names, *(weight or ())[:1]])))
        work = _scored(pool.encoding, score, size, weight)
        rows_together = (
            -(-(BLOCK_CELLS // pool.sample.x.shape[1]) // size) * size
        )  # blocks are those of backend 'local'
        done = rows.map_batches(work, batch_size=rows_together, batch_format="pyarrow", zero_copy_batch=True)
        parts: Iterable[Any] = done.iter_batches(batch_size=None, batch_format="pyarrow")
        for part in parts:
            if not np.array_equal(part["arm"].to_numpy(), pool.arm[start : start + len(part)]):
                raise CausalBaldError("the Ray cluster returned rows in another order: use backend 'local'.")
            start += len(part)
            yield part["score"].to_numpy()
    if start < len(pool):
        raise CausalBaldError(f"the Ray cluster returned {start:,} of {len(pool):,} rows: use backend 'local'.")


def _scored(
    encoding: Encoding, score: Scorer, size: int, weight: tuple[str, float] | None
) -> Callable[[pa.Table], pa.Table]:
    """Return a function that scores the rows of a table."""
    # A function with a name is looked up by it: the module of a plugin cannot be sent.
    function = score.function.name if score.function.name in acq.names() else score.function
    rest = score.goal, score.targets, score.cross_belief, score.propensity
    model = score.model

    def work(table: pa.Table) -> pa.Table:
        there = Scorer(model, acq.load(function), *rest)
        x, arm, *_ = encoding.block(table)
        own = None if weight is None else to_numbers(table[weight[0]], weight[0]) / weight[1]
        parts = (slice(k, k + size) for k in range(0, len(x), size))
        blocks = (Block(x[part], arm[part], own=None if own is None else own[part]) for part in parts)
        scores = np.concatenate([there(block) for block in blocks])
        return pa.table({"score": scores, "arm": arm.astype(np.int8)})

    return work


@contextmanager
def _in_order() -> Iterator[None]:
    """Let Ray Data keep the order of rows, be silent, and say in one line what went wrong."""
    from ray import data
    from ray.exceptions import RayError

    context, logger = data.DataContext.get_current(), logging.getLogger("ray.data")
    options = context.execution_options
    before = options.preserve_order, context.enable_progress_bars, logger.level
    options.preserve_order, context.enable_progress_bars = True, False
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    except pa.ArrowTypeError as error:
        first = str(error).partition("\n")[0]
        raise InputError(f"Ray cannot read these files as one table ({first}): use backend 'local'.") from None
    except RayError as error:
        found = re.search(r"^[\w.]*Error: (.+)$", str(error), flags=re.MULTILINE)
        what = found[1] if found else type(error).__name__
        raise CausalBaldError(f"a task of the Ray cluster failed ({what}). Backend 'local' may say more.") from error
    finally:
        options.preserve_order, context.enable_progress_bars = before[:2]
        logger.setLevel(before[2])
