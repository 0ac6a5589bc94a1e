"""Parquet files as one table that is larger than memory: read a part at a time, in the order of its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from causalbald._typing import Positions
from causalbald.errors import InputError
from causalbald.tables._reading import check_names, column, is_index, plain_kind

CELLS = 1 << 21  # that are read together, 16 MB of numbers
_DIGITS = 18  # that fit into 64 bits, whatever they are
_BUFFER = 1 << 16  # bytes of a column that are read together; by default, a whole row group is
SUFFIXES = (".parquet", ".pq")


class ParquetFiles:
    """A file, or all ``*.parquet`` files of a folder in the order of their names.

    Files may differ in columns that nobody reads. A column with several kinds of numbers is read as floating ones,
    which are rounded unless it is one that must stay ``exact``, such as an id.
    """

    def __init__(self, path: Path, *, exact: Collection[str] = ()) -> None:
        self.name, self._exact = path.name, exact
        self.paths, self._stamps = _paths(path), dict[Path, tuple[int, int]]()
        files = [self._open(p) for p in self.paths]
        for path, file in zip(self.paths, files, strict=True):
            check_names(file.schema_arrow.names, path.name)
        self._schemas = [_plain(file.schema_arrow, exact) for file in files]
        self._kinds: dict[str, pa.DataType] = {}
        self._counts = [_rows_of_groups(file) for file in files]

    def __len__(self) -> int:
        return int(sum(counts.sum() for counts in self._counts))

    @property
    def names(self) -> list[str]:
        """The columns of all files, also those that some lack."""
        return list(dict.fromkeys(name for schema in self._schemas for name in schema.names))

    def place(self, row: int) -> str:
        """Say in which row of which file a row is."""
        starts = np.cumsum([0, *(counts.sum() for counts in self._counts)])
        file = int(np.searchsorted(starts, row, side="right")) - 1
        return f"row {row - int(starts[file]) + 1} of {self.paths[file].name}"

    def require(self, name: str, what: str) -> None:
        """Refuse a column that no file has."""
        column(pa.table({n: [] for n in self.names}), name, what)

    def kind(self, name: str) -> pa.DataType:
        """Return the kind of a column, which every file must have with values that are alike."""
        if name not in self._kinds:
            self._kinds[name] = self._common_kind(name)
        return self._kinds[name]

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
        found = [self.fields(names).empty_table()]
        for start, table in self.tables(names, wanted):
            first, last = np.searchsorted(wanted, (start, start + len(table)))
            found.append(table.take(pa.array(wanted[first:last] - start)))
        return pa.concat_tables(found).take(pa.array(order))

    def tables(self, names: Sequence[str], wanted: Positions | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Yield parts and the number of their first row; only of row groups with ``wanted`` rows, if these are given.

        ``wanted`` must be sorted.
        """
        fields, start = self.fields(names), 0
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
                columns = [self._as(batch[field.name], field, path) for field in fields]
                yield pa.Table.from_arrays(columns, schema=fields)

    def fields(self, names: Sequence[str]) -> pa.Schema:
        """Return what :meth:`tables` yields of these columns, or say why it cannot."""
        return pa.schema([(name, self.kind(name)) for name in names])

    def _as(self, values: pa.Array, field: pa.Field, path: Path) -> pa.Array:
        """Return values of a file in the kind that they have in all files."""
        if values.type.equals(field.type):
            return values
        try:
            return pc.cast(values, field.type, safe=field.name in self._exact or not pa.types.is_floating(field.type))
        except pa.ArrowInvalid:
            other = self._unlike(field.name, self._schemas[self.paths.index(path)].field(field.name).type)
            raise InputError(
                f"column {field.name!r} is {values.type} in {path.name}{other}, and has numbers with too many digits "
                f"for {field.type}: write it as text in all files."
            ) from None

    def _unlike(self, name: str, kind: pa.DataType) -> str:
        """Say which file has another kind of a column, if one has."""
        pairs = [(p, s.field(name).type) for p, s in zip(self.paths, self._schemas, strict=True) if name in s.names]
        return next((f", but {k} in {p.name}" for p, k in pairs if not (k.equals(kind) or pa.types.is_null(k))), "")

    def _common_kind(self, name: str) -> pa.DataType:
        found, files = None, list(zip(self.paths, self._schemas, strict=True))
        having = next(path for path, schema in files if schema.get_field_index(name) >= 0)
        for path, schema in files:
            if schema.get_field_index(name) < 0:
                raise InputError(
                    f"{path.name} has no column {name!r}, which {having.name} has: all files need the columns that are "
                    "read."
                )
            kind = schema.field(name).type
            try:
                found = kind if found is None else _joined(found, kind, exact=name in self._exact)
            except pa.ArrowTypeError:
                found_in = f"{kind} in {path.name}{self._unlike(name, kind)}"
                raise InputError(
                    f"column {name!r} is {found_in}: write all files with the same kinds of columns."
                ) from None
        return found

    def _open(self, path: Path) -> Any:
        with _whole(path):
            found = path.stat()
            stamp = found.st_size, found.st_mtime_ns
            if self._stamps.setdefault(path, stamp) != stamp:
                raise InputError(f"{path.name} was written anew while the pool was open: open the pool again.")
            return pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)


def _paths(path: Path) -> list[Path]:
    if path.is_dir():
        inside = sorted(p for p in path.iterdir() if not p.name.startswith((".", "_")))
        if folders := [p.name for p in inside if p.is_dir()]:
            raise InputError(
                f"folder {str(path)!r} has a folder {folders[0]!r} in it, which is not looked into: move its files up, "
                "or move it elsewhere."
            )
        found = [p for p in inside if p.suffix.lower() in SUFFIXES]
        if not found:
            raise InputError(f"folder {str(path)!r} has no files that end with .parquet.")
        return found
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{path.name} is not a Parquet file. Turn it into one, or give it to `causalbald campaign new` if it fits "
            "into memory."
        )
    return [path]


def _plain(schema: pa.Schema, exact: Collection[str]) -> pa.Schema:
    """Return names and types alone, categories as the values they stand for, without row numbers of pandas."""
    kinds = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in schema]
    pairs = [(name, kind) for name, kind in zip(schema.names, kinds, strict=True) if not is_index(name)]
    wide = {name for name, kind in pairs if pa.types.is_decimal(kind) and kind.precision > _DIGITS}
    return pa.schema([(n, pa.float64() if n in wide and n not in exact else plain_kind(kind)) for n, kind in pairs])


def _joined(kind: pa.DataType, other: pa.DataType, *, exact: bool) -> pa.DataType:
    """Return a kind for the values of both: floating numbers for those of two kinds, unless both are whole."""
    if kind.equals(other):
        return kind
    whole = [k for k in (kind, other) if pa.types.is_integer(k)]
    signs = {pa.types.is_signed_integer(k) for k in whole}
    if all(map(_is_number, (kind, other))) and (len(whole) < 2 or (len(signs) == 2 and not exact)):
        return pa.float64()
    both = [pa.schema([("", k)]) for k in (kind, other)]
    return pa.unify_schemas(both, promote_options="permissive").field(0).type


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _rows_of_groups(file: Any) -> Positions:
    groups = range(file.metadata.num_row_groups)
    return np.array([file.metadata.row_group(g).num_rows for g in groups], dtype=np.intp)


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Turn what goes wrong while a file is read into an error that says so."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path.name} is missing: it was moved or deleted, or is a link to nothing.") from None
    except PermissionError:
        raise InputError(f"{path.name} may not be read: change its permissions.") from None
    except (pa.ArrowException, OSError) as error:
        first = str(error).partition("\n")[0][:300]
        raise InputError(f"{path.name} cannot be read, it may have been cut short: {first}") from None
