"""Which columns of a pool are covariates, and of which kind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from causalbald._typing import Array
from causalbald.errors import InputError
from causalbald.tables._encoding import OTHER, Column, Kind, as_text, nan_to_null
from causalbald.tables._numbers import cast_to_float
from causalbald.tables._reading import column_of, is_text

MAX_LEVELS = 30
_MIN_LEVEL_UNITS = 5  # in a column with more than MAX_LEVELS categories, smaller ones are pooled
_SAMPLE_CELLS = 2000
_DECISIVE_SHARE = 0.8  # a column of text is dates, or numbers, if this share of its cells is
_DATE = re.compile(r"^\d{4}-\d{1,2}-\d{1,2}([T ].*)?$|^\d{1,2}[./]\d{1,2}[./]\d{2,4}$|^\d{1,2}:\d{2}(:\d{2})?$")
_DATES = "dates: use an age or a number of days instead"


@dataclass(frozen=True)
class ColumnSummary:
    """A column of the user's table, and what becomes of it.

    Parameters
    ----------
    column : str
        The name of the column.
    use : "numeric", "categorical" or "left out"
    missing : int
        How many values are missing.
    note : str
        Why the column is left out, or how it is encoded; empty if there is nothing to say.

    Examples
    --------
    >>> from causalbald.tables import ColumnSummary
    >>> ColumnSummary("site", "left out", missing=0, note="constant").use
    'left out'
    """

    column: str
    use: str
    missing: int
    note: str = ""


class Covariates(NamedTuple):
    """The covariates of a table; :func:`find_columns` returns it.

    Parameters
    ----------
    columns : list of Column
        How each covariate is encoded. Columns that are left out are not in this list.
    summaries : list of ColumnSummary
        A summary of each column that was looked at, also of columns that are left out.
    x : (N, D) float
        The encoded values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import find_columns
    >>> covariates = find_columns(pa.table({"age": [41, 35]}), ["age"], {})
    >>> covariates.x.tolist()
    [[41.0], [35.0]]
    """

    columns: list[Column]
    summaries: list[ColumnSummary]
    x: Array


def find_columns(table: pa.Table, names: Sequence[str], kinds: Mapping[str, str]) -> Covariates:
    """Return the covariates of a table: how to encode them, a summary of each column, and the encoded values.

    Columns of numbers and yes/no become numeric covariates, columns of text become categorical ones.

    Parameters
    ----------
    table : pyarrow.Table of N rows
        The pool, or a sample of it.
    names : sequence of str
        The columns to look at. Constant and empty columns are left out.
    kinds : mapping of str to str
        "numeric" or "categorical" for columns whose values suggest another kind. Such columns are never left out.

    Returns
    -------
    Covariates

    Raises
    ------
    InputError
        If columns cannot be used, such as dates and free text; the message names all of them, with the remedy. Also if
        a column does not exist, a kind is unknown, a numeric column has a cell that is not a number, or no column is
        left.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import find_columns
    >>> table = pa.table({"age": [41, None, 35], "sex": ["f", "m", "f"], "country": ["DE", "DE", "DE"]})
    >>> columns, summaries, x = find_columns(table, ["age", "sex", "country"], {})
    >>> [(summary.column, summary.use) for summary in summaries]
    [('age', 'numeric'), ('sex', 'categorical'), ('country', 'left out')]
    >>> x.tolist()
    [[41.0, 0.0, 0.0], [38.0, 1.0, 1.0], [35.0, 0.0, 0.0]]
    """
    for name, kind in kinds.items():
        if kind not in get_args(Kind):
            raise InputError(f"covariate {name!r} must be 'numeric' or 'categorical', got {kind!r}.")
    columns, summaries, encoded, refused = list[Column](), list[ColumnSummary](), list[Array](), list[str]()
    for name in names:
        values = column_of(table, name, "covariate")
        kind, note = (kinds[name], "as you said") if name in kinds else _kind(values)
        missing = int(nan_to_null(values).null_count)
        if kind == "refused":
            refused.append(f"{name!r} ({note})")
        elif kind == "dropped":
            summaries.append(ColumnSummary(name, "left out", missing, note))
        else:
            learned, x = _numeric(name, values, missing) if kind == "numeric" else _categorical(name, values)
            columns.append(learned)
            encoded.append(x)
            summaries.append(ColumnSummary(name, kind, missing, _note(learned, note)))
    if refused:
        raise InputError(
            f"these columns cannot be used as covariates: {', '.join(refused)}. Leave them out with exclude= "
            "(--exclude), or turn them into numbers or a few categories first."
        )
    if not columns:
        raise InputError("no column is left as a covariate: the table must say something about who people are.")
    return Covariates(columns, summaries, np.column_stack(encoded))


def _kind(values: pa.ChunkedArray) -> tuple[str, str]:
    """Return "numeric", "categorical", "dropped" or "refused" for a column, and why it is dropped or refused.

    "dropped" columns are left out; "refused" columns make :func:`find_columns` raise InputError.
    """
    present, kind = values.drop_null(), values.type
    if len(present) == 0:
        return "dropped", "all values are missing"
    number_kinds = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if any(is_kind(kind) for is_kind in number_kinds):
        return ("dropped", "constant") if _is_constant(values) else ("numeric", "")
    if pa.types.is_temporal(kind):
        return "refused", _DATES
    if not is_text(kind):
        return "refused", f"a {kind} is neither a number nor a category"
    kind_of_text, note = _kind_of_text(present)
    return ("dropped", "constant") if kind_of_text == "categorical" and _is_constant(values) else (kind_of_text, note)


def _is_constant(values: pa.ChunkedArray) -> bool:
    """Return whether all values are the same and none is missing."""
    return values.null_count == 0 and len(pc.unique(values)) == 1


def _kind_of_text(present: pa.ChunkedArray) -> tuple[str, str]:
    """Return "categorical" or "refused" for a column of text, and why it is refused; see :func:`_kind`.

    ``present`` has the values that are not missing. A column is refused if it has mostly dates or mostly numbers, or if
    it has more than ``MAX_LEVELS`` different values and more of them than half its cells, such as free text.
    """
    sample = [str(value) for value in present.slice(0, _SAMPLE_CELLS).to_pylist()]
    if sum(_DATE.match(value) is not None for value in sample) >= _DECISIVE_SHARE * len(sample):
        return "refused", _DATES
    not_numbers = [value for value in sample if not _is_number(value)]
    if len(sample) - len(not_numbers) >= _DECISIVE_SHARE * len(sample):
        example = (not_numbers or sample)[0]
        return "refused", f"text where numbers belong, for example {example!r}"
    distinct = len(pc.unique(present))
    if distinct > max(MAX_LEVELS, len(present) // 2):
        return "refused", f"free text or names: {distinct} different values"
    return "categorical", ""


def _numeric(name: str, values: pa.ChunkedArray, missing: int) -> tuple[Column, Array]:
    """Return a numeric covariate and its encoded values (N, 1 or 2).

    Missing values become the median, or 0 if all are missing. If ``missing``, their number, is above 0, a second
    feature marks them. Raises InputError at a cell that is not a number.
    """
    numbers = cast_to_float(values, name)
    present = numbers[~np.isnan(numbers)]
    fill = float(np.median(present)) if len(present) else 0.0
    column = Column(name, "numeric", fill=fill, indicator=missing > 0)
    return column, column.encode_numbers(numbers)


def _categorical(name: str, values: pa.ChunkedArray) -> tuple[Column, Array]:
    """Return a categorical covariate, its most frequent category first, and its encoded values (N, levels - 1).

    Missing values are a category. If there are more than ``MAX_LEVELS`` categories, rare ones become ``(other)``.
    """
    counts = pc.value_counts(as_text(values)).to_pylist()
    ordered = sorted(counts, key=lambda count: (-count["counts"], count["values"]))
    levels = [count["values"] for count in ordered]
    if len(levels) > MAX_LEVELS:
        frequent = [c["values"] for c in ordered[: MAX_LEVELS - 1] if c["counts"] >= _MIN_LEVEL_UNITS]
        levels = [*(frequent or levels[:1]), OTHER]
    column = Column(name, "categorical", levels=tuple(levels))
    return column, column.encode(values)


def _note(column: Column, note: str) -> str:
    """Return what the user should know about a covariate's encoding, after a ``note`` about its kind, if any."""
    notes = [note] if note else []
    if column.kind == "categorical":
        listed = ", ".join(level[:20] for level in column.levels[:4])
        notes.append(f"{len(column.levels)} categories: {listed}{', …' if len(column.levels) > 4 else ''}")
    elif column.indicator:
        notes.append(f"missing values become {column.fill:g}, with a column that says so")
    return "; ".join(notes)


def _is_number(text: str) -> bool:
    """Return whether text is a number, with a decimal point or comma; "nan" and "inf" count as numbers."""
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True
