"""How a covariate of the user's table becomes numbers for a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from causalbald._spreadsheet import read_cell, read_column
from causalbald._typing import Array
from causalbald.tables._numbers import cast_to_float
from causalbald.tables._reading import InputTable, column_of, is_text

Kind = Literal["numeric", "categorical"]
MISSING = "(missing)"
OTHER = "(other)"


@dataclass(frozen=True)
class Column:
    """A covariate in the user's table, and how it becomes numbers.

    A feature is a column of numbers that a model sees. The encoding depends on the pool alone, and not on outcomes. A
    missing number becomes ``fill``, the median of the pool; if the pool has missing numbers, a second feature marks
    missing ones. Each category but the most frequent one has a feature, which is 1 for units of that category. If the
    pool has many categories, rare ones share the feature ``(other)``, and so do categories that the pool does not have.
    Without that feature, a category that the pool does not have counts as the most frequent one.

    Parameters
    ----------
    name : str
        The name of the column.
    kind : "numeric" or "categorical"
    fill : float
        The number that stands for missing ones.
    indicator : bool
        Whether a second feature marks missing numbers.
    levels : tuple of str
        The categories, the most frequent one first; empty for numbers.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import Column
    >>> sex = Column("sex", "categorical", levels=("f", "m"))
    >>> sex.features
    ['sex = m']
    >>> sex.encode(pa.chunked_array([["m", "f"]])).tolist()
    [[1.0], [0.0]]
    """

    name: str
    kind: Kind
    fill: float = 0.0
    indicator: bool = False
    levels: tuple[str, ...] = ()

    @property
    def features(self) -> list[str]:
        """Names of the features, such as "age", "age (missing)" or "sex = m"."""
        if self.kind == "numeric":
            return [self.name] + [f"{self.name} {MISSING}"] * self.indicator
        return [f"{self.name} = {level}" for level in self.levels[1:]]

    def encode(self, values: pa.ChunkedArray) -> Array:
        """Return the numbers for some values of this covariate.

        Parameters
        ----------
        values : pyarrow.ChunkedArray
            N values, numbers or text. Text that is a number counts as one in a numeric column.

        Returns
        -------
        (N, features) float

        Raises
        ------
        InputError
            If the column is numeric and a value is not a number, infinite or too large.
        """
        if self.kind == "numeric":
            return self.encode_numbers(cast_to_float(values, self.name))
        features = pa.array(self.levels[1:], pa.string())
        text = as_text(values)
        code = pc.fill_null(pc.index_in(text, value_set=features), -1).to_numpy().astype(np.intp)
        if OTHER in self.levels[1:]:
            is_level = pc.is_in(text, value_set=pa.array(self.levels, pa.string())).to_numpy(zero_copy_only=False)
            code[~np.asarray(is_level, dtype=bool)] = self.levels[1:].index(OTHER)
        encoded: Array = (code[:, None] == np.arange(len(features))).astype(np.float64)
        return encoded

    def encode_numbers(self, numbers: Array) -> Array:
        """Return the features (N, 1 or 2) of a numeric column from its values (N,), NaN where they are missing."""
        is_missing = np.isnan(numbers)
        filled = np.where(is_missing, self.fill, numbers)
        return np.column_stack([filled, is_missing]) if self.indicator else filled[:, None]

    def as_json(self) -> dict[str, Any]:
        """Return the fields as plain JSON, from which :meth:`from_json` makes an equal column."""
        return asdict(self) | {"levels": list(self.levels)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Column:
        """Return the column that :meth:`as_json` stored."""
        return cls(**{**fields, "levels": tuple(fields["levels"])})


def encode(columns: Iterable[Column], table: pa.Table) -> Array:
    """Return the covariates of a table as numbers.

    Parameters
    ----------
    columns : iterable of Column
        The covariates, as :func:`find_columns` learned them from the pool.
    table : pyarrow.Table of N rows
        A table with these columns; it may have others.

    Returns
    -------
    (N, D) float
        One column for each of :func:`feature_names`.

    Raises
    ------
    InputError
        If the table lacks a column, or a cell of a numeric column is not a number.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import Column, encode
    >>> columns = [Column("age", "numeric", fill=40.0), Column("sex", "categorical", levels=("f", "m"))]
    >>> encode(columns, pa.table({"age": [35, None], "sex": ["m", "f"]})).tolist()
    [[35.0, 1.0], [40.0, 0.0]]
    """
    return np.column_stack([c.encode(column_of(table, c.name, "covariate")) for c in columns])


def feature_names(columns: Iterable[Column]) -> list[str]:
    """Return the names of the columns that :func:`encode` returns.

    Parameters
    ----------
    columns : iterable of Column
        The covariates.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from causalbald.tables import Column, feature_names
    >>> feature_names([Column("age", "numeric", indicator=True), Column("sex", "categorical", levels=("f", "m"))])
    ['age', 'age (missing)', 'sex = m']
    """
    return [feature for c in columns for feature in c.features]


def as_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as text; missing values become the text ``(missing)``.

    Parameters
    ----------
    values : pyarrow.ChunkedArray
        Text, numbers or yes/no.

    Returns
    -------
    pyarrow.ChunkedArray of text

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import as_text
    >>> as_text(pa.chunked_array([[1, None]])).to_pylist()
    ['1', '(missing)']
    """
    return pc.fill_null(pc.cast(nan_to_null(values), pa.string()), MISSING)


def nan_to_null(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in which NaN became null, Arrow's missing value. Only floats can have NaN."""
    return pc.if_else(pc.is_nan(values), None, values) if pa.types.is_floating(values.type) else values


def without_apostrophes(columns: Iterable[Column], table: InputTable, id: str) -> pa.Table:
    """Return a table whose ids and categories lost the apostrophes that make them safe in CSV files.

    A category with an apostrophe is kept if the pool has it and lacks the category without. In frames and Parquet
    files, a category that the pool has is always kept, and ids never change. ``table`` itself is not changed.

    Parameters
    ----------
    columns : iterable of Column
        The covariates of the pool.
    table : InputTable
        A table of units, which need not be in the pool.
    id : str
        The column of ids.

    Returns
    -------
    pyarrow.Table

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import Column, InputTable, without_apostrophes
    >>> table = InputTable(pa.table({"id": ["p1"], "drug": ["'=a"]}))
    >>> without_apostrophes([Column("drug", "categorical", levels=("=a", "b"))], table, "id")["drug"].to_pylist()
    ['=a']
    """
    data, levels = table.data, {c.name: c.levels for c in columns if c.kind == "categorical"}
    for place, name in enumerate(data.column_names):
        if not is_text(data[name].type) or not (name in levels or (name == id and not table.typed)):
            continue
        cells = data[name].to_pylist()
        if not any(cell is not None and cell.startswith("'") for cell in cells):
            continue
        plain = [cell and read_cell(cell) for cell in cells] if table.typed else read_column(cells)
        if in_pool := levels.get(name):
            # The first reading wins, unless the pool has the second one alone.
            pairs = ((cell, bare) if table.typed else (bare, cell) for cell, bare in zip(cells, plain, strict=True))
            plain = [first if first in in_pool or second not in in_pool else second for first, second in pairs]
        data = data.set_column(place, name, pa.chunked_array([plain], pa.string()))
    return data
