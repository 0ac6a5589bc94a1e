"""All units of a campaign: stored once, in parts, and read no further than a call needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from causalbald._money import costs_of
from causalbald._typing import Array, Mask, Positions, Treatment
from causalbald.campaign._events import Creation
from causalbald.campaign.storage._base import Storage
from causalbald.tables import Column, Ids, encode, to_numbers

if TYPE_CHECKING:
    from causalbald.pools import Block, MemoryPool

ROWS_IN_PART = 100_000


class CampaignPool:
    """The pool of a stored campaign. Each property is read from the storage when it is first used.

    Parameters
    ----------
    storage : Storage
        Holds the parts that :func:`pool_parts` made.
    creation : Creation
        The first event of the campaign.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> columns = {"id": "patient", "treatment": "drug", "outcome": "cd4"}
    >>> campaign = Campaign.create(MemoryStorage(), pool, **columns)
    >>> len(campaign.pool), campaign.pool.x.shape
    (40, (40, 1))
    >>> campaign.pool.units.positions([39, 0]).tolist()
    [39, 0]
    """

    def __init__(self, storage: Storage, creation: Creation) -> None:
        self._storage = storage
        self._settings = creation.settings
        self._text_ids = creation.text_ids
        self._rows = creation.rows
        self.columns: Sequence[Column] = creation.columns

    def __len__(self) -> int:
        return self._rows

    @cached_property
    def units(self) -> Ids:
        """Ids and positions of the units."""
        return Ids(_unpacked(self._storage.part("ids"))["id"], self._settings.id, is_text_column=self._text_ids)

    @cached_property
    def arm(self) -> Treatment:
        """Arm of each unit, 0 for control and 1 for treated, (N,)."""
        return np.asarray(self._fact("arm"), dtype=np.intp)

    @cached_property
    def share_treated(self) -> float:
        """Share of the units that are treated."""
        return float(self.arm.mean())

    @cached_property
    def propensity(self) -> Array:
        """Estimated P(treated | x), (N,), each unit's from a model that has not seen its arm."""
        return np.asarray(self._fact("propensity"), dtype=np.float64)

    def outside_support(self, units: Positions) -> Mask:
        """Return which of the units at these positions (n,) have hardly any like them in the other arm, (n,)."""
        from causalbald.diagnostics import is_outside  # heavy: `status` must not import pandas

        return is_outside(self.propensity[units], self.share_treated)

    @cached_property
    def cost(self) -> Array | None:
        """Cost of measuring each unit, (N,); None if the campaign has no column of costs."""
        return self._numbers(self._settings.cost)

    @cached_property
    def weight(self) -> Array | None:
        """How much each unit's effect matters, (N,); None if the campaign has no column of weights."""
        return self._numbers(self._settings.weight)

    @cached_property
    def x(self) -> Array:
        """Encoded covariates, (N, D). All parts of the pool are read, one after another."""
        x = np.empty((self._rows, sum(len(c.features) for c in self.columns)))
        start = 0
        for part in self._parts([c.name for c in self.columns]):
            x[start : start + len(part)] = encode(self.columns, part)
            start += len(part)
        return x

    def table(self, names: Sequence[str]) -> pa.Table:
        """Return columns of the user's table: covariates, protected columns, costs or weights.

        Raises KeyError or ArrowInvalid for an unknown column.
        """
        return pa.concat_tables(self._parts(names))

    def take(self, positions: ArrayLike) -> Block:
        """Return the units at ``positions``, in that order, with their propensities. Used by ``causalbald.pools``."""
        return self._in_memory.take(positions)

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield all units in their order, with their propensities: blocks of ``size`` units, and the rest."""
        return self._in_memory.blocks(size)

    @cached_property
    def _in_memory(self) -> MemoryPool:
        """The encoded covariates, arms and propensities of all units."""
        from causalbald.pools import MemoryPool  # heavy: `status` must not import torch

        return MemoryPool(self.x, self.arm, propensity=self.propensity)

    def without(self, ids: Iterable[str]) -> Positions:
        """Return the sorted positions of all units except the units with these ids.

        Raises InputError if an id is unknown.
        """
        return np.setdiff1d(np.arange(len(self)), self.units.positions(ids))

    def costs(self, units: Positions) -> Array:
        """Return the cost of measuring each of the units at these positions (n,), (n,): 1 each without costs."""
        return costs_of(units, self.cost)

    def _numbers(self, name: str | None) -> Array | None:
        """Return the column ``name`` of the user's table as numbers, (N,); None if ``name`` is None."""
        return None if name is None else to_numbers(self.table([name])[name], name)

    def _fact(self, name: str) -> Any:
        """Return "arm" or "propensity" of all units, (N,), as they were stored."""
        return _unpacked(self._storage.part("facts"), [name])[name].to_numpy()

    def _parts(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """Yield columns of the user's table, a stored part at a time."""
        for k in range(_part_count(self._rows)):
            yield _unpacked(self._storage.part(f"rows-{k}"), list(dict.fromkeys(names)))


def pool_parts(ids: pa.ChunkedArray, arm: Treatment, propensity: Array, table: pa.Table) -> Iterator[tuple[str, bytes]]:
    """Yield the names and bytes (Parquet) of the parts that :class:`CampaignPool` reads.

    The rows of ``table`` are cut into parts of ``ROWS_IN_PART``. Called by ``Preparation.parts``.
    """
    yield "ids", _packed(pa.table({"id": ids}))
    yield "facts", _packed(pa.table({"arm": arm.astype(np.int8), "propensity": propensity}))
    for k in range(_part_count(len(table))):
        yield f"rows-{k}", _packed(table.slice(k * ROWS_IN_PART, ROWS_IN_PART))


def part_names(rows: int) -> list[str]:
    """Return the names of all parts of a pool of ``rows`` units. Called for exports."""
    return ["ids", "facts", *(f"rows-{k}" for k in range(_part_count(rows)))]


def _part_count(rows: int) -> int:
    """Return into how many parts ``rows`` rows are cut."""
    return -(-rows // ROWS_IN_PART)


def _packed(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def _unpacked(data: bytes, names: Any = None) -> pa.Table:
    """Return the table in the bytes of a Parquet file; only the columns ``names`` if they are given."""
    # read_table would import pyarrow.dataset. No threads: a thread that releases Python's bytes just when the program
    # ends would abort it (apache/arrow#34314).
    return pq.ParquetFile(pa.BufferReader(data)).read(columns=names, use_threads=False)
