"""Commands that run experiments and read their results."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from causalbald.cli._output import print_records, progress_bar, stderr
from causalbald.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from causalbald.experiments import Plan, Store, TrialSpec

app = typer.Typer(no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
_FILLED = "Folder that `causalbald run --out` has filled."
Folder = Annotated[Path, typer.Argument(metavar="DIR", help=_FILLED)]
Folders = Annotated[list[Path], typer.Argument(metavar="DIR...", help=f"{_FILLED} Of several, all trials, each once.")]
Names = list[str] | None


@app.command(epilog="Example: causalbald run --preset quick --out runs/quick")
def run(
    spec: Annotated[Path | None, typer.Argument(metavar="SPEC.toml", help="Which trials, as a TOML file.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of results; run again, it does only what is missing.")] = Path(
        "runs"
    ),
    preset: Annotated[str | None, typer.Option(help="quick, paper-synthetic, paper-ihdp or paper-cmnist.")] = None,
    dataset: Annotated[Names, typer.Option(help="Data set. Repeatable, like the next three.")] = None,
    model: Annotated[Names, typer.Option(help="Model.")] = None,
    acquisition: Annotated[Names, typer.Option(help="Acquisition function.")] = None,
    track: Annotated[Names, typer.Option(help="paid: every outcome counts; paper: free validation outcomes.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Which ones, such as 0-19, or 0,3,7-9; 2 is seed 2 alone.")] = None,
    warm_start: Annotated[int | None, typer.Option(help="Units measured at random at first.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Units chosen at a time.")] = None,
    steps: Annotated[int | None, typer.Option(help="How often units are chosen.")] = None,
    workers: Annotated[int, typer.Option(help="Processes here, or tasks at a time on a cluster.", min=1)] = 2,
    backend: Annotated[str, typer.Option(help="local or ray.")] = "local",
    ray_address: Annotated[str | None, typer.Option(help="Of a Ray cluster; default: one is started here.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the MNIST files, for cmnist.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be run.")] = False,
) -> None:
    """Run simulated studies: data sets x models x acquisition functions x tracks x seeds.

    A SPEC file or a preset says which. Of it, --dataset, --model and --track pick a part; --acquisition, --seeds and
    the numbers replace what it says. Without one, the flags are the plan, with the paper's settings of a data set.
    Nothing is lost when it is stopped: started again, it goes on after the last finished fit.
    """
    from causalbald.experiments import Store
    from causalbald.experiments import run as run_all

    use_data_dir(data_dir)
    parts = {"datasets": dataset, "models": model, "tracks": track}
    settings = {"warm_start": warm_start, "batch_size": batch_size, "steps": steps}
    plans = [_changed(plan, acquisition, seeds, settings) for plan in _plans(spec, preset, parts)]
    specs = [s for plan in plans for s in plan.specs()]
    store = Store(out)
    left = [s for s in specs if not store.is_done(s)]
    stderr.print(f"{len(specs)} trials, {len(specs) - len(left)} of them done already.{_changed_plugins(store, left)}")
    if dry_run:
        print_records([{**s.names, "done": s not in left} for s in specs], as_json=False)
        return
    try:
        with progress_bar("fitting") as progress:
            outcome = run_all(
                specs,
                out,
                workers=workers,
                backend=backend,  # type: ignore[arg-type]
                ray_address=ray_address,
                progress=progress,
            )
    except KeyboardInterrupt:
        stderr.print("Stopped. Nothing is lost: the same command goes on after the last finished fit.")
        raise typer.Exit(130) from None
    for failed, error in outcome.failed:
        stderr.print(f"[bold red]failed:[/] {escape(str(failed))}: {escape(error)}", soft_wrap=True)
    stderr.print(f"{outcome.finished} trials run, {len(outcome.failed)} failed. Read them: causalbald table {out}")
    if outcome.failed:
        raise typer.Exit(1)


def _changed_plugins(store: Store, left: list[TrialSpec]) -> str:
    """Return in words how many trials are run again because a plugin has changed."""
    left_keys = {spec.settings_key for spec in left}
    again = len({spec.settings_key for spec in store.older()} & left_keys)
    return f" {again} of the others are run again: a plugin has changed since they were run." if again else ""


def use_data_dir(folder: Path | None) -> None:
    """Make a folder of data files known, to worker processes too."""
    if folder is not None:
        if not folder.is_dir():
            raise InputError(f"--data-dir {str(folder)!r} is no folder.")
        os.environ["CAUSALBALD_DATA"] = str(folder.resolve())


def _plans(spec: Path | None, preset: str | None, parts: dict[str, Names]) -> list[Plan]:
    from causalbald.experiments import Plan, read_plan
    from causalbald.experiments import preset as named

    if spec is not None and preset is not None:
        raise InputError("give a SPEC file or a --preset, not both.")
    given: dict[str, Any] = {key: tuple(names) for key, names in parts.items() if names}
    if spec is None and preset is None:
        if "datasets" not in given:
            raise InputError("say what to run: a SPEC.toml file, a --preset, or at least a --dataset.")
        return [Plan(**given)]
    whole = [read_plan(spec)] if spec is not None else named(str(preset))
    found = [part for plan in whole if (part := plan.only(**given)) is not None]
    if not found:
        asked = ", ".join(name for names in given.values() for name in names)
        raise InputError(f"the plan holds no trials of {asked}: leave away the preset or the file to run them.")
    return found


def _changed(plan: Plan, acquisition: Names, seeds: str | None, settings: dict[str, int | None]) -> Plan:
    from causalbald.experiments._plan import parse_seeds

    given: dict[str, Any] = {} if not acquisition else {"acquisitions": tuple(acquisition)}
    given |= {} if seeds is None else {"seeds": parse_seeds(seeds)}
    changed = replace(plan, **given)
    return changed if set(settings.values()) == {None} else changed.changed(**settings)


@app.command(epilog="Example: causalbald status runs/quick")
def status(
    folder: Folder,
    workers: Annotated[int, typer.Option(help="For the time left.", min=1)] = 2,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    as_json: Json = False,
) -> None:
    """Show what of a run is done, has failed or is left, core-hours spent, and about how long the rest will take."""
    from causalbald.experiments._status import status_of

    found = status_of(folder, workers)
    if markdown:
        sys.stdout.write(_markdown(found.rows))
    else:
        print_records(found.rows, as_json=as_json)
    for spec, error in found.failed:
        stderr.print(f"[bold red]failed:[/] {escape(str(spec))}: {escape(error)}", soft_wrap=True)
    if not as_json:
        unseen = f", and {found.unknown} trials of kinds of which none is done" if found.unknown else ""
        if found.older:
            stderr.print(
                f"{found.older} finished trials are of an older version of a plugin and not counted as done",
                soft_wrap=True,
            )
        stderr.print(f"about {found.hours_left:.1f} hours left with {workers} workers{unseen}", soft_wrap=True)


@app.command(epilog="Example: causalbald table runs/quick --baseline random --markdown")
def table(
    folders: Folders,
    baseline: Annotated[str | None, typer.Option(help="Method to compare with, by seed; default: random.")] = None,
    error: Annotated[str, typer.Option(help="pehe, ate_error, policy_regret, coverage95, overlap_share, ...")] = "pehe",
    labels: Annotated[int | None, typer.Option(help="Judge at this many labels; default: the most there are.")] = None,
    target: Annotated[float | None, typer.Option(help="Error to reach; default: the baseline's at the end.")] = None,
    dataset: Annotated[Names, typer.Option(help="Only this data set. Repeatable, like the next three.")] = None,
    model: Annotated[Names, typer.Option(help="Only this model.")] = None,
    track: Annotated[Names, typer.Option(help="Only this track.")] = None,
    acquisition: Annotated[Names, typer.Option(help="Only this acquisition function.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Only these seeds, such as 0-19.")] = None,
    trials: Annotated[bool, typer.Option("--trials", help="A row per fit instead of a summary.")] = False,
    timings: Annotated[bool, typer.Option("--timings", help="Also mean seconds of a trial.")] = False,
    columns: Annotated[str | None, typer.Option(help="Only these, such as acquisition,mean,needed.")] = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> None:
    """Summarise trials: error, labels needed to reach a target, paired comparison with a baseline.

    wins is the share of seeds whose curve lies below the baseline's on average, difference how much, with a 95 %
    interval.
    """
    from causalbald.experiments import summarise
    from causalbald.experiments._plan import parse_seeds

    chosen = {"dataset": dataset, "model": model, "track": track, "acquisition": acquisition}
    found = read_trials(folders, chosen)
    if seeds is not None:
        found = found[found["seed"].isin(parse_seeds(seeds))]
        if found.empty:
            raise InputError(f"no trials with seeds {seeds} are left: choose others.")
    if trials:
        rows = found if timings else found.drop(columns=["seconds_fit", "seconds_score"])
    else:
        if baseline is not None and baseline not in set(found["acquisition"]):
            there = ", ".join(map(repr, found["acquisition"].unique()))
            raise InputError(f"no trials of {baseline!r} to compare with. There are those of {there}.")
        rows = summarise(
            found, baseline=baseline or "random", error=error, labels=labels, target=target, timings=timings
        )
        rows = rows if as_json or as_csv else _needed_in_words(rows)
    rows = _columns(rows, columns)
    if as_csv:
        sys.stdout.write(rows.to_csv(index=False, float_format="%.5g"))
    elif markdown:
        sys.stdout.write(_markdown([_with_interval(row) for row in _records(rows)]))
    else:
        print_records(_records(rows), as_json=as_json)


def _needed_in_words(rows: pd.DataFrame) -> pd.DataFrame:
    """Write the labels needed and their interval into one cell, which is easier to read."""
    from causalbald.metrics import LabelsNeeded

    three = zip(rows["needed"], rows.pop("needed_lower"), rows.pop("needed_upper"), strict=True)
    return rows.assign(needed=["" if n != n else str(LabelsNeeded(n, low, high)) for n, low, high in three])


def _records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): v for k, v in row.items()} for row in rows.to_dict("records")]


def read_trials(folders: list[Path], chosen: dict[str, Names]) -> pd.DataFrame:
    """Return the trials in some folders, only those of the names chosen; one that is in several of them counts once."""
    import pandas as pd

    from causalbald.experiments import Store
    from causalbald.experiments._versions import of_one_version

    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"no folder {str(folder)!r}: name one that `causalbald run --out` has filled.")
    stores = [Store(folder) for folder in folders]
    table = pd.concat([store.rows() for store in stores], ignore_index=True)
    table = table.drop_duplicates(["key", "step"], ignore_index=True)
    for column, names in chosen.items():
        for name in names or []:
            if name not in set(table[column]):
                raise InputError(
                    f"no trials with {column} {name!r}. There are: {', '.join(map(str, table[column].unique()))}."
                )
        if names:
            table = table[table[column].isin(names)]
    if table.empty:
        raise InputError("no trials are left: choose fewer conditions.")
    return of_one_version(table, stores)


def _columns(rows: pd.DataFrame, names: str | None) -> pd.DataFrame:
    chosen = list(rows.columns) if names is None else [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in rows:
            raise InputError(f"no column {name!r}. There are: {', '.join(rows.columns)}.")
    return rows[chosen]


def _with_interval(row: dict[str, Any]) -> dict[str, Any]:
    """Write an interval into the cell of its estimate, which is easier to read."""
    if not {"difference", "lower", "upper"} <= set(row):
        return row
    middle, lower, upper = row["difference"], row["lower"], row["upper"]
    interval = "" if lower != lower else f" [{lower:.3g}, {upper:.3g}]"
    text = "" if middle != middle else f"{middle:.3g}{interval}"
    return {k: text if k == "difference" else v for k, v in row.items() if k not in ("lower", "upper")}


def _markdown(rows: list[dict[str, Any]]) -> str:
    def cell(value: Any) -> str:
        if isinstance(value, float):
            return "" if value != value else f"{value:.3g}"
        return "" if value is None else str(value)

    lines = [list(rows[0]), ["---"] * len(rows[0]), *([cell(v) for v in row.values()] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


@app.command(epilog="Example: causalbald pack results/synthetic")
def pack(folder: Folder) -> None:
    """Turn the single files of finished trials into a few small CSV tables, to be kept under version control.

    Tables read the same, to five digits, and `causalbald run` goes on with the folder. Whom a trial acquired, from
    which some figures are drawn, is kept for the first seed only.
    """
    from causalbald.experiments import Store

    stderr.print(f"{Store(folder).pack()} trials packed into {escape(str(folder / 'tables'))}")
