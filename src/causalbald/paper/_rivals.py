"""Published rivals that look at covariates alone, for comparison: each chooses a whole batch, one unit after another.

All of them are batch functions. x (N, D) are covariates standardised over the pool. Distances are Euclidean; ties are
broken at random. Where an arm has no measured unit yet, the distance to the nearest one is infinite.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from causalbald._typing import Array, Positions, Treatment
from causalbald.acquisition import register

WEIGHT_ACROSS_ARMS = 2.5  # compared with 1 within an arm: alpha of MACAL and of FCCM
PAIRS_TOGETHER = 1 << 20  # pairs whose distances are worked out together
COVERED_SHARE = 0.95  # share of an arm's units that the first centres cover
MAX_FIRST_CENTRES = 50  # centres of an arm for the largest radius
UNITS_PER_CENTRE = 4  # units of an arm for each centre, for the largest radius


@register("qhte")
def qhte(
    x: Array, treatment: Treatment, measured: Positions, available: Positions, size: int, rng: np.random.Generator
) -> Positions:
    """Farthest from all measured units of the same arm: greedy k-centre core-set of both arms (Qin et al., 2021).

    Qin, Wang and Zhou (2021), "Budgeted Heterogeneous Treatment Effect Estimation", ICML.

    Each pick is the available unit with the largest distance to the nearest unit of its arm that is measured or picked.
    While an arm has no such unit, this distance is infinite.

    Parameters
    ----------
    x : (N, D)
        Standardised covariates of the whole pool.
    treatment : (N,)
        The arm of each unit.
    measured : positions
        Units that are measured or asked for.
    available : positions
        Units that may be chosen.
    size : int
        How many units to choose.
    rng : numpy.random.Generator
        Breaks ties.

    Returns
    -------
    positions (size,)
        In the order of choice.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.paper import qhte
    >>> x, arms, rng = np.array([[0.0], [0.1], [1.0], [3.0]]), np.array([0, 1, 0, 1]), np.random.default_rng(0)
    >>> len(qhte(x, arms, np.array([0, 1]), np.array([2, 3]), 1, rng))
    1
    """
    left = rng.permutation(available)
    distance = _to_nearest_of_arm(x, treatment, left, measured)
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

    Wen, Chen, Ye, Chai, Sadiq and Yin (2024), "Progressive Generalization Risk Reduction for Data-Efficient Causal
    Effect Estimation", arXiv:2411.11256.

    Each pair has a unit k and a unit j of different arms, and d(k, j) is the distance between them. g of a unit is its
    squared distance to the nearest unit of its arm that is measured or picked; without such a unit, g counts 0 in the
    sum. Of a pair, the unit with the larger g comes first, and comes alone if only one more unit is needed. Once an arm
    has no available units left, units of the other arm are taken one by one, the largest g first.

    Parameters
    ----------
    x : (N, D)
        Standardised covariates of the whole pool.
    treatment : (N,)
        The arm of each unit.
    measured : positions
        Units that are measured or asked for.
    available : positions
        Units that may be chosen.
    size : int
        How many units to choose.
    rng : numpy.random.Generator
        Breaks ties.

    Returns
    -------
    positions (size,)
        In the order of choice.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.paper import macal
    >>> x, arms, rng = np.array([[0.0], [0.1], [1.0], [3.0]]), np.array([0, 1, 0, 1]), np.random.default_rng(0)
    >>> len(macal(x, arms, np.array([0, 1]), np.array([2, 3]), 1, rng))
    1
    """
    left = rng.permutation(available)
    gain = _to_nearest_of_arm(x, treatment, left, measured)
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

    Holzmüller, Zaverkin, Kästner and Steinwart (2023), "A Framework and Benchmark for Deep Batch Active Learning for
    Regression", JMLR 24(164), arXiv:2203.09410.

    The available units nearest to the same measured or picked unit are a cluster. The size of a cluster is the sum of
    their squared distances to that unit. Each pick is the farthest unit of the largest cluster. Both arms are clustered
    together: the treatment is one more standardised feature. Before anything is measured, the first pick is random.

    Parameters
    ----------
    x : (N, D)
        Standardised covariates of the whole pool.
    treatment : (N,)
        The arm of each unit.
    measured : positions
        Units that are measured or asked for.
    available : positions
        Units that may be chosen.
    size : int
        How many units to choose.
    rng : numpy.random.Generator
        Breaks ties.

    Returns
    -------
    positions (size,)
        In the order of choice.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.paper import lcmd
    >>> x, arms, rng = np.array([[0.0], [0.1], [1.0], [3.0]]), np.array([0, 1, 0, 1]), np.random.default_rng(0)
    >>> len(lcmd(x, arms, np.array([0, 1]), np.array([2, 3]), 1, rng))
    1
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

    Wen, Chen, Gong, Chai, Sadiq and Yin (2025), "Enhancing Treatment Effect Estimation via Active Learning: A
    Counterfactual Covering Perspective", ICML, arXiv:2505.05242.

    Each pick maximises (n + 2.5 m) n m / (n + m)². n is how many other units of the pick's arm lie within a radius of
    the pick and are not covered yet. A unit is covered if a measured or picked unit of its arm lies within the radius.
    m is how many units of the other arm lie within the radius, covered or not.

    There is one radius per pair of arms, such that about 95 % of the units get covered by as many units as a study pays
    for. The function does not get this number: it begins with a quarter of each arm, at most 50. Once no unit adds to
    the cover of both arms, the number doubles, and the radii become smaller. When all units have been centres, the
    remaining picks are random.

    Parameters
    ----------
    x : (N, D)
        Standardised covariates of the whole pool.
    treatment : (N,)
        The arm of each unit.
    measured : positions
        Units that are measured or asked for.
    available : positions
        Units that may be chosen.
    size : int
        How many units to choose.
    rng : numpy.random.Generator
        Breaks ties.

    Returns
    -------
    positions (size,)
        In the order of choice.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.paper import fccm
    >>> x, arms, rng = np.array([[0.0], [0.1], [1.0], [3.0]]), np.array([0, 1, 0, 1]), np.random.default_rng(0)
    >>> len(fccm(x, arms, np.array([0, 1]), np.array([2, 3]), 1, rng))
    1
    """
    left, everyone, chosen = rng.permutation(available), np.arange(len(x)), list[int]()
    for radius in _radii(x, treatment):
        left = left[~np.isin(left, chosen)]
        covering = np.concatenate([measured, np.asarray(chosen, dtype=np.intp)])
        uncovered = everyone[_to_nearest_of_arm(x, treatment, everyone, covering) > radius[treatment, treatment] ** 2]
        same_arm = _within(x, treatment, left, uncovered, radius, across=False)
        other_arm = _within(x, treatment, left, everyone, radius, across=True)
        while len(chosen) < size:
            # (n + 2.5 m) n m / (n + m)²
            worth = (same_arm + WEIGHT_ACROSS_ARMS * other_arm) * same_arm * other_arm
            worth = worth / np.maximum(same_arm + other_arm, 1) ** 2
            k = int(np.argmax(worth))
            if worth[k] <= 0:
                break
            pick, arm = int(left[k]), treatment[left[k]]
            reached = (treatment[uncovered] == arm) & (_squared(x, uncovered, pick) <= radius[arm, arm] ** 2)
            same_arm -= _within(x, treatment, left, uncovered[reached], radius, across=False)
            uncovered, other_arm[k] = uncovered[~reached], 0
            chosen.append(pick)
        if len(chosen) == size:
            break
    remaining = left[~np.isin(left, chosen)]
    return np.concatenate([np.asarray(chosen, dtype=np.intp), remaining[: size - len(chosen)]])


def _squared(x: Array, units: Positions, to: int) -> Array:
    """Return the squared distances (n,) of the units at the positions ``units`` to the unit ``to``."""
    return np.asarray(((x[units] - x[to]) ** 2).sum(axis=1))


def _to_nearest_of_arm(x: Array, treatment: Treatment, units: Positions, measured: Positions) -> Array:
    """Return the squared distance (n,) of each unit to the nearest measured unit of its arm; infinite without one."""
    distance = np.full(len(units), np.inf)
    for arm in (0, 1):
        rows, measured_of_arm = treatment[units] == arm, measured[treatment[measured] == arm]
        if rows.any() and len(measured_of_arm):
            distance[rows] = cKDTree(x[measured_of_arm]).query(x[units[rows]])[0] ** 2
    return distance


def _bring_near(distance: Array, x: Array, treatment: Treatment, units: Positions, pick: int) -> None:
    """Update in place the squared distances (n,) of ``units`` to the nearest measured unit of their arm.

    The unit ``pick`` counts as measured from now on. Called by `qhte` and `macal`.
    """
    same_arm = treatment[units] == treatment[pick]
    distance[same_arm] = np.minimum(distance[same_arm], _squared(x, units[same_arm], pick))


def _best_pair(x: Array, treatment: Treatment, left: Positions, gain: Array) -> list[int]:
    """Return the places in ``left`` of the best pair of a control and a treated unit, the larger gain first.

    ``gain`` (n,) is the g of `macal` for the units ``left``. If an arm has no units left, the one place of the largest
    gain is returned. Both arms are searched from the largest gain on. The search ends when not even a pair of two equal
    units could be better.
    """
    worth = np.where(np.isinf(gain), 0.0, gain)
    control, treated = (np.flatnonzero(treatment[left] == arm) for arm in (0, 1))
    if not len(control) or not len(treated):
        return [int(np.argmax(gain))]
    control, treated = (rows[np.argsort(-worth[rows], kind="stable")] for rows in (control, treated))
    best, pair, step = -np.inf, [0, 0], max(1, PAIRS_TOGETHER // len(treated))
    for start in range(0, len(control), step):
        rows = control[start : start + step]
        columns = treated[worth[treated] + worth[rows[0]] > best]
        if not len(columns):
            break
        value = (
            worth[rows, None]
            + worth[columns]
            - WEIGHT_ACROSS_ARMS * cdist(x[left[rows]], x[left[columns]], "sqeuclidean")
        )
        row, column = divmod(int(np.argmax(value)), len(columns))
        if value[row, column] > best:
            best, pair = value[row, column], [int(rows[row]), int(columns[column])]
    return sorted(pair, key=lambda k: -gain[k])


def _within(
    x: Array, treatment: Treatment, units: Positions, among: Positions, radius: Array, *, across: bool
) -> Positions:
    """Return for each of ``units`` how many of the units ``among`` lie within the radius around it, (n,).

    Other units of the same arm are counted, or with ``across`` units of the other arm. ``radius`` (2, 2) is indexed by
    the arm of the unit and the arm of the counted units. Called by `fccm`.
    """
    count = np.zeros(len(units), dtype=np.intp)
    for arm in (0, 1):
        to = 1 - arm if across else arm
        rows, neighbours = np.flatnonzero(treatment[units] == arm), among[treatment[among] == to]
        step = max(1, PAIRS_TOGETHER // max(1, len(neighbours)))
        for part in (rows[start : start + step] for start in range(0, len(rows), step)):
            near = cdist(x[units[part]], x[neighbours], "sqeuclidean") <= radius[arm, to] ** 2
            count[part] = np.count_nonzero(near, axis=1)
    return count if across else count - np.isin(units, among)


def _radii(x: Array, treatment: Treatment) -> Iterator[Array]:
    """Yield radii (2, 2), by covering arm and covered arm, for more and more centres, until all units are centres.

    At first a quarter of an arm, at most 50 units, are centres, chosen far from each other (greedy k-centre). Then the
    number of centres doubles each time. A radius is the 95 % quantile of the distances from the units of the covered
    arm to the nearest centre of the covering arm. Nothing is yielded if an arm has no units. Called by `fccm`.
    """
    members = [np.flatnonzero(treatment == arm) for arm in (0, 1)]
    counts = np.array([min(MAX_FIRST_CENTRES, -(-len(units) // UNITS_PER_CENTRE)) for units in members])
    while counts.all():
        radius = np.empty((2, 2))
        for arm, units in enumerate(members):
            distance = np.sqrt(_to_centres(x, units, min(int(counts[arm]), len(units))))
            radius[arm] = [np.quantile(distance[treatment == to], COVERED_SHARE) for to in (0, 1)]
        yield radius * (1 + 1e-9)  # whether a distance equal to the radius is within it must not depend on rounding
        if (counts >= [len(units) for units in members]).all():
            return
        counts = 2 * counts


def _to_centres(x: Array, members: Positions, count: int) -> Array:
    """Return the squared distance of each unit of the pool to the nearest of ``count`` centres, (N,).

    The centres are among ``members``, the units of one arm. The first centre is the member nearest to the mean of the
    members. Each further centre is the member farthest from all centres so far. Called by `_radii`.
    """
    everyone, squared = np.arange(len(x)), np.full(len(x), np.inf)
    pick = int(members[np.argmin(((x[members] - x[members].mean(axis=0)) ** 2).sum(axis=1))])
    for _ in range(count):
        squared = np.minimum(squared, _squared(x, everyone, pick))
        pick = int(members[np.argmax(squared[members])])
    return squared
