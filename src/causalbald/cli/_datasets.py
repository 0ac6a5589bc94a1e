"""Commands that list, draw and write data sets, and list models and acquisition functions."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from causalbald._files import check_place, replacing
from causalbald.cli._options import DataDir, Json, use_data_dir
from causalbald.cli._output import print_records, save_figure, say

app = typer.Typer(invoke_without_command=True, epilog="Example: causalbald datasets")


class DemoStudy(StrEnum):
    """Real studies whose table ships with the package."""

    NHEFS = "nhefs"


StudyName = Annotated[DemoStudy, typer.Argument(metavar="NAME", help="nhefs: smokers of 1971, some of whom quit.")]


def register(program: typer.Typer) -> None:
    """Add these commands to the program; called once by ``_app``."""
    program.command(epilog="Example: causalbald acquisitions --json")(acquisitions)
    program.command(epilog="Example: causalbald models")(models)
    program.add_typer(app, name="datasets", help="List the benchmark data sets, or draw one.")


def acquisitions(as_json: Json = False) -> None:
    """List the acquisition functions: default temperature, what each needs besides the model, and what it prefers."""
    from causalbald import acquisition

    rows = []
    for function in map(acquisition.load, acquisition.names()):
        row: dict[str, Any] = {"name": function.name, "temperature": None, "needs": "covariates"}
        if isinstance(function, acquisition.ScoreFunction):
            needs = ", ".join(sorted(function.needs - {"posterior"})) or "-"
            row |= {"temperature": function.temperature, "needs": needs}
        rows.append(row | {"prefers": function.summary})
    print_records(rows, as_json=as_json)


def models(as_json: Json = False) -> None:
    """List the models of treatment effects: the name and what each is."""
    from causalbald import models as registry

    print_records([{"name": name, "what": registry.summary(name)} for name in registry.names()], as_json=as_json)


@app.callback()
def datasets(context: typer.Context, as_json: Json = False) -> None:
    """List the benchmark data sets, if no subcommand such as `show` follows. Called by typer."""
    from causalbald import datasets as registry

    if context.invoked_subcommand is None:
        print_records([{"name": name, "what": registry.summary(name)} for name in registry.names()], as_json=as_json)


@app.command(epilog="Example: causalbald datasets show ihdp -o ihdp.svg")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of `causalbald datasets`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Picture to write: .svg, .png or .pdf.")],
    seed: Annotated[int, typer.Option(help="Which version of the data set: the seed that draws it.", min=0)] = 0,
    data_dir: DataDir = None,
) -> None:
    """Draw a data set: who is in it, who was treated, and where the arms overlap."""
    from causalbald.datasets import load
    from causalbald.paper import draw_benchmark

    check_place(output)
    use_data_dir(data_dir)
    save_figure(draw_benchmark(load(name, seed)), output)


@app.command(epilog="Example: causalbald datasets table nhefs -o people.csv")
def table(
    name: StudyName,
    output: Annotated[Path, typer.Option("-o", "--output", help="CSV file to write.")],
    outcomes: Annotated[bool, typer.Option("--outcomes", help="Include the outcomes that are known.")] = False,
) -> None:
    """Write the people of a real study as a table: who they are and which treatment each of them got."""
    from causalbald.datasets import load_nhefs

    check_place(output)
    people = load_nhefs(outcomes)
    with replacing(output) as draft:
        people.to_csv(draft, index=False, float_format="%g")
    say(f"{len(people):,} people of {name.value}: {output.resolve()}")


@app.command(epilog="Example: causalbald datasets measure nhefs batch.csv -o results.csv --failed lost.csv")
def measure(
    name: StudyName,
    batch: Annotated[Path, typer.Argument(metavar="BATCH", help="Table with the ids of the people to measure.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="CSV file to write: ids and measured outcomes.")],
    failed: Annotated[
        Path | None, typer.Option(help="CSV file to write: ids of the people who could not be measured.")
    ] = None,
) -> None:
    """Look up the outcomes of a batch of people, as a follow-up visit measures them.

    People who could not be measured are left out of the results, and listed in
    the --failed file. The table needs the id column of the study's people; its
    other columns are ignored.
    """
    from causalbald.datasets import NHEFS_ID, NHEFS_OUTCOME, follow_up
    from causalbald.tables import column_of, read_table

    check_place(output)
    check_place(failed)
    visits = follow_up(column_of(read_table(batch, text=[NHEFS_ID]).data, NHEFS_ID, "id").to_pylist())
    lost = visits[NHEFS_OUTCOME].isna()
    with replacing(output, batch) as draft:
        visits[~lost].to_csv(draft, index=False, float_format="%g")
    say(f"{(~lost).sum():,} of {len(visits):,} measured: {output.resolve()}")
    if failed is not None:
        with replacing(failed, batch) as draft:
            visits.loc[lost, [NHEFS_ID]].to_csv(draft, index=False)
    if lost.any():
        where = "" if failed is None else f": {failed.resolve()}"
        say(f"{lost.sum():,} could not be measured{where}")
