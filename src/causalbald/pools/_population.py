"""The pool itself as the target population."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from causalbald._random import generator
from causalbald._typing import Positions
from causalbald.acquisition import AcquisitionFunction, TargetPopulation, check_population

MAX_EXACT_TARGETS = 2048  # units; of larger pools a sample is drawn
TARGETS_IN_SAMPLE = 1000  # units


def pool_population(units: int, *, weights: ArrayLike | None = None, threshold: float = 0.0) -> TargetPopulation:
    """Return the pool itself as the target population: all units, or a fixed sample of 1,000 from a large pool.

    A pool is large if more than 2,048 units have a weight above 0. The sample of a pool depends only on how many units
    the pool has, and on their weights.

    Parameters
    ----------
    units : int
        How many units the pool has, N.
    weights : (N,), optional
        How much each unit's effect matters; all the same by default. The sample of a large pool is drawn with
        replacement, with these probabilities; a unit that was drawn twice counts twice.
    threshold : float
        The effect beyond which treating a unit is worthwhile.

    Returns
    -------
    TargetPopulation
        If it is a sample, each scored unit's effect counts as one of N, or with its weight, whether the unit was
        drawn or not.

    Raises
    ------
    InputError
        If the pool has no units, a weight is negative or missing, or all weights are 0.

    Examples
    --------
    >>> from causalbald.pools import pool_population
    >>> len(pool_population(500).positions), len(pool_population(50_000).positions)
    (500, 1000)
    """
    rng = generator(0, "targets", units)
    if weights is None and units <= MAX_EXACT_TARGETS:
        return TargetPopulation.of(np.arange(units), units, threshold=threshold)
    if weights is None:
        positions = np.sort(rng.choice(units, size=TARGETS_IN_SAMPLE, replace=False))
        return TargetPopulation.of(positions, units, threshold=threshold, unit_weight=1 / units)
    weighted_units = TargetPopulation.of(np.arange(units), units, weights, threshold=threshold)
    if len(weighted_units.positions) <= MAX_EXACT_TARGETS:
        return weighted_units
    unit_weight = np.zeros(units)
    unit_weight[weighted_units.positions] = weighted_units.weights
    positions, counts = np.unique(rng.choice(units, size=TARGETS_IN_SAMPLE, p=unit_weight), return_counts=True)
    return TargetPopulation.of(positions, units, counts, threshold=threshold, unit_weight=unit_weight)


def population_for(
    function: AcquisitionFunction, population: TargetPopulation | None, units: int
) -> TargetPopulation | None:
    """Return the target population that a function gets: ``population``, or the pool itself by default.

    Returns None if the function needs no target population. Raises InputError if ``population`` does not fit a pool of
    ``units`` units, even if the function does not need it.
    """
    checked = None if population is None else check_population(population, units)
    return (checked or pool_population(units)) if function.needs_population else None


def positions_within(rows: Positions, population: TargetPopulation) -> Positions:
    """Return the place in ``rows`` of each target. ``rows`` are positions in any order, and must hold all targets."""
    order = np.argsort(rows)
    return np.asarray(order[np.searchsorted(rows[order], population.positions)])
