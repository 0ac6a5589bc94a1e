"""Arrow tables out: as the caller's kind of frame, or as a CSV or Parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from causalbald._files import replacing
from causalbald._spreadsheet import csv_writer, safe_cell
from causalbald.errors import InputError
from causalbald.tables._reading import PARQUET_SUFFIXES

_ROWS_IN_MEMORY = 10_000


def as_frame(data: pa.Table, backend: Any) -> Any:
    """Return an Arrow table as a frame of the user's library.

    Parameters
    ----------
    data : pyarrow.Table
        The table.
    backend : str or None
        Name of the library, as in :attr:`InputTable.backend`: "pandas", "polars" or "pyarrow". None is pandas.

    Returns
    -------
    frame
        A frame of that library.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import as_frame
    >>> as_frame(pa.table({"age": [41, 35]}), "pandas")["age"].tolist()
    [41, 35]
    """
    if backend == "pyarrow":
        return data
    import narwhals as nw

    return nw.from_arrow(data, backend=backend or "pandas").to_native()


def write_csv(data: pa.Table, path: Path) -> None:
    """Write a table as a CSV file in UTF-8, over a file that exists; see :func:`write_rows`."""
    with path.open("w", encoding="utf-8", newline="") as file:
        write_rows(data, file)


def write_rows(data: pa.Table, file: TextIO) -> None:
    """Write a table as CSV into an open file.

    Missing values become empty cells. Text that a spreadsheet would run as a formula gets a leading apostrophe, which
    :func:`read_ids` and :func:`without_apostrophes` remove when the table is read.

    Parameters
    ----------
    data : pyarrow.Table
        The table.
    file : text file
        Open for writing.

    Examples
    --------
    >>> import sys
    >>> import pyarrow as pa
    >>> from causalbald.tables import write_rows
    >>> write_rows(pa.table({"id": ["p1", "=1+1"], "cost": [20, None]}), sys.stdout)
    id,cost
    p1,20
    '=1+1,
    """
    writer = csv_writer(file)
    writer.writerow([safe_cell(name) for name in data.column_names])
    for batch in data.to_batches(max_chunksize=_ROWS_IN_MEMORY):
        columns = [column.to_pylist() for column in batch.columns]
        writer.writerows(
            [["" if value is None else safe_cell(value) for value in row] for row in zip(*columns, strict=True)]
        )


def write_table(data: pa.Table, path: Path, *sources: Path | None) -> None:
    r"""Write a table as a CSV or Parquet file, whole or not at all. A file that exists is replaced.

    Parameters
    ----------
    data : pyarrow.Table
        The table.
    path : Path
        The ending of the name says the format: ``.csv``, ``.txt``, ``.parquet`` or ``.pq``.
    *sources : Path or None
        Files from which the table was made. Nobody may read the new file who may not read all of them.

    Raises
    ------
    InputError
        If the name has another ending, or if the file was changed meanwhile; then it is kept.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> from causalbald.tables import write_table
    >>> path = Path(tempfile.mkdtemp()) / "people.csv"
    >>> write_table(pa.table({"id": ["p1"], "age": [41]}), path)
    >>> path.read_text()
    'id,age\np1,41\n'
    """
    kind = path.suffix.lower()
    if kind not in (*PARQUET_SUFFIXES, ".csv", ".txt"):
        raise InputError(f"cannot write {path.name!r}: choose a name that ends with .csv or .parquet.")
    with replacing(path, *sources) as unfinished:
        if kind in (".csv", ".txt"):
            write_csv(data, unfinished)
        else:
            import pyarrow.parquet as pq

            pq.write_table(data, unfinished)
