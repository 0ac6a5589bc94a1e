"""The program ``causalbald``: options of every command, and what is said when something goes wrong."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from causalbald._addresses import masked, without_passwords
from causalbald._registry import PLUGINS_VARIABLE, plugin_at_fault
from causalbald._version import __version__
from causalbald.cli import _campaign, _datasets, _experiments, _figure_commands, _pools, _studies, _tuning
from causalbald.cli._output import say_error, stderr
from causalbald.errors import CausalBaldError

# The class of click, or of the copy of click that newer releases of typer have.
_UsageError: Any = typer.BadParameter.__base__


class Program(TyperGroup):
    """The program, which shows no passwords in its messages and ends an interrupt in one line."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Return the context of the program's own options; called by typer."""
        with _passwords_hidden():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; called by typer. An interrupt ends with exit code 130, as shells expect."""
        try:
            with _passwords_hidden():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            stderr.print("Stopped.")
            raise typer.Exit(130) from None


def _without_own_passwords(text: str) -> str:
    """Return a text without the passwords on this process's command line."""
    return without_passwords(text, sys.argv[1:])


@contextmanager
def _passwords_hidden() -> Iterator[None]:
    """Hide passwords in the message about a command line that cannot be understood."""
    try:
        yield
    except _UsageError as error:
        error.message = _without_own_passwords(error.message)
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


def _print_version(wanted: bool) -> None:
    """Print the version and end; called by typer for --version."""
    if wanted:
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
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Take the options that stand before the name of a command."""
    context.ensure_object(dict)["debug"] = debug
    if plugin:
        earlier = filter(None, [os.environ.get(PLUGINS_VARIABLE)])
        # Through the environment, so that worker processes load the same files.
        os.environ[PLUGINS_VARIABLE] = os.pathsep.join([*earlier, *(str(path.resolve()) for path in plugin)])


_studies.register(app)
_datasets.register(app)
app.add_typer(_campaign.app, name="campaign")
app.add_typer(_pools.app)
app.add_typer(_experiments.app)
_tuning.register(app)
app.add_typer(_figure_commands.app)


def main() -> None:
    """Run the command line. A mistake in the input ends with one line and exit code 1."""
    options: dict[str, bool] = {}
    warnings.formatwarning = lambda message, *_, **__: _without_own_passwords(f"warning: {message}\n")
    try:
        app(obj=options)
    except Exception as error:
        if options.get("debug"):
            sys.stderr.write(_without_own_passwords("".join(traceback.format_exception(error))))
        else:
            say_error("error", _without_own_passwords(_explanation(error)))
        sys.exit(1)


def _explanation(error: Exception) -> str:
    """Return in one line what is wrong and what to do about it."""
    if isinstance(error, CausalBaldError):
        return str(error)
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{str(error.filename)!r}: "
        return f"{where}{error.strerror or error}. Check names, folders, permissions and free space."
    what = f"{type(error).__name__}: {error}".partition("\n")[0]
    again = shlex.join(["causalbald", "--debug", *map(masked, sys.argv[1:])])
    if (line := plugin_at_fault(error)) is not None:
        return f"the plugin failed ({what}) at {line}. Fix it; this command prints every call: {again}"
    return f"this is a bug in causalbald ({what}). Please report what this command prints: {again}"
