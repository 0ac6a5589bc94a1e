"""The command that draws figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from causalbald._files import check_place
from causalbald.cli._experiments import read_trials
from causalbald.cli._options import FOLDERS_HELP, DataDir, TrialFilter, grouped, use_data_dir
from causalbald.cli._output import progress_bar, save_figure, say
from causalbald.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from causalbald.datasets import Benchmark
    from causalbald.experiments import TrialSpec

app = typer.Typer(no_args_is_help=True)

PICTURES = (".svg", ".png", ".pdf")
"""What the name of a picture may end with."""
AXIS_LABELS = {
    "pehe": "error of estimated effects (√PEHE)",
    "ate_error": "error of the average effect",
    "policy_regret": "effect lost by treating the wrong people",
    "coverage95": "coverage of 95 % intervals",
}


@dataclass(frozen=True, kw_only=True)
class FigureOptions:
    """Options that only some kinds of figures use; the other kinds ignore them."""

    step: Annotated[
        int | None, typer.Option(help="Draw the state after this many batches, or all batches up to it.", min=0)
    ] = None
    every: Annotated[int, typer.Option(help="evolution: draw one step in this many, and always the last.", min=1)] = 1
    error: Annotated[str, typer.Option(help="convergence, paired: which error: pehe, ate_error, ...")] = "pehe"
    baseline: Annotated[str, typer.Option(help="paired: the acquisition function that others are compared with.")] = (
        "random"
    )


@dataclass(frozen=True)
class _Request:
    """What figure to draw, of which trials, into which file. An empty list of seeds means all seeds."""

    kind: str
    folders: list[Path]
    output: Path
    chosen: TrialFilter
    options: FigureOptions
    seeds: list[int]


@dataclass(frozen=True)
class _FinishedTrial:
    """A finished trial, its data, and the units that it measured, up to --step."""

    spec: TrialSpec
    benchmark: Benchmark
    acquired: list[list[int]]
    """A list for each fit: the positions of the units measured since the fit before. The first is the warm start."""

    @property
    def positions(self) -> list[int]:
        """The positions of all units that were measured, in the order of measurement."""
        return [position for batch in self.acquired for position in batch]

    def fit(self, positions: Any) -> Any:
        """Return the trial's model, fitted again on the outcomes of the units at ``positions``.

        On track paper, the model also gets the outcomes of the validation split, as in the trial.
        """
        from causalbald.experiments import refit

        template, free = self.spec.load_model(), self.spec.track == "paper"
        return refit(self.benchmark, template, positions, free_validation=free)


def _check_output(request: _Request) -> None:
    """Raise InputError, before the work, if the file cannot be written or its name does not fit the kind of figure.

    The animation `evolution` needs .gif; all other kinds need one of ``PICTURES``.
    """
    check_place(request.output)
    allowed = (".gif",) if request.kind == "evolution" else PICTURES
    if request.output.suffix not in allowed:
        what = "an animation is a GIF" if request.kind == "evolution" else "only `evolution` is animated"
        raise InputError(
            f"cannot write figure {request.kind} as {request.output.name!r} ({what}): "
            f"choose a name that ends with {' or '.join(allowed)}."
        )


def _observational(request: _Request) -> None:
    """Draw figure ``observational`` of one data set and seed, by default synthetic and 0."""
    from causalbald.datasets import load
    from causalbald.paper import observational

    name = _only("dataset", request.chosen.dataset or ["synthetic"])
    save_figure(observational(load(name, _only("seed", request.seeds or [0])).pool), request.output)


def _cmnist(request: _Request) -> None:
    """Draw figure ``cmnist`` of one seed, by default 0."""
    from causalbald.datasets import load
    from causalbald.paper import digits

    save_figure(digits(load("cmnist", _only("seed", request.seeds or [0])).pool), request.output)


def _convergence(request: _Request) -> None:
    """Draw figure ``convergence``: a panel for each group of methods that ``paper_rows`` names."""
    from causalbald.figures import convergence, paper_rows

    table, error = _fits_with_error(request), request.options.error
    label = AXIS_LABELS.get(error, error.replace("_", " "))
    rows = paper_rows(table["acquisition"])
    save_figure(convergence(table, error=error, label=label, rows=rows), request.output)


def _paired(request: _Request) -> None:
    """Draw figure ``paired``: errors as shares of the error of --baseline."""
    from causalbald.figures import paired

    options = request.options
    save_figure(paired(_fits_with_error(request), baseline=options.baseline, error=options.error), request.output)


def _overlap(request: _Request) -> None:
    """Draw figure ``overlap`` of all fits that are chosen."""
    from causalbald.figures import overlap

    save_figure(overlap(_fits(request)), request.output)


def _bias(request: _Request) -> None:
    """Draw figure ``bias``, a column for each trial of one seed, after fitting each trial's model again."""
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
    """Draw the animation ``evolution`` of one or two trials, fitting their models again at each step that is drawn.

    InputError is raised for more trials.
    """
    from causalbald.paper import StudyHistory, evolution

    trials = _trials(request, several_seeds=False)
    if len(trials) > 2:
        names = ", ".join(trial.spec.method for trial in trials)
        raise InputError(f"choose one or two by --acquisition, there are {names}.")
    studies = [StudyHistory(trial.spec.method, trial.acquired, trial.fit) for trial in trials]
    pool, title = trials[0].benchmark.pool, _title(trials)
    with progress_bar("fitting") as progress:
        evolution(request.output, pool, studies, every=request.options.every, title=title, progress=progress)
    say(f"Picture: {request.output.resolve()}")


def _calibration(request: _Request) -> None:
    """Draw figure ``calibration`` on the test split, all seeds of a method together, after fitting each model again."""
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
    drawn = calibration([PredictedEffects.pooled(seeds) for seeds in parts.values()])
    drawn.suptitle(_title(trials))
    save_figure(drawn, request.output)


def _fits(request: _Request) -> pd.DataFrame:
    """Return the fits to draw, a row each; with --step, those up to that step.

    InputError is raised if no folder is named, and if no trials of a chosen name or seed are left.
    """
    if not request.folders:
        raise InputError(f"figure {request.kind} needs DIR: name a folder that `causalbald run --out` has filled.")
    chosen: dict[str, Any] = asdict(request.chosen) | {"seed": request.seeds}
    table, step = read_trials(request.folders, chosen), request.options.step
    gone = [name for name in request.chosen.acquisition or [] if name not in set(table["acquisition"])]
    if gone:
        raise InputError(f"no trials of {gone[0]} are left: leave out --acquisition {gone[0]} or other conditions.")
    return table if step is None else table[table["step"] <= step]


def _fits_with_error(request: _Request) -> pd.DataFrame:
    """Return the fits to draw, as :func:`_fits` does; InputError if no column is the error that --error names."""
    from causalbald.experiments import NAMES

    table, error = _fits(request), request.options.error
    columns = [c for c in table.columns if c not in (*NAMES, "key", "step", "labels")]
    if error not in columns:
        raise InputError(f"no error {error!r}: choose --error of {', '.join(columns)}.")
    return table


def _trials(request: _Request, *, several_seeds: bool) -> list[_FinishedTrial]:
    """Return one trial for each acquisition function and seed, with the units that it measured up to --step.

    Called by figures that fit models again. Without --seed, only the first seed that all functions have is taken.
    InputError is raised if trials differ in data set, model, track or settings, or in the seed unless
    ``several_seeds``; if a function lacks a seed of --seed; and if --step is past the end.
    """
    from causalbald.experiments import Store

    table = _fits(request)
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
        trials.append(
            _FinishedTrial(spec, benchmarks[spec.data_key], _until(store.acquired(spec), request.options.step))
        )
    if len(benchmarks) > len(seeds):
        raise InputError("trials were run with different options of the data set: use a folder for each of them.")
    return trials


def _seeds(table: pd.DataFrame, asked: list[int]) -> list[int]:
    """Return ``asked``, or if it is empty the first seed that all acquisition functions of ``table`` have.

    InputError is raised if a function lacks a seed of ``asked``, or if no seed is common to all.
    """
    from causalbald.figures import common_seeds

    common = common_seeds({str(name): fits for name, fits in table.groupby("acquisition", sort=False)})
    missing = sorted(set(asked) - set(common))
    if missing:
        raise InputError(
            f"not all acquisition functions have seed {missing[0]}: leave some out by --acquisition, "
            f"or choose --seed of {', '.join(map(str, common[:10]))}."
        )
    return asked or common[:1]


def _until(acquired: list[list[int]], step: int | None) -> list[list[int]]:
    """Return the lists of positions measured before fits 0 to ``step``; all lists if ``step`` is None.

    InputError is raised if the step is past the end.
    """
    if step is not None and step >= len(acquired):
        raise InputError(f"--step {step} is past the end: choose one of 0 to {len(acquired) - 1}.")
    return acquired if step is None else acquired[: step + 1]


def _only(what: str, values: Any) -> Any:
    """Return the only one of ``values``; InputError if there are several. ``what`` is the option that chooses one."""
    if len(values) > 1:
        names = ", ".join(map(str, values))
        raise InputError(f"this figure is of one {what}, but there are {names}: choose one by --{what}.")
    return values[0]


def _title(trials: list[_FinishedTrial]) -> str:
    """Return a title: data set, model and track, which all trials share, and the seed or the number of seeds."""
    spec = trials[0].spec
    seeds = list(dict.fromkeys(trial.spec.seed for trial in trials))
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
    return f"{spec.dataset}, {spec.model}, track {spec.track}, {which}"


class _Kind(NamedTuple):
    """A kind of figure: what it shows, an example for the help, and the function that draws it."""

    what: str
    example: str
    draw: Callable[[_Request], None]


KINDS = {
    "observational": _Kind(
        "one covariate: who was treated, their outcomes and the true effect", "-o data.svg --seed 1", _observational
    ),
    "cmnist": _Kind("digits along their hidden coordinate", "-o digits.png --data-dir mnist", _cmnist),
    "bias": _Kind(
        "density of the pool and of the measured units, and the effect learned from them",
        "runs/quick -o bias.svg --dataset synthetic --acquisition mu-bald --step 5",
        _bias,
    ),
    "convergence": _Kind(
        "error against measured outcomes, compared with baselines and among BALDs",
        "runs/quick -o curves.svg",
        _convergence,
    ),
    "paired": _Kind(
        "error of each method as a share of the error of one method, seed by seed",
        "runs/quick -o paired.svg --baseline random",
        _paired,
    ),
    "evolution": _Kind(
        "figure bias after each step, animated, for one or two acquisition functions",
        "runs/quick -o growth.gif --dataset synthetic --acquisition mu-rho-bald --every 2",
        _evolution,
    ),
    "calibration": _Kind(
        "predicted against true effects, and how often intervals hold",
        "runs/quick -o calibration.svg --dataset ihdp --seed 0 --seed 1",
        _calibration,
    ),
    "overlap": _Kind(
        "share of measured units inside the overlap, and share of treated units",
        "runs/quick -o overlap.pdf",
        _overlap,
    ),
}
_HELP = [
    "Draw a figure of a data set, or of the trials in DIR.",
    *(f"[bold]{name}[/]: {kind.what}." for name, kind in KINDS.items()),
    "The first two need no DIR. bias, evolution and calibration fit the models again on what was measured.",
]
_EXAMPLES = ["Examples:", *(f"causalbald figure {name} {kind.example}" for name, kind in KINDS.items())]


@app.command(help="\n\n".join(_HELP), epilog="\n\n".join(_EXAMPLES))
@grouped
def figure(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Which figure: one of the names above.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write: .svg, .png or .pdf; evolution: .gif.")],
    chosen: TrialFilter,
    options: FigureOptions,
    folders: Annotated[list[Path] | None, typer.Argument(metavar="DIR...", help=FOLDERS_HELP)] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(help="Only this seed. Repeatable. A figure of one seed takes the first by default."),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Draw a figure. InputError is raised for an unknown kind. Users see ``_HELP`` instead of this text."""
    if kind not in KINDS:
        lines = "\n".join(f"  {name}: {figure.what}" for name, figure in KINDS.items())
        raise InputError(f"unknown figure {kind!r}. There are:\n{lines}")
    request = _Request(kind, folders or [], output, chosen, options, seed or [])
    _check_output(request)
    use_data_dir(data_dir)
    KINDS[kind].draw(request)
