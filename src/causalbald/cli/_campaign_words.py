"""What the commands that begin with a table take: who is in it, what is asked, and how people are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from causalbald.errors import InputError


class Better(StrEnum):
    """Which outcomes are good."""

    HIGHER = "higher"
    LOWER = "lower"


class OutcomeType(StrEnum):
    """Kinds of outcomes."""

    AUTO = "auto"
    CONTINUOUS = "continuous"
    BINARY = "binary"


def _models() -> Iterable[str]:
    from causalbald import models

    return models.names()


def _acquisitions() -> Iterable[str]:
    from causalbald import acquisition

    return acquisition.names()


_TABLE, _AIM, _MONEY, _CHOICE = "The table", "The question", "Money and fairness", "How people are chosen"
_Names = list[str] | None

Pool = Annotated[
    Path,
    typer.Option(metavar="FILE", help="Everyone who might be measured: CSV, Excel or Parquet.", rich_help_panel=_TABLE),
]
Id = Annotated[
    str, typer.Option("--id", metavar="COLUMN", help="A name or number for everyone.", rich_help_panel=_TABLE)
]
Treatment = Annotated[
    str, typer.Option(metavar="COLUMN", help="Who got which treatment: two values.", rich_help_panel=_TABLE)
]
Control = Annotated[
    str | None,
    typer.Option(
        metavar="VALUE",
        help="Which of the two is the control; found by itself for 0/1, no/yes, false/true.",
        rich_help_panel=_TABLE,
    ),
]
Outcome = Annotated[
    str,
    typer.Option(
        metavar="COLUMN", help="What is to be measured; values that it has are taken over.", rich_help_panel=_TABLE
    ),
]
Covariate = Annotated[
    _Names,
    typer.Option(
        metavar="COLUMN", help="Tell people apart only by this; default: by all. Repeatable.", rich_help_panel=_TABLE
    ),
]
Exclude = Annotated[_Names, typer.Option(metavar="COLUMN", help="Leave it out. Repeatable.", rich_help_panel=_TABLE)]
Categorical = Annotated[
    _Names,
    typer.Option(metavar="COLUMN", help="Take its numbers for categories. Repeatable.", rich_help_panel=_TABLE),
]
Numeric = Annotated[
    _Names, typer.Option(metavar="COLUMN", help="Take it for numbers. Repeatable.", rich_help_panel=_TABLE)
]
BetterOption = Annotated[Better, typer.Option(help="Which outcomes are better.", rich_help_panel=_AIM)]
Worthwhile = Annotated[
    float,
    typer.Option(
        metavar="NUMBER",
        help="How much better the outcome must be for the treatment to be worth it, in its own unit.",
        rich_help_panel=_AIM,
    ),
]
OutcomeTypeOption = Annotated[
    OutcomeType, typer.Option(help="binary: 0 or 1, and effects are differences of risks.", rich_help_panel=_AIM)
]
Cost = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="What measuring each person costs; information is then bought per cost.",
        rich_help_panel=_MONEY,
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        metavar="NUMBER",
        help="What may be spent in all: in the unit of --cost, or measurements.",
        rich_help_panel=_MONEY,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="How much each person's effect matters, for example 1 in the region that counts and 0 elsewhere; default: "
        "all the same.",
        rich_help_panel=_AIM,
    ),
]
Protected = Annotated[
    _Names,
    typer.Option(
        metavar="COLUMN",
        help="Its groups must not be overlooked: the report shows who was measured. Repeatable.",
        rich_help_panel=_MONEY,
    ),
]
Audit = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="Of each batch, drawn at random for honest checks: 0.1 is one in ten.",
        rich_help_panel=_CHOICE,
    ),
]
Model = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="auto, or one of `causalbald models`.", rich_help_panel=_CHOICE, autocompletion=_models
    ),
]
Acquisition = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="One of `causalbald acquisitions`.",
        rich_help_panel=_CHOICE,
        autocompletion=_acquisitions,
    ),
]
Seed = Annotated[
    int,
    typer.Option(metavar="NUMBER", help="Same history and seed, same next batch.", min=0, rich_help_panel=_CHOICE),
]
# Options that have the names of the parameters; simulations have neither weight nor budget.
_PLAIN = (
    *("treatment", "control", "outcome", "worthwhile", "weight"),
    *("cost", "budget", "audit", "model", "acquisition", "seed"),
)


def table_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``Campaign.create`` takes beside the pool, from the options of a command by name."""
    known = kinds(given)
    return {
        **{name: given[name] for name in _PLAIN if name in given},
        "id": given["id_"],
        "better": given["better"].value,
        "outcome_type": given["outcome_type"].value,
        "protected": given["protected"] or [],
        "covariates": known or given["covariate"] or None,
        "exclude": [*(given["exclude"] or []), *_not_named(given, known)],
    }


def kinds(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the kinds of columns that the options name."""
    found = dict.fromkeys(given["categorical"] or [], "categorical")
    for name in given["numeric"] or []:
        if name in found:
            raise InputError(f"column {name!r} cannot be both --categorical and --numeric.")
        found[name] = "numeric"
    return found


def _not_named(given: Mapping[str, Any], kinds: Mapping[str, str]) -> list[str]:
    """Return the columns to leave out where some are named by --covariate and the kinds of some are given, too."""
    from causalbald.tables._reading import column, read_table

    if not (given["covariate"] and kinds):
        return []
    table = read_table(given["pool"]).data
    for name in given["covariate"]:
        column(table, name, "covariates")
    kept = {*given["covariate"], *kinds, given["id_"], given["treatment"], given["outcome"]}
    return [name for name in table.column_names if name not in kept]
