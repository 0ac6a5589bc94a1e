"""What a campaign has taught so far: effects, averages of groups, whom to treat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald._typing import Array, Mask, Positions
from causalbald.campaign._belief import Belief
from causalbald.campaign._effects import (
    AverageEffect,
    Effects,
    GroupEffect,
    group_effects,
    group_weights,
    groups_of,
)
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._preparation import propensity_model
from causalbald.campaign._state import State
from causalbald.diagnostics import is_outside
from causalbald.errors import InputError
from causalbald.tables import Column, InputTable, encode, without_apostrophes

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Policy:
    """Whom to treat, and what treating them gains on average over the whole pool, compared with treating nobody.

    Parameters
    ----------
    units : frame
        A row per unit: id, ``recommended`` (a value of the treatment), ``probability_worthwhile``, ``settled`` and the
        columns of :meth:`Campaign.effects`.
    treated : float
        Share of the units that the policy treats. Units count alike, also with weights.
    gain : float
        Average gain per unit of the whole pool, in the outcome's own unit, counted so that more is better.
        ``worthwhile`` is not subtracted.
    lower, upper : float
        Ends of the interval of ``gain``, from the joint belief about all units.
    gain_of_all : float
        Average gain of treating everyone.
    settled : float
        Share of units for which it is settled, at 95 %, whether the treatment is worthwhile.

    Examples
    --------
    >>> from causalbald.campaign import Policy
    >>> policy = Policy(None, treated=0.4, gain=1.2, lower=0.5, upper=1.9, gain_of_all=0.3, settled=0.6)
    >>> policy.gain > policy.gain_of_all
    True
    """

    units: Any
    treated: float
    gain: float
    lower: float
    upper: float
    gain_of_all: float
    settled: float


@dataclass(frozen=True, eq=False)
class Conclusions:
    """What is believed about everyone: effects of single units, on average, of the policy, and of groups.

    Parameters
    ----------
    effects : Effects
        Of the N units of the pool.
    treats : (N,)
        Which units the policy treats.
    settled : (N,)
        For which units it is settled, at 95 %, whether the treatment is worthwhile.
    average : AverageEffect
        Over all units.
    gain, gain_of_all : AverageEffect
        Average gain per unit of the whole pool if the units of the policy are treated, or all units. Both are compared
        with treating nobody, and counted so that more is better.
    groups : dict
        From column to a list of GroupEffect.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign, conclude
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> columns = {"id": "patient", "treatment": "drug", "outcome": "cd4"}
    >>> campaign = Campaign.create(MemoryStorage(), pool, **columns, model="gp")
    >>> _ = campaign.tell({unit: 0.1 * unit + unit % 2 for unit in range(12)})
    >>> belief = campaign.belief()
    >>> conclusions = conclude(belief, belief.effects(campaign.pool.x), {}, alpha=0.05)
    >>> conclusions.gain_of_all == conclusions.average
    True
    """

    effects: Effects
    treats: Mask
    settled: Mask
    average: AverageEffect
    gain: AverageEffect
    gain_of_all: AverageEffect
    groups: dict[str, list[GroupEffect]]


@one_thread()
def conclude(belief: Belief, effects: Effects, groups: dict[str, pd.Categorical[str]], alpha: float) -> Conclusions:
    """Return what is believed about everyone, in one pass over the pool.

    ``effects`` is passed on as it is. Called by ``Campaign.policy`` and by the report.

    Parameters
    ----------
    belief : Belief
        Of the campaign, about its pool.
    effects : Effects
        What ``belief.effects`` returned for all units of the pool.
    groups : dict
        From column to the group of each unit, as :func:`groups_of` returns it. May be empty.
    alpha : float
        Probability that the interval of one average misses, given the model.

    Returns
    -------
    Conclusions

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign, conclude, groups_of
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> columns = {"id": "patient", "treatment": "drug", "outcome": "cd4"}
    >>> campaign = Campaign.create(MemoryStorage(), pool, **columns, model="gp")
    >>> _ = campaign.tell({unit: 0.1 * unit + unit % 2 for unit in range(12)})
    >>> belief = campaign.belief()
    >>> groups = {"age": groups_of(campaign.pool, "age")}
    >>> conclusions = conclude(belief, belief.effects(campaign.pool.x), groups, alpha=0.05)
    >>> [group.units for group in conclusions.groups["age"]]
    [8, 8, 8, 8, 8]
    """
    n, sign = len(belief.pool), belief.settings.sign
    treats = belief.treats(effects)
    weights = [np.full((1, n), 1 / n), sign * treats[None] / n]
    weights += [group_weights(groups_of_column, contrasts=True) for groups_of_column in groups.values()]
    average, gain, *averages = belief.averages(belief.pool.x, np.concatenate(weights), alpha)
    remaining = iter(averages)
    return Conclusions(
        effects,
        treats,
        belief.settled(effects),
        average,
        gain,
        average if sign == 1 else average.negated(),
        {name: group_effects(column, remaining, contrasts=True) for name, column in groups.items()},
    )


@one_thread()
def policy(belief: Belief, alpha: float) -> Policy:
    """Return whom to treat, given the settings ``better`` and ``worthwhile``. Called by ``Campaign.policy``.

    ``units`` of the policy is an Arrow table. An interval misses with probability ``alpha``.
    """
    pool, settings = belief.pool, belief.settings
    conclusions = conclude(belief, belief.effects(pool.x, alpha), {}, alpha)
    effects, gain = conclusions.effects, conclusions.gain
    columns = {
        "recommended": _recommended(belief, conclusions.treats),
        "probability_worthwhile": effects.probability_above(settings.worthwhile, settings.sign),
        "settled": conclusions.settled,
    }
    return Policy(
        _unit_table(belief, np.arange(len(pool)), columns | _effect_columns(effects)),
        treated=float(conclusions.treats.mean()),
        gain=gain.effect,
        lower=gain.lower,
        upper=gain.upper,
        gain_of_all=conclusions.gain_of_all.effect,
        settled=float(conclusions.settled.mean()),
    )


@one_thread()
def effects(belief: Belief, ids: Sequence[str] | None, alpha: float) -> pa.Table:
    """Return a table of id, effect, sd, lower, upper and outside_support. Called by ``Campaign.effects``.

    Rows are in the order of ``ids``. If ``ids`` is None, there is a row for each unit of the pool, in its order. Raises
    InputError for an empty list or an unknown id.
    """
    units = _positions(belief.pool, ids, np.arange(len(belief.pool)))
    return _unit_table(belief, units, _effect_columns(belief.effects(belief.pool.x[units], alpha)))


@one_thread()
def scores(belief: Belief, state: State, ids: Sequence[str] | None) -> pa.Table:
    """Return a table of id, score, beats, effect, sd, lower, upper and outside_support, the highest score first.

    ``beats`` is the share of the open units with a lower score. Open units can be asked for. If ``ids``
    is None, there is a row for each open unit. Called by ``Campaign.score``. Raises InputError if no unit is open and
    ``ids`` is None, and for an empty list or an unknown id.
    """
    pool, settings = belief.pool, belief.settings
    open_units = pool.without(state.closed)
    if ids is None and not len(open_units):
        raise InputError("everyone has been measured, asked for or withdrawn: nobody is left to score.")
    all_scores = belief.scores(generator(settings.seed, "score", len(state.rounds)))
    units = _positions(pool, ids, open_units)
    units = units[np.argsort(-all_scores[units], kind="stable")]
    beats = np.searchsorted(np.sort(all_scores[open_units]), all_scores[units]) / max(1, len(open_units))
    columns = {"score": all_scores[units], "beats": beats} | _effect_columns(belief.effects(pool.x[units]))
    return _unit_table(belief, units, columns)


@one_thread()
def average(belief: Belief, alpha: float) -> AverageEffect:
    """Return the average effect over the pool, in which units count alike. Called by ``Campaign.ate``."""
    n = len(belief.pool)
    return belief.averages(belief.pool.x, np.full((1, n), 1 / n), alpha)[0]


@one_thread()
def subgroups(belief: Belief, by: str, alpha: float) -> pa.Table:
    """Return a table with a row per group of a column of the pool: group, units, effect, sd, lower, upper.

    The column of groups has the name ``by``, or "group" if ``by`` is the name of another column of the table. Called by
    ``Campaign.subgroups``. Raises InputError if the pool has no column ``by``.
    """
    groups = groups_of(belief.pool, by)
    averages = belief.averages(belief.pool.x, group_weights(groups, contrasts=False), alpha)
    rows = group_effects(groups, iter(averages), contrasts=False)
    columns: dict[str, Any] = {"units": [row.units for row in rows]}
    columns |= {name: [getattr(row.average, name) for row in rows] for name in ("effect", "sd", "lower", "upper")}
    return pa.table({by if by not in columns else "group": [row.name for row in rows]} | columns)


@one_thread()
def predict(belief: Belief, table: InputTable, columns: Sequence[Column], alpha: float) -> pa.Table:
    """Return the expected effects of units in another table, and what to recommend to them.

    Rows are in the order of ``table``. Its units need not be in the pool. Ids are returned only if it has the
    campaign's id column. ``columns`` are the campaign's covariates. A propensity model, fitted to the pool, decides
    which units are outside support. Called by ``Campaign.predict``. Raises InputError if ``table`` lacks a covariate.
    """
    pool, settings = belief.pool, belief.settings
    data = without_apostrophes(columns, table, settings.id)
    x = encode(columns, data)
    effects = belief.effects(x, alpha)
    ids = {settings.id: data[settings.id]} if settings.id in data.column_names else {}
    recommended = {"recommended": _recommended(belief, belief.treats(effects))}
    outside = is_outside(propensity_model(pool.x, pool.arm, settings.seed).predict(x), pool.share_treated)
    return pa.table(ids | _effect_columns(effects) | recommended | {"outside_support": outside})


def _recommended(belief: Belief, is_treated: Mask) -> pa.Array:
    """Return the recommended value of the treatment, as the user's table writes it, for each unit."""
    return pa.array(list(belief.settings.arms)).take(pa.array(is_treated.astype(np.int64)))


def _positions(pool: CampaignPool, ids: Sequence[str] | None, default: Positions) -> Positions:
    """Return the positions of ``ids``, or ``default`` without ids; raises InputError for an empty list."""
    if ids is not None and not ids:
        raise InputError("no ids given.")
    return default if ids is None else pool.units.positions(ids)


def _effect_columns(effects: Effects) -> dict[str, Array]:
    """Return effect, sd, lower and upper of each unit, (n,), by the name of the column."""
    return {"effect": effects.mean, "sd": effects.sd, "lower": effects.lower, "upper": effects.upper}


def _unit_table(belief: Belief, units: Positions, columns: dict[str, Any]) -> pa.Table:
    """Return a table of the units at positions ``units``: ids, ``columns``, and whether each is outside support."""
    pool = belief.pool
    ids = {belief.settings.id: pool.units.as_column(pool.units.at(units))}
    return pa.table(ids | columns | {"outside_support": pool.outside_support(units)})
