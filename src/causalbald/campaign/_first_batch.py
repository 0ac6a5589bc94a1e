"""The first batch, before there is a model: balanced over arms, spread over covariates."""

from __future__ import annotations

import warnings

import numpy as np

from causalbald._scaling import column_scale
from causalbald._typing import Array, Positions
from causalbald.campaign._choices import Candidates, Choice
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._settings import CampaignSettings

MAX_CLUSTERED_UNITS = 20_000
"""Units of an arm that are clustered at most; of a larger arm a random sample is."""


def spread_batch(pool: CampaignPool, settings: CampaignSettings, candidates: Candidates) -> Choice:
    """Return units that represent their arm: balanced over arms, spread over covariates.

    The units of each arm are clustered, with a cluster for each unit to be chosen and each unit that is measured or
    asked for already. Clusters without a unit of the second kind are taken, the largest first, and of each cluster the
    unit nearest to its centre. Called by ``choose_picks`` while an arm has too few outcomes for a model.
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
    """Return how many units of each arm to choose, so that both arms have equally many, chosen and occupied."""
    occupied, available = np.bincount(occupied_arms, minlength=2), np.bincount(candidate_arms, minlength=2)
    treated = int(np.clip((size + occupied[0] - occupied[1]) // 2, size - available[0], available[1]))
    treated = int(np.clip(treated, 0, size))
    return size - treated, treated


def _representatives(
    z: Array, candidates: Positions, occupied: Positions, count: int, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Return ``count`` of the ``candidates``, and how many units each of them represents.

    Each is the candidate nearest to the centre of a cluster of standardised covariates ``z`` (N, D). Clusters that
    hold one of the ``occupied`` units are taken last.
    """
    if count == 0:
        return [], []
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    sample = candidates
    if len(candidates) > MAX_CLUSTERED_UNITS:
        sample = rng.choice(candidates, size=MAX_CLUSTERED_UNITS, replace=False)
    n_clusters = min(count + len(occupied), len(sample))
    with warnings.catch_warnings():
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
    """Return an order of the units of both arms, control first, in which a batch that is cut short stays balanced."""
    control, treated = range(quota[0]), range(quota[0], sum(quota))
    places = [(k / max(quota[0], 1), unit) for k, unit in enumerate(control)]
    places += [((k + 0.5) / max(quota[1], 1), unit) for k, unit in enumerate(treated)]
    return [unit for _, unit in sorted(places)]
