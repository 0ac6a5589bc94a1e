"""Columns of numbers: cells become floats, and a cell that is not a number is named in the error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from causalbald._typing import Array, Positions
from causalbald.errors import InputError
from causalbald.tables._reading import is_text

_MAX_MAGNITUDE = 1e100  # nobody measured a larger number, and its square would overflow
_DECIMAL_COMMA = r"^[+-]?\d+,\d+([eE][+-]?\d+)?$"
_DECIMAL_POINT = r"^[+-]?\d*\.\d"
_THOUSANDS = r"^[+-]?[1-9]\d{0,2}[.,]\d{3}$"


class CellError(InputError):
    """A cell cannot be used.

    ``row`` counts from 0 in the column that was read. ``problem`` states what is wrong, with ``{row}`` in the place of
    the row's description. ``row_text`` is that description; by default it is the number of the row, from 1.
    """

    def __init__(self, column: str, row: int, problem: str, row_text: str | None = None) -> None:
        sentence = problem.format(row=row_text or f"row {row + 1}")
        super().__init__(f"column {column!r} {sentence}: correct it, or leave it empty if it stands for missing.")
        self.column, self.row, self.problem = column, row, problem


@contextmanager
def locating_cells(describe_row: Callable[[int], str]) -> Iterator[None]:
    """Make errors inside the block describe the row of a cell in the user's terms, such as an id.

    Parameters
    ----------
    describe_row : function
        Returns the description of a row from its number, which counts from 0 in the column that was read.

    Yields
    ------
    None

    Raises
    ------
    InputError
        In place of an error about a cell that was raised inside the block, with the same sentence. Other errors pass.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import locating_cells, to_numbers
    >>> with locating_cells(lambda row: f"the row of p{row + 1}"):
    ...     to_numbers(pa.chunked_array([["41", "old"]]), "age")
    Traceback (most recent call last):
    ...
    causalbald.tables._numbers.CellError: column 'age' must hold numbers, but the row of p2 has 'old': \
correct it, or leave it empty if it stands for missing.
    """
    try:
        yield
    except CellError as error:
        raise CellError(error.column, error.row, error.problem, describe_row(error.row)) from None


def to_numbers(values: pa.ChunkedArray, name: str, ids: Sequence[str] | None = None, *, decimal: str = ".") -> Array:
    """Return a column as floats; missing values are NaN.

    Parameters
    ----------
    values : pyarrow.ChunkedArray of N values
        Numbers, or text. Text may have decimal commas if no cell has a decimal point.
    name : str
        The name of the column, for errors.
    ids : sequence of str, optional
        The ids of the rows. With them, an error names the id instead of the number of the row.
    decimal : str
        The decimal sign of other columns of the same file. If it is a comma, a point may separate thousands.

    Returns
    -------
    (N,) float

    Raises
    ------
    InputError
        If a cell is not a number, is infinite or above 1e100, or if all decimal signs may separate thousands.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import to_numbers
    >>> to_numbers(pa.chunked_array([["1,5", None, "2"]]), "dose").tolist()
    [1.5, nan, 2.0]
    """
    with nullcontext() if ids is None else locating_cells(lambda row: f"the row of {ids[row]!r}"):
        return cast_to_float(_with_points(values, name, decimal) if is_text(values.type) else values, name)


def read_amounts(
    parts: Iterable[pa.ChunkedArray],
    name: str,
    role: str,
    describe_row: Callable[[int], str],
    *,
    allow_zero: bool,
    decimal: str = ".",
) -> Array:
    """Return a column of costs or weights as floats. Every unit must have a cost or weight.

    Parameters
    ----------
    parts : iterable of pyarrow.ChunkedArray
        The column, whole or in parts.
    name : str
        The name of the column, for errors.
    role : str
        "cost" or "weight", for errors.
    describe_row : function
        Returns the text for an error from the number of a row, which counts from 0 over all parts.
    allow_zero : bool
        Whether a unit may have 0. The units cannot all have 0.
    decimal : str
        The decimal sign of other columns of the same file, as for :func:`to_numbers`.

    Returns
    -------
    (N,) float

    Raises
    ------
    InputError
        If a cell is missing, negative, not a number, or 0 without ``allow_zero``; the message names the first such
        row. Also if all are 0.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import read_amounts
    >>> cost = pa.chunked_array([[20, 35]])
    >>> read_amounts([cost], "price", "cost", lambda row: f"row {row + 1}", allow_zero=False).tolist()
    [20.0, 35.0]
    """
    remedy = f"give everyone a number {'of at least' if allow_zero else 'above'} 0"
    amounts, start = [np.empty(0)], 0
    for values in parts:
        try:
            part = to_numbers(values, name, decimal=decimal)
        except CellError as error:
            problem = error.problem.format(row=describe_row(start + error.row))
            raise InputError(f"{role} {name!r} {problem}: {remedy}.") from None
        amounts.append(part)
        start += len(part)
    joined = np.concatenate(amounts)
    refused = np.flatnonzero(~(joined >= 0 if allow_zero else joined > 0))
    if len(refused):
        value, row_text = joined[refused[0]], describe_row(int(refused[0]))
        problem = "missing" if np.isnan(value) else f"negative ({value:g})" if value < 0 else "0"
        raise InputError(f"{role} {name!r} is {problem} in {row_text}{and_more(refused)}: {remedy}.")
    if not joined.any():
        raise InputError(f"{role} {name!r} is 0 for everyone: someone must matter.")
    return joined


def cast_to_float(values: pa.ChunkedArray, name: str) -> Array:
    """Return a column as floats, with missing values as NaN.

    Raises CellError at the first cell that is not a number, is infinite or is above 1e100. Text with decimal commas is
    refused. Covariates are read by this function and not by :func:`to_numbers`: they are read in parts, and a comma in
    one part may look like a separator of thousands.
    """
    try:
        # Whole numbers with more than 15 digits are rounded: as covariates and outcomes their last digits do not count.
        is_exact = not pa.types.is_integer(values.type)
        numbers = np.array(pc.cast(values, pa.float64(), safe=is_exact).to_numpy(), dtype=np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row, example = _first_not_a_number(values)
        shown = repr(example).replace("{", "{{").replace("}", "}}")
        raise CellError(name, row, f"must hold numbers, but {{row}} has {shown}") from None
    too_large = np.abs(numbers) > _MAX_MAGNITUDE
    if too_large.any():
        row = int(np.argmax(too_large))
        shown = "an infinite value" if np.isinf(numbers[row]) else f"{numbers[row]:g}"
        raise CellError(name, row, f"has {shown} in {{row}}")
    return numbers


def and_more(rows: Positions) -> str:
    """Return the text that follows the first of some rows in an error, such as " and 3 more"; empty for one row."""
    return f" and {len(rows) - 1} more" if len(rows) > 1 else ""


def _with_points(values: pa.ChunkedArray, name: str, decimal: str) -> pa.ChunkedArray:
    """Return a column as text with points in place of decimal commas; blank cells become missing.

    If a cell has a decimal point, commas stay as they are. Raises CellError if the decimal signs may separate
    thousands. ``decimal`` is the decimal sign of other columns. Called by :func:`to_numbers`.
    """
    text = pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
    text = pc.if_else(pc.equal(text, ""), None, text)
    has_comma, has_point = (
        pc.fill_null(pc.match_substring_regex(text, pattern), False) for pattern in (_DECIMAL_COMMA, _DECIMAL_POINT)
    )
    if pc.any(has_point).as_py():
        if decimal == ",":
            _refuse_thousands(text, has_point, name, decimal)
        return text
    if not pc.any(has_comma).as_py():
        return text
    _refuse_thousands(text, has_comma, name, ".")
    return pc.if_else(has_comma, pc.replace_substring(text, ",", "."), text)


def _refuse_thousands(text: pa.ChunkedArray, has_sign: pa.ChunkedArray, name: str, decimal: str) -> None:
    """Raise CellError if every point or comma of a column may separate thousands, as in "1,234".

    ``has_sign`` marks the cells with such a sign. The message proposes two numbers; ``decimal`` is their decimal sign.
    """
    if not pc.all(pc.match_substring_regex(text.filter(has_sign), _THOUSANDS)).as_py():
        return
    row = pc.index(has_sign, True).as_py()
    cell = text[row].as_py()
    meanings = f"{cell.replace(',', '.').replace('.', decimal)} or {cell.replace(',', '').replace('.', '')}"
    raise CellError(name, row, f"has {cell!r} in {{row}}, which may mean {meanings} (write one of these)")


def _first_not_a_number(values: pa.ChunkedArray) -> tuple[int, Any]:
    """Return the row, from 0, and the value of the first cell that cannot be cast to a float.

    There must be such a cell. Called by :func:`cast_to_float`.
    """
    for row, value in enumerate(values):
        try:
            pc.cast(value, pa.float64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return row, value.as_py()
    raise AssertionError("a column of numbers can be read as numbers")
