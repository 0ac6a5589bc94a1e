"""The commands that look up or move what a campaign has recorded, and fit no model."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from causalbald._words import amount
from causalbald.cli._campaign_options import (
    CampaignPlace,
    check_output,
    hand_over,
    keep_untold,
    needs_no_pandas,
    opened,
    say_next,
)
from causalbald.cli._options import Json, Output
from causalbald.cli._output import print_json, print_records, say


def status(study: CampaignPlace, as_json: Json = False) -> None:
    """Show where the campaign stands: people by state and arm, rounds and money, and the next command."""
    with opened(study, quickly=True) as campaign:
        standing = campaign.status()
        settings = campaign.settings
    if as_json:
        print_json(standing)
        return
    people = standing["units"]
    print_records([{"people": name, **counts} for name, counts in people.items()], as_json=False)
    unit = "measurements" if settings.cost is None else "spent"
    of_budget = "" if standing["budget"] is None else f" of a budget of {amount(standing['budget'])}"
    say(f"{standing['rounds']} rounds, {standing['asked']} asked for: {amount(standing['spent'])} {unit}{of_budget}.")
    if people["pending"]["all"]:
        say_next("Who is pending: causalbald campaign pending", study)
    elif standing["payable"]:
        say_next("Nobody is pending. Next: causalbald campaign ask", study, " -n 10 -o batch.csv")
    else:
        lack = "be paid from what is left" if people["available"]["all"] else "be asked for"
        begin = f"Nobody is pending or can {lack}. Next: causalbald campaign report"
        say_next(begin, study, " -o report.html")


def history(study: CampaignPlace, output: Output = None, as_json: Json = False) -> None:
    """List everything that happened: a row for each event and person, oldest first."""
    check_output(output)
    with opened(study, quickly=needs_no_pandas(output)) as campaign:
        events = campaign.history()
        keep_untold(campaign, output, events.column_names)
        hand_over(events, output, campaign.storage.file, as_json=as_json, readable=_readable_event, last=True)


def _readable_event(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the history for a terminal: time to the second, and the detail up to its first semicolon."""
    return row | {"time": row["time"][:19].replace("T", " "), "detail": row["detail"].partition(";")[0]}


def columns(study: CampaignPlace, as_json: Json = False) -> None:
    """Show what each covariate became for the model: its kind, how many numbers, and what stands for missing values."""
    with opened(study, quickly=True) as campaign:
        covariates = campaign.columns
    if as_json:
        print_json([{**column.as_json(), "features": column.features} for column in covariates])
        return
    rows = [
        {
            "column": column.name,
            "kind": column.kind,
            "numbers": len(column.features),
            "missing_becomes": f"{column.fill:g}, and is marked" if column.indicator else "",
            "categories": ", ".join(column.levels),
        }
        for column in covariates
    ]
    print_records(rows, as_json=False)
    say(f"{len(covariates)} covariates become {sum(len(column.features) for column in covariates)} numbers.")


def export(
    study: CampaignPlace,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="JSON Lines file to write.")],
) -> None:
    """Write everything, pool and events, as JSON Lines: a copy for the archive, or for another storage.

    An earlier export of this name is replaced. Any other file is kept, and the
    command refuses its name.
    """
    with opened(study, quickly=True) as campaign:
        campaign.export(output)
    say(f"Everything is in {output}. Read it with: causalbald campaign import NEW.db {shlex.quote(str(output))}")


def import_(
    study: CampaignPlace,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` wrote.")],
) -> None:
    """Create a campaign from an export, in any storage: it has the same history, and so the same next batch.

    STUDY must be new: a campaign that exists is never replaced.
    """
    from causalbald.campaign import Campaign

    with Campaign.from_export(study, file) as campaign:
        say(f"{len(campaign.pool):,} people, {campaign.state.number} events are in the new campaign.")
