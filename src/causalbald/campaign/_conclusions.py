"""What a campaign has taught so far, as tables: effects, averages of groups, whom to treat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from causalbald._random import generator
from causalbald._text import check_text
from causalbald._threads import one_thread
from causalbald._typing import Array, Positions
from causalbald.campaign._belief import AverageEffect, Belief, Effects, Mask
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._preparation import propensity_model
from causalbald.campaign._state import State
from causalbald.diagnostics._representativeness import group_values
from causalbald.diagnostics._support import is_outside
from causalbald.errors import InputError
from causalbald.tables._columns import Column, as_text, encode, with_text_read
from causalbald.tables._reading import TableIn


@dataclass(frozen=True)
class Policy:
    """Whom to treat, and what treating them rather than nobody gains on average over the whole pool.

    ``gain`` is in the outcome's own unit, counted so that more is better, and ``worthwhile`` is not taken off; the
    interval is that of the gain of this very policy, from the joint belief. ``settled`` is the share of people for whom
    it is 95 % sure whether the treatment is worthwhile.
    """

    units: Any
    treated: float
    gain: float
    lower: float
    upper: float
    gain_of_all: float
    """Gain of treating everyone."""
    settled: float


@one_thread()
def effects(belief: Belief, ids: Sequence[str] | None, alpha: float) -> pa.Table:
    """Return id, effect, sd, lower, upper, outside_support; in the pool's order or that of ``ids``."""
    where = _where(belief.pool, ids, np.arange(len(belief.pool)))
    return _table(belief, where, _effect_columns(belief.effects(belief.pool.x[where], alpha)))


@one_thread()
def scores(belief: Belief, state: State, ids: Sequence[str] | None) -> pa.Table:
    """Return id, score, beats (share of those left with a lower score), effect and interval; best first."""
    pool, settings = belief.pool, belief.settings
    left = np.setdiff1d(np.arange(len(pool)), pool.units.positions(state.closed))
    if ids is None and not len(left):
        raise InputError("everyone has been measured, asked for or withdrawn: nobody is left to score.")
    rng = generator(settings.seed, "score", len(state.rounds))
    found = belief.scores(rng)
    where = _where(pool, ids, left)
    where = where[np.argsort(-found[where], kind="stable")]
    beats = np.searchsorted(np.sort(found[left]), found[where]) / max(1, len(left))
    columns = {"score": found[where], "beats": beats} | _effect_columns(belief.effects(pool.x[where]))
    return _table(belief, where, columns)


@one_thread()
def average(belief: Belief, alpha: float) -> AverageEffect:
    """Return the average effect over the pool."""
    n = len(belief.pool)
    return belief.averages(belief.pool.x, np.full((1, n), 1 / n), alpha)[0]


@one_thread()
def subgroups(belief: Belief, by: str, alpha: float) -> pa.Table:
    """Return the average effect of each group of a column of the pool: group, units, effect, sd, lower, upper."""
    groups = groups_of(belief.pool, by)
    names = list(groups.categories)
    weights = (np.asarray(groups.codes) == np.arange(len(names))[:, None]).astype(np.float64)
    counts = weights.sum(axis=1)
    found = belief.averages(belief.pool.x, weights / counts[:, None], alpha)
    columns = {"units": counts.astype(np.int64)}
    columns |= {name: [getattr(a, name) for a in found] for name in ("effect", "sd", "lower", "upper")}
    return pa.table({by if by not in columns else "group": names} | columns)


def groups_of(pool: CampaignPool, by: str) -> pd.Categorical[str]:
    """Return the group of each unit by a column of the pool, in order; numbers, if no codes, are cut into fifths."""
    check_text(by, "the name of the column of the groups")
    try:
        values = pool.table([by])[by]
    except (pa.ArrowInvalid, KeyError):
        raise InputError(
            f"there is no column {by!r} in this campaign: groups are by covariates and protected columns."
        ) from None
    codes = any(c.name == by and c.kind == "categorical" for c in pool.columns)
    return group_values((as_text(values) if codes else values).to_pandas())


@one_thread()
def policy(belief: Belief, alpha: float) -> Policy:
    """Return whom to treat, given what is better and what is worthwhile."""
    pool, settings = belief.pool, belief.settings
    found = belief.effects(pool.x, alpha)
    treat, settled = belief.treats(found), belief.settled(found)
    n, sign = len(pool), settings.sign
    gain, everyone = belief.averages(pool.x, sign * np.stack([treat / n, np.full(n, 1 / n)]), alpha)
    columns = {
        "recommended": _recommended(belief, treat),
        "probability_worthwhile": found.probability_above(settings.worthwhile, sign),
        "settled": settled,
    }
    units = _table(belief, np.arange(n), columns | _effect_columns(found))
    shares = {"treated": float(treat.mean()), "settled": float(settled.mean()), "gain_of_all": everyone.effect}
    return Policy(units, gain=gain.effect, lower=gain.lower, upper=gain.upper, **shares)


@one_thread()
def predict(belief: Belief, table: TableIn, columns: Sequence[Column], alpha: float) -> pa.Table:
    """Return the expected effects of people in another table, in its order."""
    pool, settings = belief.pool, belief.settings
    data = with_text_read(columns, table, settings.id)
    x = encode(columns, data)
    found = belief.effects(x, alpha)
    ids = {settings.id: data[settings.id]} if settings.id in data.column_names else {}
    recommended = {"recommended": _recommended(belief, belief.treats(found))}
    outside = is_outside(propensity_model(pool.x, pool.arm, settings.seed).predict(x), pool.share_treated)
    return pa.table(ids | _effect_columns(found) | recommended | {"outside_support": outside})


def _recommended(belief: Belief, treat: Mask) -> pa.Array:
    return pa.array(list(belief.settings.arms)).take(pa.array(treat.astype(np.int64)))


def _where(pool: CampaignPool, ids: Sequence[str] | None, everyone: Positions) -> Positions:
    if ids is not None and not ids:
        raise InputError("no ids given.")
    return everyone if ids is None else pool.units.positions(ids)


def _effect_columns(found: Effects) -> dict[str, Array]:
    return {"effect": found.mean, "sd": found.sd, "lower": found.lower, "upper": found.upper}


def _table(belief: Belief, where: Positions, columns: dict[str, Any]) -> pa.Table:
    pool = belief.pool
    ids = {belief.settings.id: pool.units.column(pool.units.at(where))}
    outside = is_outside(pool.propensity[where], pool.share_treated)
    return pa.table(ids | columns | {"outside_support": outside})
