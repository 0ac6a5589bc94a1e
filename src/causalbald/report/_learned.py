"""What a campaign has taught, for its page: effects, averages of groups, whom to treat. One pass over the pool."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald.campaign import AverageEffect, GroupEffect
from causalbald.campaign._belief import Belief
from causalbald.campaign._conclusions import conclude
from causalbald.campaign._effects import Effects, groups_of
from causalbald.diagnostics import group_values
from causalbald.errors import ApproximationWarning
from causalbald.figures._campaign import MOST_LINES, draw_effects
from causalbald.report._page import figure_svg

_MOST_DIFFERENT = 3
_ENOUGH_TO_CHOOSE = 20_000
ALPHA = 0.05


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
class Grouping:
    """The groups of one column."""

    column: str
    protected: bool
    groups: list[GroupEffect]


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
    effects = belief.effects(pool.x)
    names = [*dict.fromkeys(settings.protected), *_most_different(belief, effects, covariates)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ApproximationWarning)
        conclusions = conclude(belief, effects, {name: groups_of(pool, name) for name in names}, ALPHA)
    groupings = [Grouping(name, name in settings.protected, groups) for name, groups in conclusions.groups.items()]
    treats, settled = conclusions.treats, conclusions.settled
    ends = [conclusions.average, *(g.average for grouping in groupings for g in grouping.groups)]
    return LearnedEffects(
        conclusions.average,
        conclusions.gain,
        conclusions.gain_of_all,
        treated=float(treats.mean()),
        settled_for=float((settled & treats).mean()),
        settled_against=float((settled & ~treats).mean()),
        groupings=groupings,
        axis=Axis(min(0.0, *(a.lower for a in ends)), max(0.0, *(a.upper for a in ends))),
        picture=_picture(belief, effects),
        drawn=min(len(pool), MOST_LINES),
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
