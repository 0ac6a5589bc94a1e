"""The commands by which a campaign goes on: ask, tell, and what became of the people who were asked for."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causalbald._words import estimate
from causalbald.cli._campaign_options import (
    CampaignPlace,
    PeopleOptions,
    batch_columns,
    check_output,
    keep_untold,
    needs_no_pandas,
    opened,
    say_next,
)
from causalbald.cli._options import Json, Output
from causalbald.cli._output import busy, print_json, print_table, say, write_table

if TYPE_CHECKING:
    import pyarrow as pa

    from causalbald.campaign import Campaign


def ask(
    study: CampaignPlace,
    n: Annotated[
        int | None, typer.Option("-n", help="How many people at most; by default 10, or as many as --budget pays for.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write a .csv or .parquet file, to fill in and tell."),
    ] = None,
    budget: Annotated[float | None, typer.Option(help="What the batch may cost.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Choose people, but record nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Choose whom to measure next and record it. Asked again, it chooses other people.

    The file has an empty column for the outcome: fill it in and give the file to
    `tell`. `pending` writes it again. An output file that holds outcomes which
    were not told is not replaced.
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
    """Write a batch to ``output``, or print it if that is None. Called by :func:`ask` and :func:`pending`.

    Files, and CSV on a pipe, get an empty column for the outcome, to be filled in. A terminal shows a few columns. With
    ``as_json``, JSON is printed in any case, without that column.
    """
    import pyarrow as pa

    id_, treatment, cost = campaign.settings.id, campaign.settings.treatment, campaign.settings.cost

    def readable(row: dict[str, Any]) -> dict[str, Any]:
        """Return the cells that a terminal shows of a row: id, treatment, cost, effect with interval, and why."""
        shown = {id_: row[id_], treatment: row[treatment]} | ({cost: row[cost]} if cost else {})
        shown["effect (95 %)"] = estimate(row.get("effect"), row.get("lower"), row.get("upper"))
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
    results: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, Parquet or Excel file with ids and outcomes.")],
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace outcomes that were told before; the history keeps both values."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Record measured outcomes: all of a file, or none if one of them is wrong.

    They may be outcomes of anyone in the pool, in any order, asked for or not.
    Rows without an outcome and other columns are ignored. To tell the same values
    again is no error. To tell other values is one, unless --overwrite is given.
    """
    with opened(study, quickly=needs_no_pandas(results)) as campaign:
        summary = campaign.tell(results, overwrite=overwrite)
    if as_json:
        print_json(asdict(summary))
        return
    counts = ((summary.known, "known already"), (summary.corrected, "corrected"), (summary.empty, "left empty"))
    parts = [f"{summary.new} new outcomes", *(f"{count} {words}" for count, words in counts if count)]
    say(f"{', '.join(parts)}; {summary.pending} still pending.")


def pending(study: CampaignPlace, output: Output = None, as_json: Json = False) -> None:
    """Print, or write again, who was asked for and has no outcome yet."""
    check_output(output)
    with opened(study, quickly=True) as campaign:
        keep_untold(campaign, output, batch_columns(campaign))
        batch = campaign.pending()
        _hand_over_batch(campaign, batch, output, as_json=as_json)
    say(f"{batch.num_rows} outcomes are pending{'' if output is None else f': {output}'}.")


def withdraw(
    study: CampaignPlace,
    people: PeopleOptions,
    reason: Annotated[str, typer.Option(help="Why, for the record.")],
    as_json: Json = False,
) -> None:
    """Record that people must not be asked for any more. Outcomes that are known stay in use.

    All of these people are recorded, or none if an id is unknown. People who were
    withdrawn before are not counted.
    """
    with opened(study, quickly=needs_no_pandas(people.table)) as campaign:
        count = campaign.withdraw(people.some(), reason=reason)
    _say_count(count, "people withdrawn; they are never asked for again.", as_json=as_json)


def fail(
    study: CampaignPlace,
    people: PeopleOptions,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    as_json: Json = False,
) -> None:
    """Record that people who are pending could not be measured. They may be asked for again, after all others.

    All of these people are recorded, or none if one of them is neither pending
    nor failed. People who failed before are not counted.
    """
    with opened(study, quickly=needs_no_pandas(people.table)) as campaign:
        count = campaign.fail(people.some(), reason=reason)
    _say_count(count, "measurements failed; these people may be asked for again.", as_json=as_json)


def _say_count(count: int, words: str, *, as_json: bool) -> None:
    """Print how many people a command was about, as a sentence or as JSON."""
    if as_json:
        print_json({"units": count})
    else:
        say(f"{count} {words}")
