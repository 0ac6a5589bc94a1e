"""Commands that simulate single studies: the demo, and one trial."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from causalbald._choices import BatchRule, Track
from causalbald._files import check_place, replacing
from causalbald.cli._options import Json, grouped
from causalbald.cli._output import check_page, print_records, progress_bar, say


def register(program: typer.Typer) -> None:
    """Add these commands to the program; called once by ``_app``."""
    program.command(epilog="Example: causalbald demo -o demo.html")(demo)
    example = "causalbald trial --dataset ihdp --acquisition mu-bald --warm-start 100 --batch-size 10 --steps 20"
    program.command(epilog=f"Example: {example}")(grouped(trial))


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Page to write.")] = Path("causalbald-demo.html"),
    seeds: Annotated[int, typer.Option(help="How many pairs of simulations of each study.", min=1)] = 4,
    steps: Annotated[
        int | None, typer.Option(help="How many batches each study has; by default 15 and 10.", min=1)
    ] = None,
    workers: Annotated[int, typer.Option(help="How many processes work at a time.", min=1)] = 2,
    as_json: Json = False,
) -> None:
    """Simulate two studies, with random and with chosen measurements, and write a page that shows why choosing pays.

    A page of this name is replaced.
    """
    from causalbald.report import demo_page, run_demo

    check_page(output)
    with progress_bar("simulating studies") as progress:
        result = run_demo(seeds=seeds, steps=steps, workers=workers, progress=progress)
    command = f"causalbald demo --seeds {seeds}" + ("" if steps is None else f" --steps {steps}")
    with replacing(output) as draft:
        draft.write_text(demo_page(result, command), encoding="utf-8")
    rows = [
        {
            "study": row["study"],
            "error random reaches": row["target"],
            "labels random": row["random"],
            "labels mu-rho-bald": str(row["chosen"]),
            "saved": row["saved"],
        }
        for row in result.summary().to_dict("records")
    ]
    print_records(rows, as_json=as_json, title=f"Labels needed to reach the same accuracy ({seeds} paired simulations)")
    say(f"Page with the curves and the picture: {output.resolve()}")


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """How a trial runs; the names are those of the parameters of ``experiments.run_trial``."""

    model: Annotated[str, typer.Option(help="One of `causalbald models`.")] = "gp"
    acquisition: Annotated[str, typer.Option(help="One of `causalbald acquisitions`.")] = "mu-rho-bald"
    warm_start: Annotated[int, typer.Option(help="How many units are measured at random at first.")] = 10
    batch_size: Annotated[int, typer.Option(help="How many units a batch has.")] = 10
    steps: Annotated[int, typer.Option(help="How many batches are chosen.")] = 15
    temperature: Annotated[
        float | None,
        typer.Option(
            help="How random softmax is: 0 takes the highest scores. By default the acquisition function decides."
        ),
    ] = None
    batch: Annotated[
        BatchRule | None,
        typer.Option(
            help="softmax: units are drawn by score; greedy: one unit after another, given those before. By default "
            "the acquisition function decides."
        ),
    ] = None
    track: Annotated[
        Track, typer.Option(help="paid: every outcome counts as paid for; paper: validation outcomes are free.")
    ] = "paid"
    seed: Annotated[int, typer.Option(help="Starts all random draws: the same seed gives the same trial.", min=0)] = 0


def trial(
    options: TrialOptions,
    dataset: Annotated[str, typer.Option(help="One of `causalbald datasets`.")] = "synthetic",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as CSV.")] = None,
    as_json: Json = False,
) -> None:
    """Simulate one study on a benchmark and print error, coverage and overlap after each fit.

    The seed also draws the data set. With --json, each row also has the positions
    of the units measured before its fit.
    """
    from causalbald.datasets import load
    from causalbald.experiments import run_trial

    check_place(output)
    with progress_bar("fitting") as progress:
        table = run_trial(load(dataset, options.seed), **asdict(options), progress=progress)
    if output is not None:
        with replacing(output) as draft:
            table.to_csv(draft, index=False)
    rows = [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
    if as_json:
        rows = [{**row, "acquired": acquired} for row, acquired in zip(rows, table.attrs["acquired"], strict=True)]
    else:
        rows = [{name: value for name, value in row.items() if not name.startswith("seconds")} for row in rows]
    title = f"{dataset}, {options.model}, {options.acquisition}, seed {options.seed}"
    print_records(rows, as_json=as_json, title=title)
