"""NHEFS: smokers of 1971, who of them quit, and how their weight changed. A real study, so the truth is not known."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

import pandas as pd

from causalbald.errors import InputError

ID, TREATMENT, OUTCOME = "seqn", "smoking", "wt82_71"


def load_nhefs(outcomes: bool = False) -> pd.DataFrame:
    """Return the 1,629 smokers of NHEFS, one row each, without their outcomes unless ``outcomes``.

    The National Health and Nutrition Examination Survey I examined them in 1971-75; its Epidemiologic Follow-up Study
    visited them in 1982 and weighed 1,566 of them. The question is how much weight people gain because they quit.

    Columns: ``seqn``, the id; ``smoking``, the treatment ("quit" by 1982, 428 people, or "continued"); 20 covariates,
    all from the first examination; and with ``outcomes`` also ``wt82_71``, the weight change in kg, NaN where a person
    was not weighed. Units: ``age`` and ``smokeyrs`` in years, ``height`` in cm, ``wt71`` in kg, ``cholesterol`` in
    mg/100 ml, ``smokeintensity`` in cigarettes a day, ``income`` of the family in US$ a year, lower end of its bracket.
    What is missing is NaN; high blood pressure and diabetes are not known of 791 people.

    The data are those of Hernán and Robins (2020), "Causal Inference: What If", Chapman & Hall/CRC, part II, who find
    a gain of about 3.5 kg. See ``datasets/data/README.md`` for source and licence.
    """
    with (files("causalbald.datasets") / "data" / "nhefs.csv").open() as file:
        table = pd.read_csv(file)
    return table if outcomes else table.drop(columns=OUTCOME)


def follow_up(ids: Iterable[object]) -> pd.DataFrame:
    """Visit these people in 1982: return ``seqn`` and ``wt82_71`` in their order, NaN of whom could not be weighed.

    Raises InputError where an id is unknown or repeated; ids may be numbers or text.
    """
    wanted = pd.Index([str(i) for i in ids], dtype="str")
    known = load_nhefs(outcomes=True)[[ID, OUTCOME]]
    rows = pd.Index(known[ID].astype(str)).get_indexer(wanted)
    if (rows < 0).any():
        raise InputError(
            f"{(rows < 0).sum()} of {len(rows)} ids in column {ID!r} are not in NHEFS, for example "
            f"{wanted[rows < 0][0]!r}: take them from `causalbald datasets table nhefs`."
        )
    if wanted.has_duplicates:
        raise InputError(f"column {ID!r} has {wanted[wanted.duplicated()][0]!r} more than once: one row per person.")
    return known.iloc[rows].reset_index(drop=True)
