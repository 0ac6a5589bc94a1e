"""From a user's table to a campaign that could be created: everything is checked, nothing is written yet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald._typing import Array, Positions, Treatment
from causalbald.campaign._events import Creation, Measurements, draft, versions
from causalbald.campaign._pool import pool_parts
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._telling import check_binary
from causalbald.campaign.storage import Draft
from causalbald.errors import InputError
from causalbald.tables import (
    ArmValue,
    Column,
    ColumnSummary,
    Ids,
    InputTable,
    check_column_list,
    check_ids,
    column_of,
    covariate_names,
    find_columns,
    is_text,
    locating_cells,
    read_amounts,
    read_arms,
    read_table,
    to_numbers,
)

if TYPE_CHECKING:
    from causalbald.models import PropensityModel

MAX_COLUMNS = 2000
MAX_SAMPLE_UNITS = 20_000
"""Propensities, and questions about columns, are learned from so many units at most."""


@dataclass(frozen=True, eq=False)
class Preparation:
    """A campaign before it is created, for the user to look at; :meth:`Campaign.start` creates it.

    Parameters
    ----------
    settings : CampaignSettings
    columns : list of Column
        The covariates, and how each becomes numbers.
    summaries : list of ColumnSummary
        Every column that was looked at, and what becomes of it.
    units : Ids
    arm : (N,)
        0 for control, 1 for treated.
    x : (N, D)
        Encoded covariates.
    propensity : (N,)
        Estimated P(treated | x).
    table : Arrow table
        The columns that are stored.
    outcomes : dict
        Outcomes that the table had, by id.
    questions : list of str
        What the user should answer before spending money.
    backend : str, optional
        Kind of the frame that the user gave; None if the user gave a file.
    source : Path, optional
        The file that the table was read from; None if the user gave a frame.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import prepare
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> preparation = prepare(pool, id="patient", treatment="drug", outcome="cd4")
    >>> len(preparation), preparation.x.shape, preparation.settings.arms
    (40, (40, 1), (0, 1))
    """

    settings: CampaignSettings
    columns: list[Column]
    summaries: list[ColumnSummary]
    units: Ids
    arm: Treatment
    x: Array
    propensity: Array
    table: pa.Table
    outcomes: dict[str, float]
    questions: list[str]
    backend: Any
    source: Path | None

    def __len__(self) -> int:
        return len(self.arm)

    def parts(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the bytes of each part of the pool that is stored. Called by ``Campaign.start``."""
        return pool_parts(self.units.text, self.arm, self.propensity, self.table)

    def drafts(self) -> list[Draft]:
        """Return the first events: what the campaign is about, and the outcomes that the table had, if it had any.

        Called by ``Campaign.start``.
        """
        creation = Creation(
            self.settings, tuple(self.columns), len(self), self.units.is_text_column, self.questions, versions()
        )
        told = [draft(Measurements(self.outcomes, "pool"))] if self.outcomes else []
        return [draft(creation), *told]


def prepare(
    pool: Any,
    *,
    id: str,
    treatment: str,
    control: ArmValue | None = None,
    covariates: Sequence[str] | Mapping[str, str] | None = None,
    exclude: Collection[str] = (),
    protected: Sequence[str] = (),
    **settings: Any,
) -> Preparation:
    """Check a table and everything said about it, and return what a campaign would start from. Nothing is written.

    A propensity model is fitted, and columns that may reveal the treatment are looked for. Called by
    ``Campaign.create``, by ``campaign new`` and by :func:`simulate`.

    Parameters
    ----------
    pool : DataFrame, Arrow table, or path to a CSV, Parquet or Excel file
        A row per unit.
    id, treatment, control, covariates, exclude, protected
        As for :meth:`causalbald.campaign.Campaign.create`.
    **settings
        Further fields of :class:`CampaignSettings`, ``outcome`` among them.

    Returns
    -------
    Preparation
        To be looked at, and given to :meth:`causalbald.campaign.Campaign.start`.

    Raises
    ------
    InputError
        If the table, a column or an option cannot be used.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import prepare
    >>> pool = pd.DataFrame({"who": range(40), "drug": [0, 1] * 20, "dose": [0, 3] * 20, "age": range(30, 70)})
    >>> preparation = prepare(pool, id="who", treatment="drug", outcome="cd4")
    >>> preparation.questions  # doctest: +ELLIPSIS
    ["column 'dose' ...: was it measured before the treatment? If not, exclude it."]
    """
    source = read_table(pool, text=[id])
    table = source.data
    if table.num_columns > MAX_COLUMNS:
        raise InputError(f"{source.name} has {table.num_columns} columns, at most {MAX_COLUMNS} are possible.")
    if not table.num_rows:
        raise InputError(f"{source.name} has no rows: give one per person.")
    ids = column_of(table, id, "ids")
    units = Ids(check_ids(ids, id), id, is_text_column=source.typed and is_text(ids.type))

    def describe_row(row: int) -> str:
        """Return the words for a row, counted from 0, in errors."""
        return f"row {row + 1} (id {units.at(np.array([row]))[0]!r})"

    treatments = column_of(table, treatment, "treatment")
    arms = read_arms([treatments], treatments.type, treatment, control, describe_row)
    checked = CampaignSettings(id=id, treatment=treatment, arms=arms.values, protected=tuple(protected), **settings)
    checked.check()
    check_column_list(protected, "protected")
    for name in protected:
        column_of(table, name, "protected group")
    amounts = {role: name for role, name in (("cost", checked.cost), ("weight", checked.weight)) if name is not None}
    names = covariate_names(
        table.column_names,
        {id: "id", treatment: "treatment", checked.outcome: "outcome"},
        covariates=covariates,
        exclude=exclude,
        optional_roles={*amounts.values()},
    )
    for role, name in amounts.items():
        values = column_of(table, name, role)
        read_amounts([values], name, role, describe_row, allow_zero=role == "weight", decimal=source.decimal)
    with locating_cells(describe_row):
        columns, summaries, x = find_columns(table, names, dict(covariates) if isinstance(covariates, Mapping) else {})
        outcomes = _known_outcomes(source, checked, units)
    arm = arms.arm.astype(np.intp)
    stored = {*names, *protected, *amounts.values()}
    return Preparation(
        settings=checked,
        columns=columns,
        summaries=summaries,
        units=units,
        arm=arm,
        x=x,
        propensity=_propensity(x, arm, checked.seed),
        table=table.select([name for name in table.column_names if name in stored]),
        outcomes=outcomes,
        questions=_questions(table, columns, arm, checked.seed),
        backend=source.backend,
        source=Path(pool) if isinstance(pool, (str, Path)) else None,
    )


def _known_outcomes(table: InputTable, settings: CampaignSettings, units: Ids) -> dict[str, float]:
    """Return the outcomes that the table has already, by id; empty without a column of the outcome.

    Called by ``prepare``. Raises InputError if only a column with another case or other spaces has that name, if an
    outcome is no number, and in a binary campaign if an outcome is neither 0 nor 1.
    """
    names = table.data.column_names
    if settings.outcome not in names:
        similar = [name for name in names if name.strip().lower() == settings.outcome.strip().lower()]
        if similar:
            raise InputError(
                f"there is no column {settings.outcome!r} for the outcome, but one {similar[0]!r}: if that is it, "
                "write it so; if not, rename one of them."
            )
        return {}
    outcome = column_of(table.data, settings.outcome, "outcome")
    values = to_numbers(outcome, settings.outcome, decimal=table.decimal)
    measured = np.flatnonzero(~np.isnan(values))
    measured_ids = units.at(measured)
    check_binary(values[measured], measured_ids, settings)
    return dict(zip(measured_ids, values[measured].tolist(), strict=True))


def _propensity(x: Array, arm: Treatment, seed: int) -> Array:
    """Return the estimated P(treated | x) of each unit, (N,). Called by ``prepare``.

    The propensity of a unit is cross-fitted: it comes from a model that has not seen the unit's arm. If the pool has
    more than ``MAX_SAMPLE_UNITS`` units, the model is fitted to a sample, and predicts the other units.
    """
    model = propensity_model(x, arm, seed)
    if len(x) <= MAX_SAMPLE_UNITS:
        cross_fitted: Array = model.cross_fitted_
        return cross_fitted
    propensity = model.predict(x)
    propensity[_sample(len(x), seed)] = model.cross_fitted_
    return propensity


@one_thread()
def propensity_model(x: Array, arm: Treatment, seed: int) -> PropensityModel:
    """Return a model of P(treated | x), fitted to a pool, or to a sample of ``MAX_SAMPLE_UNITS`` of a larger pool.

    The same pool and seed give the same sample and model.
    """
    from causalbald.diagnostics import propensity_clip
    from causalbald.models import PropensityModel

    rows = _sample(len(x), seed) if len(x) > MAX_SAMPLE_UNITS else np.arange(len(x))
    return PropensityModel(clip=propensity_clip(float(arm[rows].mean())), random_state=seed).fit(x[rows], arm[rows])


def _sample(size: int, seed: int) -> Positions:
    """Return sorted positions of a random sample of a pool of ``size`` units, all of them up to ``MAX_SAMPLE_UNITS``.

    The same size and seed give the same sample.
    """
    return np.sort(generator(seed, "setup").choice(size, size=min(size, MAX_SAMPLE_UNITS), replace=False))


def _questions(table: pa.Table, columns: Sequence[Column], arm: Treatment, seed: int) -> list[str]:
    """Return questions about the covariates that may be consequences of the treatment. Called by ``prepare``.

    Of a large pool, a sample of units is looked at.
    """
    from causalbald.diagnostics import find_leaks

    sample = _sample(len(arm), seed)
    leaks = find_leaks(table.select([c.name for c in columns]).take(pa.array(sample)).to_pandas(), arm[sample])
    suspected = leaks[leaks["reason"] != ""]
    return [
        f"column {name!r} {reason}: was it measured before the treatment? If not, exclude it."
        for name, reason in zip(suspected["column"], suspected["reason"], strict=True)
    ]
