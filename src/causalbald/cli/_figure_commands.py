"""The command that draws figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.markup import escape

from causalbald._files import check_place
from causalbald.cli._experiments import Names, read_trials, use_data_dir
from causalbald.cli._output import progress_bar, save_figure, stderr
from causalbald.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from causalbald.datasets import Benchmark
    from causalbald.experiments import TrialSpec

app = typer.Typer(no_args_is_help=True)

_SUFFIXES = (".svg", ".png", ".pdf")
_LABELS = {
    "pehe": "error of estimated effects (√PEHE)",
    "ate_error": "error of the average effect",
    "policy_regret": "effect lost by treating the wrong people",
    "coverage95": "coverage of 95 % intervals",
}


@dataclass(frozen=True)
class _Request:
    """What is asked for; ``names`` are those of data sets, models, tracks and acquisition functions."""

    kind: str
    folders: list[Path]
    output: Path
    names: dict[str, Any]
    seeds: list[int]
    step: int | None
    every: int
    error: str
    baseline: str


@dataclass(frozen=True)
class _Trial:
    spec: TrialSpec
    benchmark: Benchmark
    acquired: list[list[int]]
    """Positions measured before each fit."""

    @property
    def positions(self) -> list[int]:
        return [p for batch in self.acquired for p in batch]

    def fit(self, positions: Any) -> Any:
        from causalbald.paper import refit

        template, free = self.spec.load_model(), self.spec.track == "paper"
        return refit(self.benchmark, template, positions, free_validation=free)


def _check_output(request: _Request) -> None:
    """Fail before the work, not after it."""
    check_place(request.output)
    allowed = (".gif",) if request.kind == "evolution" else _SUFFIXES
    if request.output.suffix not in allowed:
        what = (
            "an animation is a GIF" if request.kind == "evolution" else "only `evolution` is animated, others are not"
        )
        raise InputError(
            f"cannot write figure {request.kind} as {request.output.name!r} ({what}): "
            f"choose a name that ends with {' or '.join(allowed)}."
        )


def _observational(request: _Request) -> None:
    from causalbald.datasets import load
    from causalbald.paper import observational

    name = _only("dataset", request.names["dataset"] or ["synthetic"])
    save_figure(observational(load(name, _only("seed", request.seeds or [0])).pool), request.output)


def _cmnist(request: _Request) -> None:
    from causalbald.datasets import load
    from causalbald.paper import digits

    save_figure(digits(load("cmnist", _only("seed", request.seeds or [0])).pool), request.output)


def _convergence(request: _Request) -> None:
    from causalbald.figures import convergence, paper_rows

    table = _table_with_error(request)
    label = _LABELS.get(request.error, request.error.replace("_", " "))
    rows = paper_rows(table["acquisition"])
    save_figure(convergence(table, error=request.error, label=label, rows=rows), request.output)


def _paired(request: _Request) -> None:
    from causalbald.figures import paired

    save_figure(paired(_table_with_error(request), baseline=request.baseline, error=request.error), request.output)


def _overlap(request: _Request) -> None:
    from causalbald.figures import overlap

    save_figure(overlap(_table(request)), request.output)


def _bias(request: _Request) -> None:
    from causalbald.paper import MeasuredSet, bias

    trials = _trials(request, several_seeds=False)
    columns = []
    with progress_bar("fitting") as progress:
        for k, trial in enumerate(trials, start=1):
            columns.append(MeasuredSet(trial.spec.method, trial.positions, trial.fit(trial.positions)))
            progress(k, len(trials))
    drawn = bias(trials[0].benchmark.pool, columns)
    drawn.suptitle(_title(trials))
    save_figure(drawn, request.output)


def _evolution(request: _Request) -> None:
    from causalbald.paper import StudyHistory, evolution

    trials = _trials(request, several_seeds=False)
    if len(trials) > 2:
        found = ", ".join(trial.spec.method for trial in trials)
        raise InputError(f"choose one or two by --acquisition, there are {found}.")
    studies = [StudyHistory(trial.spec.method, trial.acquired, trial.fit) for trial in trials]
    pool, title = trials[0].benchmark.pool, _title(trials)
    with progress_bar("fitting") as progress:
        evolution(request.output, pool, studies, every=request.every, title=title, progress=progress)
    stderr.print(f"Picture: {escape(str(request.output.resolve()))}", soft_wrap=True)


def _calibration(request: _Request) -> None:
    from causalbald.figures import PredictedEffects, calibration

    trials = _trials(request, several_seeds=True)
    parts: dict[str, list[PredictedEffects]] = {}
    with progress_bar("fitting") as progress:
        for k, trial in enumerate(trials, start=1):
            name = trial.spec.method
            parts.setdefault(name, []).append(
                PredictedEffects.of(name, trial.fit(trial.positions), trial.benchmark.test)
            )
            progress(k, len(trials))
    drawn = calibration([PredictedEffects.pooled(own) for own in parts.values()])
    drawn.suptitle(_title(trials))
    save_figure(drawn, request.output)


def _table(request: _Request) -> pd.DataFrame:
    if not request.folders:
        raise InputError(f"figure {request.kind} needs DIR: name a folder that `causalbald run --out` has filled.")
    chosen: dict[str, Any] = {**request.names, "seed": request.seeds}
    table = read_trials(request.folders, chosen)
    gone = [name for name in request.names["acquisition"] or [] if name not in set(table["acquisition"])]
    if gone:
        raise InputError(f"no trials of {gone[0]} are left: leave away --acquisition {gone[0]} or other conditions.")
    return table if request.step is None else table[table["step"] <= request.step]


def _table_with_error(request: _Request) -> pd.DataFrame:
    from causalbald.experiments._spec import NAMES

    table = _table(request)
    columns = [c for c in table.columns if c not in (*NAMES, "key", "step", "labels")]
    if request.error not in columns:
        raise InputError(f"no error {request.error!r}: choose --error of {', '.join(columns)}.")
    return table


def _trials(request: _Request, *, several_seeds: bool) -> list[_Trial]:
    """Return one trial per acquisition function and seed, with what it had acquired up to the step asked for."""
    from causalbald.experiments import Store

    table = _table(request)
    for column in ("dataset", "model", "track"):
        _only(column, table[column].unique())
    seeds = _seeds(table, request.seeds)
    if not several_seeds:
        _only("seed", seeds)
    stores = [Store(folder) for folder in request.folders]
    homes = {spec.key: (spec, store) for store in stores for spec in store.planned() if store.is_done(spec)}
    benchmarks: dict[str, Benchmark] = {}
    trials = []
    for (name, seed), rows in table[table["seed"].isin(seeds)].groupby(["acquisition", "seed"], sort=False):
        keys = list(rows["key"].unique())
        if len(keys) > 1:
            raise InputError(f"{name}, seed {seed}, was run with different settings: use a folder for each of them.")
        if keys[0] not in homes:
            where = " or ".join(repr(str(folder)) for folder in request.folders)
            raise InputError(f"the plan in {where} lacks {name}, seed {seed}: run it again.")
        spec, store = homes[keys[0]]
        if spec.data_key not in benchmarks:
            benchmarks[spec.data_key] = spec.load()
        trials.append(_Trial(spec, benchmarks[spec.data_key], _until(store.acquired(spec), request.step)))
    if len(benchmarks) > len(seeds):
        raise InputError("trials were run with different options of the data set: use a folder for each of them.")
    return trials


def _seeds(table: pd.DataFrame, asked: list[int]) -> list[int]:
    """Return the seeds asked for, which all functions must have, or else the first that all have."""
    from causalbald.figures._convergence import common_seeds

    common = common_seeds({str(name): own for name, own in table.groupby("acquisition", sort=False)})
    missing = sorted(set(asked) - set(common))
    if missing:
        raise InputError(
            f"not all acquisition functions have seed {missing[0]}: leave some out by --acquisition, "
            f"or choose --seed of {', '.join(map(str, common[:10]))}."
        )
    return asked or common[:1]


def _until(acquired: list[list[int]], step: int | None) -> list[list[int]]:
    if step is not None and step >= len(acquired):
        raise InputError(f"--step {step} is past the end: choose one of 0 to {len(acquired) - 1}.")
    return acquired if step is None else acquired[: step + 1]


def _only(what: str, values: Any) -> Any:
    """Return the only value there is."""
    if len(values) > 1:
        there = ", ".join(map(str, values))
        raise InputError(f"this figure is of one {what}, but there are {there}: choose one by --{what}.")
    return values[0]


def _title(trials: list[_Trial]) -> str:
    spec = trials[0].spec
    seeds = list(dict.fromkeys(trial.spec.seed for trial in trials))
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
    return f"{spec.dataset}, {spec.model}, track {spec.track}, {which}"


class _Kind(NamedTuple):
    what: str
    example: str
    draw: Callable[[_Request], None]


KINDS = {
    "observational": _Kind(
        "one covariate: who was treated, their outcomes and the true effect", "-o data.svg --seed 1", _observational
    ),
    "cmnist": _Kind("digits along their hidden coordinate", "-o digits.png --data-dir mnist", _cmnist),
    "bias": _Kind(
        "density of the pool and of what was acquired, and the effect learned from it",
        "runs/quick -o bias.svg --dataset synthetic --acquisition mu-bald --step 5",
        _bias,
    ),
    "convergence": _Kind(
        "error against outcomes measured, against baselines and among BALDs",
        "runs/quick -o curves.svg",
        _convergence,
    ),
    "paired": _Kind(
        "error of all methods as a share of one method's, seed by seed",
        "runs/quick -o paired.svg --baseline random",
        _paired,
    ),
    "evolution": _Kind(
        "the picture of bias after each step, animated, for one or two acquisition functions",
        "runs/quick -o growth.gif --dataset synthetic --acquisition mu-rho-bald --every 2",
        _evolution,
    ),
    "calibration": _Kind(
        "predicted against true effects, and how often intervals hold",
        "runs/quick -o calibration.svg --dataset ihdp --seed 0 --seed 1",
        _calibration,
    ),
    "overlap": _Kind(
        "share of what was acquired that lies inside overlap, and share of treated",
        "runs/quick -o overlap.pdf",
        _overlap,
    ),
}
_HELP = [
    "Draw a figure of a data set, or of the trials in DIR.",
    *(f"[bold]{name}[/]: {kind.what}." for name, kind in KINDS.items()),
    "The first two need no DIR. bias, evolution and calibration fit the models again on what was acquired.",
]
_EXAMPLES = ["Examples:", *(f"causalbald figure {name} {kind.example}" for name, kind in KINDS.items())]


@app.command(help="\n\n".join(_HELP), epilog="\n\n".join(_EXAMPLES))
def figure(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Which figure: one of those above.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File: .svg, .png or .pdf; evolution: .gif.")],
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR...", help="Folder that `causalbald run --out` has filled. Of several, all trials."),
    ] = None,
    dataset: Annotated[Names, typer.Option(help="Only this data set. Repeatable, like the next four.")] = None,
    model: Annotated[Names, typer.Option(help="Only this model.")] = None,
    track: Annotated[Names, typer.Option(help="Only this track.")] = None,
    acquisition: Annotated[Names, typer.Option(help="Only this acquisition function.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Only this seed; where one is drawn, the first.")] = None,
    step: Annotated[int | None, typer.Option(help="After this many batches, or up to there.", min=0)] = None,
    every: Annotated[int, typer.Option(help="evolution: only each so-manyth step.", min=1)] = 1,
    error: Annotated[str, typer.Option(help="convergence, paired: pehe, ate_error, policy_regret, ...")] = "pehe",
    baseline: Annotated[str, typer.Option(help="paired: method that others are compared with.")] = "random",
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the MNIST files, for cmnist.")] = None,
) -> None:
    """Draw a figure."""
    if kind not in KINDS:
        lines = "\n".join(f"  {name}: {known.what}" for name, known in KINDS.items())
        raise InputError(f"unknown figure {kind!r}. There are:\n{lines}")
    names = {"dataset": dataset, "model": model, "track": track, "acquisition": acquisition}
    request = _Request(kind, folders or [], output, names, seed or [], step, every, error, baseline)
    _check_output(request)
    use_data_dir(data_dir)
    KINDS[kind].draw(request)
