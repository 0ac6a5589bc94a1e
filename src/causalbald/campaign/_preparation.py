"""From a user's table to a campaign that could be created: everything is checked, nothing is written yet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald._typing import Array, Treatment
from causalbald.campaign._events import Creation, Measurements, draft, versions
from causalbald.campaign._pool import pool_parts
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._telling import check_binary
from causalbald.campaign.storage import Draft
from causalbald.errors import InputError
from causalbald.tables._arms import Value, check_treatment_kind, find_arms
from causalbald.tables._columns import Column, ColumnSummary, as_text, cells_named, encode, find_columns, to_numbers
from causalbald.tables._ids import Units, id_text, is_text
from causalbald.tables._reading import TableIn, column, read_table

if TYPE_CHECKING:
    from causalbald.models import PropensityModel

MAX_COLUMNS = 2000
_ENOUGH = 20_000  # units from which propensities and hints about columns are learned


@dataclass(frozen=True, eq=False)
class Preparation:
    """A campaign before it is created, for the user to look at."""

    settings: CampaignSettings
    columns: list[Column]
    described: list[ColumnSummary]
    units: Units
    arm: Treatment
    x: Array
    propensity: Array
    table: pa.Table
    outcomes: dict[str, float]
    questions: list[str]
    backend: Any
    source: Path | None
    """The file that the table was read from, if it was one."""

    def __len__(self) -> int:
        return len(self.arm)

    def parts(self) -> Iterator[tuple[str, bytes]]:
        """Return what is stored of the pool."""
        return pool_parts(self.units.text, self.arm, self.propensity, self.table)

    def drafts(self) -> list[Draft]:
        """Return the first events: what the campaign is about, and the outcomes that the table had."""
        creation = Creation(
            self.settings, tuple(self.columns), len(self), self.units.kept_as_text, self.questions, versions()
        )
        told = [draft(Measurements(self.outcomes, "pool"))] if self.outcomes else []
        return [draft(creation), *told]


def prepare(
    pool: Any,
    *,
    id: str,
    treatment: str,
    control: Value | None = None,
    covariates: Sequence[str] | Mapping[str, str] | None = None,
    exclude: Collection[str] = (),
    protected: Sequence[str] = (),
    **others: Any,
) -> Preparation:
    """Check a table and everything said about it; see :meth:`causalbald.campaign.Campaign.create`.

    ``others`` are further fields of :class:`CampaignSettings`.
    """
    found = read_table(pool, text=[id])
    table = found.data
    if table.num_columns > MAX_COLUMNS:
        raise InputError(f"{found.name} has {table.num_columns} columns, at most {MAX_COLUMNS} are possible.")
    if not table.num_rows:
        raise InputError(f"{found.name} has no rows: give one per person.")
    ids = column(table, id, "ids")
    units = Units(id_text(ids, id), id, text=found.typed and is_text(ids.type))
    arms, arm = _arms(column(table, treatment, "treatment"), treatment, control, units)
    settings = CampaignSettings(id=id, treatment=treatment, arms=arms, protected=tuple(protected), **others)
    settings.check()
    for option, given in (("protected", protected), ("exclude", exclude)):
        if isinstance(given, str):
            raise InputError(f"{option} must be a list of columns, got the text {given!r}: write [{given!r}].")
    for name in protected:
        column(table, name, "protected group")
    names = _covariate_names(table, settings, covariates, exclude)
    kinds = dict(covariates) if isinstance(covariates, Mapping) else {}
    with cells_named(lambda row: f"row {row + 1} (id {units.at(np.array([row]))[0]!r})"):
        _check_numbers(found, "cost", settings.cost, units, zero=False)
        _check_numbers(found, "weight", settings.weight, units, zero=True)
        columns, described = find_columns(table, names, kinds)
        x = encode(columns, table)
        outcomes = _known_outcomes(found, settings, units)
    kept = [n for n in table.column_names if n in {*names, *protected, settings.cost, settings.weight}]
    return Preparation(
        settings,
        columns,
        described,
        units,
        arm,
        x,
        _propensity(x, arm, settings.seed),
        table.select(kept),
        outcomes,
        _questions(table, columns, arm, settings.seed),
        found.backend,
        Path(pool) if isinstance(pool, (str, Path)) else None,
    )


def _arms(
    values: pa.ChunkedArray, name: str, control: Value | None, units: Units
) -> tuple[tuple[Value, Value], Treatment]:
    """Return both values of the treatment, control first, and the arm of every unit."""
    check_treatment_kind(values.type, name)
    if values.null_count:
        example = units.at(np.flatnonzero(values.is_null().to_numpy())[:1])[0]
        raise InputError(
            f"treatment {name!r} is missing for {values.null_count} units, for example id {example!r}: "
            "leave them out of the pool. In CSV files words such as NA and None count as missing, too."
        )
    arms, control_text = find_arms(pc.unique(values), name, control)
    return arms, (as_text(values).to_numpy() != control_text).astype(np.intp)


def _check_numbers(table: TableIn, role: str, name: str | None, units: Units, *, zero: bool) -> None:
    """Refuse a column of costs or weights unless it has a number above 0, or also ``zero``, for everyone."""
    if name is None:
        return
    values = to_numbers(column(table.data, name, role), name, decimal=table.decimal)
    bad = ~(values >= 0 if zero else values > 0)
    if bad.any():
        raise InputError(
            f"{role} {name!r} must be a number {'of at least' if zero else 'above'} 0 for everyone, but is not for "
            f"{int(bad.sum())} units, for example id {units.at(np.flatnonzero(bad)[:1])[0]!r}."
        )
    if not values.any():
        raise InputError(f"{role} {name!r} is 0 for everyone: someone must matter.")


def _covariate_names(
    table: pa.Table,
    settings: CampaignSettings,
    covariates: Sequence[str] | Mapping[str, str] | None,
    exclude: Collection[str],
) -> list[str]:
    roles = {settings.id, settings.treatment, settings.outcome, settings.cost, settings.weight}
    for name in exclude:
        column(table, name, "columns to exclude")
    if covariates is None:
        return [n for n in table.column_names if n not in roles and n not in set(exclude)]
    if isinstance(covariates, str):
        raise InputError(f"covariates must be a list of columns, got the text {covariates!r}.")
    for name in covariates:
        column(table, name, "covariates")
        if name in roles - {settings.cost, settings.weight}:
            raise InputError(f"column {name!r} cannot be a covariate: it is the id, the treatment or the outcome.")
    every = table.column_names if isinstance(covariates, Mapping) else covariates
    chosen = [n for n in every if n not in set(exclude) and (n in covariates or n not in roles)]
    return list(dict.fromkeys(chosen))


def _known_outcomes(table: TableIn, settings: CampaignSettings, units: Units) -> dict[str, float]:
    """Return the outcomes that the table has already, by id."""
    names = table.data.column_names
    if settings.outcome not in names:
        meant = [n for n in names if n.strip().lower() == settings.outcome.strip().lower()]
        if meant:
            raise InputError(
                f"there is no column {settings.outcome!r} for the outcome, but one {meant[0]!r}: if that is it, write "
                "it so; if not, rename one of them."
            )
        return {}
    outcome = column(table.data, settings.outcome, "outcome")
    values = to_numbers(outcome, settings.outcome, decimal=table.decimal)
    known = np.flatnonzero(~np.isnan(values))
    check_binary(values[known], units.at(known), settings)
    return dict(zip(units.at(known), values[known].tolist(), strict=True))


def _propensity(x: Array, arm: Treatment, seed: int) -> Array:
    """Return P(treated | x), learned from a sample of a large pool, cross-fitted within the sample."""
    model = propensity_model(x, arm, seed)
    if len(x) <= _ENOUGH:
        fitted: Array = model.cross_fitted_
        return fitted
    propensity = model.predict(x)
    propensity[_sample(len(x), seed)] = model.cross_fitted_
    return propensity


@one_thread()
def propensity_model(x: Array, arm: Treatment, seed: int) -> PropensityModel:
    """Return a model of P(treated | x), fitted to a pool, or to a sample of a large one."""
    from causalbald.diagnostics._support import propensity_clip
    from causalbald.models import PropensityModel

    rows = _sample(len(x), seed) if len(x) > _ENOUGH else np.arange(len(x))
    return PropensityModel(clip=propensity_clip(float(arm[rows].mean())), random_state=seed).fit(x[rows], arm[rows])


def _sample(size: int, seed: int) -> Any:
    return np.sort(generator(seed, "setup").choice(size, size=min(size, _ENOUGH), replace=False))


def _questions(table: pa.Table, columns: Sequence[Column], arm: Treatment, seed: int) -> list[str]:
    """Return what the user should answer before spending money: columns that may be consequences of the treatment."""
    from causalbald.diagnostics import find_leaks

    sample = _sample(len(arm), seed)
    found = find_leaks(table.select([c.name for c in columns]).take(pa.array(sample)).to_pandas(), arm[sample])
    suspected = found[found["reason"] != ""]
    return [
        f"column {name!r} {reason}: was it measured before the treatment? If not, exclude it."
        for name, reason in zip(suspected["column"], suspected["reason"], strict=True)
    ]
