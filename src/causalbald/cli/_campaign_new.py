"""The command ``campaign new``: a table is read and shown, and a campaign is created from it."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from causalbald._files import check_place
from causalbald.cli import _campaign_words as table
from causalbald.cli._campaign_options import CampaignPlace, say_next
from causalbald.cli._output import busy, draw_table, print_json, printable, save_figure, say, stderr
from causalbald.errors import CampaignExistsError, StorageError

if TYPE_CHECKING:
    import pandas as pd

    from causalbald.campaign import Preparation
    from causalbald.diagnostics import Separation, Support

_UNBALANCED_SHOWN = 8


def new(
    study: CampaignPlace,
    pool: table.Pool,
    id_: table.Id,
    treatment: table.Treatment,
    outcome: table.Outcome,
    control: table.Control = None,
    covariate: table.Covariate = None,
    exclude: table.Exclude = None,
    categorical: table.Categorical = None,
    numeric: table.Numeric = None,
    better: table.BetterOption = table.Better.HIGHER,
    worthwhile: table.Worthwhile = 0.0,
    outcome_type: table.OutcomeTypeOption = table.OutcomeType.AUTO,
    cost: table.Cost = None,
    budget: table.Budget = None,
    weight: table.Weight = None,
    protected: table.Protected = None,
    audit: table.Audit = 0.0,
    model: table.Model = "auto",
    acquisition: table.Acquisition = "default",
    seed: table.Seed = 0,
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the overlap: .svg, .png or .pdf.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Create it without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look at the table, but create nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Create a campaign from a table, after showing what was found in it and whether the arms can be compared."""
    given = table.table_options(locals())
    check_place(picture)
    if not dry_run:
        _require_free(study)
    with busy(f"reading {pool.name}"):
        from causalbald.campaign import prepare

        prepared = prepare(pool, **given)
        found = _Found.of(prepared)
    if not as_json:
        _show(prepared, found, pool.name)
    if picture is not None:
        from causalbald.figures._support import draw_support

        save_figure(draw_support(prepared.propensity, prepared.arm, prepared.settings.arm_names), picture, pool)
    if dry_run:
        say("Nothing was created.")
    else:
        _create(study, prepared, confirm=not (yes or as_json))
    if as_json:
        print_json(_summary(prepared, found))


def _require_free(study: str) -> None:
    """Fail before the work, not after it."""
    from causalbald.campaign.storage import open_storage

    try:
        open_storage(study).events()
    except StorageError:
        return  # whatever else is wrong is said when the campaign is created
    raise CampaignExistsError("there is a campaign already: choose another name, or see `causalbald campaign status`.")


def _create(study: str, prepared: Preparation, *, confirm: bool) -> None:
    from causalbald.campaign import Campaign

    people_watch = sys.stdin.isatty() and sys.stderr.isatty()
    if confirm and people_watch and not typer.confirm("Create the campaign?", default=True, err=True):
        say("Nothing was created.")
        raise typer.Exit(1)
    Campaign.start(study, prepared).close()
    say_next("The campaign is created. Next: causalbald campaign ask", study, " -n 10 -o batch.csv")


@dataclass(frozen=True, eq=False)
class _Found:
    """How the arms of a prepared campaign compare."""

    support: Support
    separation: Separation
    balance: pd.DataFrame
    """Encoded covariates, the worst balanced first."""

    @classmethod
    def of(cls, prepared: Preparation) -> _Found:
        """Compare the arms."""
        from causalbald.diagnostics import balance_table, common_support, separation
        from causalbald.tables._columns import feature_names

        balance = balance_table(prepared.x, prepared.arm)
        balance["covariate"] = feature_names(prepared.columns)
        worst = balance["difference"].abs().sort_values(ascending=False, kind="stable").index
        pi, arm = prepared.propensity, prepared.arm
        return cls(common_support(pi, arm), separation(pi, arm), balance.loc[worst])


def _show(prepared: Preparation, found: _Found, name: str) -> None:
    """Print for people what was found, before any money is spent."""
    from causalbald.diagnostics import support_lines

    names, sizes, outcome = prepared.settings.arm_names, found.support.arm_sizes, prepared.settings.outcome
    say(
        f"{name}: {len(prepared):,} people, {sizes[1]:,} with {names[1]!r} and {sizes[0]:,} with the control, "
        f"{names[0]!r}. {len(prepared.outcomes):,} outcomes ({outcome!r}) are known already."
    )
    draw_table([asdict(d) for d in prepared.described], stderr)
    _title(f"Can the arms be compared? Estimated probability of {names[1]!r}, given the columns above")
    width = min(100, max(60, stderr.width))
    for line in support_lines(prepared.propensity, prepared.arm, names, width):
        say(line)
    say(found.support.summary(names))
    stderr.print(Text(found.separation.summary(), style="bold red" if found.separation.determined else ""))
    _show_balance(prepared, found)
    if prepared.questions:
        _title("Please answer before you go on")
        for question in prepared.questions:
            say(f"? {question}")
        say("")


def _show_balance(prepared: Preparation, found: _Found) -> None:
    control, treated = prepared.settings.arm_names
    flagged = found.balance[found.balance["flagged"]]
    total = len(found.balance)
    _title(f"In what the arms differ: {len(flagged)} of {total} by more than 0.1 standard deviations")
    rows = [
        {"column": r.covariate, f"mean, {control}": r.mean_control, f"mean, {treated}": r.mean_treated}
        | {"difference / sd": r.difference}
        for r in flagged.head(_UNBALANCED_SHOWN).itertuples()
    ]
    if rows:
        draw_table(rows, stderr)
    if len(flagged) > len(rows):
        say(f"… and {len(flagged) - len(rows)} more.")


def _title(text: str) -> None:
    stderr.print(Text(f"\n{printable(text)}", style="bold"), soft_wrap=True)


def _summary(prepared: Preparation, found: _Found) -> dict[str, Any]:
    """Return what was found, for programs."""
    names, support = prepared.settings.arm_names, found.support
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
        "columns": [asdict(d) for d in prepared.described],
        "auc": found.separation.auc,
        "balance": found.balance.to_dict("records"),
        "questions": prepared.questions,
    }
