"""How an acquisition function is named, found and called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from causalbald._registry import Registry
from causalbald._scaling import column_scale
from causalbald._typing import Array, Positions
from causalbald._validation import (
    check_inputs,
    check_int,
    check_number,
    check_positions,
    check_probability,
    check_treatment,
    check_vector,
)
from causalbald.errors import InputError
from causalbald.posterior import Posterior

Score = Callable[..., Array]
BatchRule = Callable[..., Positions]
F = TypeVar("F", bound=Callable[..., Any])
Batch = Literal["softmax", "greedy", "auto"]
EXTRAS = ("propensity", "targets", "rng")


@dataclass(frozen=True)
class Targets:
    """The population whose effects matter: positions in the posterior being scored, and weights summing to 1.

    ``threshold`` is the effect at which the decision whom to treat changes. A function that is ``linked`` may get
    targets that are not among the units being scored: their ``belief``, in which the positions then are, and
    ``covariance(rows, arm)``, that of some units' own outcomes with the targets' under an arm, or with their effects.

    ``own``: where the targets are a sample, the weight of one unit among everyone whom they stand for, or of each unit
    that is scored, (N,). A unit that is scored is then left out of the sample, and its own effect counts with that
    weight, whether it was drawn or not.
    ``place``: where each unit that is scored is among the targets, or -1, if positions do not say it.
    ``everyone``: whether they are, or stand for, all units of the pool, each of which counts the same.
    """

    positions: Positions
    weights: Array
    threshold: float = 0.0
    belief: Posterior | None = None
    covariance: Callable[[slice, int | None], Array] | None = None
    own: float | Array | None = None
    place: Positions | None = None
    everyone: bool = False

    @classmethod
    def of(
        cls,
        positions: ArrayLike,
        length: int,
        weights: ArrayLike | None = None,
        *,
        threshold: float = 0.0,
        own: float | Array | None = None,
    ) -> Targets:
        """Return checked targets among ``length`` units; equal weights unless given, normalised to sum to 1.

        Units of weight 0 are no targets.
        """
        index = check_positions(positions, length, "targets")
        w = np.ones(len(index)) if weights is None else check_vector(weights, "target weights", len(index))
        if len(index) == 0 or (w < 0).any() or w.sum() <= 0:
            raise InputError("targets need at least one unit, weights that are not negative and not all zero.")
        everyone = weights is None and (len(index) == length or isinstance(own, float))
        index, w = index[w > 0], w[w > 0]
        return cls(index, w / w.sum(), check_number(threshold, "threshold"), own=own, everyone=everyone)


def check_targets(targets: Targets, units: int) -> Targets:
    """Return targets, if their positions can be among so many units, or in the belief that comes with them."""
    if not isinstance(targets, Targets):
        raise InputError(f"targets must be Targets.of(positions, {units}, weights), got {type(targets).__name__}.")
    length, last = units if targets.belief is None else len(targets.belief), targets.positions.max()
    if last >= length:
        raise InputError(f"targets have position {last}, but there are {length} units: make targets of these.")
    return targets


@dataclass(frozen=True)
class Acquisition:
    """A named acquisition function.

    ``function(posterior, treatment)`` returns scores (N,): the log of the importance of measuring each
    unit. It may ask for ``propensity``, ``targets`` or ``rng`` by naming them as keyword arguments. One that
    does not ask for ``targets`` must score each unit from that unit's own belief alone, so that large
    pools can be scored in chunks. Unless ``per_cost`` is false, importance is divided by what a unit costs. ``batch``
    is the rule by which batches are chosen unless another is asked for, see :func:`causalbald.pools.choose`. One that
    is ``linked`` needs no joint belief where :class:`Targets` hold covariances. One that is ``blind`` looks at no
    belief, and of a pool gets one that says nothing, which costs nothing.

    One that is ``batchwise`` has no scores and looks at no belief: ``function(x, treatment, measured, available, size,
    rng)`` gets standardised covariates and returns positions in order of choice; costs can only cut its batch short.
    """

    name: str
    function: Score | BatchRule
    temperature: float = 0.25
    per_cost: bool = True
    batchwise: bool = False
    batch: Batch = "softmax"
    linked: bool = False
    blind: bool = False

    @cached_property
    def needs(self) -> frozenset[str]:
        """The extra arguments that the function takes."""
        return frozenset(inspect.signature(self.function).parameters) & frozenset(EXTRAS)

    @property
    def pointwise(self) -> bool:
        """Whether a unit's score depends on that unit alone."""
        return "targets" not in self.needs

    @property
    def summary(self) -> str:
        """First line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def __call__(
        self,
        posterior: Posterior,
        treatment: ArrayLike,
        *,
        propensity: ArrayLike | None = None,
        targets: Targets | None = None,
        rng: np.random.Generator | None = None,
    ) -> Array:
        """Return the scores (N,) of all units of ``posterior``; see :func:`score`."""
        if self.batchwise:
            raise InputError(
                f"acquisition {self.name!r} chooses batches by covariates and has no score of single units: ask for a "
                "batch, or take another one such as 'mu-rho-bald'."
            )
        units = len(posterior)
        arm = check_treatment(treatment, units)
        extras: dict[str, Any] = {}
        if "propensity" in self.needs:
            if propensity is None:
                raise InputError(
                    f"acquisition {self.name!r} needs propensity=P(treated | x) per unit, "
                    "for example PropensityModel().fit(X, T).cross_fitted_."
                )
            extras["propensity"] = check_probability(propensity, units)
        if "targets" in self.needs:
            extras["targets"] = (
                Targets.of(np.arange(units), units) if targets is None else check_targets(targets, units)
            )
        if "rng" in self.needs:
            if rng is None:
                raise InputError(f"acquisition {self.name!r} is stochastic: pass rng=np.random.default_rng(seed).")
            extras["rng"] = rng
        scores = np.asarray(self.function(posterior, arm, **extras), dtype=np.float64)
        if scores.shape != (units,):
            raise InputError(f"acquisition {self.name!r} returned shape {scores.shape} for {units} units.")
        if np.isnan(scores).any():
            raise InputError(f"acquisition {self.name!r} returned NaN for {int(np.isnan(scores).sum())} units.")
        return scores

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
        """Return ``size`` of the units ``available`` in order of choice, of a function that is ``batchwise``.

        X (N, D), or images, are the covariates of the whole pool; units ``measured`` are never chosen. Needs no model.
        """
        x = check_inputs(X, images=True)
        x = x.reshape(len(x), -1).astype(np.float64, copy=False)
        arm = check_treatment(treatment, len(x))
        known = check_positions(measured, len(x), "measured")
        open_units = np.setdiff1d(check_positions(available, len(x), "available"), known)
        if check_int(size, "size", low=0) > len(open_units):
            raise InputError(f"{size} units asked for, but only {len(open_units)} can be chosen: ask for fewer.")
        chosen = check_positions(self.function(_standardised(x), arm, known, open_units, size, rng), len(x), self.name)
        if len(chosen) != size or not np.isin(chosen, open_units).all():
            raise InputError(f"acquisition {self.name!r} did not return {size} of the units that are available.")
        return chosen


def _standardised(x: Array) -> Array:
    """Return covariates in standard units over the pool; constant ones are 0."""
    varies = x.max(axis=0) > x.min(axis=0)
    return np.where(varies, x - x.mean(axis=0), 0.0) / column_scale(x)


_REGISTRY: Registry[Acquisition] = Registry("acquisition", "acquisition")
version = _REGISTRY.version


def register(
    name: str,
    *,
    temperature: float = 0.25,
    per_cost: bool = True,
    batchwise: bool = False,
    batch: Batch = "softmax",
    linked: bool = False,
    blind: bool = False,
) -> Callable[[F], F]:
    """Give a function a name: it then appears in CLI, tables, figures and conformance tests.

    Parameters
    ----------
    name : str
    temperature : float
        Default temperature of the softmax batch rule for this score.
    per_cost : bool
        Whether cheap units are preferred where units differ in cost.
    batchwise : bool
        Whether the function chooses whole batches by covariates; see :class:`Acquisition`.
    batch : "softmax", "greedy" or "auto"
        How batches are chosen unless told otherwise.
    linked : bool
        Whether the function takes covariances with targets from these, where they hold them; see :class:`Targets`.
    blind : bool
        Whether the function looks at no belief, only at what else it asks for.
    """

    def decorate(function: F) -> F:
        _REGISTRY.add(name, Acquisition(name, function, temperature, per_cost, batchwise, batch, linked, blind))
        return function

    return decorate


def names() -> list[str]:
    """Return the names of all acquisition functions."""
    return _REGISTRY.names()


def load(acquisition: str | Acquisition | Score) -> Acquisition:
    """Return the acquisition of that name; a plain function gets its own name and the default temperature."""
    if isinstance(acquisition, Acquisition):
        return acquisition
    if callable(acquisition):
        return Acquisition(getattr(acquisition, "__name__", "custom").replace("_", "-"), acquisition)
    return _REGISTRY[acquisition]


def score(
    name: str | Acquisition | Score,
    posterior: Posterior,
    treatment: ArrayLike,
    *,
    propensity: ArrayLike | None = None,
    targets: Targets | None = None,
    rng: np.random.Generator | None = None,
) -> Array:
    """Return the log-importance of measuring each unit, (N,).

    Parameters
    ----------
    name : str or callable
        One of :func:`names`, or a function ``(posterior, treatment) -> scores``.
    posterior : Posterior
        The belief about the N units of the pool.
    treatment : (N,)
        The arm, 0 or 1, that each unit got: only that outcome can be measured.
    propensity : (N,), optional
        P(treated given x), for the functions that weigh it.
    targets : Targets, optional
        Population of interest for targeted functions; the whole pool by default.
    rng : numpy.random.Generator, optional
        For stochastic functions.
    """
    return load(name)(posterior, treatment, propensity=propensity, targets=targets, rng=rng)
