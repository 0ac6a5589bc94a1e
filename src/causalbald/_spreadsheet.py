"""Text for CSV files that a spreadsheet does not run as a formula, and the same text when the file is read again.

One rule, which loses nothing: text that a spreadsheet may run, and such text after any number of apostrophes, gets one
more apostrophe when it is written, and loses one when it is read. So ``=10`` is written as ``'=10``, and ``'=10`` as
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


class _Writer(Protocol):
    """An open text file."""

    def write(self, text: str, /) -> object: ...


def safe_cell(value: Any) -> Any:
    """Return a cell that no spreadsheet runs as a formula: risky text gets one apostrophe in front.

    Other text, numbers as text (``-1.5``) and values that are no text are unchanged. :func:`read_cell` takes it back.
    """
    return "'" + value if isinstance(value, str) and _guarded(value) else value


def read_cell(text: str) -> str:
    """Return the text from which :func:`safe_cell` made a cell: without the apostrophe, if that was added."""
    return text[1:] if text.startswith("'") and _guarded(text) else text


def read_column(cells: Sequence[str | None]) -> list[str | None]:
    """Return the texts from which :func:`safe_cell` made the cells of a column; None stands for an empty cell.

    A cell with an unguarded formula shows that :func:`safe_cell` did not write the column. Its cells are unchanged.
    """
    if any(cell is not None and safe_cell(cell) != cell and not cell.startswith("'") for cell in cells):
        return list(cells)
    return [cell if cell is None else read_cell(cell) for cell in cells]


def csv_writer(file: _Writer) -> Any:
    """Return a writer of CSV rows whose lines end with a line feed. It does not guard cells: see :func:`safe_cell`."""
    return csv.writer(_LineFeeds(file), lineterminator=_LINE_END)


class _LineFeeds:
    """Turns the line ends of a csv writer into line feeds.

    The writer quotes only the characters of its own line ends. With carriage return and line feed as line end, it also
    quotes lone carriage returns, as spreadsheets need.
    """

    def __init__(self, file: _Writer) -> None:
        self._file = file

    def write(self, line: str) -> object:
        """Write a line with a line feed at its end."""
        return self._file.write(line.removesuffix(_LINE_END) + "\n")


def _guarded(text: str) -> bool:
    """Return whether a spreadsheet may run a text as a formula, once its leading apostrophes are gone.

    A number such as ``-1.5`` is no formula.
    """
    bare = text.lstrip("'")
    return _FORMULA.match(bare) is not None and _NUMBER.fullmatch(bare) is None
