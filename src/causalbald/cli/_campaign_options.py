"""What the commands of a campaign share: arguments, opening a campaign, and writing its tables without harm."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causalbald._addresses import PASSWORD_HINT, masked
from causalbald._files import check_place
from causalbald._words import estimate, percent
from causalbald.cli._output import busy, print_table, say, write_table
from causalbald.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from causalbald.campaign import Campaign
    from causalbald.tables import InputTable

CampaignPlace = Annotated[
    str, typer.Argument(metavar="STUDY", help="The campaign's file, or postgresql://user@host/database#name.")
]
MAX_ROWS_SHOWN = 20
"""How many rows of a table a terminal shows."""
_WRITABLE = (".csv", ".txt", ".parquet", ".pq")


@dataclass(frozen=True, kw_only=True)
class PeopleOptions:
    """The people that a command is about: ids on the command line, or a table with ids, but not both."""

    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Ids of people in the pool.", show_default=False)
    ] = None
    table: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Table with the ids, instead of IDs.")
    ] = None

    def some_or_all(self) -> list[str] | Path | None:
        """Return the ids or the table's path; None if neither is given. BadParameter is raised if both are."""
        if self.ids and self.table:
            raise typer.BadParameter("give IDs or a table, not both.", param_hint="--from")
        return self.table or self.ids or None

    def some(self) -> list[str] | Path:
        """Return the ids or the table's path. BadParameter is raised if neither or both are given."""
        people = self.some_or_all()
        if people is None:
            raise typer.BadParameter("say who: give IDs, or a table with --from.", param_hint="ID")
        return people


# Opening a campaign


@contextmanager
def opened(study: str, *, quickly: bool = False) -> Iterator[Campaign]:
    """Open a campaign that returns Arrow tables, and close it after the block.

    ``quickly`` is for commands that fit no model and read no Excel file: in the block, pandas cannot be imported, so
    that pyarrow does not spend time on it. StorageError is raised if there is no campaign.
    """
    from causalbald.campaign import Campaign

    with _without_pandas() if quickly else nullcontext(), Campaign(study, frames="pyarrow") as campaign:
        yield campaign


@contextmanager
def fitting(study: str, output: Path | None = None, columns: Sequence[str] = ()) -> Iterator[Campaign]:
    """Open a campaign for a command that fits its model, show that work is going on, and close it after the block.

    Before the work, InputError is raised if ``output`` cannot be written, holds outcomes that were not told, or is a
    table of the user's own. ``columns`` are the columns of the command's table, without the id.
    """
    check_output(output)
    with opened(study) as campaign:
        keep_untold(campaign, output, columns)
        with busy("fitting"):
            yield campaign


def needs_no_pandas(table: Path | None) -> bool:
    """Return whether a command can read or write this file without pandas: True for None and all but Excel files."""
    return table is None or not table.suffix.lower().startswith(".xls")


class _HiddenPandas:
    """Import hook that makes pandas look as if it were not installed."""

    @staticmethod
    def find_spec(name: str, _path: Any = None, _target: Any = None) -> None:
        """Raise for pandas; return None for other modules, which Python then looks for elsewhere."""
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def _without_pandas() -> Iterator[None]:
    """Make imports of pandas fail in the block. Called by :func:`opened`.

    Pyarrow tries to import pandas, which is slow, only to see whether a table is one of pandas. A pandas that was
    imported before stays usable.
    """
    sys.meta_path.insert(0, _HiddenPandas)
    try:
        yield
    finally:
        sys.meta_path.remove(_HiddenPandas)


def say_next(text: str, study: str, more: str = "") -> None:
    """Print which command comes next: ``text``, the campaign's address and ``more``, in one line.

    A password in the address is shown as ``***``; a second line then says how to give it.
    """
    shown = masked(study)
    say(f"{text} {shlex.quote(shown)}{more}")
    if shown != study:
        say(PASSWORD_HINT)


# Writing tables


def check_output(output: Path | None) -> None:
    """Raise InputError, before the work, if no table can be written to ``output``; None is accepted.

    Its folder must exist, and its name must end with .csv, .txt, .parquet or .pq. The file's present content is noted,
    so that writing does not replace a file that is edited in the meantime.
    """
    check_place(output)
    if output is not None and output.suffix.lower() not in _WRITABLE:
        raise InputError(f"cannot write {output.name!r}: choose a name that ends with .csv or .parquet.")


def table_at(path: Path | None, *, id: str | None = None) -> InputTable | None:
    """Return the table that the command's own table would replace; None if ``path`` has no file, or an empty one.

    The cells of column ``id`` are read as text. InputError is raised if the file cannot be read as a table: it may
    hold outcomes.
    """
    from causalbald.tables import read_table

    if path is None or not path.is_file() or not path.stat().st_size:
        return None
    try:
        return read_table(path, text=[] if id is None else [id])
    except InputError as error:
        raise InputError(
            f"{str(path)!r} exists and may hold outcomes: choose another --output, or delete it. {error}"
        ) from None


def filled_in(table: pa.Table, outcome: str) -> int:
    """Return how many cells of column ``outcome`` somebody has filled in; 0 if there is no such column.

    Outcomes that cannot be used yet, such as ``<0.5``, count: somebody has measured them.
    """
    cells = table[outcome].to_pylist() if outcome in table.column_names else []
    return sum(cell is not None and cell == cell and bool(str(cell).strip()) for cell in cells)


def require_ours(table: pa.Table, output: Path | None, *kinds: Sequence[str]) -> None:
    """Raise InputError if ``table``, which ``output`` holds now, may be the user's own and must be kept.

    Each of ``kinds`` is a list of columns of a table that this program writes. A table is the user's own unless it has
    exactly the columns of one kind, in that order.
    """
    if table.column_names not in [list(kind) for kind in kinds]:
        raise InputError(f"{str(output)!r} is a table, and not one of ours of the same kind: choose another --output.")


def batch_columns(campaign: Campaign) -> list[str]:
    """Return the columns of the table that `ask` and `pending` write; the last one, empty, is the outcome."""
    from causalbald.campaign import batch_table

    return [*batch_table(campaign.settings, campaign.pool.units, []).column_names, campaign.settings.outcome]


def keep_untold(campaign: Campaign, output: Path | None, columns: Sequence[str]) -> None:
    """Raise InputError if ``output`` must not be replaced; nothing happens if it is None or has no file.

    A file is kept if it has outcomes that were filled in and not told, or told with another value. It is also kept if
    it is a table of the user's own: one whose columns are neither ``columns`` nor the id and ``columns``.
    """
    from causalbald.campaign import outcomes_of

    settings = campaign.settings
    if (old := table_at(output, id=settings.id)) is None:
        return
    state = campaign.state
    try:
        outcomes = outcomes_of(old, settings, campaign.pool.units, state.rounds).values
        untold = sum(state.outcomes.get(unit) != value for unit, value in outcomes.items())
    except InputError:
        untold = filled_in(old.data, settings.outcome)
    if untold:
        raise InputError(
            f"{str(output)!r} holds {untold} outcomes that were not told: tell them first, or choose another name."
        )
    require_ours(old.data, output, columns, [settings.id, *columns])


def hand_over(
    table: pa.Table,
    output: Path | None,
    *sources: Path | None,
    as_json: bool,
    readable: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    rows: int | None = MAX_ROWS_SHOWN,
    last: bool = False,
) -> None:
    """Write a table to ``output``, or print it if that is None; with ``as_json``, print it in any case.

    A file that exists is replaced. A new file is readable only by those who may read all ``sources``. The other
    options are those of :func:`print_table`.
    """
    if output is not None:
        write_table(table, output, *sources)
        say(f"{table.num_rows:,} rows: {output}")
    if output is None or as_json:
        print_table(table, as_json=as_json, readable=readable, rows=rows, last=last)


def with_interval(alpha: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that shortens a row of effects for a terminal, as ``readable`` of :func:`print_table`.

    One cell then has the effect and its interval, under a heading with the probability 1 - alpha. The cells ``sd``,
    ``lower`` and ``upper`` are left out.
    """
    name = f"effect ({percent(1 - alpha)})"

    def readable(row: dict[str, Any]) -> dict[str, Any]:
        """Return the shortened row."""
        text = estimate(row["effect"], row["lower"], row["upper"])
        cells = {key: value for key, value in row.items() if key not in ("sd", "lower", "upper")}
        return {name if key == "effect" else key: text if key == "effect" else v for key, v in cells.items()}

    return readable
