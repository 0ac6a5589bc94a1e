"""What a campaign has taught, for its page: effects, averages of groups, whom to treat. One pass over the pool."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from markupsafe import Markup

from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald._typing import Array
from causalbald.campaign._belief import AverageEffect, Belief, Effects
from causalbald.campaign._conclusions import groups_of
from causalbald.diagnostics import group_values
from causalbald.errors import ApproximationWarning
from causalbald.figures._campaign import MOST_LINES, draw_effects
from causalbald.report._page import figure_svg

_MOST_DIFFERENT = 3
_ENOUGH_TO_CHOOSE = 20_000


@dataclass(frozen=True)
class Axis:
    """Where numbers lie on a bar of a table, from 0 to 100."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Return the place of a number, kept on the bar."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(100 * min(1.0, max(0.0, share)), 2)


@dataclass(frozen=True)
class Group:
    """Average effect of a group, and how it differs from that of everyone else, if there is anyone."""

    name: str
    people: int
    average: AverageEffect
    contrast: AverageEffect | None


@dataclass(frozen=True)
class Grouping:
    """The groups of one column."""

    column: str
    protected: bool
    groups: list[Group]


@dataclass(frozen=True)
class LearnedEffects:
    """What is believed now.

    ``gain`` counts so that more is better, on average over everyone, against treating nobody. Shares are of all people:
    whom the policy treats, and for whom it is settled that the treatment is, or is not, worthwhile.
    """

    average: AverageEffect
    gain: AverageEffect
    gain_of_all: AverageEffect
    treated: float
    settled_for: float
    settled_against: float
    groupings: list[Grouping]
    axis: Axis
    picture: Markup
    drawn: int
    note: str

    @property
    def settled(self) -> float:
        """Share of people for whom it is settled whether the treatment is worthwhile."""
        return self.settled_for + self.settled_against


@one_thread()
def learn(belief: Belief, covariates: Iterable[str]) -> LearnedEffects:
    """Return everything that the page says about effects; groups by protected columns, then by covariates."""
    pool, settings = belief.pool, belief.settings
    n, effects = len(pool), belief.effects(pool.x)
    treat, settled = belief.treats(effects), belief.settled(effects)
    names = [*dict.fromkeys(settings.protected), *_most_different(belief, effects, covariates)]
    columns = {name: groups_of(pool, name) for name in names}
    weights = [np.full((1, n), 1 / n), settings.sign * treat[None] / n, *map(_weights, columns.values())]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ApproximationWarning)
        found = belief.averages(pool.x, np.concatenate(weights))
    average, gain, rest = found[0], found[1], iter(found[2:])
    groupings = [_grouping(name, name in settings.protected, groups, rest) for name, groups in columns.items()]
    ends = [average, *(g.average for grouping in groupings for g in grouping.groups)]
    return LearnedEffects(
        average,
        gain,
        average if settings.sign == 1 else AverageEffect(-average.effect, average.sd, -average.upper, -average.lower),
        treated=float(treat.mean()),
        settled_for=float((settled & treat).mean()),
        settled_against=float((settled & ~treat).mean()),
        groupings=groupings,
        axis=Axis(min(0.0, *(a.lower for a in ends)), max(0.0, *(a.upper for a in ends))),
        picture=_picture(belief, effects),
        drawn=min(n, MOST_LINES),
        note=next((str(w.message) for w in caught if issubclass(w.category, ApproximationWarning)), ""),
    )


def _most_different(belief: Belief, effects: Effects, covariates: Iterable[str]) -> list[str]:
    """Return the covariates, protected ones apart, along which average effects vary most; on a sample of people."""
    pool, settings = belief.pool, belief.settings
    size = min(len(pool), _ENOUGH_TO_CHOOSE)
    rows = np.sort(generator(settings.seed, "report").choice(len(pool), size=size, replace=False))
    variances = {}
    for name in covariates:
        if name not in settings.protected:
            code = group_values(pool.table([name])[name].take(pa.array(rows)).to_pandas()).codes
            people, total = np.bincount(code), np.bincount(code, effects.mean[rows])
            variances[name] = float((total**2 / np.maximum(people, 1)).sum() / size - effects.mean[rows].mean() ** 2)
    return sorted(variances, key=lambda name: -variances[name])[:_MOST_DIFFERENT]


def _weights(groups: pd.Categorical[str]) -> Array:
    """Return rows (2 G, n): the average of each group, and its difference from the average of everyone else."""
    inside = (np.asarray(groups.codes) == np.arange(len(groups.categories))[:, None]).astype(np.float64)
    people = inside.sum(axis=1, keepdims=True)
    others = (1 - inside) / np.maximum(1, inside.shape[1] - people)
    return np.concatenate([inside / people, inside / people - others])


def _grouping(column: str, protected: bool, groups: pd.Categorical[str], found: Iterator[AverageEffect]) -> Grouping:
    """Return the groups of a column; takes from ``found`` what :func:`_weights` asked for."""
    names = list(groups.categories)
    people = np.bincount(groups.codes, minlength=len(names)).tolist()
    averages, contrasts = ([next(found) for _ in names] for _ in range(2))
    several = len(names) > 1
    rows = zip(names, people, averages, contrasts, strict=True)
    return Grouping(column, protected, [Group(g, n, a, c if several else None) for g, n, a, c in rows])


def _picture(belief: Belief, effects: Effects) -> Markup:
    settings = belief.settings
    figure = draw_effects(
        effects.mean,
        effects.lower,
        effects.upper,
        belief.settled(effects),
        threshold=settings.sign * settings.worthwhile,
        sign=settings.sign,
        name=settings.outcome,
    )
    return figure_svg(figure, "Expected effects of people, sorted, with intervals, and a histogram of them")
