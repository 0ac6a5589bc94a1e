"""Acquisition functions by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from causalbald._choices import BatchRule
from causalbald._registry import Registry
from causalbald._typing import Array
from causalbald.acquisition._functions import (
    AcquisitionFunction,
    AcquisitionLike,
    BatchFunction,
    ScoreFunction,
    as_function,
)
from causalbald.acquisition._targets import TargetBelief, TargetPopulation
from causalbald.errors import InputError
from causalbald.posterior import Posterior

F = TypeVar("F", bound=Callable[..., Any])

_REGISTRY: Registry[AcquisitionFunction] = Registry("acquisition", "acquisition")
version = _REGISTRY.version


def register(
    name: str, *, temperature: float = 0.25, per_cost: bool = True, batch: BatchRule = "softmax"
) -> Callable[[F], F]:
    """Return a decorator that gives a function a name in the command line, tables, figures and conformance tests.

    The parameters of the function say what it is: with ``x``, ``available`` and ``size`` a
    :class:`BatchFunction`, otherwise a :class:`ScoreFunction`. The other options are for score functions.

    Parameters
    ----------
    name : str
        The name.
    temperature : float
        Default temperature of the softmax batch rule for this score.
    per_cost : bool
        Whether cheap units are preferred where units differ in cost.
    batch : "softmax", "greedy" or "auto"
        Default batch rule.

    Returns
    -------
    decorator
        It registers the function and returns it unchanged.

    Raises
    ------
    InputError
        If the name is taken, or the function takes parameters that no acquisition function gets.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald import acquisition
    >>> @acquisition.register("treated-first-example")
    ... def treated_first(treatment):
    ...     return np.log(1.0 + treatment)
    >>> acquisition.load("treated-first-example").needs
    frozenset()
    """

    def decorate(function: F) -> F:
        """Add the function to the registry, and return the function unchanged."""
        options = {"temperature": temperature, "per_cost": per_cost, "batch": batch}
        _REGISTRY.add(name, as_function(name, function, **options))
        return function

    return decorate


def names() -> list[str]:
    """Return the names of all acquisition functions.

    Returns
    -------
    list of str
        In the order of registration, functions of plugins included.

    Examples
    --------
    >>> from causalbald import acquisition
    >>> "mu-rho-bald" in acquisition.names()
    True
    """
    return _REGISTRY.names()


def load(acquisition: AcquisitionLike) -> AcquisitionFunction:
    """Return the acquisition function that a name, or a plain function, stands for.

    Parameters
    ----------
    acquisition : str, callable, ScoreFunction or BatchFunction
        A plain function gets its own name, with hyphens for underscores, and the default options of :func:`register`.
        It is not registered. A ScoreFunction or BatchFunction is returned as it is.

    Returns
    -------
    ScoreFunction or BatchFunction

    Raises
    ------
    UnknownNameError
        If no function has that name.
    InputError
        If a plain function takes parameters that no acquisition function gets.

    Examples
    --------
    >>> from causalbald import acquisition
    >>> sorted(acquisition.load("mu-pi-bald").needs)
    ['posterior', 'propensity']
    """
    if isinstance(acquisition, (ScoreFunction, BatchFunction)):
        return acquisition
    if callable(acquisition):
        return as_function(getattr(acquisition, "__name__", "custom").replace("_", "-"), acquisition)
    return _REGISTRY[acquisition]


def load_score_function(acquisition: AcquisitionLike) -> ScoreFunction:
    """Return the score function that a name, or a plain function, stands for.

    Parameters
    ----------
    acquisition : str, callable or ScoreFunction
        As for :func:`load`.

    Returns
    -------
    ScoreFunction

    Raises
    ------
    InputError
        If it is a batch function, which has no scores of single units; and as for :func:`load`.

    Examples
    --------
    >>> from causalbald import acquisition
    >>> acquisition.load_score_function("type-s").temperature
    1.0
    """
    function = load(acquisition)
    if isinstance(function, BatchFunction):
        raise InputError(
            f"acquisition {function.name!r} chooses batches by covariates and has no score of single units: ask for a "
            "batch, or take another one such as 'mu-rho-bald'."
        )
    return function


def score(
    acquisition: AcquisitionLike,
    posterior: Posterior,
    treatment: ArrayLike,
    *,
    propensity: ArrayLike | None = None,
    population: TargetPopulation | None = None,
    targets: TargetBelief | None = None,
    rng: np.random.Generator | None = None,
) -> Array:
    """Return the score of each unit (N,): the log of how important it is to measure the unit.

    Parameters
    ----------
    acquisition : str or callable
        One of :func:`names`, or a function such as ``(posterior, treatment) -> scores``.
    posterior : Posterior
        The belief about the N units; joint, for functions that need a target population.
    treatment : (N,)
        The arm, 0 or 1, that each unit got: only the outcome under this arm can be measured.
    propensity : (N,), optional
        P(treated given x), for the functions that take it.
    population : TargetPopulation, optional
        Whose effects matter, as positions in ``posterior``; all units by default.
    targets : TargetBelief, optional
        The belief about the target population; by default it is made from ``posterior`` and ``population``.
    rng : numpy.random.Generator, optional
        Needed by functions that draw at random.

    Returns
    -------
    scores (N,)
        Never NaN; -inf for units that must not be chosen.

    Raises
    ------
    InputError
        If the function needs something that is not given, has no scores, or returns NaN or another shape.

    Examples
    --------
    >>> from causalbald import acquisition
    >>> from causalbald.testing import fake_posterior
    >>> acquisition.score("mu-rho-bald", fake_posterior(3), [0, 1, 0]).shape
    (3,)
    """
    function = load_score_function(acquisition)
    return function(posterior, treatment, propensity=propensity, population=population, targets=targets, rng=rng)
