"""What commands print: data on stdout (a table for people, JSON or CSV for programs), everything else on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from causalbald._files import check_place, replacing
from causalbald._spreadsheet import csv_writer, safe_cell
from causalbald._words import printable, rounded, shortened
from causalbald.errors import CausalBaldError, InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
MAX_HEADER, MAX_CELL = 60, 200
"""How many characters of a column's name, and of a cell, a table on a terminal shows."""
MAX_COLUMN_WIDTH = 16
"""Up to this width, a column is at least as wide as the longest word of its name."""
# Users' data may hold :smile:, which must not become an emoji.
stderr = Console(stderr=True, emoji=False)


def print_records(records: Sequence[Row], *, as_json: bool, title: str | None = None) -> None:
    """Print rows to stdout: as JSON, as a table on a terminal, or as CSV if stdout is piped.

    All rows have the columns of the first. Cells that a spreadsheet would run are made safe in CSV. Only the table
    on a terminal has the ``title``.
    """
    if as_json:
        print_json([dict(record) for record in records])
        return
    if sys.stdout.isatty():
        draw_table(records, Console(), title=title)
        return
    columns = list(records[0]) if records else []
    writer = csv_writer(sys.stdout)
    writer.writerow([safe_cell(column) for column in columns])
    writer.writerows([[safe_cell(_csv_value(record[column])) for column in columns] for record in records])


def print_json(value: Any) -> None:
    """Print a value to stdout as JSON; numbers that JSON does not have (NaN, infinite) become null.

    What is neither a number, text, a list nor a mapping is printed as ``str`` of it.
    """
    sys.stdout.write(json.dumps(_json_value(value), indent=2, default=str) + "\n")


def print_table(
    table: pa.Table,
    *,
    as_json: bool,
    readable: Callable[[dict[str, Any]], Row] = dict,
    rows: int | None = None,
    last: bool = False,
) -> None:
    """Print a table to stdout: as JSON, as CSV if stdout is piped, or in part on a terminal.

    JSON and CSV have all rows and columns. Cells that a spreadsheet would run are made safe in CSV.

    Parameters
    ----------
    table : Arrow table
        What is printed.
    as_json : bool
        Whether to print JSON.
    readable : function
        Takes a row as a dict, and returns the cells that a terminal shows; by default all.
    rows : int, optional
        How many rows a terminal shows; by default all. A line on stderr says if there are more.
    last : bool
        Whether a terminal shows the last rows instead of the first.
    """
    from causalbald.tables import write_rows

    if as_json:
        print_json(table.to_pylist())
    elif not sys.stdout.isatty():
        write_rows(table, sys.stdout)
    else:
        count = table.num_rows if rows is None else min(rows, table.num_rows)
        shown = table.slice(table.num_rows - count if last else 0, count)
        if count:
            draw_table([readable(row) for row in shown.to_pylist()], Console(emoji=False))
        if count < table.num_rows:
            which = "last" if last else "first"
            say(f"The {which} {count} of {table.num_rows:,} rows. Piped, or with -o FILE, all are written.")


def write_table(table: pa.Table, output: Path, *sources: Path | None, hint: str = "") -> None:
    """Write a table as CSV or Parquet, as the ending of the file's name says. A file of that name is replaced.

    The file is no more open than ``sources``, the files that the table comes from. If the system cannot write the file,
    CausalBaldError says why, followed by ``hint``. InputError is raised for another ending.
    """
    from causalbald import tables

    try:
        tables.write_table(table, output, *sources)
    except OSError as error:
        raise CausalBaldError(f"cannot write {str(output)!r} ({error.strerror}).{hint}") from None


def draw_table(records: Sequence[Row], console: Console, *, title: str | None = None) -> None:
    """Draw rows as a table for people; nothing in the rows acts on the terminal.

    All rows have the columns of the first. Columns of numbers are aligned to the right. Underscores in the names of
    columns become spaces, and long names and cells are cut.
    """
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in records[0] if records else []:
        header = shortened(printable(column.replace("_", " ")), MAX_HEADER)
        numeric = all(_is_number(record[column]) for record in records)
        width = min(MAX_COLUMN_WIDTH, max(map(len, header.split()), default=1))
        table.add_column(Text(header), justify="right" if numeric else "left", min_width=width)
    for record in records:
        table.add_row(*(Text(_cell(value)) for value in record.values()))
    console.print(table)


def say(text: str, style: str = "") -> None:
    """Print a line for people to stderr. ``style`` is one of rich, such as ``bold red``; the text has no markup."""
    stderr.print(Text(printable(text), style=style), soft_wrap=True)


def say_error(kind: str, text: str) -> None:
    """Print to stderr what went wrong, after ``kind`` and a colon in red, such as ``error:``."""
    stderr.print(Text.assemble((f"{kind}:", "bold red"), " ", text), soft_wrap=True)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show on a terminal, while the block runs, that work is going on. Elsewhere nothing is printed."""
    with stderr.status(f"{what} …"):
        yield


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Draw a progress bar on stderr while the block runs; yield a function to call with (done, total).

    The bar disappears at the end. Without a terminal, nothing is drawn.
    """
    from rich import progress as rich_progress  # slow, and most commands have no bar

    columns = [rich_progress.TextColumn(what), rich_progress.BarColumn(), rich_progress.MofNCompleteColumn()]
    columns += [rich_progress.TimeElapsedColumn(), rich_progress.TimeRemainingColumn()]
    with rich_progress.Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def check_page(path: Path) -> None:
    """Raise InputError, before the work, if no page can be written to ``path``, or its name lacks .html or .htm."""
    check_place(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"cannot write {path.name!r}: this is a page, choose a name that ends with .html.")


def save_figure(figure: Figure, output: Path, *sources: Path | None) -> None:
    """Write a figure in the format that the ending of the file's name says, and print to stderr where it is.

    The file is no more open than ``sources``, the files that the figure comes from. CausalBaldError is raised if
    matplotlib cannot write that format.
    """
    from causalbald.figures import house_style

    formats = sorted(figure.canvas.get_supported_filetypes())
    kind = output.suffix.lstrip(".")
    if kind not in formats:
        raise CausalBaldError(f"cannot write {output.name!r}: choose a name that ends with {', '.join(formats)}.")
    with house_style(), replacing(output, *sources) as draft:
        figure.savefig(draft, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    say(f"Picture: {output.resolve()}")


def _csv_value(value: Any) -> Any:
    """Return a value for CSV: floats with six significant digits, ``""`` for a missing value, others as they are."""
    if value is None or value != value:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def _cell(value: Any) -> str:
    """Return the text of a cell on a terminal: ``""`` for a missing value, ``0`` for floats below 0.0005 in size."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return shortened(printable(str(value)), MAX_CELL)
    return rounded(value) if abs(value) >= 0.0005 else "0"


def _is_number(value: Any) -> bool:
    """Return whether a cell may stand in a column of numbers: a number or None, but not True or False."""
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _json_value(value: Any) -> Any:
    """Return a value with text as keys, lists for tuples, and None for NaN and infinite numbers, at any depth."""
    if isinstance(value, Mapping):
        return {str(key): _json_value(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
