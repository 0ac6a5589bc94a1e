"""Whose effects matter, and what a model believes about these units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from causalbald._typing import Array, Positions
from causalbald._validation import check_number, check_positions, check_treatment, check_vector
from causalbald.errors import InputError
from causalbald.posterior import Posterior

CrossCovariance = Callable[[slice, int | None], Array]


@dataclass(frozen=True)
class TargetPopulation:
    """The units whose effects matter, and how much each of them matters.

    Parameters
    ----------
    positions : (J,)
        Positions of the targets among the scored units, or in the pool.
    weights : (J,)
        How much each target matters; the weights sum to 1.
    threshold : float
        The effect beyond which treating a unit is worthwhile. Only ``regret`` looks at it.
    unit_weight : float or (N,), optional
        None if the targets are no sample. If they are, the weight of a scored unit among all units that the sample
        stands for: a number if this weight is the same for all scored units, else an array with the weight of each. A
        scored unit is then left out of the sample, and its effect counts with this weight, whether the unit was drawn
        or not.
    is_whole_pool : bool
        Whether the targets are, or stand for, all units of the pool with equal weights.

    Examples
    --------
    >>> from causalbald.acquisition import TargetPopulation
    >>> TargetPopulation.of([0, 2], 4, [1.0, 3.0], threshold=0.5).weights
    array([0.25, 0.75])
    """

    positions: Positions
    weights: Array
    threshold: float = 0.0
    unit_weight: float | Array | None = None
    is_whole_pool: bool = False

    @classmethod
    def of(
        cls,
        positions: ArrayLike,
        length: int,
        weights: ArrayLike | None = None,
        *,
        threshold: float = 0.0,
        unit_weight: float | Array | None = None,
    ) -> TargetPopulation:
        """Return a checked population of targets among ``length`` units.

        Parameters
        ----------
        positions : (J,)
            Distinct positions of the targets, from 0 to ``length`` - 1.
        length : int
            How many units there are.
        weights : (J,), optional
            How much each target matters; equal by default. Units of weight 0 are left out.
        threshold : float
            The effect beyond which treating a unit is worthwhile.
        unit_weight : float or (N,), optional
            Give it only if the targets are a sample; see the class. It is not checked.

        Returns
        -------
        TargetPopulation
            With weights that sum to 1. It is the whole pool if no weights are given, and the targets are all units or
            ``unit_weight`` is a number, which says that they are an unweighted sample.

        Raises
        ------
        InputError
            If there are no targets, a position is repeated or out of range, a weight is negative, or all weights are 0.

        Examples
        --------
        >>> TargetPopulation.of([1, 2], 3).is_whole_pool
        False
        """
        index = check_positions(positions, length, "targets")
        w = np.ones(len(index)) if weights is None else check_vector(weights, "target weights", len(index))
        if len(index) == 0 or (w < 0).any() or w.sum() <= 0:
            raise InputError("targets need at least one unit, weights that are not negative and not all zero.")
        is_whole_pool = weights is None and (len(index) == length or isinstance(unit_weight, float))
        index, w = index[w > 0], w[w > 0]
        return cls(index, w / w.sum(), check_number(threshold, "threshold"), unit_weight, is_whole_pool)


def check_population(population: TargetPopulation, length: int) -> TargetPopulation:
    """Return a target population if its positions fit the number of units.

    Parameters
    ----------
    population : TargetPopulation
        The population.
    length : int
        How many units there are.

    Returns
    -------
    TargetPopulation
        The same.

    Raises
    ------
    InputError
        If a position is ``length`` or more, or ``population`` is something else than a TargetPopulation.

    Examples
    --------
    >>> from causalbald.acquisition import TargetPopulation, check_population
    >>> check_population(TargetPopulation.of([0, 2], 3), 3).positions.tolist()
    [0, 2]
    """
    if not isinstance(population, TargetPopulation):
        raise InputError(
            f"population must be TargetPopulation.of(positions, {length}, weights), got {type(population).__name__}."
        )
    last = population.positions.max()
    if last >= length:
        raise InputError(
            f"targets have position {last}, but there are {length} units: make a TargetPopulation of these units."
        )
    return population


@dataclass(frozen=True)
class TargetBelief:
    """What is believed about the target population, and how each scored unit covaries with it.

    Parameters
    ----------
    population : TargetPopulation
        Whose ``positions`` are positions in ``posterior``.
    posterior : Posterior
        The belief about each target, on the outcome's own scale (linearised).
    covariance : function
        ``covariance(rows, arm)`` returns covariances (n, J) of expected outcomes: of the scored units in the slice
        ``rows``, each under its own arm, with the targets under ``arm``. With ``arm`` None, the covariances are with
        the effects of the targets. The caller may change the returned array.
    places : (N,)
        Place of each scored unit among the targets, counted from 0; -1 for units that are no targets.

    Examples
    --------
    >>> from causalbald.acquisition import TargetBelief, TargetPopulation
    >>> from causalbald.testing import fake_posterior
    >>> targets = TargetBelief.within(fake_posterior(3), [0, 1, 1], TargetPopulation.of([2], 3))
    >>> targets.covariance(slice(0, 2), None).shape, targets.places.tolist()
    ((2, 1), [-1, -1, 0])
    """

    population: TargetPopulation
    posterior: Posterior
    covariance: CrossCovariance
    places: Positions

    @classmethod
    def within(cls, posterior: Posterior, treatment: ArrayLike, population: TargetPopulation) -> TargetBelief:
        """Return the belief about targets that are among the units of one joint belief.

        With binary outcomes, it is the belief on the scale of probabilities, linearised.

        Parameters
        ----------
        posterior : Posterior
            The joint belief about N units.
        treatment : (N,)
            The arm of each unit.
        population : TargetPopulation
            With positions in ``posterior``.

        Returns
        -------
        TargetBelief

        Examples
        --------
        >>> from causalbald.testing import fake_posterior
        >>> len(TargetBelief.within(fake_posterior(3), [0, 1, 1], TargetPopulation.of([2], 3)).posterior)
        3
        """
        belief, arms = posterior.linearised(), check_treatment(treatment, len(posterior))
        factor = belief.factor[population.positions].astype(np.float64, copy=False)
        effect_factor = factor[:, 1] - factor[:, 0]
        places = np.full(len(belief), -1)
        places[population.positions] = np.arange(len(population.positions))

        def covariance(rows: slice, arm: int | None) -> Array:
            """Return the covariances (n, J) of the units ``rows`` with all targets; see the class."""
            # Cov(mu_t(x_i), mu_a(x_j)) = F_it · F_ja, and the residual R_i[t, a] where i and j are the same unit.
            t, place = arms[rows], places[rows]
            units = np.arange(len(t))
            unit_factor = belief.factor[rows][units, t].astype(np.float64, copy=False)
            local = belief.residual[rows][units, t]
            local = local[:, 1] - local[:, 0] if arm is None else local[:, arm]
            shared: Array = unit_factor @ (effect_factor if arm is None else factor[:, arm]).T
            is_target = place >= 0
            shared[units[is_target], place[is_target]] += local[is_target]
            return shared

        return cls(population, belief, covariance, places)
