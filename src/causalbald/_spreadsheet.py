"""Text in CSV files that is safe to open in a spreadsheet, and the same text again when the file is read.

One rule, which loses nothing: text that a spreadsheet may run, after any number of apostrophes, gets one more
apostrophe when it is written and loses one when it is read. So ``=10`` is written as ``'=10``, and ``'=10`` as
``''=10``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import Any, Protocol

# Spreadsheets trim blanks and invisible characters before they look for a formula, and take full-width signs for
# plain ones.
_FORMULA = re.compile(r"[\t\r\n]|[\s\x00-\x20\u200b-\u200f\u2060\ufeff]*[=+\-@＝＋－＠]")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LINE_END = "\r\n"


class _Writes(Protocol):
    def write(self, text: str, /) -> object: ...


def safe_cell(value: Any) -> Any:
    """Return a cell that no spreadsheet runs as a formula; numbers stay numbers."""
    return "'" + value if isinstance(value, str) and _guarded(value) else value


def read_cell(text: str) -> str:
    """Return the text of which :func:`safe_cell` made a cell."""
    return text[1:] if text.startswith("'") and _guarded(text) else text


def read_column(cells: Sequence[str | None]) -> list[str | None]:
    """Return the text of a column's cells; as it stands, if a formula in it shows that the file is none of ours."""
    if any(cell is not None and safe_cell(cell) != cell and not cell.startswith("'") for cell in cells):
        return list(cells)
    return [cell if cell is None else read_cell(cell) for cell in cells]


def csv_writer(file: _Writes) -> Any:
    """Return a writer of CSV rows whose lines end with a line feed."""
    return csv.writer(_LineFeeds(file), lineterminator=_LINE_END)


class _LineFeeds:
    """Makes a csv writer quote lone carriage returns, which it does only for characters of its own line ends."""

    def __init__(self, file: _Writes) -> None:
        self._file = file

    def write(self, line: str) -> object:
        """Write a line with a line feed at its end."""
        return self._file.write(line.removesuffix(_LINE_END) + "\n")


def _guarded(text: str) -> bool:
    """Whether a spreadsheet may run text, or could if apostrophes at its beginning were taken off."""
    bare = text.lstrip("'")
    return _FORMULA.match(bare) is not None and _NUMBER.fullmatch(bare) is None
