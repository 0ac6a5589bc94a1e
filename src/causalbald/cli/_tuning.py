"""The command ``causalbald tune``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from causalbald.cli._experiments import use_data_dir
from causalbald.cli._output import print_records, progress_bar, stderr
from causalbald.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog="Example: causalbald tune --dataset ihdp --model due --trials 100")(tune)


def tune(
    dataset: Annotated[str, typer.Option(help="One of `causalbald datasets`.")] = "synthetic",
    model: Annotated[str, typer.Option(help="due or ensemble.")] = "due",
    labels: Annotated[int | None, typer.Option(help="Units of the pool to train on; default: by data set.")] = None,
    trials: Annotated[int, typer.Option(help="Trials the study is to have in the end, old ones included.")] = 50,
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of the model, fixed instead of searched. Repeatable.")
    ] = None,
    storage: Annotated[
        str, typer.Option(help="Database that keeps the study; all workers give the same.")
    ] = "sqlite:///causalbald-tuning.db",
    study_name: Annotated[str | None, typer.Option(help="Default: model, data set, labels and data seed.")] = None,
    seed: Annotated[int, typer.Option(help="Of the candidates.", min=0)] = 0,
    data_seed: Annotated[int, typer.Option(help="Of the data, the labels and the weights.", min=0)] = 1331,
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the MNIST files, for cmnist.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Search for a deep model's hyper-parameters in the paper's spaces. Started again, it does what is missing."""
    from dataclasses import asdict

    from causalbald import datasets
    from causalbald.paper import _tuning

    use_data_dir(data_dir)
    with progress_bar("tuning") as progress:
        found = _tuning.tune(
            datasets.load(dataset, data_seed),
            model=model,
            labels=labels,
            trials=trials,
            seed=seed,
            data_seed=data_seed,
            options=dict(_parsed(text) for text in option or []),
            storage=storage,
            study_name=study_name,
            progress=progress,
        )
    if as_json:
        print_records([{**asdict(found), "toml": found.toml()}], as_json=True)
        return
    rows = [{"option": name, "value": str(value)} for name, value in found.options.items()]
    print_records(rows, as_json=False, title=f"{found.study}: {found.score:.4f} nats per validation label")
    ends = f"{found.complete} trials complete, {found.pruned} stopped early, {found.failed} failed"
    stderr.print(f"{ends}. For the TOML file of an experiment:\n\n{escape(found.toml())}", soft_wrap=True)


def _parsed(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise InputError(f"--option {text!r} is not NAME=VALUE: write for example --option max_epochs=20.")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value
