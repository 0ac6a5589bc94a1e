"""NHEFS: smokers of 1971, whether they quit, and how their weight changed. A real study, so nobody knows the truth."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

import pandas as pd

from causalbald.errors import InputError

NHEFS_ID, NHEFS_TREATMENT, NHEFS_OUTCOME = "seqn", "smoking", "wt82_71"


def load_nhefs(outcomes: bool = False) -> pd.DataFrame:
    """Return the 1,629 smokers of NHEFS, a row per person.

    The National Health and Nutrition Examination Survey I examined them in 1971-75. Its Epidemiologic Follow-up Study
    visited them in 1982 and weighed 1,566 of them. The question is how much weight people gain because they quit.
    Hernán and Robins (2020), "Causal Inference: What If", Chapman & Hall/CRC, part II, find a gain of about 3.5 kg.
    See ``datasets/data/README.md`` for source and licence.

    Parameters
    ----------
    outcomes : bool
        Whether the table has the column of outcomes. By default it has none, as before a study.

    Returns
    -------
    DataFrame
        ``seqn``, the id; ``smoking``, the treatment ("quit" by 1982, 428 people, or "continued"); 20 covariates from
        the first examination; and with ``outcomes`` also ``wt82_71``, the weight change in kg, NaN for people who were
        not weighed. ``age`` and ``smokeyrs`` are in years, ``height`` in cm, ``wt71`` in kg, ``cholesterol`` in
        mg/100 ml, ``smokeintensity`` in cigarettes a day, ``income`` of the family in US$ a year, lower end of its
        bracket. Missing values are NaN; high blood pressure and diabetes are missing for 791 people.

    Examples
    --------
    >>> from causalbald.datasets import load_nhefs
    >>> people = load_nhefs()
    >>> len(people), people["smoking"].value_counts().to_dict()
    (1629, {'continued': 1201, 'quit': 428})
    """
    with (files("causalbald.datasets") / "data" / "nhefs.csv").open() as file:
        table = pd.read_csv(file)
    return table if outcomes else table.drop(columns=NHEFS_OUTCOME)


def follow_up(ids: Iterable[object]) -> pd.DataFrame:
    """Return the weight changes of some people, which the visit of 1982 found.

    Parameters
    ----------
    ids : iterable
        The ids of people, as numbers or text, each once.

    Returns
    -------
    DataFrame
        ``seqn`` and ``wt82_71``, a row per id in the order given; NaN for people who could not be weighed.

    Raises
    ------
    InputError
        If an id is unknown or repeated.

    Examples
    --------
    >>> from causalbald.datasets import follow_up
    >>> follow_up([235, "233"])["wt82_71"].round(2).tolist()
    [2.6, -10.09]
    """
    id_texts = pd.Index([str(i) for i in ids], dtype="str")
    measured = load_nhefs(outcomes=True)[[NHEFS_ID, NHEFS_OUTCOME]]
    rows = pd.Index(measured[NHEFS_ID].astype(str)).get_indexer(id_texts)
    if (rows < 0).any():
        raise InputError(
            f"{(rows < 0).sum()} of {len(rows)} ids in column {NHEFS_ID!r} are not in NHEFS, for example "
            f"{id_texts[rows < 0][0]!r}: take them from `causalbald datasets table nhefs`."
        )
    if id_texts.has_duplicates:
        repeated = id_texts[id_texts.duplicated()][0]
        raise InputError(f"column {NHEFS_ID!r} has {repeated!r} more than once: one row per person.")
    return measured.iloc[rows].reset_index(drop=True)
