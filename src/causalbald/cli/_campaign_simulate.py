"""The command ``campaign simulate``: would choosing pay on this table?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causalbald._words import percent
from causalbald.cli import _table_options as table
from causalbald.cli._campaign_options import check_output, hand_over, require_ours, table_at
from causalbald.cli._options import Json
from causalbald.cli._output import print_json, print_records, progress_bar, say

if TYPE_CHECKING:
    from causalbald.campaign import Simulation

FIT_COLUMNS = (
    *("acquisition", "seed", "paid", "step", "labels", "pehe", "ate_error", "policy_regret"),
    *("coverage95", "overlap_share", "treated_share"),
)
"""Columns of the table of fits; ``spent`` follows if the table has costs."""
_PLAN = "The plan"


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """How the studies are simulated; the names are those of the function ``causalbald.campaign.simulate``."""

    batch_size: Annotated[
        int, typer.Option(help="How many people are measured at a time.", min=1, rich_help_panel=_PLAN)
    ] = 10
    rounds: Annotated[int, typer.Option(help="How many batches are chosen.", min=1, rich_help_panel=_PLAN)] = 10
    warm_start: Annotated[
        int | None,
        typer.Option(
            help="How many people are measured at random at first; by default as many as in a batch, at least 10.",
            min=2,
            rich_help_panel=_PLAN,
        ),
    ] = None
    seeds: Annotated[int, typer.Option(help="How many pairs of simulated studies.", min=2, rich_help_panel=_PLAN)] = 10
    workers: Annotated[int, typer.Option(help="How many processes work at a time.", min=1)] = 2


def simulate(
    pool: table.PoolFile,
    options: table.StudyOptions,
    plan: PlanOptions,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write all fits to a .csv or .parquet file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask, before any money is spent, how many measurements choosing would save on this table.

    The command invents outcomes for your people. It then simulates pairs of
    studies: one measures chosen people, the other measures people at random. No
    campaign is created. The command takes the options of `new` except weights and
    the budget. --better, --worthwhile, --protected and --audit change nothing
    here.
    """
    settings = options.of_campaign(pool)
    check_output(output)
    if (old := table_at(output)) is not None:
        require_ours(old.data, output, FIT_COLUMNS, [*FIT_COLUMNS, "spent"])
    with progress_bar("simulating studies") as progress:
        from causalbald.campaign import simulate as run

        simulation = run(pool, **settings, **asdict(plan), progress=progress)
    if output is not None:
        import pyarrow as pa

        hand_over(pa.Table.from_pandas(simulation.trials, preserve_index=False), output, as_json=False)
    if as_json:
        print_json(simulation.summary() | {"helps": simulation.helps, "verdict": simulation.verdict})
    else:
        _show(simulation)


def _show(simulation: Simulation) -> None:
    """Print for people the error at the end with and without choosing, the share of pairs won, and the verdict."""
    summary, settings = simulation.summary(), simulation.settings
    unit = "measured" if settings.cost is None else "spent"
    rows = [
        {"chosen": chosen, unit: summary["paid"], "error of effects": summary[error]}
        for chosen, error in (("at random", "error_random"), (f"by {settings.acquisition!r}", "error"))
    ]
    print_records(rows, as_json=False)
    wins, pairs = percent(summary["wins"]), summary["seeds"]
    say(f"Choosing by {settings.acquisition!r}, effects were closer to the truth in {wins} of {pairs} pairs.")
    say(simulation.verdict)
