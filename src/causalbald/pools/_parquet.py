"""A pool on disk: its ids, its arms and its covariates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from causalbald._random import generator
from causalbald._typing import Array, Positions
from causalbald._validation import check_positions
from causalbald.errors import InputError
from causalbald.pools._pool import Block
from causalbald.tables import (
    ArmValue,
    Column,
    ParquetFiles,
    as_text,
    canonical_id,
    check_column_list,
    check_unique,
    column_of,
    covariate_names,
    encode,
    find_columns,
    find_positions,
    ids_as_text,
    is_blank,
    locating_cells,
    read_amounts,
    read_arms,
)

SAMPLE_UNITS = 20_000  # units from which columns, scales and propensities are learned
BLOCK_CELLS = 1 << 21  # numbers that are encoded together: 16 MB


@dataclass(frozen=True)
class Encoding:
    """How rows of a table become a block of units: all that a task of a cluster needs to know of a pool.

    ``columns`` are the covariates, ``treatment`` is the name of the treatment's column, and ``control`` is the text of
    its value for control.
    """

    columns: tuple[Column, ...]
    treatment: str
    control: str

    @property
    def names(self) -> list[str]:
        """The names of the columns to read: the treatment and the covariates."""
        return [self.treatment, *(c.name for c in self.columns)]

    def block(self, table: pa.Table) -> Block:
        """Return the covariates and arms of the rows of a table, which has the columns :attr:`names`."""
        return Block(encode(self.columns, table), self.arms(table))

    def arms(self, table: pa.Table) -> NDArray[np.intp]:
        """Return the arms of the rows of a table: 0 for the value of the control, 1 for any other value."""
        treatments = as_text(column_of(table, self.treatment, "treatment")).to_numpy()
        return np.asarray(treatments != self.control, dtype=np.intp)


class ParquetPool:
    """A pool in a Parquet file, or in a folder of them, that need not fit into memory.

    Columns are understood as by a campaign: a missing number becomes the median, with a feature that marks it; text
    becomes categories. The kinds, medians and categories are learned from a fixed random sample of 20,000 rows, or all
    rows if there are no more. One byte per unit is held in memory: its arm. Whether ids are unique is checked only when
    they are looked up.

    Parameters
    ----------
    path : str or Path
        A file, or a folder whose ``*.parquet`` files are read in the order of their names.
    id : str
        Column with a name or number for everyone.
    treatment : str
        Column with two values.
    control : value, optional
        The value of the control; found without help for 0/1, no/yes, false/true and control/treated.
    covariates : sequence of str, optional
        Columns that describe units; by default all columns without another role.
    exclude : collection of str
        Columns that are no covariates, such as the outcome.
    kinds : mapping, optional
        From columns to "numeric" or "categorical", where the values suggest another kind.

    Attributes
    ----------
    arm : (N,)
        0 for control, 1 for treated.
    columns : list of Column
        Covariates and how they are encoded.
    summaries : list of ColumnSummary
        Every column that was looked at, and what became of it.
    sampled : positions
        The units from which columns were learned, sorted.
    sample : Block
        The covariates and arms of these units.
    cost : None
        Each unit costs 1.

    Raises
    ------
    InputError
        If there are no rows, or a column is missing or cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> from causalbald.pools import ParquetPool
    >>> from causalbald.tables import write_table
    >>> path = Path(tempfile.mkdtemp()) / "pool.parquet"
    >>> people = {"person": [7, 8, 9], "drug": ["yes", "no", "yes"], "age": [41, None, 35]}
    >>> write_table(pa.table(people), path)
    >>> pool = ParquetPool(path, id="person", treatment="drug")
    >>> pool.take([2, 1]).x.tolist()
    [[35.0, 0.0], [38.0, 1.0]]
    """

    cost: Array | None = None

    def __init__(
        self,
        path: str | Path,
        *,
        id: str,
        treatment: str,
        control: ArmValue | None = None,
        covariates: Sequence[str] | None = None,
        exclude: Collection[str] = (),
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        """Read the treatments of all rows and the covariates of a sample, and learn how columns are encoded."""
        check_column_list(covariates, "covariates")
        check_column_list(exclude, "exclude")
        self.path, self.id, self.treatment = Path(path), id, treatment
        self.files = ParquetFiles(self.path, exact=(id, treatment))
        self.name, self._length = self.files.name, len(self.files)
        if not self._length:
            raise InputError(f"{self.name} has no rows: give one per person.")
        names = self._covariate_names(covariates, exclude, kinds or {})
        arms = read_arms(self.files.column(treatment), self.files.kind(treatment), treatment, control, self._described)
        self.arm = arms.arm
        rng = generator(0, "sample", self._length)
        self.sampled = np.sort(rng.choice(self._length, size=min(SAMPLE_UNITS, self._length), replace=False))
        table = self.files.take(self.sampled, [treatment, *names])
        with self._locating_cells(self.sampled):
            self.columns, self.summaries, x = find_columns(table, names, kinds or {})
        self.encoding = Encoding(tuple(self.columns), treatment, arms.control)
        self.sample = Block(x, self.encoding.arms(table))

    def __len__(self) -> int:
        return self._length

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield all units in their order, ``size`` at a time, across the ends of files and row groups.

        The last block may be smaller. Raises InputError if a cell cannot be encoded.
        """
        start, together = 0, BLOCK_CELLS // self.sample.x.shape[1]  # rows that are encoded together
        for table in self.files.parts([c.name for c in self.columns], -(-together // size) * size):
            with self._locating_cells(range(start, start + len(table))):
                x = encode(self.columns, table)
            arm = self.arm[start : start + len(table)].astype(np.intp)
            yield from (Block(x[k : k + size], arm[k : k + size]) for k in range(0, len(table), size))
            start += len(table)

    def numbers(self, name: str, role: str) -> Array:
        """Return a column of numbers (N,), such as weights, of all units.

        Raises InputError if the column or a number is missing, a number is negative, or all numbers are 0. ``role``
        states in the error what the column is for.
        """
        self.files.require(name, role)
        return read_amounts(self.files.column(name), name, role, self._described, allow_zero=True)

    def take(self, positions: ArrayLike) -> Block:
        """Return some units, in the order of ``positions``; raise InputError if one repeats or is out of range."""
        rows = check_positions(positions, len(self))
        with self._locating_cells(rows):
            return self.encoding.block(self.files.take(rows, self.encoding.names))

    def positions(self, ids: pa.Array, describe_id: Callable[[str], str] = lambda _: "") -> Positions:
        """Return the positions of the units with some ids, in the order of the ids, which are text.

        Reads the ids of the whole pool. Raises InputError if an id is unknown, if a unit of the pool has no id, or if
        any two units have the same id. ``describe_id`` returns the text that follows an unknown id in the error.
        """
        return find_positions(ids, self._unique_ids, f"column {self.id!r} of {self.name}", describe_id)

    def contained(self, ids: Collection[str]) -> set[str]:
        """Return those of some ids, given as text, that are in the pool. Reads the ids of the whole pool."""
        candidates = pa.array(list(ids), pa.string())
        return {i for _, text in self._ids() for i in text.filter(pc.is_in(text, value_set=candidates)).to_pylist()}

    def people(self, positions: Positions) -> pa.Table:
        """Return a table of the ids and treatments of some units, in the order of ``positions``.

        The values are as in the files, except that float ids become whole numbers.
        """
        return self.with_whole_ids(self.files.take(positions, [self.id, self.treatment]))

    def with_whole_ids(self, table: pa.Table) -> pa.Table:
        """Return a table of the pool in which float ids are whole numbers: a user knows person 205, not 205.0."""
        if not pa.types.is_floating(self.files.kind(self.id)):
            return table
        place = table.column_names.index(self.id)
        return table.set_column(place, self.id, pc.cast(table[self.id], pa.int64()))

    def _ids(self) -> Iterator[tuple[int, pa.ChunkedArray]]:
        """Yield the ids as text in parts, each with the position of its first unit; refuse missing ids."""
        for start, table in self.files.tables([self.id]):
            text = ids_as_text(table[self.id], self.id)
            if (row := pc.index(is_blank(text), True).as_py()) >= 0:
                raise InputError(f"{self.files.place(start + row)} has no id {self.id!r}: give everyone one.")
            yield start, text

    def _unique_ids(self) -> Iterator[pa.ChunkedArray]:
        """Yield the ids as text in parts; raise InputError at the end if two units have the same id.

        Hashes of the ids are compared, as the ids may not fit into memory. Ids with equal hashes are compared as text.
        """
        hashes = np.empty(len(self), dtype=np.uint64)
        for start, text in self._ids():
            hashes[start : start + len(text)] = _hashes(text)
            yield text
        hashes.sort()
        repeated = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        if len(repeated):
            suspects = [text.filter(pa.array(np.isin(_hashes(text), repeated))) for _, text in self._ids()]
            chunks = [chunk for suspect in suspects for chunk in suspect.chunks]
            check_unique(pa.chunked_array(chunks, pa.string()), f"{{count}} ids are in {self.name} more than once")

    def _covariate_names(
        self, covariates: Sequence[str] | None, exclude: Collection[str], kinds: Mapping[str, str]
    ) -> list[str]:
        """Return the names of the columns that are covariates. Called by `__init__`.

        Raises InputError if one column is both id and treatment, if a column is missing, or if a column has different
        types in different files.
        """
        if self.id == self.treatment:
            raise InputError(f"column {self.id!r} cannot be both the id and the treatment.")
        roles = {self.id: "id", self.treatment: "treatment"}
        for name, role in [(self.id, "ids"), (self.treatment, "treatment"), *((k, "kinds of columns") for k in kinds)]:
            self.files.require(name, role)
        names = covariate_names(self.files.names, roles, covariates=covariates, exclude=exclude)
        self.files.fields([*roles, *names])  # before much is read
        return names

    def _described(self, row: int) -> str:
        """Return where a row is and its id, for errors."""
        name = self.files.take(np.array([row]), [self.id])[self.id][0].as_py()
        return self.files.place(row) + ("" if name is None else f" (id {canonical_id(name)!r})")

    def _locating_cells(self, rows: Positions | range) -> AbstractContextManager[None]:
        """Return a context in which an error about a cell says where the cell is in the files.

        ``rows`` are the positions in the pool of the rows of the table that is worked on.
        """
        return locating_cells(lambda row: self._described(int(rows[row])))


def _hashes(text: pa.ChunkedArray) -> NDArray[np.uint64]:
    """Return a hash of each id (n,). The hash is the same in every process."""
    return np.asarray(pd.util.hash_array(text.to_numpy(zero_copy_only=False), categorize=False))
