"""Published rivals that look at covariates alone, for comparison: each chooses a whole batch, one unit after another.

x (N, D) are covariates standardised over the pool. Distances are Euclidean; ties are broken at random. Where an arm has
no measured unit yet, the distance to the nearest one is infinite.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from causalbald._typing import Array, Positions, Treatment
from causalbald.acquisition import register

_ACROSS = 2.5  # weight of what links both arms, against 1 within an arm: MACAL's alpha and FCCM's
_PAIRS = 1 << 20  # pairs looked at together
_COVERED = 0.95
_CENTRES, _SHARE = 50, 4


@register("qhte")
def qhte(
    x: Array, treatment: Treatment, measured: Positions, available: Positions, size: int, rng: np.random.Generator
) -> Positions:
    """Farthest from all measured units of the same arm: greedy k-centre core-set of both arms (Qin et al., 2021)."""
    left = rng.permutation(available)
    distance = _to_own_arm(x, treatment, left, measured)
    chosen: list[int] = []
    while len(chosen) < size:
        k = int(np.argmax(distance))
        chosen.append(int(left[k]))
        _bring_near(distance, x, treatment, left, chosen[-1])
        distance[k] = -np.inf
    return np.asarray(chosen, dtype=np.intp)


@register("macal")
def macal(
    x: Array, treatment: Treatment, measured: Positions, available: Positions, size: int, rng: np.random.Generator
) -> Positions:
    """Pairs of both arms, alike and far from what is measured: g_k + g_j - 2.5 d²(k, j) (Wen et al., 2024).

    g is the squared distance to the nearest measured unit of the same arm, and says nothing (0) where there is none. Of
    a pair, the unit with the larger g comes first, and alone if only one is missing. Once an arm has run out, the other
    one's units are taken by g.
    """
    left = rng.permutation(available)
    gain = _to_own_arm(x, treatment, left, measured)
    chosen: list[int] = []
    while len(chosen) < size:
        pair = _best_pair(x, treatment, left, gain)
        for pick in left[pair[: size - len(chosen)]]:
            chosen.append(int(pick))
            _bring_near(gain, x, treatment, left, chosen[-1])
        left, gain = np.delete(left, pair), np.delete(gain, pair)
    return np.asarray(chosen, dtype=np.intp)


@register("lcmd")
def lcmd(
    x: Array, treatment: Treatment, measured: Positions, available: Positions, size: int, rng: np.random.Generator
) -> Positions:
    """Farthest unit of the largest cluster, of units nearest to the same measured one (Holzmüller et al., 2023).

    Both arms together: the treatment is one more feature, standardised as the others are. A cluster is as large as the
    squared distances of its available units add up to. Before anything is measured, the first unit is random.
    """
    spread = float(treatment.std()) or 1.0
    features = np.column_stack([x, (treatment - treatment.mean()) / spread])
    left = rng.permutation(available)
    distance, cluster = np.full(len(left), np.inf), np.zeros(len(left), dtype=np.intp)
    if len(measured) and len(left):
        distance, cluster = cKDTree(features[measured]).query(features[left])
        distance = distance**2
    chosen: list[int] = []
    while len(chosen) < size:
        total = np.bincount(cluster, weights=distance)[cluster]
        k = int(np.argmax(np.where(total == total.max(), distance, -np.inf)))
        chosen.append(int(left[k]))
        left, distance, cluster = (np.delete(values, k) for values in (left, distance, cluster))
        new = _squared(features, left, chosen[-1])
        cluster = np.where(new < distance, len(measured) + len(chosen), cluster)
        distance = np.minimum(distance, new)
    return np.asarray(chosen, dtype=np.intp)


@register("fccm")
def fccm(
    x: Array, treatment: Treatment, measured: Positions, available: Positions, size: int, rng: np.random.Generator
) -> Positions:
    """Close to most units of both arms, of its own arm to those that no measured one is close to (Wen et al., 2025).

    Within a radius of the unit lie n others of its own arm that no measured unit of that arm covers, and m of the other
    arm, covered or not: (n + 2.5 m) n m / (n + m)² is maximised. The radius, one per pair of arms, is such that about
    95 % get covered by as many units as a study pays for. How many these are is not known here: at first they are a
    quarter of each arm, at most 50; once nobody adds to both arms' cover, twice as many, whose radius is smaller; and
    so on. At last the rest is random.
    """
    left, everyone, chosen = rng.permutation(available), np.arange(len(x)), list[int]()
    for radius in _radii(x, treatment):
        left = left[~np.isin(left, chosen)]
        known = np.concatenate([measured, np.asarray(chosen, dtype=np.intp)])
        bare = everyone[_to_own_arm(x, treatment, everyone, known) > radius[treatment, treatment] ** 2]
        own = _within(x, treatment, left, bare, radius, across=False)
        other = _within(x, treatment, left, everyone, radius, across=True)
        while len(chosen) < size:
            worth = (own + _ACROSS * other) * own * other / np.maximum(own + other, 1) ** 2
            k = int(np.argmax(worth))
            if worth[k] <= 0:
                break
            pick, arm = int(left[k]), treatment[left[k]]
            reached = (treatment[bare] == arm) & (_squared(x, bare, pick) <= radius[arm, arm] ** 2)
            own -= _within(x, treatment, left, bare[reached], radius, across=False)
            bare, other[k] = bare[~reached], 0
            chosen.append(pick)
        if len(chosen) == size:
            break
    rest = left[~np.isin(left, chosen)]
    return np.concatenate([np.asarray(chosen, dtype=np.intp), rest[: size - len(chosen)]])


def _squared(x: Array, units: Positions, to: int) -> Array:
    return np.asarray(((x[units] - x[to]) ** 2).sum(axis=1))


def _to_own_arm(x: Array, treatment: Treatment, units: Positions, known: Positions) -> Array:
    """Return the squared distance of each unit to the nearest known one of its arm."""
    distance = np.full(len(units), np.inf)
    for arm in (0, 1):
        rows, there = treatment[units] == arm, known[treatment[known] == arm]
        if rows.any() and len(there):
            distance[rows] = cKDTree(x[there]).query(x[units[rows]])[0] ** 2
    return distance


def _bring_near(distance: Array, x: Array, treatment: Treatment, units: Positions, pick: int) -> None:
    """Take a pick into account in the distances to the nearest known unit of the same arm."""
    own = treatment[units] == treatment[pick]
    distance[own] = np.minimum(distance[own], _squared(x, units[own], pick))


def _best_pair(x: Array, treatment: Treatment, left: Positions, gain: Array) -> list[int]:
    """Return where in ``left`` the best control and treated unit are, the one with the larger gain first.

    Both arms are looked at from the largest gain on, until not even a pair without distance could be better.
    """
    worth = np.where(np.isinf(gain), 0.0, gain)
    control, treated = (np.flatnonzero(treatment[left] == arm) for arm in (0, 1))
    if not len(control) or not len(treated):
        return [int(np.argmax(gain))]
    control, treated = (rows[np.argsort(-worth[rows], kind="stable")] for rows in (control, treated))
    best, pair, step = -np.inf, [0, 0], max(1, _PAIRS // len(treated))
    for start in range(0, len(control), step):
        rows = control[start : start + step]
        columns = treated[worth[treated] + worth[rows[0]] > best]
        if not len(columns):
            break
        value = worth[rows, None] + worth[columns] - _ACROSS * cdist(x[left[rows]], x[left[columns]], "sqeuclidean")
        row, column = divmod(int(np.argmax(value)), len(columns))
        if value[row, column] > best:
            best, pair = value[row, column], [int(rows[row]), int(columns[column])]
    return sorted(pair, key=lambda k: -gain[k])


def _within(
    x: Array, treatment: Treatment, units: Positions, among: Positions, radius: Array, *, across: bool
) -> Positions:
    """Count for each unit those others of its own arm, or of the other one, that lie within the radius."""
    count = np.zeros(len(units), dtype=np.intp)
    for arm in (0, 1):
        to = 1 - arm if across else arm
        rows, there = np.flatnonzero(treatment[units] == arm), among[treatment[among] == to]
        step = max(1, _PAIRS // max(1, len(there)))
        for some in (rows[start : start + step] for start in range(0, len(rows), step)):
            near = cdist(x[units[some]], x[there], "sqeuclidean") <= radius[arm, to] ** 2
            count[some] = np.count_nonzero(near, axis=1)
    return count if across else count - np.isin(units, among)


def _radii(x: Array, treatment: Treatment) -> Iterator[Array]:
    """Yield radii (arm that covers, arm that is covered), each time of twice as many centres, until all are centres.

    Centres are a quarter of an arm at first, at most 50, as far from each other as can be (greedy k-centre). The radius
    is the 95 % quantile of the distances of the covered arm's units to the nearest of them.
    """
    members = [np.flatnonzero(treatment == arm) for arm in (0, 1)]
    counts = np.array([min(_CENTRES, -(-len(own) // _SHARE)) for own in members])
    while counts.all():
        radius = np.empty((2, 2))
        for arm, own in enumerate(members):
            distance = np.sqrt(_to_centres(x, own, min(int(counts[arm]), len(own))))
            radius[arm] = [np.quantile(distance[treatment == to], _COVERED) for to in (0, 1)]
        yield radius * (1 + 1e-9)  # whether a distance equal to the radius is within it must not hang on rounding
        if (counts >= [len(own) for own in members]).all():
            return
        counts = 2 * counts


def _to_centres(x: Array, members: Positions, count: int) -> Array:
    """Return everyone's squared distance to the nearest of ``count`` members, the first one in the members' middle."""
    everyone, squared = np.arange(len(x)), np.full(len(x), np.inf)
    pick = int(members[np.argmin(((x[members] - x[members].mean(axis=0)) ** 2).sum(axis=1))])
    for _ in range(count):
        squared = np.minimum(squared, _squared(x, everyone, pick))
        pick = int(members[np.argmax(squared[members])])
    return squared
