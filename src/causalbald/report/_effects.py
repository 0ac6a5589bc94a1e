"""What a campaign has taught, for its page: effects, averages of groups, and whom to treat."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald.campaign import AverageEffect, Belief, Conclusions, Effects, GroupEffect, conclude, groups_of
from causalbald.diagnostics import group_values
from causalbald.errors import ApproximationWarning
from causalbald.figures._campaign import MAX_LINES, draw_effects
from causalbald.report._page import figure_svg

ALPHA = 0.05
N_EXPLORED = 3
"""How many covariates, besides protected columns, make groups on the page."""
MAX_EXPLORING_UNITS = 20_000
"""These covariates are chosen on a random sample of at most this many people."""


@dataclass(frozen=True)
class Axis:
    """The axis of the bars in a table: turns numbers into places from 0 to 100."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Return the place of a number. Numbers beyond an end are put at the end. Without a length, all are at 50."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(100 * min(1.0, max(0.0, share)), 2)


@dataclass(frozen=True)
class Grouping:
    """The average effects of the groups of one column, and whether that column is protected."""

    column: str
    protected: bool
    groups: list[GroupEffect]


@dataclass(frozen=True)
class Findings:
    """What is believed now, for the page. All shares are shares of all people, from 0 to 1."""

    average: AverageEffect
    """Average effect over all people."""
    gain: AverageEffect
    """Gain of the policy, on average over everyone and compared with treating nobody; more is better."""
    gain_of_all: AverageEffect
    """Gain of treating everyone."""
    treated: float
    """Share that the policy treats."""
    settled_for: float
    """Share for whom it is settled that the treatment is worthwhile."""
    settled_against: float
    """Share for whom it is settled that the treatment is not worthwhile."""
    groupings: list[Grouping]
    axis: Axis
    """Axis of the bars of average effects."""
    picture: Markup
    drawn: int
    """How many people the picture shows one by one."""
    note: str
    """The first ApproximationWarning of the computation of averages; ``""`` if there was none."""

    @property
    def settled(self) -> float:
        """Share of people for whom it is settled whether the treatment is worthwhile."""
        return self.settled_for + self.settled_against


@one_thread()
def findings(belief: Belief, covariates: Iterable[str]) -> Findings:
    """Return everything that the page says about effects. Called by ``_campaign_page``.

    ``covariates`` are the names of the campaign's covariates. Average effects are given for the groups of each
    protected column, and of the ``N_EXPLORED`` other covariates along which effects differ most.
    """
    pool, settings = belief.pool, belief.settings
    effects = belief.effects(pool.x)
    names = [*dict.fromkeys(settings.protected), *_most_different(belief, effects, covariates)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ApproximationWarning)
        conclusions = conclude(belief, effects, {name: groups_of(pool, name) for name in names}, ALPHA)
    groupings = [Grouping(name, name in settings.protected, groups) for name, groups in conclusions.groups.items()]
    treats, settled = conclusions.treats, conclusions.settled
    ends = [conclusions.average, *(g.average for grouping in groupings for g in grouping.groups)]
    return Findings(
        conclusions.average,
        conclusions.gain,
        conclusions.gain_of_all,
        treated=float(treats.mean()),
        settled_for=float((settled & treats).mean()),
        settled_against=float((settled & ~treats).mean()),
        groupings=groupings,
        axis=Axis(min(0.0, *(a.lower for a in ends)), max(0.0, *(a.upper for a in ends))),
        picture=_picture(conclusions, belief),
        drawn=min(len(pool), MAX_LINES),
        note=next((str(w.message) for w in caught if issubclass(w.category, ApproximationWarning)), ""),
    )


def _most_different(belief: Belief, effects: Effects, covariates: Iterable[str]) -> list[str]:
    """Return the ``N_EXPLORED`` covariates whose groups differ most in their average effect, the first most.

    Protected columns are left out. Pools larger than ``MAX_EXPLORING_UNITS`` are judged by a random sample, the same on
    each call. Called by :func:`findings`.
    """
    pool, settings = belief.pool, belief.settings
    size = min(len(pool), MAX_EXPLORING_UNITS)
    rows = np.sort(generator(settings.seed, "report").choice(len(pool), size=size, replace=False))
    variances = {}
    for name in covariates:
        if name not in settings.protected:
            code = group_values(pool.table([name])[name].take(pa.array(rows)).to_pandas()).codes
            people, total = np.bincount(code), np.bincount(code, effects.mean[rows])
            # Variance between groups: the mean of squared group means, minus the square of the mean.
            variances[name] = float((total**2 / np.maximum(people, 1)).sum() / size - effects.mean[rows].mean() ** 2)
    return sorted(variances, key=lambda name: -variances[name])[:N_EXPLORED]


def _picture(conclusions: Conclusions, belief: Belief) -> Markup:
    """Return the figure of people's effects, with intervals and a histogram, as inline SVG. Called by `findings`."""
    settings, effects = belief.settings, conclusions.effects
    figure = draw_effects(
        effects.mean,
        effects.lower,
        effects.upper,
        conclusions.settled,
        threshold=settings.sign * settings.worthwhile,
        sign=settings.sign,
        name=settings.outcome,
    )
    return figure_svg(figure, "Expected effects of people, sorted, with intervals, and a histogram of them")
