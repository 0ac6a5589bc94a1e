"""What speaks for and against a campaign's conclusions: overlap, who was measured, and audits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup

from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald._typing import Array, Positions
from causalbald._words import visible
from causalbald.campaign import AverageEffect, CampaignSettings
from causalbald.campaign._belief import Belief, lacking_arm
from causalbald.campaign._effects import groups_of
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._state import State
from causalbald.diagnostics import balance_table, common_support, representativeness, separation
from causalbald.figures._campaign import draw_audit
from causalbald.figures._support import draw_balance, draw_support
from causalbald.metrics import paired_interval
from causalbald.report._page import figure_svg
from causalbald.tables import Column, feature_names

ENOUGH_AUDITS = 10
ALPHA = 0.05
_ENOUGH_FOR_BALANCE = 100_000
_NARROW = 5.6


@dataclass(frozen=True)
class Overlap:
    """Whether people have comparable ones in the other arm; a row of counts per arm, treated first."""

    sentences: tuple[str, str]
    outside: float
    """Share of people outside common support."""
    counts: list[dict[str, Any]]
    support: Markup
    balance: Markup


@dataclass(frozen=True)
class Audit:
    """Audits that were drawn and measured, and how they turned out, if they are enough to say."""

    drawn: int
    measured: int
    result: AuditResult | None = None


@dataclass(frozen=True)
class AuditResult:
    """How outcomes of people drawn at random compare with what a model that has not seen them predicts.

    ``error`` is the mean of measured minus predicted, ``typical`` their root mean square, and ``by_arm_only`` that of
    predicting everyone's outcome by the mean of their arm. Intervals are for outcomes, noise included: ``covered`` says
    how many outcomes they held, ``covered_lower`` and ``covered_upper`` which shares in the long run that allows.
    """

    binary: bool
    error: AverageEffect
    typical: float
    by_arm_only: float
    covered: int
    covered_lower: float
    covered_upper: float
    picture: Markup

    @property
    def biased(self) -> bool:
        """Whether the mean error is more than chance explains."""
        return self.error.lower > 0 or self.error.upper < 0

    @property
    def too_narrow(self) -> bool:
        """Whether fewer outcomes lie in their 95 % intervals than chance explains; of events, no interval says so."""
        return not self.binary and self.covered_upper < 1 - ALPHA


def overlap(state: State, pool: CampaignPool, settings: CampaignSettings, columns: Sequence[Column]) -> Overlap:
    """Return what the treatments alone say, with counts of those measured so far."""
    low, high = names = (visible(settings.arm_names[0], 40), visible(settings.arm_names[1], 40))
    found = common_support(pool.propensity, pool.arm)
    measured = _measured(state, pool)
    counts = [
        {
            "arm": name,
            "people": int((pool.arm == arm).sum()),
            "outside": int(found.outside_by_arm[arm]),
            "measured": int((measured & (pool.arm == arm)).sum()),
            "measured_outside": int((measured & found.outside & (pool.arm == arm)).sum()),
        }
        for arm, name in ((1, high), (0, low))
    ]
    size = min(len(pool), _ENOUGH_FOR_BALANCE)
    rows = generator(settings.seed, "balance").choice(len(pool), size=size, replace=False)
    table = balance_table(pool.x[rows], pool.arm[rows]).assign(covariate=feature_names(columns))
    support, balance = draw_support(pool.propensity, pool.arm, names), draw_balance(table)
    for figure in (support, balance):
        figure.set_size_inches(_NARROW, figure.get_figheight())
    return Overlap(
        (found.summary(names), separation(pool.propensity, pool.arm).summary()),
        float(found.outside.mean()),
        counts,
        figure_svg(support, "Probability of being treated, by arm"),
        figure_svg(balance, "Standardised differences between the arms, by covariate"),
    )


def who_was_measured(state: State, pool: CampaignPool, settings: CampaignSettings) -> list[dict[str, Any]]:
    """Return for each protected column the representativeness of the measured, a row per group."""
    measured, protected = _measured(state, pool), dict.fromkeys(settings.protected)
    return [
        {
            "column": name,
            "rows": representativeness(groups_of(pool, name), measured, ALPHA / len(protected)).to_dict("records"),
        }
        for name in protected
    ]


@one_thread()
def audit(state: State, pool: CampaignPool, settings: CampaignSettings) -> Audit | None:
    """Return how audits turned out, by a model that is fitted once without their outcomes; None if none was drawn."""
    drawn = [unit for unit, (_, pick) in state.latest_picks.items() if pick.by == "audit"]
    if not drawn:
        return None
    told = {unit: state.outcomes[unit] for unit in drawn if unit in state.outcomes}
    others = replace(state, outcomes={u: y for u, y in state.outcomes.items() if u not in told})
    if len(told) < ENOUGH_AUDITS or lacking_arm(others, pool) is not None:
        return Audit(len(drawn), len(told))
    return Audit(len(drawn), len(told), _compared(Belief.after(others, pool, settings), told, others.outcomes))


def _compared(belief: Belief, audits: Mapping[str, float], others: Mapping[str, float]) -> AuditResult:
    """Compare the audits' outcomes with the belief, which has seen only those of ``others``."""
    pool = belief.pool
    (y, where), (known, elsewhere) = (_outcomes(pool, units) for units in (audits, others))
    arm = pool.arm[where]
    posterior, own = belief.model.posterior(pool.x[where], joint=False), (np.arange(len(y)), arm)
    predicted = posterior.expected[own]
    reach = posterior.quantile(ALPHA) * np.sqrt(posterior.variance[own] + posterior.outcome_noise[own])
    covered = int((np.abs(y - predicted) <= reach).sum())
    means = np.array([known[pool.arm[elsewhere] == a].mean() for a in (0, 1)])
    picture = draw_audit(predicted, predicted - reach, predicted + reach, y, arm, belief.settings.arm_names)
    lower, upper = _share_interval(covered, len(y))
    return AuditResult(
        binary=bool(np.isin(np.append(known, y), (0, 1)).all()),
        error=_mean(y - predicted),
        typical=_root_mean_square(y - predicted),
        by_arm_only=_root_mean_square(y - means[arm]),
        covered=covered,
        covered_lower=lower,
        covered_upper=upper,
        picture=figure_svg(picture, "Measured outcomes of audits against predictions"),
    )


def _outcomes(pool: CampaignPool, units: Mapping[str, float]) -> tuple[Array, Positions]:
    return np.fromiter(units.values(), dtype=np.float64, count=len(units)), pool.units.positions(units)


def _mean(errors: Array) -> AverageEffect:
    """Return a mean with Student's interval."""
    mean, lower, upper = paired_interval(errors, ALPHA)
    return AverageEffect(mean, float(errors.std(ddof=1) / np.sqrt(len(errors))), lower, upper)


def _root_mean_square(errors: Array) -> float:
    return float(np.sqrt((errors**2).mean()))


def _measured(state: State, pool: CampaignPool) -> Any:
    measured = np.zeros(len(pool), dtype=bool)
    measured[pool.units.positions(state.outcomes)] = True
    return measured


def _share_interval(successes: int, trials: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a share, by Clopper and Pearson."""
    from scipy.stats import binomtest

    interval = binomtest(successes, trials).proportion_ci(1 - ALPHA, method="exact")
    return float(interval.low), float(interval.high)
