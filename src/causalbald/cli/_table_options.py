"""Options of the commands that begin with a table: its columns, the question, money, and how people are chosen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from causalbald import _choices
from causalbald.cli._options import Names
from causalbald.errors import InputError

TABLE, QUESTION, MONEY, CHOICE = "The table", "The question", "Money and fairness", "How people are chosen"


def _models() -> Iterable[str]:
    """Return the names of all models, which a shell completes after ``--model``."""
    from causalbald import models

    return models.names()


def _acquisitions() -> Iterable[str]:
    """Return the names of all acquisition functions, which a shell completes after ``--acquisition``."""
    from causalbald import acquisition

    return acquisition.names()


def _column(help: str, panel: str, *names: str) -> Any:
    """Return an option, under ``panel`` of the help, whose value is a column's name. ``names`` are its spellings."""
    return typer.Option(*names, metavar="COLUMN", help=help, rich_help_panel=panel)


PoolFile = Annotated[
    Path,
    typer.Option(metavar="FILE", help="Everyone who might be measured: CSV, Excel or Parquet.", rich_help_panel=TABLE),
]
Outcome = Annotated[
    str, _column("What is to be measured. If the table has this column, its values count as measured.", TABLE)
]
Cost = Annotated[
    str | None,
    _column("What measuring each person costs. Batches then teach as much as possible for their cost.", MONEY),
]
Weight = Annotated[
    str | None,
    _column(
        "How much each person's effect matters, for example 1 in your region and 0 elsewhere; by default all matter "
        "equally.",
        QUESTION,
    ),
]
Model = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="What learns from the outcomes: one of `causalbald models`.",
        rich_help_panel=CHOICE,
        autocompletion=_models,
    ),
]
Acquisition = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="What says whom to measure: one of `causalbald acquisitions`.",
        rich_help_panel=CHOICE,
        autocompletion=_acquisitions,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        metavar="NUMBER",
        help="Starts all random draws: the same history and seed give the same next batch.",
        min=0,
        rich_help_panel=CHOICE,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Which columns of a table are id, treatment and covariates, and what kinds of values they have."""

    id: Annotated[str, _column("A name or number that only one person has.", TABLE, "--id")]
    treatment: Annotated[str, _column("Which treatment each person got: two values.", TABLE)]
    control: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE",
            help="Which of the two values is the control; not needed for 0/1, no/yes and false/true.",
            rich_help_panel=TABLE,
        ),
    ] = None
    covariate: Annotated[
        Names, _column("Describe people by this column; by default by all columns. Repeatable.", TABLE)
    ] = None
    exclude: Annotated[Names, _column("Do not use this column. Repeatable.", TABLE)] = None
    categorical: Annotated[Names, _column("The numbers in this column stand for categories. Repeatable.", TABLE)] = None
    numeric: Annotated[Names, _column("This column holds numbers. Repeatable.", TABLE)] = None

    def kinds(self) -> dict[str, str]:
        """Return "categorical" or "numeric" for each column that --categorical and --numeric name; others are absent.

        InputError is raised for a column that both name.
        """
        kinds = dict.fromkeys(self.categorical or [], "categorical")
        for name in self.numeric or []:
            if name in kinds:
                raise InputError(f"column {name!r} cannot be both --categorical and --numeric.")
            kinds[name] = "numeric"
        return kinds


@dataclass(frozen=True, kw_only=True)
class StudyOptions(ColumnOptions):
    """What `campaign new` and `campaign simulate` take about a study, besides weights and a budget."""

    outcome: Outcome
    better: Annotated[_choices.Better, typer.Option(help="Which outcomes are better.", rich_help_panel=QUESTION)] = (
        "higher"
    )
    worthwhile: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            help="How much better the treatment must make the outcome to be worth it, in the outcome's own unit.",
            rich_help_panel=QUESTION,
        ),
    ] = 0.0
    outcome_type: Annotated[
        _choices.OutcomeType,
        typer.Option(
            help="binary: outcomes are 0 or 1, and effects are differences of probabilities.",
            rich_help_panel=QUESTION,
        ),
    ] = "auto"
    cost: Cost = None
    protected: Annotated[
        Names,
        _column(
            "Groups that must not be overlooked: the report shows how many of each were measured. Repeatable.", MONEY
        ),
    ] = None
    audit: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Share of each batch that is drawn at random, to check the model honestly: 0.1 is one in ten.",
            rich_help_panel=CHOICE,
        ),
    ] = 0.0
    model: Model = "auto"
    acquisition: Acquisition = "default"
    seed: Seed = 0

    def of_campaign(self, pool: Path) -> dict[str, Any]:
        """Return these options as keyword arguments of ``Campaign.create``; ``pool`` is the table's file.

        --categorical and --numeric become part of ``covariates`` and ``exclude``. The file is read only if --covariate
        is given with one of them. InputError is raised for a column that is both categorical and numeric.
        """
        kinds = self.kinds()
        same = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("covariate", *_KIND_OPTIONS)}
        return same | {
            "protected": self.protected or [],
            "covariates": kinds or self.covariate or None,
            "exclude": [*(self.exclude or []), *self._not_named(pool, kinds)],
        }

    def _not_named(self, pool: Path, kinds: dict[str, str]) -> list[str]:
        """Return the columns to exclude because --covariate does not name them.

        ``Campaign.create`` takes covariates either as a list, or with kinds and then uses all columns. With both
        --covariate and kinds, all other columns must therefore be excluded by name. InputError is raised if the table
        lacks a column of --covariate.
        """
        from causalbald.tables import column_of, read_table

        if not (self.covariate and kinds):
            return []
        table = read_table(pool).data
        for name in self.covariate:
            column_of(table, name, "covariates")
        named = {*self.covariate, *kinds, self.id, self.treatment, self.outcome}
        return [name for name in table.column_names if name not in named]


_KIND_OPTIONS = ("categorical", "numeric")
