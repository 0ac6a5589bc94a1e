"""Tables in: any DataFrame, CSV, Parquet or Excel file becomes an Arrow table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from causalbald._text import check_text
from causalbald.errors import InputError
from causalbald.tables._dialects import first_line, read_csv

PARQUET_SUFFIXES = (".parquet", ".pq")
_EXCEL = (".xlsx", ".xlsm")
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_MAX_LISTED_COLUMNS = 20


@dataclass(frozen=True)
class InputTable:
    """A user's table as Arrow, and what is known about where it came from.

    Parameters
    ----------
    data : pyarrow.Table
        The table itself.
    backend : str or None
        The library whose frame the user passed, such as "pandas"; None for a file.
    name : str
        The name of the file, or "the table".
    typed : bool
        Whether the user chose the kinds of the columns, as in a frame or a Parquet file. The kinds of the columns of a
        CSV or Excel file are guessed.
    decimal : str
        The sign that the numbers of a CSV file have before their decimals.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import InputTable
    >>> InputTable(pa.table({"id": ["p1", "p2"]})).name
    'the table'
    """

    data: pa.Table
    backend: Any = None
    name: str = "the table"
    typed: bool = False
    decimal: str = "."


def read_table(source: Any, *, text: Sequence[str] = ()) -> InputTable:
    """Return a user's table, from a file or from any DataFrame.

    Parameters
    ----------
    source : path, DataFrame or InputTable
        A CSV, Parquet or Excel file, or a frame of pandas, polars, Arrow or another library that narwhals reads.
        The encoding, the delimiter and the decimal sign of a CSV file are found from its first lines. Of an Excel file
        the first sheet is read. An InputTable is returned as it is.
    text : sequence of str
        Columns of a CSV or Excel file that are text even if all cells look like numbers, such as an id ``007``. A name
        that the file lacks is ignored.

    Returns
    -------
    InputTable

    Raises
    ------
    InputError
        If the file does not exist or cannot be read, ``source`` is neither a path nor a frame, or a column has no name
        or that of another column.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.tables import read_table
    >>> table = read_table(pd.DataFrame({"patient": ["p1", "p2"], "age": [41, 35]}))
    >>> table.data.column_names, table.backend
    (['patient', 'age'], 'pandas')
    """
    if isinstance(source, InputTable):
        return source
    for name in text:
        check_text(name, "the name of a column")
    table = _read_file(Path(source), text) if isinstance(source, (str, Path)) else _read_frame(source)
    check_names(table.data.column_names, table.name)
    return table


def column_of(table: pa.Table, name: str, role: str) -> pa.ChunkedArray:
    """Return a column of a table. Arrow's categories (dictionaries) become the values that they stand for.

    Parameters
    ----------
    table : pyarrow.Table
        The table to look in.
    name : str
        The name of the column.
    role : str
        What the column is for, which the error states.

    Returns
    -------
    pyarrow.ChunkedArray

    Raises
    ------
    InputError
        If there is no such column. The message names a similar one, and lists all.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import column_of
    >>> column_of(pa.table({"age": [41, 35]}), "age", "covariate").to_pylist()
    [41, 35]
    """
    check_has_column(table.column_names, name, role)
    values = table.column(name)
    return pc.cast(values, values.type.value_type) if pa.types.is_dictionary(values.type) else values


def check_has_column(names: Sequence[str], name: str, role: str) -> None:
    """Raise InputError unless ``name`` is one of the columns ``names``; suggest a similar one."""
    check_text(name, f"the name of the column for the {role}")
    if name not in names:
        similar = get_close_matches(name, names, n=1)
        hint = f" Did you mean {similar[0]!r}?" if similar else ""
        more = ", …" if len(names) > _MAX_LISTED_COLUMNS else ""
        listed = ", ".join(map(repr, names[:_MAX_LISTED_COLUMNS])) + more
        raise InputError(f"there is no column {name!r} for the {role}.{hint} Columns: {listed}.")


def check_names(names: Sequence[str], table: str) -> None:
    """Raise InputError if a column has no name or that of another column, or if there are no columns.

    ``table`` names the table in the message.
    """
    if not names or any(not str(name).strip() for name in names):
        raise InputError(f"{table} has a column without a name: every column needs one.")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(f"{table} has more than one column {repeated[0]!r}: rename or drop one.")


def is_index(name: str) -> bool:
    """Return whether a name is that of the row numbers that pandas adds to a file, such as ``__index_level_0__``."""
    return _PANDAS_INDEX.fullmatch(name) is not None


def plain_kind(kind: pa.DataType) -> pa.DataType:
    """Return the plain Arrow type of the same values.

    Views of text become text, and decimals without digits after the point become whole numbers of 64 bits. Other types
    are returned as they are.
    """
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.int64() if pa.types.is_decimal(kind) and kind.scale == 0 else kind


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is one of the types of text.

    Parameters
    ----------
    kind : pyarrow.DataType
        The type of a column, as in a schema.

    Returns
    -------
    bool

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import is_text
    >>> is_text(pa.large_string()), is_text(pa.int64())
    (True, False)
    """
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in its plain Arrow type; the column is unchanged if a decimal does not fit into 64 bits."""
    try:
        return pc.cast(values, plain_kind(values.type))
    except pa.ArrowInvalid:
        return values


def _read_frame(source: Any) -> InputTable:
    """Return a frame of any library that narwhals reads as a table.

    Named index levels of pandas become columns. Raises InputError if ``source`` is not a frame, two columns have the
    same name, or a column mixes kinds of values.
    """
    import narwhals as nw

    if hasattr(source, "reset_index"):
        source = _with_named_index(source)
    try:
        frame = nw.from_native(source, eager_only=True)
        return InputTable(_without_index(frame.to_arrow()), nw.get_native_namespace(frame).__name__, typed=True)
    except nw.exceptions.DuplicateError:
        check_names([str(name) for name in source.columns], "the table")
        raise
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"a column of the table mixes kinds of values: {first_line(error)}") from None
    except TypeError:
        kinds = "a path to a CSV, Parquet or Excel file, or a pandas, polars or Arrow table"
        raise InputError(f"cannot read a {type(source).__name__} as a table: give {kinds}.") from None


def _with_named_index(frame: Any) -> Any:
    """Return a pandas frame in which index levels with names became columns, and other index levels are gone.

    A level that has the name of a column is dropped, too.
    """
    unnamed = [k for k, name in enumerate(frame.index.names) if name is None or name in frame.columns]
    has_names = len(unnamed) < len(frame.index.names)
    frame = frame.reset_index(level=unnamed, drop=True) if unnamed else frame
    return frame.reset_index() if has_names else frame


def _without_index(table: pa.Table) -> pa.Table:
    """Return a table without the row numbers and the metadata of pandas.

    A table in which names are repeated is returned unchanged: ``check_names`` refuses it afterwards.
    """
    names = [name for name in table.column_names if not is_index(name)]
    return table.select(names).replace_schema_metadata(None) if len(set(names)) == len(names) else table


def _read_file(path: Path, text: Sequence[str]) -> InputTable:
    """Return the table in a CSV, Parquet or Excel file; the ending of the name says which.

    Columns of a CSV or Excel file that ``text`` names stay text. Raises InputError if there is no such file, or if the
    file cannot be read.
    """
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder: name its files.")
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    kind = path.suffix.lower()
    try:
        if kind in PARQUET_SUFFIXES:
            import pyarrow.parquet as pq

            check_names(pq.read_schema(path).names, path.name)
            table = _without_index(pq.read_table(path))
            plain = {name: _plain(table[name]) for name in table.column_names}
            return InputTable(pa.table(plain), name=path.name, typed=True)
        if kind in _EXCEL:
            return InputTable(_read_excel(path, text), name=path.name)
        if kind in (".csv", ".tsv", ".txt"):
            data, decimal = read_csv(path, text)
            return InputTable(data, name=path.name, decimal=decimal)
    except PermissionError:
        raise InputError(f"{path.name} may not be read: change its permissions.") from None
    except pa.ArrowInvalid as error:
        raise InputError(f"{path.name} cannot be read, it may have been cut short: {first_line(error)}") from None
    raise InputError(f"{path.name} has an unknown format: give a file that ends with .csv, .tsv, .parquet or .xlsx.")


def _read_excel(path: Path, text: Sequence[str]) -> pa.Table:
    """Return the first sheet of an Excel file, without columns that have neither a name nor a cell.

    Columns that ``text`` names and columns that mix kinds of values become text. Raises InputError if the file cannot
    be read, openpyxl is missing, or names of columns are missing or repeated.
    """
    import zipfile

    import pandas as pd

    try:
        with pd.ExcelFile(path) as book:
            header = pd.read_excel(book, header=None, nrows=1, dtype=object)
            frame = pd.read_excel(book, dtype=dict.fromkeys(text, str))
        # Names as they are written: pandas renames a column without a name, and the second one of the same name.
        names = ["" if pd.isna(name) else str(name) for name in header.iloc[0]] if len(header) else []
        filled = [k for k, name in enumerate(names) if name.strip() or frame.iloc[:, k].notna().any()]
        check_names([names[k] for k in filled], path.name)
        frame = frame.iloc[:, filled]
        for name in frame.columns:
            # An Arrow column has one kind. As text, mixed cells are checked like the cells of a CSV file.
            if pd.api.types.infer_dtype(frame[name]).startswith("mixed"):
                frame[name] = frame[name].map(str, na_action="ignore")
        return pa.Table.from_pandas(frame, preserve_index=False)
    except ImportError:
        raise InputError("Excel files need openpyxl: pip install 'causalbald[excel]', or save as CSV.") from None
    except (zipfile.BadZipFile, ValueError, KeyError, OSError) as error:
        raise InputError(f"{path.name} cannot be read as an Excel file: {first_line(error)}") from None
