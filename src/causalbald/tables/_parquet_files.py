"""Parquet files as one table that is larger than memory: read a part at a time, in the order of its rows.

The files are read by hand, and not by ``pyarrow.dataset``. That library holds whole row groups in memory: with one row
group of 1,000,000 rows and 11 columns it took 461 MB where this reader takes 281 MB, and twice the time. It also reads
all files by the schema of the first one, so its errors cannot name the file that differs.
"""

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
from causalbald.tables._reading import PARQUET_SUFFIXES, check_has_column, check_names, is_index, plain_kind

BLOCK_CELLS = 1 << 21  # 16 MB of numbers
_BUFFER_BYTES = 1 << 16  # of a column; by default, pyarrow holds a whole row group
_MAX_DIGITS = 18  # any number with so many digits fits into 64 bits


class ParquetFiles:
    """A Parquet file, or all Parquet files of a folder in the order of their names, as one table.

    Files may differ in columns that nobody reads. A column that has whole numbers in one file and decimals in another
    is read as floats. Files must not change while they are read: a file that was written anew raises InputError.

    Parameters
    ----------
    path : Path
        A file, or a folder with files and no folders. Names that start with a dot or an underscore are ignored.
    exact : collection of str
        Columns whose numbers must not be rounded, such as ids. Such numbers raise InputError instead.

    Raises
    ------
    InputError
        If there is no Parquet file, a file cannot be read, or a column has no name or that of another column.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> from causalbald.tables import ParquetFiles, write_table
    >>> path = Path(tempfile.mkdtemp()) / "pool.parquet"
    >>> write_table(pa.table({"id": ["p1", "p2", "p3"], "age": [41, 35, 50]}), path)
    >>> files = ParquetFiles(path)
    >>> len(files), files.names
    (3, ['id', 'age'])
    >>> files.take([2, 0], ["age"])["age"].to_pylist()
    [50, 41]
    """

    def __init__(self, path: Path, *, exact: Collection[str] = ()) -> None:
        """Read the schemas and the numbers of rows of all files; cells are read later."""
        self.name, self._exact = path.name, exact
        self.paths, self._stamps = _paths(path), dict[Path, tuple[int, int]]()
        files = [self._open(p) for p in self.paths]
        for path, file in zip(self.paths, files, strict=True):
            check_names(file.schema_arrow.names, path.name)
        self._schemas = [_plain_schema(file.schema_arrow, exact) for file in files]
        self._kinds: dict[str, pa.DataType] = {}
        self._counts = [_rows_of_groups(file) for file in files]

    def __len__(self) -> int:
        return int(sum(counts.sum() for counts in self._counts))

    @property
    def names(self) -> list[str]:
        """The columns of all files, also columns that some files lack."""
        return list(dict.fromkeys(name for schema in self._schemas for name in schema.names))

    def place(self, row: int) -> str:
        """Return where a row is, such as ``row 3 of pool.parquet``; ``row`` counts from 0 over all files."""
        starts = np.cumsum([0, *(counts.sum() for counts in self._counts)])
        file = int(np.searchsorted(starts, row, side="right")) - 1
        return f"row {row - int(starts[file]) + 1} of {self.paths[file].name}"

    def require(self, name: str, role: str) -> None:
        """Raise InputError if no file has a column; ``role`` states what the column is for."""
        check_has_column(self.names, name, role)

    def kind(self, name: str) -> pa.DataType:
        """Return the Arrow type that a column gets, whatever file it is read from.

        Raises InputError if a file lacks the column, or if the files have types that no type can hold together.
        """
        if name not in self._kinds:
            self._kinds[name] = self._common_kind(name)
        return self._kinds[name]

    def fields(self, names: Sequence[str]) -> pa.Schema:
        """Return the schema of the columns ``names`` as they are read; raise InputError as :meth:`kind` does."""
        return pa.schema([(name, self.kind(name)) for name in names])

    def column(self, name: str) -> Iterator[pa.ChunkedArray]:
        """Yield the values of a column in parts, in the order of the rows."""
        yield from (table[name] for _, table in self.tables([name]))

    def parts(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield the columns ``names`` in tables of ``rows`` rows, in order; only the last table may be shorter.

        A table may hold rows of several files.
        """
        waiting, count = list[pa.Table](), 0
        for _, table in self.tables(names):
            waiting.append(table)
            count += len(table)
            while count >= rows:
                joined = pa.concat_tables(waiting)
                yield joined.slice(0, rows)
                waiting, count = [joined.slice(rows)], count - rows
        if count:
            yield pa.concat_tables(waiting)

    def take(self, positions: Positions, names: Sequence[str]) -> pa.Table:
        """Return the columns ``names`` of the rows at ``positions``, in that order; a row may be asked for twice."""
        sorted_rows, order = np.unique(positions, return_inverse=True)
        taken = [self.fields(names).empty_table()]
        for start, table in self.tables(names, sorted_rows):
            first, last = np.searchsorted(sorted_rows, (start, start + len(table)))
            taken.append(table.take(pa.array(sorted_rows[first:last] - start)))
        return pa.concat_tables(taken).take(pa.array(order))

    def tables(self, names: Sequence[str], rows: Positions | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Yield the files in parts: the number of a part's first row, from 0, and the columns ``names`` of the part.

        Row groups are the parts in which a Parquet file is stored. With ``rows``, which are sorted positions, only row
        groups with at least one of these rows are read, and yielded with all of their rows.
        """
        fields, start = self.fields(names), 0
        for path, counts in zip(self.paths, self._counts, strict=True):
            ends = start + np.cumsum(counts)
            groups = np.arange(len(counts))
            if rows is not None:
                groups = groups[np.searchsorted(rows, ends) > np.searchsorted(rows, ends - counts)]
            file = self._open(path) if len(groups) else None
            for group in groups.tolist():
                first = int(ends[group] - counts[group])
                for table in self._read(file, path, group, fields):
                    yield first, table
                    first += len(table)
            start += int(counts.sum())

    def _read(self, file: Any, path: Path, group: int, fields: pa.Schema) -> Iterator[pa.Table]:
        """Yield the columns ``fields`` of a row group in tables of at most ``BLOCK_CELLS`` cells, in order."""
        rows = max(1, BLOCK_CELLS // len(fields))
        with _naming(path):
            for batch in file.iter_batches(rows, row_groups=[group], columns=fields.names):
                columns = [self._cast(batch[field.name], field, path) for field in fields]
                yield pa.Table.from_arrays(columns, schema=fields)

    def _cast(self, values: pa.Array, field: pa.Field, path: Path) -> pa.Array:
        """Return values of a file in the Arrow type that the column has in all files.

        Numbers of a column that is not ``exact`` may be rounded to floats. Raises InputError if the values do not fit.
        """
        if values.type.equals(field.type):
            return values
        try:
            return pc.cast(values, field.type, safe=field.name in self._exact or not pa.types.is_floating(field.type))
        except pa.ArrowInvalid:
            unlike = self._unlike(field.name, self._schemas[self.paths.index(path)].field(field.name).type)
            raise InputError(
                f"column {field.name!r} is {values.type} in {path.name}{unlike}, and has numbers with too many digits "
                f"for {field.type}: write it as text in all files."
            ) from None

    def _unlike(self, name: str, kind: pa.DataType) -> str:
        """Return the end of a sentence, which names a file where a column has another Arrow type than ``kind``.

        The text is empty if there is no such file. A column without values does not count.
        """
        pairs = [(p, s.field(name).type) for p, s in zip(self.paths, self._schemas, strict=True) if name in s.names]
        return next((f", but {k} in {p.name}" for p, k in pairs if not (k.equals(kind) or pa.types.is_null(k))), "")

    def _common_kind(self, name: str) -> pa.DataType:
        """Return an Arrow type for the values of a column in all files; see :meth:`kind`, which keeps it."""
        common, files = None, list(zip(self.paths, self._schemas, strict=True))
        first_with = next(path for path, schema in files if schema.get_field_index(name) >= 0)
        for path, schema in files:
            if schema.get_field_index(name) < 0:
                raise InputError(
                    f"{path.name} has no column {name!r}, which {first_with.name} has: all files need the columns that "
                    "are read."
                )
            kind = schema.field(name).type
            try:
                common = kind if common is None else _joined(common, kind, exact=name in self._exact)
            except pa.ArrowTypeError:
                kinds = f"{kind} in {path.name}{self._unlike(name, kind)}"
                raise InputError(
                    f"column {name!r} is {kinds}: write all files with the same kinds of columns."
                ) from None
        return common

    def _open(self, path: Path) -> Any:
        """Return an open file; raise InputError if it was replaced since it was first opened."""
        with _naming(path):
            status = path.stat()
            stamp = status.st_size, status.st_mtime_ns
            if self._stamps.setdefault(path, stamp) != stamp:
                raise InputError(f"{path.name} was written anew while the pool was open: open the pool again.")
            return pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False)


def _paths(path: Path) -> list[Path]:
    """Return a file, or the Parquet files of a folder sorted by name.

    Names that start with a dot or an underscore are ignored, and so are files of another kind in a folder. Raises
    InputError if no Parquet file is left, or if the folder has a folder in it.
    """
    if path.is_dir():
        entries = sorted(p for p in path.iterdir() if not p.name.startswith((".", "_")))
        if folders := [p.name for p in entries if p.is_dir()]:
            raise InputError(
                f"folder {str(path)!r} has a folder {folders[0]!r} in it, which is not looked into: move its files up, "
                "or move it elsewhere."
            )
        files = [p for p in entries if p.suffix.lower() in PARQUET_SUFFIXES]
        if not files:
            raise InputError(f"folder {str(path)!r} has no files that end with .parquet.")
        return files
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    if path.suffix.lower() not in PARQUET_SUFFIXES:
        raise InputError(
            f"{path.name} is not a Parquet file. Turn it into one, or give it to `causalbald campaign new` if it fits "
            "into memory."
        )
    return [path]


def _plain_schema(schema: pa.Schema, exact: Collection[str]) -> pa.Schema:
    """Return the schema with plain Arrow types, and without the index columns that pandas writes.

    Categories get the type of the values that they stand for; see :func:`plain_kind` for other types. Decimals that may
    not fit into 64 bits become floats, unless the column is ``exact``.
    """
    kinds = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in schema]
    pairs = [(name, kind) for name, kind in zip(schema.names, kinds, strict=True) if not is_index(name)]
    wide = {name for name, kind in pairs if pa.types.is_decimal(kind) and kind.precision > _MAX_DIGITS}
    return pa.schema([(n, pa.float64() if n in wide and n not in exact else plain_kind(kind)) for n, kind in pairs])


def _joined(kind: pa.DataType, other: pa.DataType, *, exact: bool) -> pa.DataType:
    """Return an Arrow type for the values of two types.

    Unlike types of numbers become float; only whole numbers stay whole if both are signed or both unsigned, or if the
    column is ``exact``. pyarrow decides on other types, and raises ArrowTypeError if nothing can hold both.
    """
    if kind.equals(other):
        return kind
    whole = [k for k in (kind, other) if pa.types.is_integer(k)]
    signs = {pa.types.is_signed_integer(k) for k in whole}
    if all(map(_is_number, (kind, other))) and (len(whole) < 2 or (len(signs) == 2 and not exact)):
        return pa.float64()
    schemas = [pa.schema([("", k)]) for k in (kind, other)]
    return pa.unify_schemas(schemas, promote_options="permissive").field(0).type


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _rows_of_groups(file: Any) -> Positions:
    """Return the number of rows of each row group of an open ``pyarrow.parquet.ParquetFile``."""
    groups = range(file.metadata.num_row_groups)
    return np.array([file.metadata.row_group(g).num_rows for g in groups], dtype=np.intp)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn errors of reading inside the block into InputError, which names the file and the cause."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path.name} is missing: it was moved or deleted, or is a link to nothing.") from None
    except PermissionError:
        raise InputError(f"{path.name} may not be read: change its permissions.") from None
    except (pa.ArrowException, OSError) as error:
        first = str(error).partition("\n")[0][:300]
        raise InputError(f"{path.name} cannot be read, it may have been cut short: {first}") from None
