"""What commands print: data on stdout (a table for people, JSON or CSV for programs), all else on stderr."""

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
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from causalbald._files import check_place, replacing
from causalbald._spreadsheet import csv_writer, safe_cell
from causalbald.errors import CausalBaldError, InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

# Users' data may hold :smile:, which is to stay what it is.
stderr = Console(stderr=True, emoji=False)


def print_records(records: Sequence[Mapping[str, Any]], *, as_json: bool, title: str | None = None) -> None:
    """Print rows as JSON, as a table on a terminal, and as CSV when piped."""
    if as_json:
        print_json([dict(r) for r in records])
        return
    columns = list(records[0]) if records else []
    if not sys.stdout.isatty():
        writer = csv_writer(sys.stdout)
        writer.writerow([safe_cell(c) for c in columns])
        writer.writerows([[safe_cell(_digits(record[c])) for c in columns] for record in records])
        return
    draw_table(records, Console(), title=title)


def print_json(value: Any) -> None:
    """Print plain values as JSON, which has no numbers that are missing or infinite."""
    sys.stdout.write(json.dumps(_plain(value), indent=2, default=str) + "\n")


def print_table(
    table: pa.Table,
    *,
    as_json: bool,
    readable: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    rows: int | None = None,
    last: bool = False,
) -> None:
    """Print a table as JSON, as CSV that no spreadsheet runs when piped, or in part on a terminal.

    Parameters
    ----------
    table : Table
    as_json : bool
    readable : function
        What of a row is shown on a terminal.
    rows : int, optional
        How many rows are shown on a terminal, the ``last`` or the first ones; all by default.
    """
    from causalbald.tables._reading import write_rows

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
    """Write a table as the file's name asks for, no more open than ``sources``; ``hint`` is for the case it fails."""
    from causalbald.tables import _reading

    try:
        _reading.write_table(table, output, *sources)
    except OSError as error:
        raise CausalBaldError(f"cannot write {str(output)!r} ({error.strerror}).{hint}") from None


def draw_table(records: Sequence[Mapping[str, Any]], console: Console, *, title: str | None = None) -> None:
    """Draw rows for people."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in records[0] if records else []:
        header = _short(printable(column.replace("_", " ")), 60)
        numeric = all(_is_number(r[column]) for r in records)
        width = min(16, max(map(len, header.split()), default=1))
        table.add_column(Text(header), justify="right" if numeric else "left", min_width=width)
    for record in records:
        table.add_row(*(Text(_cell(value)) for value in record.values()))
    console.print(table)


def say(text: str) -> None:
    """Print a line for people, in which nothing is markup."""
    stderr.print(Text(printable(text)), soft_wrap=True)


def printable(text: str) -> str:
    """Return text that leaves the terminal alone: line breaks and other control characters are written out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show on a terminal that work is going on."""
    with stderr.status(f"{what} …"):
        yield


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Draw a bar on stderr; yields a callback for (done, total)."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    parts = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*parts, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def check_page(path: Path) -> None:
    """Refuse a page that no browser would take for one, or that cannot be written, before the work."""
    check_place(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"cannot write {path.name!r}: this is a page, choose a name that ends with .html.")


def save_figure(figure: Figure, output: Path, *sources: Path | None) -> None:
    """Write a figure in the format that the file name asks for, no more open than ``sources``."""
    from causalbald.figures._style import house_style

    known = sorted(figure.canvas.get_supported_filetypes())
    kind = output.suffix.lstrip(".")
    if kind not in known:
        raise CausalBaldError(f"cannot write {output.name!r}: choose a name that ends with {', '.join(known)}.")
    with house_style(), replacing(output, *sources) as beside:
        figure.savefig(beside, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    stderr.print(f"Picture: {escape(str(output.resolve()))}", soft_wrap=True)


def _digits(value: Any) -> Any:
    """Return a float with six digits, which is as a rule more than it knows, and nothing for none."""
    if value is None or value != value:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return _short(printable(str(value)), 200)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.0005 else "0"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _short(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
