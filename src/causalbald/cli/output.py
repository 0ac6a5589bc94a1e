"""What commands print: data on stdout (a table for people, JSON or CSV for programs), all else on stderr."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from causalbald.errors import CausalBaldError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

stderr = Console(stderr=True)


def print_records(records: Sequence[Mapping[str, Any]], *, as_json: bool, title: str | None = None) -> None:
    """Print rows as JSON, as a table on a terminal, and as CSV when piped."""
    if as_json:
        sys.stdout.write(json.dumps([dict(r) for r in records], indent=2, default=str) + "\n")
        return
    columns = list(records[0]) if records else []
    if not sys.stdout.isatty():
        writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows([{k: _digits(v) for k, v in record.items()} for record in records])
        return
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        header = column.replace("_", " ")
        numeric = all(isinstance(r[column], (int, float)) for r in records)
        table.add_column(header, justify="right" if numeric else "left", min_width=max(map(len, header.split())))
    for record in records:
        table.add_row(*(_cell(record[c]) for c in columns))
    Console().print(table)


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Draw a bar on stderr; yields a callback for (done, total)."""
    parts = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*parts, console=stderr, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def check_folder(output: Path | None) -> None:
    """Fail before the work, not after it."""
    if output is not None and not output.parent.is_dir():
        raise CausalBaldError(f"folder {str(output.parent)!r} does not exist: create it or choose another --output.")


def save_figure(figure: Figure, output: Path) -> None:
    """Write a figure in the format that the file name asks for."""
    from causalbald.figures.style import house_style

    known = sorted(figure.canvas.get_supported_filetypes())
    kind = output.suffix.lstrip(".")
    if kind not in known:
        raise CausalBaldError(f"cannot write {output.name!r}: choose a name that ends with {', '.join(known)}.")
    with house_style():
        figure.savefig(output, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    stderr.print(f"Picture: {escape(str(output.resolve()))}", soft_wrap=True)


def _digits(value: Any) -> Any:
    """Return a float with six digits, which is as a rule more than it knows."""
    return f"{value:.6g}" if isinstance(value, float) else value


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) >= 0.0005 else "0"
