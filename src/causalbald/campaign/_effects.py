"""Beliefs about effects, as numbers: of single units, and on average over groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from scipy.special import ndtr, stdtr

from causalbald._text import check_text
from causalbald._typing import Array
from causalbald.diagnostics import group_values
from causalbald.errors import InputError
from causalbald.tables import as_text

if TYPE_CHECKING:
    import pandas as pd

    from causalbald.campaign._pool import CampaignPool

SMALLEST_SD = 1e-300
"""Standard deviations are taken to be at least this when something is divided by them."""


@dataclass(frozen=True)
class Effects:
    """Belief about the effect of each of n units, without covariances between units.

    Parameters
    ----------
    mean, sd : (n,)
        Expected effect, and standard deviation of the belief.
    lower, upper : (n,)
        Ends of the intervals.
    outcome_sd : (n, 2)
        Standard deviation of the expected outcome under each arm.
    n_draws : int, optional
        How many draws the belief was estimated from; None for a closed form.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.campaign import Effects
    >>> mean, sd = np.array([0.0, 2.0]), np.ones(2)
    >>> effects = Effects(mean, sd, mean - 1.96, mean + 1.96, np.ones((2, 2)), n_draws=None)
    >>> effects.probability_above(0.0, sign=1).round(3).tolist()
    [0.5, 0.977]
    """

    mean: Array
    sd: Array
    lower: Array
    upper: Array
    outcome_sd: Array
    n_draws: int | None

    def probability_above(self, threshold: float, sign: int) -> Array:
        """Return the probability that ``sign`` * effect is above ``threshold``, (n,). ``sign`` is 1 or -1."""
        z = (sign * self.mean - threshold) / np.maximum(self.sd, SMALLEST_SD)
        # From S draws: Student's t with S - 1 degrees of freedom, wider by sqrt(1 + 1/S), as in Posterior.quantile.
        probability: Array = (
            ndtr(z) if self.n_draws is None else stdtr(self.n_draws - 1, z / np.sqrt(1 + 1 / self.n_draws))
        )
        return probability


@dataclass(frozen=True)
class AverageEffect:
    """Belief about the average effect of a group, from the joint belief about its members.

    Parameters
    ----------
    effect : float
        Expected average effect, in the outcome's own unit.
    sd : float
        Standard deviation of the belief.
    lower, upper : float
        Ends of the interval.

    Examples
    --------
    >>> from causalbald.campaign import AverageEffect
    >>> average = AverageEffect(effect=1.5, sd=0.5, lower=0.52, upper=2.48)
    >>> average.negated()
    AverageEffect(effect=-1.5, sd=0.5, lower=-2.48, upper=-0.52)
    """

    effect: float
    sd: float
    lower: float
    upper: float

    def negated(self) -> AverageEffect:
        """Return the belief about minus the average effect: the ends of the interval change places."""
        return AverageEffect(-self.effect, self.sd, -self.upper, -self.lower)


@dataclass(frozen=True)
class GroupEffect:
    """Average effect of a group of units, and how it differs from the average of all other units.

    Parameters
    ----------
    name : str
        The group, as the table calls it; a range of a column of numbers.
    units : int
        Members of the group.
    average : AverageEffect
    contrast : AverageEffect, optional
        Average of the group minus average of all other units; None if it was not asked for or there are no others.

    Examples
    --------
    >>> from causalbald.campaign import AverageEffect, GroupEffect
    >>> group = GroupEffect("f", 60, AverageEffect(effect=1.5, sd=0.5, lower=0.52, upper=2.48))
    >>> group.average.effect
    1.5
    """

    name: str
    units: int
    average: AverageEffect
    contrast: AverageEffect | None = None


def groups_of(pool: CampaignPool, by: str) -> pd.Categorical[str]:
    """Return the group of each unit by a column of the pool.

    A group is a value of the column. Numbers with more than five values are cut into fifths. Missing values are a group
    of their own. Called by ``Campaign.subgroups`` and by the report.

    Parameters
    ----------
    pool : CampaignPool
        All units of the campaign.
    by : str
        A covariate or a protected column.

    Returns
    -------
    Categorical (N,)

    Raises
    ------
    InputError
        If the campaign has no such column.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign, groups_of
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> columns = {"id": "patient", "treatment": "drug", "outcome": "cd4"}
    >>> campaign = Campaign.create(MemoryStorage(), pool, **columns)
    >>> len(groups_of(campaign.pool, "age").categories)
    5
    """
    check_text(by, "the name of the column of the groups")
    try:
        values = pool.table([by])[by]
    except (pa.ArrowInvalid, KeyError):
        raise InputError(
            f"there is no column {by!r} in this campaign: groups are by covariates and protected columns."
        ) from None
    is_categorical = any(c.name == by and c.kind == "categorical" for c in pool.columns)
    return group_values((as_text(values) if is_categorical else values).to_pandas())


def group_weights(groups: pd.Categorical[str], *, contrasts: bool) -> Array:
    """Return a row of weights (n,) for each group; the weighted sum of the effects is the group's average effect.

    With ``contrasts``, as many rows follow, for each group's average minus the average of all other units. A group
    without other units has its average there. No group may be empty.
    """
    inside = (np.asarray(groups.codes) == np.arange(len(groups.categories))[:, None]).astype(np.float64)
    sizes = inside.sum(axis=1, keepdims=True)
    averages: Array = inside / sizes
    if not contrasts:
        return averages
    outside = (1 - inside) / np.maximum(1, inside.shape[1] - sizes)
    return np.concatenate([averages, averages - outside])


def group_effects(
    groups: pd.Categorical[str], averages: Iterator[AverageEffect], *, contrasts: bool
) -> list[GroupEffect]:
    """Return the effect of each group, in the order of the categories.

    ``averages`` yields the belief for each row of :func:`group_weights` with the same ``contrasts``, and perhaps more
    beliefs, which are left in it. If there is a single group, its contrast is None.
    """
    names = list(groups.categories)
    sizes = np.bincount(groups.codes, minlength=len(names)).tolist()
    inside = [next(averages) for _ in names]
    differences = [next(averages) for _ in names] if contrasts else []
    if len(names) == 1 or not contrasts:
        return [GroupEffect(*cells) for cells in zip(names, sizes, inside, strict=True)]
    return [GroupEffect(*cells) for cells in zip(names, sizes, inside, differences, strict=True)]
