"""What speaks for and against a campaign's conclusions: overlap of the arms, and who was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from causalbald._random import generator
from causalbald._typing import Mask
from causalbald._words import visible
from causalbald.campaign import CampaignPool, CampaignSettings, State, groups_of
from causalbald.diagnostics import balance_table, common_support, representativeness, separation
from causalbald.figures import draw_balance, draw_support
from causalbald.report._page import figure_svg
from causalbald.tables import Column, feature_names

ALPHA = 0.05
MAX_BALANCE_UNITS = 100_000
"""Balance of a larger pool is computed on a random sample of this size."""
PICTURE_WIDTH = 5.6
"""Width of a picture on the page, in inches."""
MAX_ARM_NAME = 40
"""How many characters of an arm's name are shown."""


@dataclass(frozen=True)
class Overlap:
    """What the page shows about overlap: whether people have counterparts in the other arm."""

    sentences: tuple[str, str]
    """On common support, and on how well the covariates tell the arms apart."""
    outside: float
    """Share of people outside common support."""
    counts: list[dict[str, Any]]
    """A row for each arm, treated first: people, outside support, measured, and measured outside support."""
    support: Markup
    """Picture of the propensities of both arms."""
    balance: Markup
    """Picture of the standardised differences between the arms."""


def overlap(state: State, pool: CampaignPool, settings: CampaignSettings, columns: Sequence[Column]) -> Overlap:
    """Return how far the arms overlap, with counts of the people measured so far. No outcome is used.

    Called by ``_campaign_page``, also before anyone is measured. ``columns`` are the campaign's covariates. If the pool
    has more than ``MAX_BALANCE_UNITS`` units, balance is computed on a random sample, the same on each call.
    """
    control, treated = (visible(name, MAX_ARM_NAME) for name in settings.arm_names)
    support = common_support(pool.propensity, pool.arm)
    is_measured = _is_measured(state, pool)
    counts = [
        {
            "arm": name,
            "people": int((pool.arm == arm).sum()),
            "outside": int(support.outside_by_arm[arm]),
            "measured": int((is_measured & (pool.arm == arm)).sum()),
            "measured_outside": int((is_measured & support.outside & (pool.arm == arm)).sum()),
        }
        for arm, name in ((1, treated), (0, control))
    ]
    size = min(len(pool), MAX_BALANCE_UNITS)
    units = generator(settings.seed, "balance").choice(len(pool), size=size, replace=False)
    balance = balance_table(pool.x[units], pool.arm[units]).assign(covariate=feature_names(columns))
    pictures = draw_support(pool.propensity, pool.arm, (control, treated)), draw_balance(balance)
    for figure in pictures:
        figure.set_size_inches(PICTURE_WIDTH, figure.get_figheight())
    return Overlap(
        (support.summary((control, treated)), separation(pool.propensity, pool.arm).summary()),
        float(support.outside.mean()),
        counts,
        figure_svg(pictures[0], "Probability of being treated, by arm"),
        figure_svg(pictures[1], "Standardised differences between the arms, by covariate"),
    )


def who_was_measured(state: State, pool: CampaignPool, settings: CampaignSettings) -> list[dict[str, Any]]:
    """Return a dict for each protected column: ``column``, its name, and ``rows``, one for each of its groups.

    A row has the columns of ``representativeness``, which compares a group's share of the measured people with its
    share of all people. The intervals of all groups of all columns hold together with probability 1 - ``ALPHA``.
    Somebody must be measured.
    """
    is_measured, protected = _is_measured(state, pool), dict.fromkeys(settings.protected)
    return [
        {
            "column": name,
            "rows": representativeness(groups_of(pool, name), is_measured, ALPHA / len(protected)).to_dict("records"),
        }
        for name in protected
    ]


def _is_measured(state: State, pool: CampaignPool) -> Mask:
    """Return whether each unit of the pool has been measured, (N,)."""
    is_measured = np.zeros(len(pool), dtype=bool)
    is_measured[pool.units.positions(state.outcomes)] = True
    return is_measured
