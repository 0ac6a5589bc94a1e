"""The command ``causalbald tune``."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.markup import escape

from causalbald.cli._options import DataDir, Json, grouped, use_data_dir
from causalbald.cli._output import print_records, progress_bar, stderr
from causalbald.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command to the program; called once by ``_app``."""
    app.command(epilog="Example: causalbald tune --dataset ihdp --model due --trials 100")(grouped(tune))


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What is searched and where the trials are kept; the names are those of the parameters of ``paper.tune``."""

    model: Annotated[str, typer.Option(help="due or ensemble.")] = "due"
    labels: Annotated[
        int | None, typer.Option(help="How many units of the pool to train on; by default it depends on the data set.")
    ] = None
    trials: Annotated[int, typer.Option(help="How many trials the study has in the end, including earlier ones.")] = 50
    storage: Annotated[
        str, typer.Option(help="Database that keeps the study. Workers with the same database share a study.")
    ] = "sqlite:///causalbald-tuning.db"
    study_name: Annotated[
        str | None, typer.Option(help="By default made of model, data set, labels and data seed.")
    ] = None
    seed: Annotated[int, typer.Option(help="Starts the random draws of candidates.", min=0)] = 0
    data_seed: Annotated[int, typer.Option(help="Starts the random draws of data, labels and weights.", min=0)] = 1331


def tune(
    search: SearchOptions,
    dataset: Annotated[str, typer.Option(help="One of `causalbald datasets`.")] = "synthetic",
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of the model, fixed instead of searched. Repeatable.")
    ] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Search for a deep model's hyper-parameters in the paper's spaces.

    The trials are kept in the database of --storage. Started again with the same
    options, the command runs only the trials that are missing there.
    """
    from causalbald import datasets
    from causalbald.paper import _tuning

    use_data_dir(data_dir)
    fixed = dict(_parsed(text) for text in option or [])
    with progress_bar("tuning") as progress:
        benchmark = datasets.load(dataset, search.data_seed)
        result = _tuning.tune(benchmark, **asdict(search), options=fixed, progress=progress)
    if as_json:
        print_records([{**asdict(result), "toml": result.toml()}], as_json=True)
        return
    rows = [{"option": name, "value": str(value)} for name, value in result.options.items()]
    print_records(rows, as_json=False, title=f"{result.study}: {result.score:.4f} nats per validation label")
    ends = f"{result.complete} trials complete, {result.pruned} stopped early, {result.failed} failed"
    stderr.print(f"{ends}. For the TOML file of an experiment:\n\n{escape(result.toml())}", soft_wrap=True)


def _parsed(text: str) -> tuple[str, Any]:
    """Return name and value of an --option ``NAME=VALUE``: the value as TOML reads it, or as text if TOML cannot.

    InputError is raised for a text without ``=``.
    """
    name, separator, value = text.partition("=")
    if not separator:
        raise InputError(f"--option {text!r} is not NAME=VALUE: write for example --option max_epochs=20.")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value
