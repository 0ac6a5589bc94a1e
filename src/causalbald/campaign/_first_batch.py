"""The first batch, before there is a model: balanced over arms, spread over covariates."""

from __future__ import annotations

import warnings

import numpy as np

from causalbald._scaling import column_scale
from causalbald._threads import one_thread
from causalbald._typing import Array, Positions
from causalbald.campaign._choices import Candidates, Choice
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._settings import CampaignSettings

MAX_CLUSTERED_UNITS = 20_000
"""Units of an arm that are clustered at most. If an arm has more, a random sample of it is clustered."""


def spread_batch(pool: CampaignPool, settings: CampaignSettings, candidates: Candidates) -> Choice:
    """Return units that represent their arm: balanced over arms, spread over covariates.

    The candidates of each arm are clustered. The number of clusters is the number of units to be chosen plus the number
    of occupied units, which are measured or waiting already. Clusters without an occupied unit are taken first, the
    largest first. Each cluster gives the unit nearest to its centre. A unit for which no money is left is passed over,
    and cheaper units after it may be paid. Called by ``choose_picks`` while there is no belief.
    """
    occupied = np.concatenate([candidates.waiting, candidates.measured])
    quota = _balanced_quota(pool.arm[occupied], pool.arm[candidates.units], candidates.size)
    z = (pool.x - pool.x.mean(axis=0)) / column_scale(pool.x)
    units: list[int] = []
    reasons: list[str] = []
    for arm, count in enumerate(quota):
        of_arm, occupied_of_arm = (group[pool.arm[group] == arm] for group in (candidates.units, occupied))
        representatives, sizes = _representatives(z, of_arm, occupied_of_arm, count, candidates.rng)
        units += representatives
        reasons += [
            f"before a model can say more: stands for {size} people like this under {settings.arm_names[arm]}"
            for size in sizes
        ]
    order = np.asarray(_alternating(quota), dtype=np.intp)
    chosen = np.asarray(units, dtype=np.intp)[order]
    paid = candidates.budget.pays_in_order(pool.costs(chosen))
    return Choice("spread", chosen[paid], [reasons[k] for k in order[paid]])


def _balanced_quota(occupied_arms: Positions, candidate_arms: Positions, size: int) -> tuple[int, int]:
    """Return how many units of each arm to choose, control first; both numbers sum to ``size``.

    Chosen and occupied units together are equally many in both arms, as far as candidates suffice. Arms are given
    as 0 and 1 for each occupied unit and each candidate. There must be at least ``size`` candidates.
    """
    occupied, available = np.bincount(occupied_arms, minlength=2), np.bincount(candidate_arms, minlength=2)
    treated = int(np.clip((size + occupied[0] - occupied[1]) // 2, size - available[0], available[1]))
    treated = int(np.clip(treated, 0, size))
    return size - treated, treated


def _representatives(
    z: Array, candidates: Positions, occupied: Positions, count: int, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Return ``count`` of the ``candidates``, and how many candidates each returned unit stands for, at least 1.

    Candidates are clustered by the standardised covariates ``z`` (N, D) of the pool. Of more than
    ``MAX_CLUSTERED_UNITS`` candidates, a random sample is clustered, and the numbers are scaled up. There is a cluster
    for each unit to return and each ``occupied`` unit. The largest clusters without an occupied unit come first. Each
    cluster gives the clustered candidate nearest to its centre that was not taken before.
    """
    if count == 0:
        return [], []
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    sample = candidates
    if len(candidates) > MAX_CLUSTERED_UNITS:
        sample = rng.choice(candidates, size=MAX_CLUSTERED_UNITS, replace=False)
    n_clusters = min(count + len(occupied), len(sample))
    with one_thread(), warnings.catch_warnings():  # caps what scikit-learn has brought in, too
        warnings.simplefilter("ignore", ConvergenceWarning)  # clusters without members, where units are alike
        clusters = KMeans(n_clusters, n_init=1, random_state=int(rng.integers(2**31))).fit(z[sample])
    occupied_clusters = set(clusters.predict(z[occupied]).tolist()) if len(occupied) else set()
    sizes = np.bincount(clusters.labels_, minlength=n_clusters)
    order = sorted(range(n_clusters), key=lambda c: (c in occupied_clusters, -sizes[c], c))[:count]
    chosen: list[int] = []
    is_free = np.ones(len(sample), dtype=bool)
    for cluster in order:
        distance = ((z[sample] - clusters.cluster_centers_[cluster]) ** 2).sum(axis=1)
        nearest = int(np.argmin(np.where(is_free, distance, np.inf)))
        is_free[nearest] = False
        chosen.append(int(sample[nearest]))
    represented = sizes[order] * (len(candidates) / len(sample))
    return chosen, [max(1, round(float(n))) for n in represented]


def _alternating(quota: tuple[int, int]) -> list[int]:
    """Return the order in which units of both arms take turns, so that a batch that is cut short stays balanced.

    ``quota`` has the number of units of each arm, control first. Units are numbered from 0, the control units first.
    """
    control, treated = range(quota[0]), range(quota[0], sum(quota))
    places = [(k / max(quota[0], 1), unit) for k, unit in enumerate(control)]
    places += [((k + 0.5) / max(quota[1], 1), unit) for k, unit in enumerate(treated)]
    return [unit for _, unit in sorted(places)]
