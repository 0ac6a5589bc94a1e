"""Which columns of a table are covariates, of which kind, and how they become numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from causalbald._spreadsheet import read_cell, read_column
from causalbald._typing import Array
from causalbald.errors import InputError
from causalbald.tables._ids import is_text
from causalbald.tables._reading import TableIn
from causalbald.tables._reading import column as get_column

Kind = Literal["numeric", "categorical"]
MISSING = "(missing)"
OTHER = "(other)"
_MAX_LEVELS = 30
_RARE = 5  # a category with fewer units than this is pooled with the other rare ones, if there are many
_MOSTLY = 0.8
_LARGEST = 1e100  # beyond, nothing was measured, and squares overflow
_DATE = re.compile(r"^\d{4}-\d{1,2}-\d{1,2}([T ].*)?$|^\d{1,2}[./]\d{1,2}[./]\d{2,4}$")
_LOOK_AT = 2000
_WITH_COMMA = r"^[+-]?\d+,\d+([eE][+-]?\d+)?$"
_WITH_POINT = r"^[+-]?\d*\.\d"
_THOUSANDS = r"^[+-]?[1-9]\d{0,2}[.,]\d{3}$"


class CellError(InputError):
    """A cell cannot be used; ``row`` counts from 0 in the values that were looked at, ``where`` says it better."""

    def __init__(self, column: str, row: int, problem: str, where: str | None = None) -> None:
        found = problem.format(row=where or f"row {row + 1}")
        super().__init__(f"column {column!r} {found}: correct it, or leave it empty if it stands for missing.")
        self.column, self.row, self.problem = column, row, problem


@contextmanager
def cells_named(where: Callable[[int], str]) -> Iterator[None]:
    """Say of a cell that cannot be used whose it is, from its row."""
    try:
        yield
    except CellError as error:
        raise CellError(error.column, error.row, error.problem, where(error.row)) from None


@dataclass(frozen=True)
class Column:
    """A covariate and how it is encoded; all of it is known from the pool, none of it from outcomes.

    A number that is missing becomes ``fill``, the median, with a column that says so where the pool has missing ones.
    A category becomes a column of its own, except for the most frequent one. Categories that the pool does not have,
    or that are rare, share a column; if the pool has none of these, they count as the most frequent one.
    """

    name: str
    kind: Kind
    fill: float = 0.0
    indicator: bool = False
    levels: tuple[str, ...] = ()

    @property
    def features(self) -> list[str]:
        """Names of the columns that this covariate becomes."""
        if self.kind == "numeric":
            return [self.name] + [f"{self.name} {MISSING}"] * self.indicator
        return [f"{self.name} = {level}" for level in self.levels[1:]]

    def encode(self, values: pa.ChunkedArray) -> Array:
        """Return (N, features) numbers."""
        if self.kind == "numeric":
            number = _numbers(values, self.name)
            missing = np.isnan(number)
            filled = np.where(missing, self.fill, number)
            return np.column_stack([filled, missing]) if self.indicator else filled[:, None]
        known = pa.array(self.levels[1:], pa.string())
        text = as_text(values)
        code = pc.fill_null(pc.index_in(text, value_set=known), -1).to_numpy().astype(np.intp)
        if OTHER in self.levels[1:]:
            seen = pc.is_in(text, value_set=pa.array(self.levels, pa.string())).to_numpy(zero_copy_only=False)
            code[~np.asarray(seen, dtype=bool)] = self.levels[1:].index(OTHER)
        encoded: Array = (code[:, None] == np.arange(len(known))).astype(np.float64)
        return encoded

    def as_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` needs."""
        return asdict(self) | {"levels": list(self.levels)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Column:
        """Return the column that was stored."""
        return cls(**{**found, "levels": tuple(found["levels"])})


@dataclass(frozen=True)
class ColumnSummary:
    """A column of the user's table, and what becomes of it."""

    column: str
    use: str
    missing: int
    note: str = ""


def find_columns(
    table: pa.Table, names: Sequence[str], kinds: Mapping[str, str]
) -> tuple[list[Column], list[ColumnSummary]]:
    """Return the covariates among ``names`` and a description of each; ``kinds`` overrides what the data suggest.

    Raises InputError that names all columns that cannot be used, with the remedy.
    """
    for name, kind in kinds.items():
        if kind not in get_args(Kind):
            raise InputError(f"covariate {name!r} must be 'numeric' or 'categorical', got {kind!r}.")
    columns, described, refused = [], [], []
    for name in names:
        values = get_column(table, name, "covariate")
        kind, note = _kind(values) if name not in kinds else (kinds[name], "as you said")
        missing = int(values.null_count) + _count_nan(values)
        if kind == "refused":
            refused.append(f"{name!r} ({note})")
        elif kind == "dropped":
            described.append(ColumnSummary(name, "left out", missing, note))
        else:
            found = _numeric(name, values, missing) if kind == "numeric" else _categorical(name, values)
            columns.append(found)
            described.append(ColumnSummary(name, str(kind), missing, _more(found, note)))
    if refused:
        raise InputError(
            f"these columns cannot be used as covariates: {', '.join(refused)}. Leave them out with exclude= "
            "(--exclude), or turn them into numbers or a few categories first."
        )
    if not columns:
        raise InputError("no column is left as a covariate: the table must say something about who people are.")
    return columns, described


def encode(columns: Iterable[Column], table: pa.Table) -> Array:
    """Return the covariates of a table as numbers, (N, D)."""
    return np.column_stack([c.encode(get_column(table, c.name, "covariate")) for c in columns])


def with_text_read(columns: Iterable[Column], table: TableIn, id: str) -> pa.Table:
    """Return a table whose ids and categories have lost the apostrophes that make them safe in CSV files.

    A category stays as it stands if only that reading is known, and in frames and Parquet files if it is known so.
    """
    data, levels = table.data, {c.name: c.levels for c in columns if c.kind == "categorical"}
    for place, name in enumerate(data.column_names):
        if not is_text(data[name].type) or not (name in levels or (name == id and not table.typed)):
            continue
        cells = data[name].to_pylist()
        if not any(cell is not None and cell.startswith("'") for cell in cells):
            continue
        plain = [c and read_cell(c) for c in cells] if table.typed else read_column(cells)
        if known := levels.get(name):
            pairs = ((a, b) if table.typed else (b, a) for a, b in zip(cells, plain, strict=True))
            plain = [first if first in known or second not in known else second for first, second in pairs]
        data = data.set_column(place, name, pa.chunked_array([plain], pa.string()))
    return data


def feature_names(columns: Iterable[Column]) -> list[str]:
    """Return the names of the columns of :func:`encode`."""
    return [feature for c in columns for feature in c.features]


def to_numbers(values: pa.ChunkedArray, name: str, ids: Sequence[str] | None = None, *, decimal: str = ".") -> Array:
    """Return a column as floats, missing ones as NaN. Text is read with decimal commas where it has no others.

    With ``ids``, an error names the person instead of the row. ``decimal`` is the sign that other numbers of the same
    file have before their decimals.
    """
    with nullcontext() if ids is None else cells_named(lambda row: f"the row of {ids[row]!r}"):
        return _numbers(_with_points(values, name, decimal) if is_text(values.type) else values, name)


def _with_points(values: pa.ChunkedArray, name: str, decimal: str) -> pa.ChunkedArray:
    """Return text with points for decimal commas, unless numbers have points as well; blank cells are missing."""
    text = pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
    text = pc.if_else(pc.equal(text, ""), None, text)
    commas, points = (
        pc.fill_null(pc.match_substring_regex(text, pattern), False) for pattern in (_WITH_COMMA, _WITH_POINT)
    )
    if pc.any(points).as_py():
        if decimal == ",":
            _refuse_thousands(text, points, name, decimal)
        return text
    if not pc.any(commas).as_py():
        return text
    _refuse_thousands(text, commas, name, ".")
    return pc.if_else(commas, pc.replace_substring(text, ",", "."), text)


def _refuse_thousands(text: pa.ChunkedArray, found: pa.ChunkedArray, name: str, decimal: str) -> None:
    """Refuse numbers with a point or comma that may be one of thousands, unless others of the column say it is not."""
    if not pc.all(pc.match_substring_regex(text.filter(found), _THOUSANDS)).as_py():
        return
    row = pc.index(found, True).as_py()
    shown = text[row].as_py()
    meant = f"{shown.replace(',', '.').replace('.', decimal)} or {shown.replace(',', '').replace('.', '')}"
    raise CellError(name, row, f"has {shown!r} in {{row}}, which may mean {meant} (write one of these)")


def _numbers(values: pa.ChunkedArray, name: str) -> Array:
    # Covariates come here directly: they are read in parts, and commas in one part may look like thousands.
    try:
        # Not safely: of whole numbers with more than 15 digits the last are of no matter here.
        exact = not pa.types.is_integer(values.type)
        number = np.array(pc.cast(values, pa.float64(), safe=exact).to_numpy(), dtype=np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row, example = _first_not_a_number(values)
        shown = repr(example).replace("{", "{{").replace("}", "}}")
        raise CellError(name, row, f"must hold numbers, but {{row}} has {shown}") from None
    beyond = np.abs(number) > _LARGEST
    if beyond.any():
        row = int(np.argmax(beyond))
        found = "an infinite value" if np.isinf(number[row]) else f"{number[row]:g}"
        raise CellError(name, row, f"has {found} in {{row}}")
    return number


def as_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as text, missing values as a category of their own."""
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), None, values)
    return pc.fill_null(pc.cast(values, pa.string()), MISSING)


def _kind(values: pa.ChunkedArray) -> tuple[str, str]:
    """Return numeric, categorical, dropped or refused, and why."""
    known = values.drop_null()
    if len(known) == 0:
        return "dropped", "all values are missing"
    kind = values.type
    numeric = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if any(is_kind(kind) for is_kind in numeric):
        distinct = len(pc.unique(known))
        constant = distinct == 1 and values.null_count == 0
        return ("dropped", "constant") if constant else ("numeric", "")
    if pa.types.is_temporal(kind):
        return "refused", "dates: use an age or a number of days instead"
    if pa.types.is_null(kind):
        return "dropped", "all values are missing"
    if not is_text(kind):
        return "refused", f"a {kind} is neither a number nor a category"
    return _kind_of_text(known, constant_possible=values.null_count == 0)


def _kind_of_text(known: pa.ChunkedArray, *, constant_possible: bool) -> tuple[str, str]:
    distinct = len(pc.unique(known))
    sample = [str(v) for v in known.slice(0, _LOOK_AT).to_pylist()]
    if sum(_DATE.match(v) is not None for v in sample) >= _MOSTLY * len(sample):
        return "refused", "dates: use an age or a number of days instead"
    numbers = [v for v in sample if _is_number(v)]
    if len(numbers) >= _MOSTLY * len(sample):
        example = next((v for v in sample if not _is_number(v)), sample[0])
        return "refused", f"text where numbers belong, for example {example!r}"
    if distinct > max(_MAX_LEVELS, len(known) // 2):
        return "refused", f"free text or names: {distinct} different values"
    if distinct == 1 and constant_possible:
        return "dropped", "constant"
    return "categorical", ""


def _numeric(name: str, values: pa.ChunkedArray, missing: int) -> Column:
    number = _numbers(values, name)
    known = number[~np.isnan(number)]
    fill = float(np.median(known)) if len(known) else 0.0
    return Column(name, "numeric", fill=fill, indicator=missing > 0)


def _categorical(name: str, values: pa.ChunkedArray) -> Column:
    counts = pc.value_counts(as_text(values)).to_pylist()
    ordered = sorted(counts, key=lambda c: (-c["counts"], c["values"]))
    levels = [c["values"] for c in ordered]
    if len(levels) > _MAX_LEVELS:
        often = [c["values"] for c in ordered[: _MAX_LEVELS - 1] if c["counts"] >= _RARE]
        levels = [*(often or levels[:1]), OTHER]
    return Column(name, "categorical", levels=tuple(levels))


def _more(found: Column, note: str) -> str:
    said = [note] if note else []
    if found.kind == "categorical":
        shown = ", ".join(level[:20] for level in found.levels[:4])
        said.append(f"{len(found.levels)} categories: {shown}{', …' if len(found.levels) > 4 else ''}")
    elif found.indicator:
        said.append(f"missing values become {found.fill:g}, with a column that says so")
    return "; ".join(said)


def _count_nan(values: pa.ChunkedArray) -> int:
    return int(pc.sum(pc.is_nan(values)).as_py() or 0) if pa.types.is_floating(values.type) else 0


def _is_number(value: str) -> bool:
    try:
        float(value.replace(",", "."))
    except ValueError:
        return False
    return True


def _first_not_a_number(values: pa.ChunkedArray) -> tuple[int, Any]:
    for row, value in enumerate(values):
        try:
            pc.cast(value, pa.float64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return row, value.as_py()
    raise AssertionError("a column of numbers can be read as numbers")
