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
    """The commands of ``causalbald`` as one program: its messages show no passwords, and Ctrl-C ends it in one line."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Return the context with the options that stand before the name of a command. Called by typer."""
        with _passwords_hidden():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named. Called by typer. Ctrl-C ends it with exit code 130, as shells expect."""
        try:
            with _passwords_hidden():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            stderr.print("Stopped.")
            raise typer.Exit(130) from None


def _without_own_passwords(text: str) -> str:
    """Return a text with ``***`` in place of every password that stands on this process's command line."""
    return without_passwords(text, sys.argv[1:])


@contextmanager
def _passwords_hidden() -> Iterator[None]:
    """Hide passwords in typer's message about wrong options or arguments, and raise its error again."""
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
    """Print the version and end the program if ``wanted``. Called by typer for --version."""
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
    """Take the options that stand before the name of a command. Called by typer before the command.

    ``debug`` is kept in the context, where :func:`main` reads it. The files of ``plugin`` are added to those that the
    environment variable ``PLUGINS_VARIABLE`` names; the registry loads them when a name is first looked up.
    """
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
    """Run the command line. Called by the script ``causalbald`` and by ``python -m causalbald``.

    An error ends the program with exit code 1 and one line on stderr, or with --debug with its traceback. Warnings
    are one line, too. None of these shows a password of the command line.
    """
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
    """Return in one line what is wrong and what to do about it. Called by :func:`main`.

    Errors of this package explain themselves. Those of the system get the name of the file. Any other error is a
    mistake in a plugin or in this package: the line then says which, and how to see the traceback.
    """
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
