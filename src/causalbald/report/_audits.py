"""How a campaign's audits turned out: outcomes of people drawn at random, against a model that has not seen them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup

from causalbald._threads import one_thread
from causalbald._typing import Array, Positions
from causalbald.campaign import AverageEffect, Belief, CampaignPool, CampaignSettings, State, lacking_arm
from causalbald.figures import draw_audit
from causalbald.metrics import paired_interval
from causalbald.report._page import figure_svg

MIN_AUDITS = 10
"""With fewer measured audits, the page does not compare them with predictions."""
ALPHA = 0.05


@dataclass(frozen=True)
class Audit:
    """How many people were drawn as audits, how many of them were measured, and the result.

    ``result`` is None with fewer than ``MIN_AUDITS`` measured, or if no model can be fitted without their outcomes.
    """

    drawn: int
    measured: int
    result: AuditResult | None = None


@dataclass(frozen=True)
class AuditResult:
    """How the outcomes of people drawn at random compare with predictions of a model that has not seen them.

    Intervals are for outcomes and include their noise.
    """

    binary: bool
    error: AverageEffect
    """The mean of measured minus predicted outcomes, with its interval."""
    typical: float
    """Root mean square of the errors."""
    by_arm_only: float
    """Root mean square of the errors if each outcome is predicted by the mean of all outcomes of its arm but audits."""
    covered: int
    """How many outcomes lie in their intervals."""
    covered_lower: float
    """The smallest share of covered outcomes in the long run that this number allows, with 95 % confidence."""
    covered_upper: float
    """The largest share that this number allows, with 95 % confidence."""
    picture: Markup

    @property
    def biased(self) -> bool:
        """Whether the mean error is larger than chance explains."""
        return self.error.lower > 0 or self.error.upper < 0

    @property
    def too_narrow(self) -> bool:
        """Whether fewer outcomes lie in their intervals than chance explains; False if outcomes are binary."""
        return not self.binary and self.covered_upper < 1 - ALPHA


@one_thread()
def audit(state: State, pool: CampaignPool, settings: CampaignSettings) -> Audit | None:
    """Return how the audits turned out; None if nobody was drawn at random. Called by ``_campaign_page``.

    If at least ``MIN_AUDITS`` were measured, the model is fitted once more, without their outcomes, and compared with
    them. Otherwise, or if an arm then has too few outcomes for a model, only the numbers of people are returned.
    """
    drawn = [unit for unit, (_, pick) in state.latest_picks.items() if pick.by == "audit"]
    if not drawn:
        return None
    audited = {unit: state.outcomes[unit] for unit in drawn if unit in state.outcomes}
    unaudited = replace(state, outcomes={unit: y for unit, y in state.outcomes.items() if unit not in audited})
    if len(audited) < MIN_AUDITS or lacking_arm(unaudited, pool) is not None:
        return Audit(len(drawn), len(audited))
    belief = Belief.after(unaudited, pool, settings)
    return Audit(len(drawn), len(audited), _compared(belief, audited, unaudited.outcomes))


def _compared(belief: Belief, audited: Mapping[str, float], learned_from: Mapping[str, float]) -> AuditResult:
    """Return how the outcomes of audits compare with a belief that follows from the outcomes ``learned_from`` alone.

    Both mappings go from id to outcome. Called by :func:`audit`.
    """
    pool = belief.pool
    y, units = _outcomes(pool, audited)
    y_learned, units_learned = _outcomes(pool, learned_from)
    arm = pool.arm[units]
    posterior, measured_arm = belief.model.posterior(pool.x[units], joint=False), (np.arange(len(y)), arm)
    predicted = posterior.expected[measured_arm]
    # An outcome scatters around an expected outcome that is uncertain itself: both variances add up.
    sd = np.sqrt(posterior.variance[measured_arm] + posterior.outcome_noise[measured_arm])
    reach = posterior.quantile(ALPHA) * sd
    covered = int((np.abs(y - predicted) <= reach).sum())
    arm_means = np.array([y_learned[pool.arm[units_learned] == a].mean() for a in (0, 1)])
    picture = draw_audit(predicted, predicted - reach, predicted + reach, y, arm, belief.settings.arm_names)
    lower, upper = _share_interval(covered, len(y))
    return AuditResult(
        binary=bool(np.isin(np.append(y_learned, y), (0, 1)).all()),
        error=_mean(y - predicted),
        typical=_root_mean_square(y - predicted),
        by_arm_only=_root_mean_square(y - arm_means[arm]),
        covered=covered,
        covered_lower=lower,
        covered_upper=upper,
        picture=figure_svg(picture, "Measured outcomes of audits against predictions"),
    )


def _outcomes(pool: CampaignPool, outcomes: Mapping[str, float]) -> tuple[Array, Positions]:
    """Return the outcomes (n,) of a mapping from id to outcome, and the positions (n,) of their units, in its order."""
    y = np.fromiter(outcomes.values(), dtype=np.float64, count=len(outcomes))
    return y, pool.units.positions(outcomes)


def _mean(errors: Array) -> AverageEffect:
    """Return the mean of errors (n,) with its standard error and Student's 95 % interval."""
    mean, lower, upper = paired_interval(errors, ALPHA)
    return AverageEffect(mean, float(errors.std(ddof=1) / np.sqrt(len(errors))), lower, upper)


def _root_mean_square(errors: Array) -> float:
    """Return the square root of the mean of squared errors (n,)."""
    return float(np.sqrt((errors**2).mean()))


def _share_interval(successes: int, trials: int) -> tuple[float, float]:
    """Return the ends of the exact 95 % interval of a share of ``trials``, by Clopper and Pearson."""
    from scipy.stats import binomtest

    interval = binomtest(successes, trials).proportion_ci(1 - ALPHA, method="exact")
    return float(interval.low), float(interval.high)
