"""The commands ``causalbald campaign``: a study in progress, in the order in which it is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from causalbald.cli import _campaign_new, _campaign_record, _campaign_results, _campaign_simulate, _campaign_steps
from causalbald.cli._options import grouped

app = typer.Typer(
    no_args_is_help=True,
    help="Run a study: ask whom to measure next, tell what was measured, see what can be concluded.",
    epilog="\n\n".join(
        (
            "Example, from a table to a report:",
            "causalbald campaign new study.db --pool patients.csv --id patient --treatment drug --control placebo "
            "--outcome cd4",
            "causalbald campaign ask study.db -n 10 -o batch.csv",
            "causalbald campaign tell study.db batch.csv   (after filling in column cd4; then ask again)",
            "causalbald campaign report study.db -o report.html",
        )
    ),
)
START, MEASURE, CONCLUDE, RECORD = "Start", "Measure", "Conclude", "Look up, move"
# Each command with its examples, in the order of the help.
COMMANDS: dict[str, dict[Callable[..., Any], tuple[str, ...]]] = {
    START: {
        _campaign_new.new: (
            "study.db --pool patients.csv --id patient --treatment drug --control placebo --outcome cd4",
            "study2.db --pool patients.csv --id patient --treatment drug --control placebo --outcome cd4 "
            "--better higher --worthwhile 5 --exclude name --categorical race --cost price --budget 10000 "
            "--protected sex --audit 0.1",
        ),
        _campaign_simulate.simulate: (
            "--pool patients.csv --id patient --treatment drug --control placebo --outcome cd4 --batch-size 10 "
            "--rounds 4",
        ),
    },
    MEASURE: {
        _campaign_steps.ask: ("study.db -n 10 -o batch.csv",),
        _campaign_steps.tell: ("study.db results.csv",),
        _campaign_steps.pending: ("study.db -o batch.csv",),
        _campaign_steps.fail: (
            "study.db 17 23 --reason 'did not come'",
            "study.db --from failed.csv --reason 'moved away'",
        ),
        _campaign_steps.withdraw: ("study.db 17 --reason 'withdrew consent'",),
    },
    CONCLUDE: {
        _campaign_results.advice: ("study.db -n 10",),
        _campaign_results.effects: ("study.db -o effects.csv", "study.db 17 23 --alpha 0.1"),
        _campaign_results.ate: ("study.db --json",),
        _campaign_results.subgroups: ("study.db --by sex",),
        _campaign_results.policy: ("study.db -o whom-to-treat.csv",),
        _campaign_results.predict: ("study.db others.csv -o predicted.csv",),
        _campaign_results.score: ("study.db -o scores.csv",),
        _campaign_results.report: ("study.db -o report.html",),
    },
    RECORD: {
        _campaign_record.status: ("study.db", "study.db --json"),
        _campaign_record.history: ("study.db -o history.csv",),
        _campaign_record.columns: ("study.db",),
        _campaign_record.export: ("study.db -o export.jsonl",),
        _campaign_record.import_: ("copy.db export.jsonl",),
    },
}


def _register(command: Callable[..., Any], panel: str, examples: tuple[str, ...]) -> None:
    """Add a command to ``causalbald campaign``. Its name is that of the function, without a last underscore.

    The command is listed under ``panel`` in the help. ``examples`` are its arguments, as they are typed after its name.
    """
    name = command.__name__.removesuffix("_")  # import is a word of Python
    lines = [f"causalbald campaign {name} {example}" for example in examples]
    epilog = f"Example: {lines[0]}" if len(lines) == 1 else "\n\n".join(["Examples:", *lines])
    app.command(name, rich_help_panel=panel, epilog=epilog)(grouped(command))


for _panel, _commands in COMMANDS.items():
    for _command, _examples in _commands.items():
        _register(_command, _panel, _examples)
