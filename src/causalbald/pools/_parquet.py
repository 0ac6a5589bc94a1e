"""A pool on disk: who its units are, which arm they got and what tells them apart."""

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
from causalbald.pools._files import CELLS, ParquetFiles
from causalbald.pools._scorer import Block
from causalbald.tables._arms import Value, check_treatment_kind, find_arms
from causalbald.tables._columns import CellError, Column, as_text, cells_named, encode, find_columns, to_numbers
from causalbald.tables._ids import canonical, meant, written
from causalbald.tables._reading import column

_SAMPLE = 20_000  # rows from which columns, scales and propensities are learned


@dataclass(frozen=True)
class Encoding:
    """How rows of a table become a block of units: all that a worker needs to know of a pool."""

    columns: tuple[Column, ...]
    treatment: str
    control: str

    @property
    def names(self) -> list[str]:
        """The columns to read."""
        return [self.treatment, *(c.name for c in self.columns)]

    def block(self, table: pa.Table) -> Block:
        """Return covariates and arms of the rows of a table."""
        arm = as_text(column(table, self.treatment, "treatment")).to_numpy() != self.control
        return Block(encode(self.columns, table), arm.astype(np.intp))


class ParquetPool:
    """Everyone who might be measured, in a Parquet file or a folder of them; a byte per unit is held in memory.

    Columns are understood as by a campaign: missing numbers become the median, with a column that says so; text becomes
    categories. What columns are like is learned from a fixed random sample of 20,000 rows.

    Parameters
    ----------
    path : str or Path
        A file, or a folder whose ``*.parquet`` files are taken in the order of their names.
    id : str
        Column with a name or number for everyone.
    treatment : str
        Column with two values.
    control : value, optional
        Which of the two is the control; found by itself for 0/1, no/yes, false/true.
    covariates : sequence of str, optional
        Columns that tell units apart; by default all others.
    exclude : collection of str
        Columns to leave out, such as the outcome.
    kinds : mapping, optional
        From columns to "numeric" or "categorical", where the data suggest otherwise.

    Attributes
    ----------
    arm : (N,)
        0 for control, 1 for treated.
    columns : list of Column
        Covariates and how they are encoded.
    sampled : positions
    sample : Block
        The units from which columns were learned.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        id: str,
        treatment: str,
        control: Value | None = None,
        covariates: Sequence[str] | None = None,
        exclude: Collection[str] = (),
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        for what, value in (("covariates", covariates), ("exclude", exclude)):
            if isinstance(value, str):
                raise InputError(f"{what} must be a list of columns, such as [{value!r}], not {value!r}.")
        self.path, self.id, self.treatment = Path(path), id, treatment
        self.files = ParquetFiles(self.path, exact=(id, treatment))
        self.name, self._length = self.files.name, len(self.files)
        if not self._length:
            raise InputError(f"{self.name} has no rows: give one per person.")
        names = self._covariate_names(covariates, {*exclude}, kinds or {})
        self.arm, control_text = self._read_arms(control)
        rng = generator(0, "sample", self._length)
        self.sampled = rows = np.sort(rng.choice(self._length, size=min(_SAMPLE, self._length), replace=False))
        table = self.files.take(rows, [treatment, *names])
        with self._cells_named(rows):
            self.columns, self.described = find_columns(table, names, kinds or {})
            self.encoding = Encoding(tuple(self.columns), treatment, control_text)
            self.sample = self.encoding.block(table)

    def __len__(self) -> int:
        return self._length

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield all units in their order, ``size`` at a time however the files are cut."""
        start, together = 0, CELLS // self.sample.x.shape[1]  # rows that are encoded together
        for table in self.files.parts([c.name for c in self.columns], -(-together // size) * size):
            with self._cells_named(range(start, start + len(table))):
                x = encode(self.columns, table)
            arm = self.arm[start : start + len(table)].astype(np.intp)
            yield from (Block(x[k : k + size], arm[k : k + size]) for k in range(0, len(table), size))
            start += len(table)

    def numbers(self, name: str, what: str) -> Array:
        """Return a column of numbers, (N,), none of them missing, none negative and not all 0."""
        self.files.require(name, what)
        found, rule = np.empty(len(self)), "give everyone a number of at least 0"
        for start, table in self.files.tables([name]):
            try:
                found[start : start + len(table)] = part = to_numbers(table[name], name)
            except CellError as error:
                problem = error.problem.format(row=self._named(start + error.row))
                raise InputError(f"{what} {name!r} {problem}: {rule}.") from None
            if (bad := ~(part >= 0)).any():
                where = self._named(start + int(np.flatnonzero(bad)[0]))
                problem = "missing" if np.isnan(part[bad][0]) else f"negative ({part[bad][0]:g})"
                raise InputError(f"{what} {name!r} is {problem} in {where}: {rule}.")
        if not found.any():
            raise InputError(f"{what} {name!r} is 0 for everyone: someone must matter.")
        return found

    def take(self, positions: ArrayLike) -> Block:
        """Return some units, in the order of ``positions``."""
        rows = check_positions(positions, len(self))
        with self._cells_named(rows):
            return self.encoding.block(self.files.take(rows, self.encoding.names))

    def positions(self, ids: pa.Array, source: Callable[[str], str] = lambda _: "") -> Positions:
        """Return where the units with these ids are; ids are text, each given once. Everyone must have another id.

        ``source`` says of an id where it comes from.
        """
        found = np.full(len(ids), -1, dtype=np.intp)
        hashes = np.empty(len(self), dtype=np.uint64)
        for start, text in self._ids():
            hits = pc.index_in(text, value_set=ids).combine_chunks()
            rows = np.flatnonzero(hits.is_valid().to_numpy(zero_copy_only=False))
            found[hits.drop_null().to_numpy(zero_copy_only=False)] = start + rows
            hashes[start : start + len(text)] = _hashes(text)
        self._check_unique(hashes)
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            name = ids[int(unknown[0])].as_py()
            raise InputError(
                f"{len(unknown)} of {len(ids)} ids are not in the pool, for example {name!r}{source(name)}."
                f"{meant(name, (text for _, text in self._ids()))} Ids are those of column {self.id!r} of {self.name}."
            )
        return found

    def held(self, ids: Collection[str]) -> set[str]:
        """Return those of some ids, as text, that are in the pool."""
        wanted = pa.array(list(ids), pa.string())
        return {i for _, text in self._ids() for i in text.filter(pc.is_in(text, value_set=wanted)).to_pylist()}

    def people(self, positions: Positions) -> pa.Table:
        """Return ids and treatments of some units, as they are in the files; ids that are numbers as whole ones."""
        return self.with_whole_ids(self.files.take(positions, [self.id, self.treatment]))

    def with_whole_ids(self, table: pa.Table) -> pa.Table:
        """Return a table of the pool in which ids that are numbers are whole ones: 205.0 is no name for person 205."""
        if not pa.types.is_floating(self.files.kind(self.id)):
            return table
        where = table.column_names.index(self.id)
        return table.set_column(where, self.id, pc.cast(table[self.id], pa.int64()))

    def _ids(self) -> Iterator[tuple[int, pa.ChunkedArray]]:
        """Yield ids as text, and the number of their first row."""
        for start, table in self.files.tables([self.id]):
            text = written(table[self.id], self.id)
            missing = pc.or_kleene(pc.is_null(text), pc.equal(pc.utf8_trim_whitespace(text), ""))
            if (row := pc.index(missing, True).as_py()) >= 0:
                raise InputError(f"{self.files.place(start + row)} has no id {self.id!r}: give everyone one.")
            yield start, text

    def _check_unique(self, hashes: NDArray[np.uint64]) -> None:
        """Refuse ids that occur twice; equal hashes, sorted here, may still be of different ids."""
        hashes.sort()
        twice = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        if not len(twice):
            return
        suspects = [text.filter(pa.array(np.isin(_hashes(text), twice))) for _, text in self._ids()]
        counts = pc.value_counts(pa.chunked_array([c for s in suspects for c in s.chunks], pa.string()))
        repeated = counts.filter(pc.greater(counts.field("counts"), 1))
        if len(repeated):
            raise InputError(
                f"{len(repeated)} ids are in {self.name} more than once, for example "
                f"{repeated[0]['values'].as_py()!r}: one row per person."
            )

    def _covariate_names(
        self, covariates: Sequence[str] | None, exclude: set[str], kinds: Mapping[str, str]
    ) -> list[str]:
        roles = {self.id, self.treatment}
        if self.id == self.treatment:
            raise InputError(f"column {self.id!r} cannot be both the id and the treatment.")
        asked = {"ids": [self.id], "treatment": [self.treatment], "covariates": covariates or []}
        for what, names in {**asked, "columns to exclude": exclude, "kinds of columns": kinds}.items():
            for name in names:
                self.files.require(name, what)
        for name in roles.intersection(covariates or []):
            raise InputError(f"column {name!r} cannot be a covariate: it is the id or the treatment.")
        chosen = self.files.names if covariates is None else dict.fromkeys(covariates)
        names = [n for n in chosen if n not in exclude | roles]
        self.files.fields([self.id, self.treatment, *names])  # before much is read
        return names

    def _named(self, row: int) -> str:
        """Say where a row is, and whose."""
        name = self.files.take(np.array([row]), [self.id])[self.id][0].as_py()
        return self.files.place(row) + ("" if name is None else f" (id {canonical(name)!r})")

    def _cells_named(self, rows: Positions | range) -> AbstractContextManager[None]:
        return cells_named(lambda row: self._named(int(rows[row])))

    def _read_arms(self, control: Value | None) -> tuple[NDArray[np.int8], str]:
        """Return the arm of every unit, and the control as text."""
        kind = self.files.kind(self.treatment)
        check_treatment_kind(kind, self.treatment)
        arm, distinct = np.empty(len(self), dtype=np.int8), pa.array([], kind)
        for start, table in self.files.tables([self.treatment]):
            values = table[self.treatment].combine_chunks()
            if pa.types.is_floating(values.type):
                values = pc.if_else(pc.is_nan(values), None, values)
            if values.null_count:
                row = start + int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
                raise InputError(
                    f"treatment {self.treatment!r} is missing in {self._named(row)}: leave such rows out of the pool."
                )
            distinct = pc.unique(pa.concat_arrays([distinct, pc.unique(values)]))
            if len(distinct) > 2:
                break
            arm[start : start + len(values)] = pc.index_in(values, value_set=distinct).to_numpy()
        _, text = find_arms(distinct, self.treatment, control)
        first = as_text(pa.chunked_array([distinct])).to_pylist().index(text)
        return (arm != first).astype(np.int8), text


def _hashes(text: pa.ChunkedArray) -> NDArray[np.uint64]:
    return np.asarray(pd.util.hash_array(text.to_numpy(zero_copy_only=False), categorize=False))
