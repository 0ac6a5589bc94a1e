"""How good estimated effects and their intervals are, given the true effects."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from causalbald._typing import Array
from causalbald._validation import check_vector


def sqrt_pehe(effect: ArrayLike, truth: ArrayLike) -> float:
    """Return the root mean squared error of estimated effects (precision in estimating heterogeneous effects).

    Parameters
    ----------
    effect : (N,)
        Estimated effects.
    truth : (N,)
        True effects.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If the vectors differ in length, or a value is missing or infinite.

    Examples
    --------
    >>> from causalbald.metrics import sqrt_pehe
    >>> sqrt_pehe([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    estimated, true = pair(effect, truth)
    return float(np.sqrt(np.mean((estimated - true) ** 2)))


def ate_error(effect: ArrayLike, truth: ArrayLike) -> float:
    """Return the absolute error of the average effect: the distance between the means of both vectors.

    Parameters
    ----------
    effect : (N,)
        Estimated effects.
    truth : (N,)
        True effects.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If the vectors differ in length, or a value is missing or infinite.

    Examples
    --------
    >>> from causalbald.metrics import ate_error
    >>> ate_error([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    estimated, true = pair(effect, truth)
    return float(abs(estimated.mean() - true.mean()))


def policy_regret(effect: ArrayLike, truth: ArrayLike, *, worthwhile: float = 0.0) -> float:
    """Return the mean loss per unit if the units are treated whose estimated effect is above ``worthwhile``.

    The loss is relative to treating the units whose true effect is above ``worthwhile``. A wrong decision about a unit
    costs the distance of its true effect from ``worthwhile``.

    Parameters
    ----------
    effect : (N,)
        Estimated effects.
    truth : (N,)
        True effects.
    worthwhile : float
        The effect above which treatment pays.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If the vectors differ in length, or a value is missing or infinite.

    Examples
    --------
    >>> from causalbald.metrics import policy_regret
    >>> policy_regret([1.0, -1.0], [1.0, 3.0])
    1.5
    """
    estimated, true = pair(effect, truth)
    is_wrong = (estimated > worthwhile) != (true > worthwhile)
    return float(np.mean(np.abs(true - worthwhile) * is_wrong))


def interval_coverage(lower: ArrayLike, upper: ArrayLike, truth: ArrayLike) -> float:
    """Return the share of units whose true effect lies in their interval.

    Parameters
    ----------
    lower, upper : (N,)
        The ends of the intervals. Both ends belong to the interval.
    truth : (N,)
        True effects.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If the vectors differ in length, or a value is missing or infinite.

    Examples
    --------
    >>> from causalbald.metrics import interval_coverage
    >>> interval_coverage([0.0, 0.0], [2.0, 2.0], [1.0, 3.0])
    0.5
    """
    low, true = pair(lower, truth)
    high, _ = pair(upper, truth)
    return float(np.mean((low <= true) & (true <= high)))


def interval_width(lower: ArrayLike, upper: ArrayLike) -> float:
    """Return the mean width of intervals.

    Parameters
    ----------
    lower, upper : (N,)
        The ends of the intervals. An interval whose ends are in the wrong order has a negative width.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If the vectors differ in length, or a value is missing or infinite.

    Examples
    --------
    >>> from causalbald.metrics import interval_width
    >>> interval_width([0.0, 1.0], [2.0, 2.0])
    1.5
    """
    low, high = pair(lower, upper)
    return float(np.mean(high - low))


def pair(first: ArrayLike, second: ArrayLike) -> tuple[Array, Array]:
    """Return two vectors as floats; raise InputError unless both are finite and have the same length."""
    a = check_vector(first, "first argument")
    return a, check_vector(second, "second argument", len(a))
