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
from causalbald._typing import Array, Treatment
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
_ENOUGH = 20_000  # units from which propensities and hints about columns are learned


@dataclass(frozen=True, eq=False)
class Preparation:
    """A campaign before it is created, for the user to look at."""

    settings: CampaignSettings
    columns: list[Column]
    described: list[ColumnSummary]
    units: Ids
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
    ids = column_of(table, id, "ids")
    units = Ids(check_ids(ids, id), id, is_text_column=found.typed and is_text(ids.type))

    def describe_row(row: int) -> str:
        return f"row {row + 1} (id {units.at(np.array([row]))[0]!r})"

    treatments = column_of(table, treatment, "treatment")
    arms = read_arms([treatments], treatments.type, treatment, control, describe_row)
    settings = CampaignSettings(id=id, treatment=treatment, arms=arms.values, protected=tuple(protected), **others)
    settings.check()
    check_column_list(protected, "protected")
    for name in protected:
        column_of(table, name, "protected group")
    amounts = {"cost": settings.cost, "weight": settings.weight}
    names = covariate_names(
        table.column_names,
        {id: "id", treatment: "treatment", settings.outcome: "outcome"},
        covariates=covariates,
        exclude=exclude,
        optional_roles={name for name in amounts.values() if name is not None},
    )
    kinds = dict(covariates) if isinstance(covariates, Mapping) else {}
    for role, amount in amounts.items():
        if amount is not None:
            values = column_of(table, amount, role)
            read_amounts([values], amount, role, describe_row, allow_zero=role == "weight", decimal=found.decimal)
    with locating_cells(describe_row):
        columns, described, x = find_columns(table, names, kinds)
        outcomes = _known_outcomes(found, settings, units)
    arm = arms.arm.astype(np.intp)
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


def _known_outcomes(table: InputTable, settings: CampaignSettings, units: Ids) -> dict[str, float]:
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
    outcome = column_of(table.data, settings.outcome, "outcome")
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
