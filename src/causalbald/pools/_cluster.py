"""Scores of a pool on disk from a Ray cluster, by Ray Data."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from causalbald import acquisition as acq
from causalbald._typing import Array
from causalbald._workers import ray_pool
from causalbald.errors import CausalBaldError, InputError
from causalbald.pools._parquet import BLOCK_CELLS, Encoding, ParquetPool
from causalbald.pools._pool import Block
from causalbald.pools._scoring import Scorer
from causalbald.tables import to_numbers


def ray_scores(
    scorer: Scorer, size: int, *, pool: ParquetPool, address: str | None, weight: tuple[str, float] | None = None
) -> Iterator[Array]:
    """Yield the scores of all units, in order and in parts; the cluster's tasks read, encode and score the rows.

    A backend of `score_pool`. Each task scores ``size`` units at a time. ``address`` is that of the Ray cluster; with
    None, Ray is started on this machine. ``weight`` is the column that says how much each unit's effect matters, and
    the sum of this column over the pool. The column is read only if the targets are a sample.

    Raises InputError for a function that draws at random, or if Ray cannot read the files as one table. Raises
    CausalBaldError if a task fails, rows are missing or rows come back in another order.
    """
    if "rng" in scorer.function.needs:
        raise InputError(f"acquisition {scorer.function.name!r} draws at random, row after row: use backend 'local'.")
    if scorer.targets is None or scorer.targets.unit_weight is None:
        weight = None
    start = 0
    with ray_pool(os.cpu_count() or 1, address), _in_order():
        from ray import data

        # One path, and not one for each file: Ray looks at several in threads that get in each other's way.
        files = data.read_parquet(str(pool.path.resolve()), file_extensions=["parquet", "pq"])
        rows = files.select_columns(list(dict.fromkeys([*pool.encoding.names, *(weight or ())[:1]])))
        work = _task(pool.encoding, scorer, size, weight)
        # Blocks are the same as with backend 'local'.
        rows_together = -(-(BLOCK_CELLS // pool.sample.x.shape[1]) // size) * size
        done = rows.map_batches(work, batch_size=rows_together, batch_format="pyarrow", zero_copy_batch=True)
        parts: Iterable[Any] = done.iter_batches(batch_size=None, batch_format="pyarrow")
        for part in parts:
            if not np.array_equal(part["arm"].to_numpy(), pool.arm[start : start + len(part)]):
                raise CausalBaldError("the Ray cluster returned rows in another order: use backend 'local'.")
            start += len(part)
            yield part["score"].to_numpy()
    if start < len(pool):
        raise CausalBaldError(f"the Ray cluster returned {start:,} of {len(pool):,} rows: use backend 'local'.")


def _task(
    encoding: Encoding, scorer: Scorer, size: int, weight: tuple[str, float] | None
) -> Callable[[pa.Table], pa.Table]:
    """Return the function that a task of the cluster runs: it turns rows of the pool into their scores and arms."""
    # A function with a name is looked up by it: the module of a plugin cannot be sent.
    function = scorer.function.name if scorer.function.name in acq.names() else scorer.function
    options = {f.name: getattr(scorer, f.name) for f in fields(scorer) if f.name != "function"}

    def work(table: pa.Table) -> pa.Table:
        """Return a table of ``score`` and ``arm`` for the rows of a table."""
        local_scorer = Scorer(function=acq.load_score_function(function), **options)
        rows = encoding.block(table)
        unit_weight = None if weight is None else to_numbers(table[weight[0]], weight[0]) / weight[1]
        slices = (slice(start, start + size) for start in range(0, len(rows.x), size))
        blocks = (
            Block(rows.x[k], rows.arm[k], unit_weight=None if unit_weight is None else unit_weight[k]) for k in slices
        )
        scores = np.concatenate([local_scorer(block) for block in blocks])
        return pa.table({"score": scores, "arm": rows.arm.astype(np.int8)})

    return work


@contextmanager
def _in_order() -> Iterator[None]:
    """Let Ray Data keep the order of rows and be silent within the block; its settings return afterwards.

    Turns an error of Ray into a CausalBaldError of one line, and files that are not one table into an InputError.
    """
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
        cause = re.search(r"^[\w.]*Error: (.+)$", str(error), flags=re.MULTILINE)
        reason = cause[1] if cause else type(error).__name__
        raise CausalBaldError(f"a task of the Ray cluster failed ({reason}). Backend 'local' may say more.") from error
    finally:
        options.preserve_order, context.enable_progress_bars = before[:2]
        logger.setLevel(before[2])
