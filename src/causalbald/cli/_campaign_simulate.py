"""The command ``campaign simulate``: would choosing pay on this table?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causalbald.cli import _campaign_words as table
from causalbald.cli._campaign_options import Json, check_output, hand_over, percent, require_ours, table_at
from causalbald.cli._output import print_json, print_records, progress_bar, say

if TYPE_CHECKING:
    from causalbald.campaign import Simulation

_PLAN = "The plan"
_FITS = (
    *("acquisition", "seed", "paid", "step", "labels", "pehe", "ate_error", "policy_regret"),
    *("coverage95", "overlap_share", "treated_share"),
)


def simulate(
    pool: table.Pool,
    id_: table.Id,
    treatment: table.Treatment,
    outcome: table.Outcome,
    control: table.Control = None,
    covariate: table.Covariate = None,
    exclude: table.Exclude = None,
    categorical: table.Categorical = None,
    numeric: table.Numeric = None,
    better: table.BetterOption = table.Better.HIGHER,
    worthwhile: table.Worthwhile = 0.0,
    outcome_type: table.OutcomeTypeOption = table.OutcomeType.AUTO,
    cost: table.Cost = None,
    protected: table.Protected = None,
    audit: table.Audit = 0.0,
    model: table.Model = "auto",
    acquisition: table.Acquisition = "default",
    seed: table.Seed = 0,
    batch_size: Annotated[int, typer.Option(help="People measured at a time.", min=1, rich_help_panel=_PLAN)] = 10,
    rounds: Annotated[int, typer.Option(help="How often people are chosen.", min=1, rich_help_panel=_PLAN)] = 10,
    warm_start: Annotated[
        int | None,
        typer.Option(
            help="People measured at random at first; default: a batch, at least 10.", min=2, rich_help_panel=_PLAN
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Pairs of simulated studies.", min=2, rich_help_panel=_PLAN)] = 10,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write all fits to a .csv or .parquet file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask, before any money is spent, how many measurements choosing would save on this table.

    It takes the same options as `new`, but for weights and the budget, invents outcomes for your people, and measures
    them: chosen, and at random. What is better, worthwhile, protected, or drawn as an audit makes no difference to it.
    """
    given = table.table_options(locals())
    check_output(output)
    if (before := table_at(output)) is not None:
        require_ours(before, output, _FITS, [*_FITS, "spent"])
    plan: dict[str, Any] = {
        "batch_size": batch_size,
        "rounds": rounds,
        "warm_start": warm_start,
        "seeds": seeds,
        "workers": workers,
    }
    with progress_bar("simulating studies") as progress:
        from causalbald.campaign import simulate as run

        found = run(pool, **given, **plan, progress=progress)
    if output is not None:
        import pyarrow as pa

        hand_over(pa.Table.from_pandas(found.trials, preserve_index=False), output, as_json=False)
    if as_json:
        print_json(found.summary() | {"helps": found.helps, "verdict": found.verdict})
    else:
        _show(found)


def _show(found: Simulation) -> None:
    summary, settings = found.summary(), found.settings
    what = "measured" if settings.cost is None else "spent"
    rows = [
        {"chosen": chosen, what: summary["paid"], "error of effects": summary[error]}
        for chosen, error in (("at random", "error_random"), (f"by {settings.acquisition!r}", "error"))
    ]
    print_records(rows, as_json=False)
    wins, pairs = percent(summary["wins"]), summary["seeds"]
    say(f"Choosing by {settings.acquisition!r}, effects were closer to the truth in {wins} of {pairs} pairs.")
    say(found.verdict)
