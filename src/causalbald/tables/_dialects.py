"""CSV files of any dialect as Arrow tables: encoding, delimiter, decimal sign and the kind of each column.

The dialect is found by hand. Python's ``csv.Sniffer`` fails on files with decimal commas and on files with one column,
and no library that is installed anyway tells a decimal comma from a delimiter.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from causalbald._spreadsheet import read_cell, safe_cell
from causalbald.errors import InputError

SAMPLE_BYTES = 1 << 18
SAMPLE_LINES = 200
BLOCK_BYTES = 1 << 26
_SAMPLE_CELLS = 1000
_MISSING_CELLS = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "."]
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_DECIMAL_POINT = re.compile(r"[+-]?\d*\.\d+")
# In this order, which is that of pyarrow's own reader. The first kind that fits every cell of a column is taken.
_KINDS = (
    pa.int64(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("s"),
    pa.timestamp("ns"),
    pa.timestamp("s", "UTC"),
    pa.timestamp("ns", "UTC"),
    pa.float64(),
)


def read_csv(path: Path, text: Sequence[str]) -> tuple[pa.Table, str]:
    """Return the table in a CSV file, and the sign that its numbers have before their decimals.

    Every cell is read as text and then cast, so that the kind of a column depends on all of its cells. pyarrow's own
    guess depends on the first block alone. Columns named in ``text`` stay text. Raises InputError if the file is empty,
    a row is too short or too long, or the file is not text. Called by :func:`causalbald.tables.read_table`.
    """
    from pyarrow import csv as arrow_csv

    encoding, sample = _encoding(path)
    if not sample.strip():
        raise InputError(f"{path.name} is empty.")
    delimiter, decimal = _dialect(sample)
    header = next(row for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter) if row)
    try:
        table = arrow_csv.read_csv(
            path,
            read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES, encoding=encoding),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                null_values=_MISSING_CELLS, strings_can_be_null=True, column_types=dict.fromkeys(header, pa.binary())
            ),
        )
    except pa.ArrowInvalid as error:
        raise InputError(f"{path.name} cannot be read as CSV: {_plain_words(error)}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is not text in {encoding}: save it as CSV in UTF-8.") from None
    # The apostrophe that write_csv puts before an unsafe name is removed again.
    names = [read_cell(name) for name in table.column_names]
    as_text = {*text, *map(safe_cell, text)}
    columns = [
        _decoded(values, path) if {name, header_cell} & as_text else _typed(values, decimal)
        for name, header_cell, values in zip(names, table.column_names, table.columns, strict=True)
    ]
    return pa.table(columns, names=names), decimal


def _decoded(values: pa.ChunkedArray, path: Path) -> pa.ChunkedArray:
    """Return a column of bytes as text; raise InputError, which names the file, if a cell is not UTF-8."""
    try:
        return pc.cast(values, pa.string())
    except pa.ArrowInvalid:
        raise InputError(f"{path.name} is not text in utf8: save it as CSV in UTF-8.") from None


def _typed(values: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
    """Return a column of bytes in the first Arrow type of ``_KINDS`` that fits all cells, else as text.

    An empty column gets the null type. A column with bytes that are not UTF-8 is returned unchanged. ``decimal`` is the
    sign before decimals, as :func:`_dialect` returns it.
    """
    if values.null_count == len(values):
        return pa.chunked_array([pa.nulls(len(values))])
    try:
        text = pc.cast(values, pa.string())
    except pa.ArrowInvalid:  # not UTF-8: find_columns refuses such a column by name
        return values
    cells = pc.ascii_trim_whitespace(text)
    sample = cells.drop_null().slice(0, _SAMPLE_CELLS)
    for kind in _KINDS:
        # A cast that fails is slow, so a sample is cast first.
        if _cast(sample, kind, decimal) is not None and (typed := _cast(cells, kind, decimal)) is not None:
            return typed
    return text


def _cast(cells: pa.ChunkedArray, kind: pa.DataType, decimal: str) -> pa.ChunkedArray | None:
    """Return cells of text as values of an Arrow type, or None if a cell does not fit.

    With the decimal sign ",", a cell with a point does not fit a float.
    """
    if decimal == "," and pa.types.is_floating(kind):
        if pc.any(pc.match_substring(cells, ".")).as_py():
            return None
        cells = pc.replace_substring(cells, ",", ".")
    try:
        return pc.cast(cells, kind)
    except pa.ArrowInvalid:
        return None


def _encoding(path: Path) -> tuple[str, str]:
    """Return the encoding of a text file, and its first ``SAMPLE_BYTES`` bytes as text.

    The encoding is "utf8", "utf-16" or, if the bytes are neither, "cp1252", the usual one of Windows. Raises InputError
    if the file is not text.
    """
    with path.open("rb") as file:
        start = file.read(SAMPLE_BYTES)
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
    """Return the delimiter and the decimal sign of a CSV file from its first lines.

    The delimiter is comma, semicolon, tab or bar: the one by which most lines have as many cells as the header. The
    decimal sign is a comma if more cells have a decimal comma than a decimal point, and the delimiter is not a comma.
    """
    lines = list(io.StringIO(sample, newline=""))  # splits at line ends alone: other separators may be part of a cell
    lines = lines[:-1] if len(lines) > 1 and len(sample) > SAMPLE_BYTES // 2 else lines
    candidates = []
    for delimiter in ",;\t|":
        rows = [row for row in csv.reader(lines[:SAMPLE_LINES], delimiter=delimiter) if row]
        width = len(rows[0])
        agreement = sum(len(row) == width for row in rows) / len(rows)
        candidates.append((width > 1, agreement, width, delimiter, rows[1:]))
    _, _, _, delimiter, rows = max(candidates, key=lambda candidate: candidate[:3])
    cells = [cell.strip() for row in rows for cell in row]
    commas = sum(_DECIMAL_COMMA.fullmatch(cell) is not None for cell in cells)
    points = sum(_DECIMAL_POINT.fullmatch(cell) is not None for cell in cells)
    return delimiter, "," if delimiter != "," and commas > points else "."


def _plain_words(error: Exception) -> str:
    """Return the cause of an error of pyarrow's CSV reader, for a message of our own.

    A row that is too short or too long is described in plain words. Of other errors it is the first line.
    """
    match = re.search(r"Expected (\d+) columns, got (\d+): (.*)", str(error))
    if match:
        return (
            f"a row has {match[2]} cells where the header has {match[1]}: {match[3][:60]!r}. "
            "Was the file cut short, or does a cell hold the delimiter without quotes?"
        )
    return first_line(error)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, at most 300 characters, for a message of our own."""
    return str(error).partition("\n")[0][:300]
