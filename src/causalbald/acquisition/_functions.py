"""Acquisition functions as objects: a function with a name, which knows what it needs and checks what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from causalbald._choices import BatchRule
from causalbald._scaling import column_scale
from causalbald._typing import Array, Positions
from causalbald._validation import (
    check_inputs,
    check_int,
    check_positions,
    check_probability,
    check_treatment,
)
from causalbald.acquisition._targets import TargetBelief, TargetPopulation, check_population
from causalbald.errors import InputError
from causalbald.posterior import Posterior

# What a score function may take besides `treatment`, and how a batch function is recognised.
SCORE_PARAMETERS = ("posterior", "propensity", "population", "targets", "rng")
BATCH_PARAMETERS = frozenset({"x", "available", "size"})


@dataclass(frozen=True)
class _NamedFunction:
    """A function with a name: what score functions and batch functions share."""

    name: str
    function: Callable[..., Any]

    @property
    def summary(self) -> str:
        """First line of the function's docstring, empty without one. Users read it in lists of functions."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


@dataclass(frozen=True)
class ScoreFunction(_NamedFunction):
    """A named function that scores units: the log of how important it is to measure each of them.

    The function's parameters say what it needs; each is passed by its name:

    - ``treatment`` (N,): the arm of each unit.
    - ``posterior``: the belief about the units. A function without it costs no belief.
    - ``propensity`` (N,): P(treated given x).
    - ``population``: the :class:`TargetPopulation`, as positions in the joint belief ``posterior``.
    - ``targets``: the :class:`TargetBelief`. ``posterior`` may then lack covariances between units.
    - ``rng``: a random generator.

    A function that takes neither ``population`` nor ``targets`` must score each unit from this unit's belief alone, so
    that large pools can be scored in blocks.

    Parameters
    ----------
    name : str
        Name in lists, tables, figures and errors.
    function : callable
        Returns scores (N,): never NaN, and -inf for units that must not be chosen.
    temperature : float
        Default temperature of the softmax batch rule.
    per_cost : bool
        Whether importance is divided by what a unit costs.
    batch : "softmax", "greedy" or "auto"
        Default batch rule; see :func:`causalbald.pools.choose_batch`.

    Raises
    ------
    InputError
        If the function has a parameter with another name and without a default.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.acquisition import ScoreFunction
    >>> from causalbald.testing import fake_posterior
    >>> treated_first = ScoreFunction("treated-first", lambda treatment: np.log(1.0 + treatment))
    >>> treated_first(None, [0, 1]).round(2)
    array([0.  , 0.69])
    """

    temperature: float = 0.25
    per_cost: bool = True
    batch: BatchRule = "softmax"

    def __post_init__(self) -> None:
        """Raise InputError if the function has a parameter that no score function gets, without a default."""
        for name, parameter in inspect.signature(self.function).parameters.items():
            is_optional = parameter.default is not parameter.empty or parameter.kind in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            )
            if name not in ("treatment", *SCORE_PARAMETERS) and not is_optional:
                raise InputError(
                    f"acquisition {self.name!r} takes {name!r}, but a score function may only take treatment, "
                    f"{', '.join(SCORE_PARAMETERS)}: rename the parameter, or give it a default."
                )

    @cached_property
    def needs(self) -> frozenset[str]:
        """Which of ``posterior, propensity, population, targets, rng`` the function takes."""
        return frozenset(inspect.signature(self.function).parameters) & frozenset(SCORE_PARAMETERS)

    @property
    def needs_population(self) -> bool:
        """Whether the function takes ``population`` or ``targets``: its scores depend on whose effects matter."""
        return bool(self.needs & {"population", "targets"})

    def __call__(
        self,
        posterior: Posterior | None,
        treatment: ArrayLike,
        *,
        propensity: ArrayLike | None = None,
        population: TargetPopulation | None = None,
        targets: TargetBelief | None = None,
        rng: np.random.Generator | None = None,
    ) -> Array:
        """Return the checked scores (N,) of all units; the parameters are those of :func:`score`.

        ``posterior`` may be None if the function takes neither ``posterior`` nor a target population. ``targets`` are
        made from ``posterior`` and ``population`` unless they are given, and ``population`` is all units by default.
        Raises InputError if ``propensity`` or ``rng`` is needed and missing, if an argument does not fit the units, or
        if the function returns NaN or another number of scores.
        """
        arm = check_treatment(treatment, None if posterior is None else len(posterior))
        units = len(arm)
        arguments: dict[str, Any] = {"posterior": posterior, "rng": rng}
        if "propensity" in self.needs:
            if propensity is None:
                raise InputError(
                    f"acquisition {self.name!r} needs propensity=P(treated | x) per unit, "
                    "for example PropensityModel().fit(X, T).cross_fitted_."
                )
            arguments["propensity"] = check_probability(propensity, units)
        if self.needs_population and targets is None:
            assert posterior is not None
            everyone = TargetPopulation.of(np.arange(units), units) if population is None else population
            arguments["population"] = check_population(everyone, units)
            if "targets" in self.needs:
                targets = TargetBelief.within(posterior, arm, arguments["population"])
        arguments["targets"] = targets
        if "rng" in self.needs and rng is None:
            raise InputError(f"acquisition {self.name!r} is stochastic: pass rng=np.random.default_rng(seed).")
        takes_treatment = "treatment" in inspect.signature(self.function).parameters
        chosen = {name: arguments[name] for name in SCORE_PARAMETERS if name in self.needs}
        scores = self.function(**({"treatment": arm} if takes_treatment else {}), **chosen)
        return self._checked(np.asarray(scores, dtype=np.float64), units)

    def _checked(self, scores: Array, units: int) -> Array:
        """Return the scores if there is one per unit and none is NaN; raise InputError otherwise."""
        if scores.shape != (units,):
            raise InputError(f"acquisition {self.name!r} returned shape {scores.shape} for {units} units.")
        if np.isnan(scores).any():
            raise InputError(f"acquisition {self.name!r} returned NaN for {int(np.isnan(scores).sum())} units.")
        return scores


@dataclass(frozen=True)
class BatchFunction(_NamedFunction):
    """A named function that chooses a whole batch from covariates, without a model and without scores.

    Parameters
    ----------
    name : str
        Name in lists, tables, figures and errors.
    function : callable
        ``function(x, treatment, measured, available, size, rng)`` gets standardised covariates (N, D), the arm of
        each unit, and positions of measured and of available units. It returns the positions of ``size`` available
        units in the order of choice.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.acquisition import BatchFunction
    >>> first = BatchFunction("first", lambda x, treatment, measured, available, size, rng: available[:size])
    >>> x, rng = np.eye(4), np.random.default_rng(0)
    >>> first.choose(x, [0, 1, 0, 1], 2, measured=[0], available=[1, 2, 3], rng=rng).tolist()
    [1, 2]
    """

    # Costs can only cut such a batch short: there are no scores to divide by them or to draw from.
    per_cost: ClassVar[bool] = True
    batch: ClassVar[BatchRule] = "softmax"
    temperature: ClassVar[float] = 0.0
    needs: ClassVar[frozenset[str]] = frozenset()
    needs_population: ClassVar[bool] = False

    def choose(
        self,
        X: Any,
        treatment: ArrayLike,
        size: int,
        *,
        measured: ArrayLike,
        available: ArrayLike,
        rng: np.random.Generator,
    ) -> Positions:
        """Return the positions of a batch in the order of choice.

        Parameters
        ----------
        X : (N, D) array or DataFrame, or images (N, C, H, W)
            Covariates of the whole pool. They are standardised for the function, and images are flattened.
        treatment : (N,)
            The arm of each unit.
        size : int
            How many units to choose.
        measured : positions
            Units that are never chosen, even if they are available. Their neighbours are less worth measuring.
        available : positions
            Units that may be chosen.
        rng : numpy.random.Generator
            Passed to the function, to break ties.

        Returns
        -------
        positions (size,)

        Raises
        ------
        InputError
            If ``size`` exceeds the number of available units that are not measured, or if the function does not return
            ``size`` of these units.

        Examples
        --------
        See the class.
        """
        x = check_inputs(X, images=True)
        x = x.reshape(len(x), -1).astype(np.float64, copy=False)
        arm = check_treatment(treatment, len(x))
        measured_positions = check_positions(measured, len(x), "measured")
        open_units = np.setdiff1d(check_positions(available, len(x), "available"), measured_positions)
        if check_int(size, "size", low=0) > len(open_units):
            raise InputError(f"{size} units asked for, but only {len(open_units)} can be chosen: ask for fewer.")
        batch = self.function(_standardised(x), arm, measured_positions, open_units, size, rng)
        chosen = check_positions(batch, len(x), self.name)
        if len(chosen) != size or not np.isin(chosen, open_units).all():
            raise InputError(f"acquisition {self.name!r} did not return {size} of the units that are available.")
        return chosen


def _standardised(x: Array) -> Array:
    """Return covariates (N, D) with mean 0, in units of `column_scale`; constant covariates become 0."""
    varies = x.max(axis=0) > x.min(axis=0)
    return np.where(varies, x - x.mean(axis=0), 0.0) / column_scale(x)


AcquisitionFunction = ScoreFunction | BatchFunction
AcquisitionLike = str | ScoreFunction | BatchFunction | Callable[..., Any]


def as_function(name: str, function: Callable[..., Any], **options: Any) -> AcquisitionFunction:
    """Return a plain function as a ScoreFunction or BatchFunction with a name.

    A function with parameters ``x``, ``available`` and ``size`` becomes a batch function, which has no ``options``.
    Any other function becomes a score function, and ``options`` are passed to :class:`ScoreFunction`. Raises InputError
    if a score function has a parameter that it may not have.
    """
    if set(inspect.signature(function).parameters) >= BATCH_PARAMETERS:
        return BatchFunction(name, function)
    return ScoreFunction(name, function, **options)
