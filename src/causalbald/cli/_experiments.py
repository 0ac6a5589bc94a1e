"""Commands that run experiments and read their results."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causalbald._words import IN_TABLE, estimate, rounded
from causalbald.cli._options import (
    BackendOptions,
    DataDir,
    Folder,
    Folders,
    Json,
    Names,
    TrialFilter,
    grouped,
    use_data_dir,
)
from causalbald.cli._output import print_records, progress_bar, say, say_error, stderr
from causalbald.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from causalbald.experiments import Plan, PreparedRun, TrialSpec

app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Which trials `run` is about: a SPEC file or a preset, or none of them, and options that change its plan."""

    spec: Annotated[Path | None, typer.Argument(metavar="SPEC.toml", help="Which trials, as a TOML file.")] = None
    preset: Annotated[
        str | None, typer.Option(help="A ready plan: quick, paper-synthetic, paper-ihdp or paper-cmnist.")
    ] = None
    dataset: Annotated[Names, typer.Option(help="Data set. Repeatable, as are --model, --acquisition and --track.")] = (
        None
    )
    model: Annotated[Names, typer.Option(help="One of `causalbald models`.")] = None
    acquisition: Annotated[Names, typer.Option(help="One of `causalbald acquisitions`.")] = None
    track: Annotated[
        Names, typer.Option(help="paid: every outcome counts as paid for; paper: validation outcomes are free.")
    ] = None
    seeds: Annotated[str | None, typer.Option(help="Which seeds, such as 0-19, or 0,3,7-9; 2 is seed 2 alone.")] = None
    warm_start: Annotated[int | None, typer.Option(help="How many units are measured at random at first.")] = None
    batch_size: Annotated[int | None, typer.Option(help="How many units a batch has.")] = None
    steps: Annotated[int | None, typer.Option(help="How many batches are chosen.")] = None

    def specs(self) -> list[TrialSpec]:
        """Return the trials of all plans, after the options have cut and changed the plans. Called by `run`.

        InputError is raised for options that contradict each other, for an unknown name, and if no trial is left.
        """
        return [spec for plan in self._chosen_plans() for spec in self._changed(plan).specs()]

    def _chosen_plans(self) -> list[Plan]:
        """Return the plans of the file or preset, cut to the chosen data sets, models and tracks.

        Without a file and a preset, the only plan is made of these options. InputError is raised if both are given, if
        neither of them nor a data set is given, and if no plan is left.
        """
        from causalbald.experiments import Plan, preset, read_plan

        if self.spec is not None and self.preset is not None:
            raise InputError("give a SPEC file or a --preset, not both.")
        named = {"datasets": self.dataset, "models": self.model, "tracks": self.track}
        chosen: dict[str, Any] = {key: tuple(names) for key, names in named.items() if names}
        if self.spec is None and self.preset is None:
            if "datasets" not in chosen:
                raise InputError("say what to run: a SPEC.toml file, a --preset, or at least a --dataset.")
            return [Plan(**chosen)]
        whole = [read_plan(self.spec)] if self.spec is not None else preset(str(self.preset))
        plans = [part for plan in whole if (part := plan.only(**chosen)) is not None]
        if not plans:
            asked = ", ".join(name for names in chosen.values() for name in names)
            raise InputError(f"the plan has no trials of {asked}: leave out the preset or the file to run them.")
        return plans

    def _changed(self, plan: Plan) -> Plan:
        """Return a plan with the given options in place of its own; options that are not given change nothing.

        These options are the acquisition functions, the seeds, the warm start, the batch size and the steps.
        """
        from causalbald.experiments import parse_seeds

        changes: dict[str, Any] = {} if not self.acquisition else {"acquisitions": tuple(self.acquisition)}
        changes |= {} if self.seeds is None else {"seeds": parse_seeds(self.seeds)}
        numbers = {"warm_start": self.warm_start, "batch_size": self.batch_size, "steps": self.steps}
        changed = replace(plan, **changes)
        return changed if set(numbers.values()) == {None} else changed.changed(**numbers)


@app.command(epilog="Example: causalbald run --preset quick --out runs/quick")
@grouped
def run(
    plan: PlanOptions,
    where: BackendOptions,
    out: Annotated[
        Path, typer.Option(help="Folder for the results. Run again, the command does only what is missing.")
    ] = Path("runs"),
    workers: Annotated[
        int, typer.Option(help="How many processes here, or tasks on a cluster, work at a time.", min=1)
    ] = 2,
    data_dir: DataDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the trials, but run nothing.")] = False,
) -> None:
    """Run simulated studies: data sets x models x acquisition functions x tracks x seeds.

    The trials come from a SPEC file or a preset. --dataset, --model and --track
    pick a part of it; --acquisition, --seeds, --warm-start, --batch-size and
    --steps replace its own. Without a SPEC file or a preset, the options are the
    plan, with the paper's settings for a data set. Nothing is lost when the
    command is stopped: started again, it goes on after the last finished fit. If
    a trial fails, the others still run, and the command ends with code 1.
    """
    from causalbald.experiments import PreparedRun

    use_data_dir(data_dir)
    prepared = PreparedRun.of(plan.specs(), out)
    specs, left = prepared.specs, prepared.left
    say(f"{len(specs)} trials, {len(specs) - len(left)} of them done already.{_changed_plugins(prepared)}")
    if dry_run:
        print_records([{**spec.names, "done": spec not in left} for spec in specs], as_json=False)
        return
    try:
        with progress_bar("fitting") as progress:
            outcome = prepared.start(workers=workers, **asdict(where), progress=progress)
    except KeyboardInterrupt:
        stderr.print("Stopped. Nothing is lost: the same command goes on after the last finished fit.")
        raise typer.Exit(130) from None
    _say_failures(outcome.failed)
    say(f"{outcome.finished} trials run, {len(outcome.failed)} failed. Read them: causalbald table {out}")
    if outcome.failed:
        raise typer.Exit(1)


def _changed_plugins(prepared: PreparedRun) -> str:
    """Return a sentence, after a blank, on trials that run again because a plugin has changed; ``""`` without any."""
    again = prepared.changed_plugins()
    return f" {again} of the others are run again: a plugin has changed since they were run." if again else ""


def _say_failures(failures: Sequence[tuple[TrialSpec, str]]) -> None:
    """Print to stderr a line for each trial that failed, with its error."""
    for spec, error in failures:
        say_error("failed", f"{spec}: {error}")


@app.command(epilog="Example: causalbald status runs/quick")
def status(
    folder: Folder,
    workers: Annotated[int, typer.Option(help="With how many processes the rest will run.", min=1)] = 2,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    as_json: Json = False,
) -> None:
    """Show which trials of a run are done, failed or left, core-hours spent, and about how long the rest will take.

    There is a row for each data set, model and track. Without --json, the last lines
    add up the time that is left, and count finished trials of older plugin versions.
    """
    from causalbald.experiments import status_of

    standing = status_of(folder, workers)
    if markdown:
        sys.stdout.write(_markdown([asdict(row) for row in standing.rows]))
    else:
        print_records([asdict(row) for row in standing.rows], as_json=as_json)
    _say_failures(standing.failed)
    if not as_json:
        unseen = f", and {standing.unknown} trials of kinds of which none is done" if standing.unknown else ""
        if standing.older:
            say(f"{standing.older} finished trials are of an older version of a plugin and not counted as done")
        say(f"about {standing.hours_left:.1f} hours left with {workers} workers{unseen}")


@dataclass(frozen=True, kw_only=True)
class SummaryOptions:
    """How `table` summarises trials."""

    baseline: Annotated[
        str | None,
        typer.Option(help="Acquisition function to compare with, seed by seed; by default random."),
    ] = None
    error: Annotated[str, typer.Option(help="What to summarise: pehe, ate_error, policy_regret, coverage95, ...")] = (
        "pehe"
    )
    labels: Annotated[int | None, typer.Option(help="Number of labels at which to judge; by default the largest.")] = (
        None
    )
    target: Annotated[
        float | None, typer.Option(help="Error to reach; by default the error of the baseline at the end.")
    ] = None
    timings: Annotated[bool, typer.Option("--timings", help="Add the mean seconds of a trial.")] = False

    def summary(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return a row per data set, model, track and acquisition function, as ``experiments.summarise`` does.

        InputError is raised if --baseline is given and the trials lack it. Without it, random is the baseline if the
        trials have it.
        """
        from causalbald.experiments import summarise

        if self.baseline is not None and self.baseline not in set(trials["acquisition"]):
            names = ", ".join(map(repr, trials["acquisition"].unique()))
            raise InputError(f"no trials of {self.baseline!r} to compare with. There are trials of {names}.")
        return summarise(trials, **asdict(self) | {"baseline": self.baseline or "random"})


@app.command(epilog="Example: causalbald table runs/quick --baseline random --markdown")
@grouped
def table(
    folders: Folders,
    options: SummaryOptions,
    chosen: TrialFilter,
    seeds: Annotated[str | None, typer.Option(help="Only these seeds, such as 0-19.")] = None,
    trials: Annotated[bool, typer.Option("--trials", help="Print a row per fit instead of a summary.")] = False,
    columns: Annotated[str | None, typer.Option(help="Only these columns, such as acquisition,mean,needed.")] = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> None:
    """Summarise trials: error, labels needed to reach a target, paired comparison with a baseline.

    Only finished trials count. wins is the share of seeds whose curve lies below
    the baseline's on average; difference is the mean distance between the two
    curves, with a 95 % interval: negative is better than the baseline.
    """
    from causalbald.experiments import parse_seeds

    fits = read_trials(folders, asdict(chosen))
    if seeds is not None:
        fits = fits[fits["seed"].isin(parse_seeds(seeds))]
        if fits.empty:
            raise InputError(f"no trials with seeds {seeds} are left: choose others.")
    if trials:
        rows = fits if options.timings else fits.drop(columns=["seconds_fit", "seconds_score"])
    else:
        rows = options.summary(fits)
        rows = rows if as_json or as_csv else _needed_in_words(rows)
    rows = _columns(rows, columns)
    if as_csv:
        sys.stdout.write(rows.to_csv(index=False, float_format="%.5g"))
    elif markdown:
        sys.stdout.write(_markdown([_with_interval(row) for row in _records(rows)]))
    else:
        print_records(_records(rows), as_json=as_json)


def _needed_in_words(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a summary in which the cell ``needed`` has the labels needed and their interval as text.

    An empty cell stands for a missing number. The columns of the interval's ends are removed, from ``rows`` too.
    """
    from causalbald.metrics import LabelsNeeded

    three = zip(rows["needed"], rows.pop("needed_lower"), rows.pop("needed_upper"), strict=True)
    return rows.assign(needed=["" if n != n else str(LabelsNeeded(n, low, high)) for n, low, high in three])


def _records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts from the column's name, as text, to the cell."""
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


def read_trials(folders: list[Path], chosen: dict[str, Names]) -> pd.DataFrame:
    """Return a row for each fit of the finished trials in some folders. A trial in several folders counts once.

    ``chosen`` maps a column to the values to keep; None or an empty list keeps all. Trials with an older version of a
    plugin are left out, with a warning. InputError is raised for a folder without finished trials, for a value that no
    trial has, and if nothing is left. Called by `table` and `figure`.
    """
    import pandas as pd

    from causalbald.experiments import Store, of_one_version

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
    """Return the columns that ``names`` lists, separated by commas; all if it is None. InputError if one is missing."""
    chosen = list(rows.columns) if names is None else [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in rows:
            raise InputError(f"no column {name!r}. There are: {', '.join(rows.columns)}.")
    return rows[chosen]


def _with_interval(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a summary in which the cell ``difference`` has the difference and its interval as text.

    A row that lacks one of these three columns is returned as it is.
    """
    if not {"difference", "lower", "upper"} <= set(row):
        return row
    text = estimate(row["difference"], row["lower"], row["upper"], form=IN_TABLE)
    cells = {name: value for name, value in row.items() if name not in ("lower", "upper")}
    return cells | {"difference": text}


def _markdown(rows: list[dict[str, Any]]) -> str:
    """Return rows, at least one, as the lines of a Markdown table; numbers that are no counts get three digits."""

    def cell(value: Any) -> str:
        return rounded(value) if value is None or isinstance(value, float) else str(value)

    lines = [list(rows[0]), ["---"] * len(rows[0]), *([cell(v) for v in row.values()] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


@app.command(epilog="Example: causalbald pack results/synthetic")
def pack(folder: Folder) -> None:
    """Turn the files of finished trials into a few small CSV tables, to keep under version control.

    The tables read the same, to five digits, and `causalbald run` goes on with
    the folder. The units that a trial measured, from which some figures are
    drawn, are kept for the first seed only.
    """
    from causalbald.experiments import Store

    say(f"{Store(folder).pack()} trials packed into {folder / 'tables'}")
