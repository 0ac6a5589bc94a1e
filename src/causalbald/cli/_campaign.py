"""The commands ``causalbald campaign``: a study in progress, in the order in which it is run."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causalbald._words import amount
from causalbald.cli import _campaign_new, _campaign_results, _campaign_simulate
from causalbald.cli._campaign_options import (
    CampaignPlace,
    IdFile,
    Ids,
    Json,
    Output,
    batch_columns,
    check_output,
    hand_over,
    interval,
    keep_untold,
    needs_no_pandas,
    opened,
    say_next,
    some_people,
)
from causalbald.cli._output import busy, print_json, print_records, print_table, say, write_table

if TYPE_CHECKING:
    import pyarrow as pa

    from causalbald.campaign import Campaign

app = typer.Typer(
    no_args_is_help=True,
    help="Run a study: ask whom to measure next, tell what was measured, see what can be concluded.",
    epilog="\n\n".join(
        (
            "Example, from a table to a report:",
            "causalbald campaign new study.db --pool patients.csv --id patient --treatment drug --control placebo "
            "--outcome cd4",
            "causalbald campaign ask study.db -n 10 -o batch.csv",
            "causalbald campaign tell study.db batch.csv   (after filling in column cd4; then ask again)",
            "causalbald campaign report study.db -o report.html",
        )
    ),
)
_START, _MEASURE, _CONCLUDE, _RECORD = "Start", "Measure", "Conclude", "Look up, move"


def ask(
    study: CampaignPlace,
    n: Annotated[int | None, typer.Option("-n", help="People at most; default: 10, or what --budget pays.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write a .csv or .parquet file, to be filled in and told."),
    ] = None,
    budget: Annotated[float | None, typer.Option(help="What the batch may cost.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Choose, but record nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Choose whom to measure next and record it; asked again, others are chosen.

    The table has an empty column for the outcome: fill it in and give the table to `tell`. `pending` writes it again.
    """
    check_output(output)
    with opened(study) as campaign:
        keep_untold(campaign, output, batch_columns(campaign))
        with busy("fitting"):
            batch = campaign.ask(n, budget=budget, dry_run=dry_run)
        _hand_over_batch(campaign, batch, output, as_json=as_json)
        rounds = len(campaign.state.rounds)
    if n is not None and batch.num_rows < n:
        say(f"The budget pays for {batch.num_rows} of the {n} people asked for.")
    outcome = campaign.settings.outcome
    if dry_run:
        say(f"{batch.num_rows} people would be asked for; nothing is recorded.")
    elif output is None:
        begin = f"Round {rounds}: {batch.num_rows} people. Tell their {outcome!r}: causalbald campaign tell"
        say_next(begin, study, " FILE")
    else:
        begin = f"Round {rounds}: {batch.num_rows} people in {output}. Fill in column {outcome!r}, then:"
        say_next(f"{begin} causalbald campaign tell", study, f" {shlex.quote(str(output))}")


def _hand_over_batch(campaign: Campaign, batch: pa.Table, output: Path | None, *, as_json: bool) -> None:
    """Write or print a batch, with an empty column for the outcome where it may be filled in."""
    import pyarrow as pa

    name, treatment, cost = campaign.settings.id, campaign.settings.treatment, campaign.settings.cost

    def readable(row: dict[str, Any]) -> dict[str, Any]:
        shown = {name: row[name], treatment: row[treatment]} | ({cost: row[cost]} if cost else {})
        shown["effect (95 %)"] = interval(row.get("effect"), row.get("lower"), row.get("upper"))
        outside = "; outside common support" if row.get("outside_support") else ""
        return shown | {"why": row.get("why", "") + outside}

    form = batch.append_column(campaign.settings.outcome, pa.nulls(batch.num_rows, pa.float64()))
    if output is not None:
        again = " A batch that is recorded is written again by `causalbald campaign pending`."
        write_table(form, output, campaign.storage.file, hint=again)
    if as_json:
        print_json(batch.to_pylist())
    elif output is None:
        print_table(form if not sys.stdout.isatty() else batch, as_json=False, readable=readable)


def tell(
    study: CampaignPlace,
    results: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV, Parquet or Excel file with the id and the outcome.")
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Permit other values than those told before; the history keeps both.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Record measured outcomes, all or nothing: any people of the pool, in any order, asked for or not.

    Rows without an outcome and further columns are left aside. Told again, equal values are no error.
    """
    with opened(study, quickly=needs_no_pandas(results)) as campaign:
        told = campaign.tell(results, overwrite=overwrite)
        pending = len(campaign.state.pending)
    if as_json:
        print_json(asdict(told) | {"pending": pending})
        return
    others = ((told.known, "known already"), (told.corrected, "corrected"), (told.empty, "left empty"))
    parts = [f"{told.new} new outcomes", *(f"{count} {words}" for count, words in others if count)]
    say(f"{', '.join(parts)}; {pending} still pending.")


def pending(study: CampaignPlace, output: Output = None, as_json: Json = False) -> None:
    """Print again who was asked for and whose outcome is still to come."""
    check_output(output)
    with opened(study, quickly=True) as campaign:
        keep_untold(campaign, output, batch_columns(campaign))
        found = campaign.pending()
        _hand_over_batch(campaign, found, output, as_json=as_json)
    say(f"{found.num_rows} outcomes are pending{'' if output is None else f': {output}'}.")


def withdraw(
    study: CampaignPlace,
    reason: Annotated[str, typer.Option(help="Why, for the record.")],
    ids: Ids = None,
    table: IdFile = None,
    as_json: Json = False,
) -> None:
    """Record that people must never be asked for, or not any more. An outcome that is known stays in use."""
    with opened(study, quickly=needs_no_pandas(table)) as campaign:
        count = campaign.withdraw(some_people(ids, table), reason=reason)
    _say_count(count, "people withdrawn; they are never asked for again.", as_json=as_json)


def fail(
    study: CampaignPlace,
    ids: Ids = None,
    table: IdFile = None,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    as_json: Json = False,
) -> None:
    """Record that pending people could not be measured; they may be asked for again."""
    with opened(study, quickly=needs_no_pandas(table)) as campaign:
        count = campaign.fail(some_people(ids, table), reason=reason)
    _say_count(count, "measurements failed; these people may be asked for again.", as_json=as_json)


def _say_count(count: int, words: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"units": count})
    else:
        say(f"{count} {words}")


def status(study: CampaignPlace, as_json: Json = False) -> None:
    """Show where the campaign stands: people by state and arm, rounds and money."""
    with opened(study, quickly=True) as campaign:
        found = campaign.status()
        settings = campaign.settings
    if as_json:
        print_json(found)
        return
    print_records([{"people": name, **counts} for name, counts in found["units"].items()], as_json=False)
    unit = "measurements" if settings.cost is None else "spent"
    of_budget = "" if found["budget"] is None else f" of a budget of {amount(found['budget'])}"
    say(f"{found['rounds']} rounds, {found['asked']} asked for: {amount(found['spent'])} {unit}{of_budget}.")
    if found["units"]["pending"]["all"]:
        say_next("Who is pending: causalbald campaign pending", study)
    elif found["payable"]:
        say_next("Nobody is pending. Next: causalbald campaign ask", study, " -n 10 -o batch.csv")
    else:
        lack = "be paid from what is left" if found["units"]["available"]["all"] else "be asked for"
        begin = f"Nobody is pending or can {lack}. Next: causalbald campaign report"
        say_next(begin, study, " -o report.html")


def history(study: CampaignPlace, output: Output = None, as_json: Json = False) -> None:
    """List all that happened: a row per event and person, oldest first."""
    check_output(output)
    with opened(study, quickly=needs_no_pandas(output)) as campaign:
        found = campaign.history()
        keep_untold(campaign, output, found.column_names)
        hand_over(found, output, campaign.storage.file, as_json=as_json, readable=_readable_event, last=True)


def _readable_event(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"time": row["time"][:19].replace("T", " "), "detail": row["detail"].partition(";")[0]}


def columns(study: CampaignPlace, as_json: Json = False) -> None:
    """Show what each covariate became: its kind, the numbers it is turned into, and what stands for missing values."""
    with opened(study, quickly=True) as campaign:
        found = campaign.columns
    if as_json:
        print_json([{**c.as_json(), "features": c.features} for c in found])
        return
    rows = [
        {
            "column": c.name,
            "kind": c.kind,
            "numbers": len(c.features),
            "missing_becomes": f"{c.fill:g}, and is marked" if c.indicator else "",
            "categories": ", ".join(c.levels),
        }
        for c in found
    ]
    print_records(rows, as_json=False)
    say(f"{len(found)} covariates become {sum(len(c.features) for c in found)} numbers.")


def export(
    study: CampaignPlace,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="JSON Lines file to write.")],
) -> None:
    """Write everything, pool and events, as JSON Lines: a copy for the archive, or for another storage."""
    with opened(study, quickly=True) as campaign:
        campaign.export(output)
    say(f"Everything is in {output}. Read it with: causalbald campaign import NEW.db {shlex.quote(str(output))}")


def import_(
    study: CampaignPlace,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` wrote.")],
) -> None:
    """Create a campaign from an export, in any storage: the same history, and so the same next batch."""
    from causalbald.campaign import Campaign

    with Campaign.from_export(study, file) as campaign:
        say(f"{len(campaign.pool):,} people, {campaign.state.number} events are in the new campaign.")


def _register(command: Any, panel: str, *examples: str, name: str | None = None) -> None:
    """Add a command, with what one would type."""
    head = "Example:" if len(examples) == 1 else "Examples:"
    lines = [f"causalbald campaign {name or command.__name__} {example}" for example in examples]
    epilog = f"{head} {lines[0]}" if len(lines) == 1 else "\n\n".join([head, *lines])
    app.command(name or command.__name__, rich_help_panel=panel, epilog=epilog)(command)


_register(
    _campaign_new.new,
    _START,
    "study.db --pool patients.csv --id patient --treatment drug --control placebo --outcome cd4",
    "study2.db --pool patients.csv --id patient --treatment drug --control placebo --outcome cd4 --better higher "
    "--worthwhile 5 --exclude name --categorical race --cost price --budget 10000 --protected sex --audit 0.1",
)
_register(
    _campaign_simulate.simulate,
    _START,
    "--pool patients.csv --id patient --treatment drug --control placebo --outcome cd4 --batch-size 10 --rounds 4",
)
_register(ask, _MEASURE, "study.db -n 10 -o batch.csv")
_register(tell, _MEASURE, "study.db results.csv")
_register(pending, _MEASURE, "study.db -o batch.csv")
_register(fail, _MEASURE, "study.db 17 23 --reason 'did not come'", "study.db --from failed.csv --reason 'moved away'")
_register(withdraw, _MEASURE, "study.db 17 --reason 'withdrew consent'")
_register(_campaign_results.advice, _CONCLUDE, "study.db -n 10")
_register(_campaign_results.effects, _CONCLUDE, "study.db -o effects.csv", "study.db 17 23 --alpha 0.1")
_register(_campaign_results.ate, _CONCLUDE, "study.db --json")
_register(_campaign_results.subgroups, _CONCLUDE, "study.db --by sex")
_register(_campaign_results.policy, _CONCLUDE, "study.db -o whom-to-treat.csv")
_register(_campaign_results.predict, _CONCLUDE, "study.db others.csv -o predicted.csv")
_register(_campaign_results.score, _CONCLUDE, "study.db -o scores.csv")
_register(_campaign_results.report, _CONCLUDE, "study.db -o report.html")
_register(status, _RECORD, "study.db", "study.db --json")
_register(history, _RECORD, "study.db -o history.csv")
_register(columns, _RECORD, "study.db")
_register(export, _RECORD, "study.db -o export.jsonl")
_register(import_, _RECORD, "copy.db export.jsonl", name="import")
