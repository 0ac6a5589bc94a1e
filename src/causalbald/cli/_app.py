"""The commands of ``causalbald``."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from causalbald._addresses import masked, without_passwords
from causalbald._files import check_place, replacing
from causalbald._registry import PLUGINS_VARIABLE, plugin_at_fault
from causalbald._version import __version__
from causalbald.cli import _campaign, _experiments, _figure_commands, _pools, _tuning
from causalbald.cli._experiments import use_data_dir
from causalbald.cli._output import check_page, print_records, progress_bar, save_figure, stderr
from causalbald.errors import CausalBaldError

# Of click, or of the copy of it that newer releases of typer have.
_UsageError: Any = typer.BadParameter.__base__


class Program(TyperGroup):
    """The program; interrupted, it says so in one line and ends as shells expect."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the command line."""
        with _discreet():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            with _discreet():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            stderr.print("Stopped.")
            raise typer.Exit(130) from None


def _shown(text: str) -> str:
    """Return a text without the passwords on the command line."""
    return without_passwords(text, sys.argv[1:])


@contextmanager
def _discreet() -> Iterator[None]:
    """Keep passwords out of what is said about a command line that cannot be understood."""
    try:
        yield
    except _UsageError as error:
        error.message = _shown(error.message)
        raise


app = typer.Typer(
    name="causalbald",
    cls=Program,
    help="Whose outcome to measure next, so that you learn who benefits from a treatment with the fewest measurements.",
    epilog="Start with: causalbald demo, or with your own table: causalbald campaign --help",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(help="Same seed, same answer.", min=0)]


def _version(show: bool) -> None:
    if show:
        sys.stdout.write(f"causalbald {__version__}\n")
        raise typer.Exit


@app.callback()
def common(
    context: typer.Context,
    plugin: Annotated[
        list[Path] | None,
        typer.Option(help="Python file that registers an acquisition function, a model or a data set. Repeatable."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show where in the code an error comes from.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Options of every command."""
    context.ensure_object(dict)["debug"] = debug
    if plugin:
        known = filter(None, [os.environ.get(PLUGINS_VARIABLE)])
        # Through the environment, so that worker processes load the same files.
        os.environ[PLUGINS_VARIABLE] = os.pathsep.join([*known, *(str(p.resolve()) for p in plugin)])


@app.command(epilog="Example: causalbald demo -o demo.html")
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Page to write.")] = Path("causalbald-demo.html"),
    seeds: Annotated[int, typer.Option(help="Paired simulations of each study.", min=1)] = 4,
    steps: Annotated[int | None, typer.Option(help="Shorten the studies to that many batches.", min=1)] = None,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
    as_json: Json = False,
) -> None:
    """Simulate two studies, random against chosen measurements, and write a page that shows why choosing pays."""
    from causalbald.report import demo_page, run_demo

    check_page(output)
    with progress_bar("simulating studies") as progress:
        result = run_demo(seeds=seeds, steps=steps, workers=workers, progress=progress)
    command = f"causalbald demo --seeds {seeds}" + ("" if steps is None else f" --steps {steps}")
    with replacing(output) as beside:
        beside.write_text(demo_page(result, command), encoding="utf-8")
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
    stderr.print(f"Page with the curves and the picture: {escape(str(output.resolve()))}", soft_wrap=True)


@app.command(epilog="Example: causalbald acquisitions --json")
def acquisitions(as_json: Json = False) -> None:
    """List the acquisition functions: what they prefer and their default temperature."""
    from causalbald import acquisition

    rows = []
    for a in map(acquisition.load, acquisition.names()):
        needs = "covariates" if a.batchwise else ", ".join(sorted(a.needs)) or "-"
        warmth = None if a.batchwise else a.temperature
        rows.append({"name": a.name, "temperature": warmth, "needs": needs, "prefers": a.summary})
    print_records(rows, as_json=as_json)


@app.command(epilog="Example: causalbald models")
def models(as_json: Json = False) -> None:
    """List the models of treatment effects."""
    from causalbald import models as registry

    rows = [{"name": name, "what": registry.summary(name)} for name in registry.names()]
    print_records(rows, as_json=as_json)


datasets_app = typer.Typer(invoke_without_command=True, epilog="Example: causalbald datasets")
app.add_typer(datasets_app, name="datasets", help="List the benchmark data sets, or draw one.")


@datasets_app.callback()
def datasets(context: typer.Context, as_json: Json = False) -> None:
    """List the benchmark data sets, or draw one."""
    from causalbald.datasets import _base

    if context.invoked_subcommand is None:
        print_records([{"name": name, "what": _base.summary(name)} for name in _base.names()], as_json=as_json)


@datasets_app.command(epilog="Example: causalbald datasets show ihdp -o ihdp.svg")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of `causalbald datasets`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Picture to write: .svg, .png or .pdf.")],
    seed: Seed = 0,
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the MNIST files, for cmnist.")] = None,
) -> None:
    """Draw a data set: who is in it, who was treated, and where the arms overlap."""
    from causalbald.datasets import load
    from causalbald.paper._observational import draw_benchmark

    check_place(output)
    use_data_dir(data_dir)
    save_figure(draw_benchmark(load(name, seed)), output)


class DemoStudy(StrEnum):
    """Real studies whose table ships with the package."""

    NHEFS = "nhefs"


StudyName = Annotated[DemoStudy, typer.Argument(metavar="NAME", help="nhefs: smokers of 1971, some of whom quit.")]


@datasets_app.command(epilog="Example: causalbald datasets table nhefs -o people.csv")
def table(
    name: StudyName,
    output: Annotated[Path, typer.Option("-o", "--output", help="CSV file to write.")],
    outcomes: Annotated[bool, typer.Option("--outcomes", help="With the outcomes, as far as they are known.")] = False,
) -> None:
    """Write the people of a real study as a table: who they are and which treatment each of them got."""
    from causalbald.datasets._nhefs import load_nhefs

    check_place(output)
    people = load_nhefs(outcomes)
    with replacing(output) as beside:
        people.to_csv(beside, index=False, float_format="%g")
    stderr.print(f"{len(people):,} people of {name.value}: {escape(str(output.resolve()))}", soft_wrap=True)


@datasets_app.command(epilog="Example: causalbald datasets measure nhefs batch.csv -o results.csv --failed lost.csv")
def measure(
    name: StudyName,
    batch: Annotated[Path, typer.Argument(metavar="BATCH", help="Table with the ids of the people to measure.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="CSV file to write: ids and measured outcomes.")],
    failed: Annotated[Path | None, typer.Option(help="CSV file to write: ids of those not measured.")] = None,
) -> None:
    """Look up the outcomes of a batch of people, as a follow-up visit would find them."""
    from causalbald.datasets._nhefs import ID, OUTCOME, follow_up
    from causalbald.tables._reading import column, read_table

    check_place(output)
    check_place(failed)
    found = follow_up(column(read_table(batch, text=[ID]).data, ID, "id").to_pylist())
    lost = found[OUTCOME].isna()
    with replacing(output, batch) as beside:
        found[~lost].to_csv(beside, index=False, float_format="%g")
    stderr.print(f"{(~lost).sum():,} of {len(found):,} measured: {escape(str(output.resolve()))}", soft_wrap=True)
    if failed is not None:
        with replacing(failed, batch) as beside:
            found.loc[lost, [ID]].to_csv(beside, index=False)
    if lost.any():
        where = "" if failed is None else f": {escape(str(failed.resolve()))}"
        stderr.print(f"{lost.sum():,} could not be measured{where}", soft_wrap=True)


@app.command(
    epilog="Example: causalbald trial --dataset ihdp --acquisition mu-bald --warm-start 100 --batch-size 10 --steps 20"
)
def trial(
    dataset: Annotated[str, typer.Option(help="One of `causalbald datasets`.")] = "synthetic",
    model: Annotated[str, typer.Option(help="One of `causalbald models`.")] = "gp",
    acquisition: Annotated[str, typer.Option(help="One of `causalbald acquisitions`.")] = "mu-rho-bald",
    warm_start: Annotated[int, typer.Option(help="Units measured at random at first.")] = 10,
    batch_size: Annotated[int, typer.Option(help="Units chosen at a time.")] = 10,
    steps: Annotated[int, typer.Option(help="How often units are chosen.")] = 15,
    temperature: Annotated[float | None, typer.Option(help="Of the softmax; default: the function's own.")] = None,
    batch: Annotated[
        str | None,
        typer.Option(help="softmax, or greedy with conditioning after each pick; by default the function's own."),
    ] = None,
    track: Annotated[str, typer.Option(help="paid: every outcome counts; paper: free validation outcomes.")] = "paid",
    seed: Seed = 0,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as CSV.")] = None,
    as_json: Json = False,
) -> None:
    """Simulate one study on a benchmark and print error, coverage and overlap after each fit."""
    from causalbald.datasets import load
    from causalbald.experiments import run_trial

    check_place(output)
    with progress_bar("fitting") as progress:
        table = run_trial(
            load(dataset, seed),
            model=model,
            acquisition=acquisition,
            warm_start=warm_start,
            batch_size=batch_size,
            steps=steps,
            temperature=temperature,
            batch=batch,  # type: ignore[arg-type]
            seed=seed,
            track=track,  # type: ignore[arg-type]
            progress=progress,
        )
    if output is not None:
        with replacing(output) as beside:
            table.to_csv(beside, index=False)
    rows = [{str(k): v for k, v in row.items()} for row in table.to_dict("records")]
    if as_json:
        rows = [{**row, "acquired": acquired} for row, acquired in zip(rows, table.attrs["acquired"], strict=True)]
    else:
        rows = [{k: v for k, v in row.items() if not k.startswith("seconds")} for row in rows]
    print_records(rows, as_json=as_json, title=f"{dataset}, {model}, {acquisition}, seed {seed}")


app.add_typer(_campaign.app, name="campaign")
app.add_typer(_pools.app)
app.add_typer(_experiments.app)
_tuning.register(app)
app.add_typer(_figure_commands.app)


def main() -> None:
    """Run the command line; a mistake in the input is one line and exit code 1."""
    options: dict[str, bool] = {}
    warnings.formatwarning = lambda message, *_, **__: _shown(f"warning: {message}\n")
    try:
        app(obj=options)
    except Exception as error:
        if options.get("debug"):
            sys.stderr.write(_shown("".join(traceback.format_exception(error))))
        else:
            stderr.print(f"[bold red]error:[/] {escape(_shown(_explain(error)))}", soft_wrap=True)
        sys.exit(1)


def _explain(error: Exception) -> str:
    """Return in one line what is wrong and what to do about it."""
    if isinstance(error, CausalBaldError):
        return str(error)
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{str(error.filename)!r}: "
        return f"{where}{error.strerror or error}. Check names, folders, permissions and free space."
    what = f"{type(error).__name__}: {error}".partition("\n")[0]
    again = shlex.join(["causalbald", "--debug", *map(masked, sys.argv[1:])])
    if (line := plugin_at_fault(error)) is not None:
        return f"the plugin failed ({what}) at {line}. Mend it; this prints every call: {again}"
    return f"this is a bug in causalbald ({what}). Please report what this prints: {again}"
