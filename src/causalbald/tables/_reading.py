"""Tables at the edge: any DataFrame, CSV, Parquet or Excel file in; the caller's kind of frame out."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from causalbald._files import replacing
from causalbald._spreadsheet import csv_writer, read_cell, safe_cell
from causalbald._text import check_text
from causalbald.errors import InputError

_SAMPLE = 1 << 18
_BLOCK = 1 << 26
_MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "."]
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_DECIMAL_POINT = re.compile(r"[+-]?\d*\.\d+")
_EXCEL = (".xlsx", ".xlsm")
_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class TableIn:
    """A table as Arrow, and the library whose frame the caller used (None for a file).

    ``typed``: whether values have the kinds that their owner gave them, as in a frame or a Parquet file; those of CSV
    and Excel files are guessed. ``decimal`` is the sign that numbers of a CSV file have before their decimals.
    """

    data: pa.Table
    backend: Any = None
    name: str = "the table"
    typed: bool = False
    decimal: str = "."


def read_table(source: Any, *, text: Sequence[str] = ()) -> TableIn:
    """Return a table from a path or from any DataFrame; columns named in ``text`` are read as they are written.

    A :class:`TableIn`, which was read before, is returned as it is.
    """
    if isinstance(source, TableIn):
        return source
    for name in text:
        check_text(name, "the name of a column")
    table = _read_file(Path(source), text) if isinstance(source, (str, Path)) else _read_frame(source)
    check_names(table.data.column_names, table.name)
    return table


def is_index(name: str) -> bool:
    """Whether a column is a table's row numbers, which pandas adds to what it writes."""
    return _INDEX.fullmatch(name) is not None


def plain_kind(kind: pa.DataType) -> pa.DataType:
    """Return the plain kind of the same values: text for views of it, whole numbers for decimals without a fraction."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.int64() if pa.types.is_decimal(kind) and kind.scale == 0 else kind


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return pc.cast(values, plain_kind(values.type))
    except pa.ArrowInvalid:  # a decimal beyond 64 bits
        return values


def check_names(names: Sequence[str], table: str) -> None:
    """Refuse columns without a name, or with that of another one."""
    if not names or any(not str(n).strip() for n in names):
        raise InputError(f"{table} has a column without a name: every column needs one.")
    repeated = [n for n, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(f"{table} has more than one column {repeated[0]!r}: rename or drop one.")


def as_frame(data: pa.Table, backend: Any) -> Any:
    """Return a table as the kind of frame that ``backend`` names; pandas if it is None."""
    if backend == "pyarrow":
        return data
    import narwhals as nw

    return nw.from_arrow(data, backend=backend or "pandas").to_native()


def write_csv(data: pa.Table, path: Path) -> None:
    """Write a table as CSV; text that a spreadsheet would take for a formula gets a leading apostrophe."""
    with path.open("w", encoding="utf-8", newline="") as file:
        write_rows(data, file)


def write_rows(data: pa.Table, file: TextIO) -> None:
    """Write a table as :func:`write_csv` does, into an open file."""
    writer = csv_writer(file)
    writer.writerow([safe_cell(n) for n in data.column_names])
    for batch in data.to_batches(max_chunksize=10_000):
        columns = [column.to_pylist() for column in batch.columns]
        writer.writerows([["" if v is None else safe_cell(v) for v in row] for row in zip(*columns, strict=True)])


def write_table(data: pa.Table, path: Path, *sources: Path | None) -> None:
    """Write a table as CSV or Parquet, as the name asks for; whole or not at all, and no more open than ``sources``."""
    kind = path.suffix.lower()
    if kind not in (".parquet", ".pq", ".csv", ".txt"):
        raise InputError(f"cannot write {path.name!r}: choose a name that ends with .csv or .parquet.")
    with replacing(path, *sources) as beside:
        if kind in (".csv", ".txt"):
            write_csv(data, beside)
        else:
            import pyarrow.parquet as pq

            pq.write_table(data, beside)


def _read_frame(source: Any) -> TableIn:
    import narwhals as nw

    if hasattr(source, "reset_index"):
        source = _with_named_index(source)
    try:
        frame = nw.from_native(source, eager_only=True)
        return TableIn(_without_index(frame.to_arrow()), nw.get_native_namespace(frame).__name__, typed=True)
    except nw.exceptions.DuplicateError:
        names = [str(c) for c in source.columns]
        repeated = next(c for c in names if names.count(c) > 1)
        raise InputError(f"the table has more than one column {repeated!r}: rename or drop one.") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"a column of the table mixes kinds of values: {_first_line(error)}") from None
    except TypeError:
        kinds = "a path to a CSV, Parquet or Excel file, or a pandas, polars or Arrow table"
        raise InputError(f"cannot read a {type(source).__name__} as a table: give {kinds}.") from None


def _with_named_index(frame: Any) -> Any:
    """Return a frame of the pandas kind whose index, where it has a name of its own, is columns, and else is gone."""
    unnamed = [k for k, name in enumerate(frame.index.names) if name is None or name in frame.columns]
    named = len(unnamed) < len(frame.index.names)
    frame = frame.reset_index(level=unnamed, drop=True) if unnamed else frame
    return frame.reset_index() if named else frame


def _without_index(table: pa.Table) -> pa.Table:
    kept = [name for name in table.column_names if not is_index(name)]
    return table.select(kept).replace_schema_metadata(None) if len(set(kept)) == len(kept) else table


def _read_file(path: Path, text: Sequence[str]) -> TableIn:
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder: name its files.")
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    kind = path.suffix.lower()
    try:
        if kind in (".parquet", ".pq"):
            import pyarrow.parquet as pq

            check_names(pq.read_schema(path).names, path.name)
            table = _without_index(pq.read_table(path))
            plain = {name: _plain(table[name]) for name in table.column_names}
            return TableIn(pa.table(plain), name=path.name, typed=True)
        if kind in _EXCEL:
            return TableIn(_read_excel(path, text), name=path.name)
        if kind in (".csv", ".tsv", ".txt"):
            return _read_csv(path, text)
    except PermissionError:
        raise InputError(f"{path.name} may not be read: change its permissions.") from None
    except pa.ArrowInvalid as error:
        raise InputError(f"{path.name} cannot be read, it may have been cut short: {_first_line(error)}") from None
    raise InputError(f"{path.name} has an unknown format: give a file that ends with .csv, .tsv, .parquet or .xlsx.")


def _read_excel(path: Path, text: Sequence[str]) -> pa.Table:
    import zipfile

    import pandas as pd

    try:
        with pd.ExcelFile(path) as book:
            header = pd.read_excel(book, header=None, nrows=1, dtype=object)
            frame = pd.read_excel(book, dtype=dict.fromkeys(text, str))
        # As they are written: pandas gives columns without a name, and the second of the same name, another one.
        names = ["" if pd.isna(name) else str(name) for name in header.iloc[0]] if len(header) else []
        kept = [k for k, name in enumerate(names) if name.strip() or frame.iloc[:, k].notna().any()]
        check_names([names[k] for k in kept], path.name)
        frame = frame.iloc[:, kept]
        for name in frame.columns:
            # Arrow has no columns of several kinds; as text they are checked like those of a CSV file.
            if pd.api.types.infer_dtype(frame[name]).startswith("mixed"):
                frame[name] = frame[name].map(str, na_action="ignore")
        return pa.Table.from_pandas(frame, preserve_index=False)
    except ImportError:
        raise InputError("Excel files need openpyxl: pip install 'causalbald[excel]', or save as CSV.") from None
    except (zipfile.BadZipFile, ValueError, KeyError, OSError) as error:
        raise InputError(f"{path.name} cannot be read as an Excel file: {_first_line(error)}") from None


def _read_csv(path: Path, text: Sequence[str]) -> TableIn:
    from pyarrow import csv as arrow_csv

    encoding, sample = _sample(path)
    if not sample.strip():
        raise InputError(f"{path.name} is empty.")
    delimiter, decimal = _dialect(sample)
    kinds: dict[str, pa.DataType] = dict.fromkeys([*text, *map(safe_cell, text)], pa.string())
    while True:
        convert = arrow_csv.ConvertOptions(
            null_values=_MISSING, strings_can_be_null=True, column_types=kinds, decimal_point=decimal
        )
        try:
            table = arrow_csv.read_csv(
                path,
                read_options=arrow_csv.ReadOptions(block_size=_BLOCK, encoding=encoding),
                parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=convert,
            )
            # An apostrophe that write_csv has put before a name is taken off again.
            names = [read_cell(n) for n in table.column_names]
            return TableIn(table.rename_columns(names), name=path.name, decimal=decimal)
        except pa.ArrowInvalid as error:
            if not _widened(kinds, str(error), sample, delimiter):
                raise InputError(f"{path.name} cannot be read as CSV: {_in_plain_words(error)}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path.name} is not text in {encoding}: save it as CSV in UTF-8.") from None


def _widened(kinds: dict[str, pa.DataType], error: str, sample: str, delimiter: str) -> bool:
    """Read the column whose later rows do not fit its first ones as numbers with decimals, then as text."""
    found = re.search(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (\w+)", error)
    if not found:
        return False
    header = next(csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter))
    name = header[int(found[1])]
    wider = pa.float64() if found[2].startswith("int") and name not in kinds else pa.string()
    if kinds.get(name) == wider:
        return False
    kinds[name] = wider
    return True


def _sample(path: Path) -> tuple[str, str]:
    """Return the encoding of a text file and its beginning."""
    with path.open("rb") as file:
        start = file.read(_SAMPLE)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16", start.decode("utf-16", errors="replace")
    if b"\0" in start:
        raise InputError(f"{path.name} is not a text file: save the table as CSV.")
    try:
        return "utf8", start.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start > len(start) - 4:  # a character cut by the end of the sample
            return "utf8", start.decode("utf-8-sig", errors="ignore")
        return "cp1252", start.decode("cp1252", errors="replace")


def _dialect(sample: str) -> tuple[str, str]:
    """Return the delimiter under which most lines have as many cells as the header, and the decimal point."""
    lines = list(io.StringIO(sample, newline=""))  # of line ends only: other separators may be part of a cell
    lines = lines[:-1] if len(lines) > 1 and len(sample) > _SAMPLE // 2 else lines
    found = []
    for delimiter in ",;\t|":
        rows = [row for row in csv.reader(lines[:200], delimiter=delimiter) if row]
        width = len(rows[0])
        agreeing = sum(len(row) == width for row in rows) / len(rows)
        found.append((width > 1, agreeing, width, delimiter, rows[1:]))
    _, _, _, delimiter, rows = max(found, key=lambda f: f[:3])
    cells = [cell.strip() for row in rows for cell in row]
    commas = sum(_DECIMAL_COMMA.fullmatch(c) is not None for c in cells)
    points = sum(_DECIMAL_POINT.fullmatch(c) is not None for c in cells)
    return delimiter, "," if delimiter != "," and commas > points else "."


def _in_plain_words(error: Exception) -> str:
    found = re.search(r"Expected (\d+) columns, got (\d+): (.*)", str(error))
    if found:
        return (
            f"a row has {found[2]} cells where the header has {found[1]}: {found[3][:60]!r}. "
            "Was the file cut short, or does a cell hold the delimiter without quotes?"
        )
    return _first_line(error)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]


def column(table: pa.Table, name: str, what: str) -> pa.ChunkedArray:
    """Return a column, or say which ones there are."""
    check_text(name, f"the name of the column for the {what}")
    place = table.schema.get_field_index(name)
    if place < 0:
        from difflib import get_close_matches

        close = get_close_matches(name, table.column_names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        known = ", ".join(map(repr, table.column_names[:20])) + (", …" if table.num_columns > 20 else "")
        raise InputError(f"there is no column {name!r} for the {what}.{hint} Columns: {known}.")
    found = table.column(place)
    return pc.cast(found, found.type.value_type) if pa.types.is_dictionary(found.type) else found
