"""The command ``campaign new``: a table is read and shown, and a campaign is created from it."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causalbald._files import check_place
from causalbald.cli import _table_options as table
from causalbald.cli._campaign_options import CampaignPlace, say_next
from causalbald.cli._output import busy, draw_table, print_json, save_figure, say, stderr
from causalbald.errors import CampaignExistsError, StorageError

if TYPE_CHECKING:
    import pandas as pd

    from causalbald.campaign import Preparation
    from causalbald.diagnostics import Separation, Support

MAX_UNBALANCED_SHOWN = 8
"""How many covariates in which the arms differ are shown."""


def new(
    study: CampaignPlace,
    pool: table.PoolFile,
    options: table.StudyOptions,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="What may be spent in all: in the unit of --cost, or a number of measurements.",
            rich_help_panel=table.MONEY,
        ),
    ] = None,
    weight: table.Weight = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw how the arms overlap: .svg, .png or .pdf.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Create the campaign without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the table, but create nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is shown as JSON.")] = False,
) -> None:
    """Create a campaign from a table, after showing what is in it and whether the arms can be compared.

    At a terminal, the command asks before it creates the campaign, unless --yes
    or --json is given. A campaign that exists is never replaced.
    """
    settings = options.of_campaign(pool) | {"budget": budget, "weight": weight}
    check_place(picture)
    if not dry_run:
        _require_free(study)
    with busy(f"reading {pool.name}"):
        from causalbald.campaign import prepare

        prepared = prepare(pool, **settings)
        comparison = _Comparison.of(prepared)
    if not as_json:
        _show(prepared, comparison, pool.name)
    if picture is not None:
        from causalbald.figures import draw_support

        save_figure(draw_support(prepared.propensity, prepared.arm, prepared.settings.arm_names), picture, pool)
    if dry_run:
        say("Nothing was created.")
    else:
        _create(study, prepared, confirm=not (yes or as_json))
    if as_json:
        print_json(_summary(prepared, comparison))


def _require_free(study: str) -> None:
    """Raise CampaignExistsError, before the table is read, if ``study`` holds a campaign already.

    Other errors of the storage are ignored here: creating the campaign meets them again and explains them.
    """
    from causalbald.campaign.storage import open_storage

    try:
        open_storage(study).events()
    except StorageError:
        return
    raise CampaignExistsError("there is a campaign already: choose another name, or see `causalbald campaign status`.")


def _create(study: str, prepared: Preparation, *, confirm: bool) -> None:
    """Create the campaign and print the next command.

    With ``confirm``, a person at a terminal is asked first; the answer no creates nothing and ends the command with
    exit code 1. Without a terminal, nobody is asked.
    """
    from causalbald.campaign import Campaign

    person_is_there = sys.stdin.isatty() and sys.stderr.isatty()
    if confirm and person_is_there and not typer.confirm("Create the campaign?", default=True, err=True):
        say("Nothing was created.")
        raise typer.Exit(1)
    Campaign.start(study, prepared).close()
    say_next("The campaign is created. Next: causalbald campaign ask", study, " -n 10 -o batch.csv")


@dataclass(frozen=True, eq=False)
class _Comparison:
    """How the arms of a prepared campaign compare; made by :meth:`of`."""

    support: Support
    separation: Separation
    balance: pd.DataFrame
    """A row per encoded covariate, the largest difference between the arms first; see ``balance_table``."""

    @classmethod
    def of(cls, prepared: Preparation) -> _Comparison:
        """Return common support, separation and balance of a prepared campaign's arms."""
        from causalbald.diagnostics import balance_table, common_support, separation
        from causalbald.tables import feature_names

        balance = balance_table(prepared.x, prepared.arm)
        balance["covariate"] = feature_names(prepared.columns)
        worst = balance["difference"].abs().sort_values(ascending=False, kind="stable").index
        propensity, arm = prepared.propensity, prepared.arm
        return cls(common_support(propensity, arm), separation(propensity, arm), balance.loc[worst])


def _show(prepared: Preparation, comparison: _Comparison, name: str) -> None:
    """Print to stderr, for people, what is in the table and how the arms compare.

    The questions that the user should answer before the campaign is created come last. ``name`` is the table's file.
    """
    from causalbald.diagnostics import support_lines

    names, sizes, outcome = prepared.settings.arm_names, comparison.support.arm_sizes, prepared.settings.outcome
    say(
        f"{name}: {len(prepared):,} people, {sizes[1]:,} with {names[1]!r} and {sizes[0]:,} with the control, "
        f"{names[0]!r}. {len(prepared.outcomes):,} outcomes ({outcome!r}) are known already."
    )
    draw_table([asdict(summary) for summary in prepared.summaries], stderr)
    _title(f"Can the arms be compared? Estimated probability of {names[1]!r}, given the columns above")
    width = min(100, max(60, stderr.width))
    for line in support_lines(prepared.propensity, prepared.arm, names, width):
        say(line)
    say(comparison.support.summary(names))
    say(comparison.separation.summary(), style="bold red" if comparison.separation.determined else "")
    _show_balance(prepared, comparison)
    if prepared.questions:
        _title("Please answer before you go on")
        for question in prepared.questions:
            say(f"? {question}")
        say("")


def _show_balance(prepared: Preparation, comparison: _Comparison) -> None:
    """Print how many encoded covariates are flagged as unbalanced, and the worst ``MAX_UNBALANCED_SHOWN`` of them."""
    control, treated = prepared.settings.arm_names
    flagged = comparison.balance[comparison.balance["flagged"]]
    total = len(comparison.balance)
    _title(f"In what the arms differ: {len(flagged)} of {total} by more than 0.1 standard deviations")
    rows = [
        {"column": r.covariate, f"mean, {control}": r.mean_control, f"mean, {treated}": r.mean_treated}
        | {"difference / sd": r.difference}
        for r in flagged.head(MAX_UNBALANCED_SHOWN).itertuples()
    ]
    if rows:
        draw_table(rows, stderr)
    if len(flagged) > len(rows):
        say(f"… and {len(flagged) - len(rows)} more.")


def _title(text: str) -> None:
    """Print an empty line and a bold heading to stderr."""
    stderr.print()
    say(text, style="bold")


def _summary(prepared: Preparation, comparison: _Comparison) -> dict[str, Any]:
    """Return for programs, as plain values for JSON, what :func:`_show` prints for people, with all covariates."""
    names, support = prepared.settings.arm_names, comparison.support
    counts = zip(names, support.arm_sizes, support.outside_by_arm, support.unmatched_by_arm, strict=True)
    return {
        "settings": prepared.settings.as_json(),
        "units": len(prepared),
        "arms": [
            {"arm": name, "units": int(n), "outside_support": int(outside), "unmatched": int(unmatched)}
            for name, n, outside, unmatched in counts
        ],
        "support_band": list(support.band),
        "outcomes_known": len(prepared.outcomes),
        "columns": [asdict(summary) for summary in prepared.summaries],
        "auc": comparison.separation.auc,
        "balance": comparison.balance.to_dict("records"),
        "questions": prepared.questions,
    }
