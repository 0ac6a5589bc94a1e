"""Options that several commands share, and how a command takes them in groups."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from causalbald._choices import Backend
from causalbald.errors import InputError

Names = list[str] | None
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Alpha = Annotated[
    float, typer.Option(help="Probability that an interval misses the true value: 0.05 gives 95 % intervals.")
]
DataDir = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder with the MNIST files, for data set cmnist.")]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write all rows to a .csv or .parquet file.")
]
_FILLED = "A folder that `causalbald run --out` has filled."
Folder = Annotated[Path, typer.Argument(metavar="DIR", help=_FILLED)]
FOLDERS_HELP = f"{_FILLED} Of several folders, all trials are taken, each once."
Folders = Annotated[list[Path], typer.Argument(metavar="DIR...", help=FOLDERS_HELP)]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command as typer needs it, from a function that takes some options as dataclasses.

    Typer makes one option of each parameter and knows no dataclasses. In the function that is returned, each parameter
    of ``command`` whose type is a dataclass is replaced by a parameter for each of its fields. A call fills the
    dataclasses and calls ``command``. Fields are annotated as parameters of commands are. All parameters become
    keyword-only, and two dataclasses of a command must not have a field of the same name.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _parameters_of(groups[parameter.name])
        else:
            annotated = parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
            parameters.append(annotated)

    @wraps(command)
    def with_single_options(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        command(**values)

    with_single_options.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    with_single_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_single_options


def _parameters_of(kind: Any) -> Iterable[Parameter]:
    """Return a keyword-only parameter for each field of the dataclass ``kind``, in the order of the fields."""
    hints = get_type_hints(kind, include_extras=True)

    def default(field: Field[Any]) -> Any:
        return Parameter.empty if field.default is MISSING else field.default

    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=default(field), annotation=hints[field.name])
        for field in fields(kind)
    ]


@dataclass(frozen=True, kw_only=True)
class TrialFilter:
    """Which trials of a folder a command is about: those that have one of the names in each list. None means all."""

    dataset: Annotated[
        Names, typer.Option(help="Only this data set. Repeatable, as are --model, --track and --acquisition.")
    ] = None
    model: Annotated[Names, typer.Option(help="Only this model.")] = None
    track: Annotated[Names, typer.Option(help="Only this track.")] = None
    acquisition: Annotated[Names, typer.Option(help="Only this acquisition function.")] = None


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """Where a command does its work: on this machine, or on a Ray cluster."""

    backend: Annotated[
        Backend,
        typer.Option(help="local: on this machine; ray: on a Ray cluster.", rich_help_panel="Where it runs"),
    ] = "local"
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of the Ray cluster; by default a cluster is started on this machine.",
            rich_help_panel="Where it runs",
        ),
    ] = None


def use_data_dir(folder: Path | None) -> None:
    """Make a folder of data files known to this process and the workers that it starts; None changes nothing.

    The environment variable ``CAUSALBALD_DATA`` is set. InputError is raised if ``folder`` is no folder.
    """
    if folder is not None:
        if not folder.is_dir():
            raise InputError(f"--data-dir {str(folder)!r} is no folder.")
        os.environ["CAUSALBALD_DATA"] = str(folder.resolve())
