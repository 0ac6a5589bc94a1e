"""Parquet files as one table that is larger than memory: read a part at a time, in the order of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from causalbald._typing import Positions
from causalbald.campaign.tables import check_names, is_index, plain_kind
from causalbald.errors import InputError

CELLS = 1 << 21  # that are read together, 16 MB of numbers
_BUFFER = 1 << 16  # bytes of a column that are read together; by default, a whole row group is
_SUFFIXES = (".parquet", ".pq")


class ParquetFiles:
    """A file, or all ``*.parquet`` files of a folder in the order of their names."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.paths = _paths(path)
        files = [self._open(p) for p in self.paths]
        for path, file in zip(self.paths, files, strict=True):
            check_names(file.schema_arrow.names, path.name)
        self.schema = _plain(files[0].schema_arrow)
        for path, file in zip(self.paths[1:], files[1:], strict=True):
            self.schema = _joined(self.schema, _plain(file.schema_arrow), path.name, self.paths[0].name)
        self._counts = [_rows_of_groups(file) for file in files]

    def __len__(self) -> int:
        return int(sum(counts.sum() for counts in self._counts))

    def parts(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield columns of all rows, ``rows`` at a time however the files are cut."""
        held, count = [], 0
        for _, table in self.tables(names):
            held.append(table)
            count += len(table)
            while count >= rows:
                joined = pa.concat_tables(held)
                yield joined.slice(0, rows)
                held, count = [joined.slice(rows)], count - rows
        if count:
            yield pa.concat_tables(held)

    def take(self, positions: Positions, names: Sequence[str]) -> pa.Table:
        """Return columns of some rows, in the order of ``positions``."""
        wanted, order = np.unique(positions, return_inverse=True)
        found = [self._fields(names).empty_table()]
        for start, table in self.tables(names, wanted):
            first, last = np.searchsorted(wanted, (start, start + len(table)))
            found.append(table.take(pa.array(wanted[first:last] - start)))
        return pa.concat_tables(found).take(pa.array(order))

    def tables(self, names: Sequence[str], wanted: Positions | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Yield parts and the number of their first row; only of row groups with ``wanted`` rows, if these are given.

        ``wanted`` must be sorted.
        """
        fields, start = self._fields(names), 0
        for path, counts in zip(self.paths, self._counts, strict=True):
            ends = start + np.cumsum(counts)
            groups = np.arange(len(counts))
            if wanted is not None:
                groups = groups[np.searchsorted(wanted, ends) > np.searchsorted(wanted, ends - counts)]
            file = self._open(path) if len(groups) else None
            for group in groups.tolist():
                first = int(ends[group] - counts[group])
                for table in self._read(file, path, group, fields):
                    yield first, table
                    first += len(table)
            start += int(counts.sum())

    def _read(self, file: Any, path: Path, group: int, fields: pa.Schema) -> Iterator[pa.Table]:
        rows = max(1, CELLS // len(fields))
        with _whole(path):
            for batch in file.iter_batches(rows, row_groups=[group], columns=fields.names):
                table = pa.Table.from_batches([batch]).select(fields.names)
                yield table if table.schema.equals(fields) else table.cast(fields)

    def _fields(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in names])

    @staticmethod
    def _open(path: Path) -> Any:
        with _whole(path):
            return pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)


def _paths(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if p.suffix.lower() in _SUFFIXES and not p.name.startswith((".", "_")))
        if not found:
            raise InputError(
                f"folder {str(path)!r} has no files that end with .parquet; its own folders are not looked into."
            )
        return found
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(
            f"{path.name} is not a Parquet file. Turn it into one, or give it to `causalbald campaign new` if it fits "
            "into memory."
        )
    return [path]


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return names and types alone, categories as the values they stand for, without row numbers of pandas."""
    kinds = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in schema]
    pairs = zip(schema.names, kinds, strict=True)
    return pa.schema([(name, plain_kind(kind)) for name, kind in pairs if not is_index(name)])


def _joined(schema: pa.Schema, other: pa.Schema, name: str, first: str) -> pa.Schema:
    """Return the columns of files so far and of one more: the same, in any order, whole numbers also as others."""
    for column in sorted(set(schema.names) ^ set(other.names)):
        lacking, having = (name, first) if column in schema.names else (first, name)
        raise InputError(f"{lacking} has no column {column!r}, which {having} has: all files need the same columns.")
    fields = []
    for field in schema:
        kinds = [field, other.field(field.name)]
        try:
            fields += pa.unify_schemas([pa.schema([f]) for f in kinds], promote_options="permissive")
        except pa.ArrowTypeError:
            raise InputError(
                f"column {field.name!r} is {kinds[1].type} in {name}, but {kinds[0].type} in {first}: write all files "
                "with the same kinds of columns."
            ) from None
    return pa.schema(fields)


def _rows_of_groups(file: Any) -> Positions:
    groups = range(file.metadata.num_row_groups)
    return np.array([file.metadata.row_group(g).num_rows for g in groups], dtype=np.intp)


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Turn what goes wrong while a file is read into an error that says so."""
    try:
        yield
    except PermissionError:
        raise InputError(f"{path.name} may not be read: change its permissions.") from None
    except (pa.ArrowException, OSError) as error:
        first = str(error).partition("\n")[0][:300]
        raise InputError(f"{path.name} cannot be read, it may have been cut short: {first}") from None
