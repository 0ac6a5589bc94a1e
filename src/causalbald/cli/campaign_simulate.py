"""The command ``campaign simulate``: would choosing pay on this table?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from causalbald.cli.campaign_options import Json, check_output, hand_over, percent
from causalbald.cli.campaign_table import (
    Acquisition,
    Audit,
    Better,
    BetterOption,
    Budget,
    Categorical,
    Control,
    Cost,
    Covariate,
    Exclude,
    Id,
    Model,
    Numeric,
    Outcome,
    OutcomeType,
    OutcomeTypeOption,
    Pool,
    Protected,
    Seed,
    Treatment,
    Worthwhile,
    table_options,
)
from causalbald.cli.output import print_json, print_records, progress_bar, say

_PLAN = "The plan"


def simulate(
    pool: Pool,
    id_: Id,
    treatment: Treatment,
    outcome: Outcome,
    control: Control = None,
    covariate: Covariate = None,
    exclude: Exclude = None,
    categorical: Categorical = None,
    numeric: Numeric = None,
    better: BetterOption = Better.HIGHER,
    worthwhile: Worthwhile = 0.0,
    outcome_type: OutcomeTypeOption = OutcomeType.AUTO,
    cost: Cost = None,
    budget: Budget = None,
    protected: Protected = None,
    audit: Audit = 0.0,
    model: Model = "auto",
    acquisition: Acquisition = "mu-rho-bald",
    seed: Seed = 0,
    batch_size: Annotated[int, typer.Option(help="People measured at a time.", min=1, rich_help_panel=_PLAN)] = 10,
    rounds: Annotated[int, typer.Option(help="How often people are chosen.", min=1, rich_help_panel=_PLAN)] = 10,
    warm_start: Annotated[
        int | None,
        typer.Option(help="People measured at random at first; default: a batch.", min=2, rich_help_panel=_PLAN),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Pairs of simulated studies.", min=2, rich_help_panel=_PLAN)] = 10,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write all fits to a .csv or .parquet file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask, before any money is spent, how many measurements choosing would save on this table.

    It takes the same options as `new`, invents outcomes for your people, and measures them: chosen, and at random.
    """
    given = table_options(locals())
    check_output(output)
    plan: dict[str, Any] = {
        "batch_size": batch_size,
        "rounds": rounds,
        "warm_start": warm_start,
        "seeds": seeds,
        "workers": workers,
    }
    with progress_bar("simulating studies") as progress:
        from causalbald.campaign.simulate import simulate as run

        found = run(pool, **given, **plan, progress=progress)
    if output is not None:
        import pyarrow as pa

        hand_over(pa.Table.from_pandas(found.trials, preserve_index=False), output, as_json=False)
    summary = found.summary()
    if as_json:
        print_json(summary | {"helps": found.helps, "verdict": found.verdict})
        return
    what = "measured" if cost is None else "spent"
    rows = [
        {"chosen": chosen, what: summary["paid"], "error of effects": summary[error]}
        for chosen, error in (("at random", "error_random"), (f"by {acquisition}", "error"))
    ]
    print_records(rows, as_json=False)
    say(f"By {acquisition}, effects were closer to the truth in {percent(summary['wins'])} of {seeds} pairs.")
    say(found.verdict)
