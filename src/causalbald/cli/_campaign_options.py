"""What the commands of a campaign share: arguments, and how a campaign is opened and its tables handed over."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causalbald._addresses import PASSWORD_HINT, masked
from causalbald._files import check_place
from causalbald.cli._output import busy, print_table, say, write_table
from causalbald.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from causalbald.campaign import Campaign

CampaignPlace = Annotated[
    str, typer.Argument(metavar="STUDY", help="File of the campaign, or postgresql://user@host/database#name.")
]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Of people in the pool.", show_default=False)]
IdFile = Annotated[
    Path | None, typer.Option("--from", metavar="FILE", help="Table whose id column names people, instead of IDs.")
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write all rows to a .csv or .parquet file.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Alpha = Annotated[float, typer.Option(help="Probability of an interval to miss: 0.05 gives 95 % intervals.")]
ROWS_SHOWN = 20
_WRITABLE = (".csv", ".txt", ".parquet", ".pq")


@contextmanager
def opened(study: str, *, quickly: bool = False) -> Iterator[Campaign]:
    """Open a campaign whose tables are Arrow, which needs no other library; ``quickly`` if no model will be fitted."""
    from causalbald.campaign import Campaign

    with _without_pandas() if quickly else nullcontext(), Campaign(study, frames="pyarrow") as campaign:
        yield campaign


@contextmanager
def fitting(study: str, output: Path | None = None, columns: Sequence[str] = ()) -> Iterator[Campaign]:
    """Open a campaign for a command that fits its model, and fails before that if it cannot write its table.

    ``columns`` are those of the table, without the id.
    """
    check_output(output)
    with opened(study) as campaign:
        keep_untold(campaign, output, columns)
        with busy("fitting"):
            yield campaign


def say_next(text: str, study: str, more: str = "") -> None:
    """Say which command comes next, ``text`` with the campaign's address and ``more`` behind it, never a password."""
    shown = masked(study)
    say(f"{text} {shlex.quote(shown)}{more}")
    if shown != study:
        say(PASSWORD_HINT)


def needs_no_pandas(table: Path | None) -> bool:
    """Whether a table can be read without it: Excel files cannot."""
    return table is None or not table.suffix.lower().startswith(".xls")


class _Hidden:
    """Makes pandas look as if it were not installed."""

    @staticmethod
    def find_spec(name: str, _path: Any = None, _target: Any = None) -> None:
        """Find nothing, as all that is not pandas is found elsewhere."""
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def _without_pandas() -> Iterator[None]:
    """Keep pyarrow from importing pandas only to see whether it was given one of its tables, which takes long."""
    sys.meta_path.insert(0, _Hidden)
    try:
        yield
    finally:
        sys.meta_path.remove(_Hidden)


def people(ids: list[str] | None, table: Path | None) -> list[str] | Path | None:
    """Return the people that a command is about, None for all."""
    if ids and table:
        raise typer.BadParameter("give IDs or a table, not both.", param_hint="--from")
    return table or ids or None


def some_people(ids: list[str] | None, table: Path | None) -> list[str] | Path:
    """Return the people that a command is about, who must be named."""
    found = people(ids, table)
    if found is None:
        raise typer.BadParameter("say who: give IDs, or a table with --from.", param_hint="ID")
    return found


def check_output(output: Path | None) -> None:
    """Fail before the work, not after it."""
    check_place(output)
    if output is not None and output.suffix.lower() not in _WRITABLE:
        raise InputError(f"cannot write {output.name!r}: choose a name that ends with .csv or .parquet.")


def table_at(path: Path | None) -> pa.Table | None:
    """Return the table that a new one would replace; None if there is none, or an empty file."""
    from causalbald.tables._reading import read_table

    if path is None or not path.is_file() or not path.stat().st_size:
        return None
    try:
        return read_table(path).data
    except InputError as error:
        raise InputError(
            f"{str(path)!r} exists and may hold outcomes: choose another --output, or delete it. {error}"
        ) from None


def filled_in(table: pa.Table, outcome: str) -> int:
    """Return how many cells of a batch that was written earlier hold something by now; 0 if it has no such column.

    Outcomes that cannot be used yet, such as ``<0.5``, count: somebody has measured them.
    """
    cells = table[outcome].to_pylist() if outcome in table.column_names else []
    return sum(cell is not None and cell == cell and bool(str(cell).strip()) for cell in cells)


def require_ours(table: pa.Table, output: Path | None, *kinds: Sequence[str]) -> None:
    """Refuse to replace a table that has other columns than ours of the same kind: it is the user's own."""
    if table.column_names not in [list(kind) for kind in kinds]:
        raise InputError(f"{str(output)!r} is a table, and not one of ours of the same kind: choose another --output.")


def batch_columns(campaign: Campaign) -> list[str]:
    """Return the columns of a batch that is to be filled in."""
    from causalbald.campaign._batch_files import batch_table

    return [*batch_table(campaign.settings, campaign.pool.units, []).column_names, campaign.settings.outcome]


def keep_untold(campaign: Campaign, output: Path | None, columns: Sequence[str]) -> None:
    """Refuse to write over a table that was filled in and never told, or that is the user's own.

    Ours of the same kind has these ``columns``, or before them the id.
    """
    from causalbald.campaign._telling import outcomes_of

    if (table := table_at(output)) is None:
        return
    settings = campaign.settings
    try:
        found = outcomes_of(output, settings, campaign.pool.units, campaign.state.rounds).values
        untold = sum(campaign.state.outcomes.get(unit) != value for unit, value in found.items())
    except InputError:
        untold = filled_in(table, settings.outcome)
    if untold:
        raise InputError(
            f"{str(output)!r} holds {untold} outcomes that were not told: tell them first, or choose another name."
        )
    require_ours(table, output, columns, [settings.id, *columns])


def hand_over(
    table: pa.Table,
    output: Path | None,
    *sources: Path | None,
    as_json: bool,
    readable: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    rows: int | None = ROWS_SHOWN,
    last: bool = False,
) -> None:
    """Write a table to a file, no more open than ``sources``, or print it; with ``as_json`` print it in any case."""
    if output is not None:
        write_table(table, output, *sources)
        say(f"{table.num_rows:,} rows: {output}")
    if output is None or as_json:
        print_table(table, as_json=as_json, readable=readable, rows=rows, last=last)


def with_interval(alpha: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that writes an interval into the cell of its estimate, which is easier to read."""
    name = f"effect ({percent(1 - alpha)})"

    def readable(row: dict[str, Any]) -> dict[str, Any]:
        text = interval(row["effect"], row["lower"], row["upper"])
        kept = {k: v for k, v in row.items() if k not in ("sd", "lower", "upper")}
        return {name if k == "effect" else k: text if k == "effect" else v for k, v in kept.items()}

    return readable


def interval(middle: float | None, lower: float | None, upper: float | None) -> str:
    """Return an estimate and its interval as text, nothing if there is none."""
    if middle is None or lower is None or upper is None:
        return ""
    return f"{middle:.3g} ({lower:.3g} to {upper:.3g})"


def percent(share: float) -> str:
    """Return a share as text."""
    return f"{100 * share:.3g} %"
