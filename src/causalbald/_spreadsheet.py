"""Cells of CSV files that are safe to open in a spreadsheet."""

from __future__ import annotations

import re
from typing import Any

# A spreadsheet would run cells that begin so; quoting them keeps them text.
_FORMULA = re.compile(r"^[=+\-@\t\r]")
_NUMBER = re.compile(r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")


def safe_cell(value: Any) -> Any:
    """Return a cell that no spreadsheet runs as a formula; numbers stay numbers."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.match(value):
        return "'" + value
    return value
