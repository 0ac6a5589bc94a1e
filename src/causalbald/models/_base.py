"""What every model of treatment effects can do, with EconML's names and scikit-learn's conventions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from causalbald._covariate_names import fitted_names, remember, text_names
from causalbald._gaussian import interval
from causalbald._threads import CHUNK_UNITS
from causalbald._typing import AnyArray, Array, Positions, Treatment
from causalbald._validation import (
    check_both_arms,
    check_inputs,
    check_treatment,
    check_vector,
)
from causalbald.errors import InputError
from causalbald.posterior import Posterior


class LabelSet(NamedTuple):
    """Measured units: outcome y (n,), arm t (n,), covariates x (n, D) or images (n, C, H, W)."""

    y: Array
    t: Treatment
    x: AnyArray

    def take(self, rows: Positions) -> LabelSet:
        """Return some of the units; ``rows`` are positions."""
        return LabelSet(self.y[rows], self.t[rows], self.x[rows])


class CrossBelief(NamedTuple):
    """Some units, each by itself, and how they hang together with a few others.

    ``covariance(rows, T, arm)`` is Cov(mu_T(x_i), mu_arm(x_j)), (n, J), of the units in ``rows``, with arms T (n,), and
    J others; without an arm, with their effects.
    """

    belief: Posterior
    covariance: Callable[[slice, Treatment, int | None], Array]


CrossBeliefOf = Callable[[AnyArray], CrossBelief]


class CateEstimator(BaseEstimator, ABC):
    """Base of all models. A subclass implements ``_fit`` and ``_posterior`` on checked arrays.

    ``joint=False`` permits ``_posterior`` to leave out covariances between units; a model may ignore it. A model that
    sets ``accepts_images`` also takes covariates of shape (N, C, H, W), which it gets as float32.
    """

    accepts_images: ClassVar[bool] = False
    random_state: int

    @abstractmethod
    def _fit(self, data: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None: ...

    @abstractmethod
    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior: ...

    def fit(
        self,
        Y: ArrayLike,
        T: ArrayLike,
        *,
        X: Any,
        pool: Any = None,
        validation: tuple[ArrayLike, ArrayLike, Any] | None = None,
    ) -> Self:
        """Learn both arms' expected outcomes from measured units.

        Parameters
        ----------
        Y : (n,)
            Measured outcomes, in their own unit.
        T : (n,)
            Arm of each measured unit, 0 or 1; both must occur.
        X : (n, D) array or DataFrame, or images (n, C, H, W) where the model takes them
            Covariates of the measured units. Names of columns are remembered: another DataFrame needs the same names,
            in any order. Arrays are taken by position.
        pool : like X, optional
            Covariates of everyone who might be measured: needs no outcomes, sharpens scaling and joint beliefs.
        validation : (Y, T, X), optional
            Labelled units for early stopping. They cost money too; models that can do without ignore them.
        """
        x, names = check_inputs(X, images=self.accepts_images), text_names(X, "X")
        data = LabelSet(check_vector(Y, "Y", len(x)), check_treatment(T, len(x), "T"), x)
        check_both_arms(data.t)
        others = x if pool is None else self._check_alike(pool, "pool", x.shape[1:], names)
        free = None if validation is None else self._check_validation(validation, x.shape[1:], names)
        self._fitted = False
        self._shape = x.shape[1:]
        remember(self, names, self._shape)
        with self._threads(x):
            self._fit(data, others, free)
        self._fitted = True
        return self

    def _threads(self, x: AnyArray) -> AbstractContextManager[None]:
        """Return what limits the threads of a fit; nothing, unless a model is slower with many."""
        return nullcontext()

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_fitted", False)

    def posterior(self, X: Any, *, joint: bool = True) -> Posterior:
        """Return the belief about the expected outcomes of all units in ``X`` (N, D) or (N, C, H, W).

        With ``joint=False`` beliefs about single units are the same, but covariances between units may be missing;
        enough for scores and effects of single units, and faster.
        """
        return self._posterior(self._check_new(X), joint=joint)

    def cross_belief(self, X: Any) -> CrossBeliefOf | None:
        """Return what ties other units to those in ``X``, if the model knows it without joint beliefs about all."""
        return None

    def effect(self, X: Any, *, T0: int = 0, T1: int = 1) -> Array:
        """Return the expected effect per unit, (N,), of arm ``T1`` against arm ``T0``."""
        sign = self._sign(T0, T1)
        return sign * np.concatenate([p.effect_mean for p in self._chunks(X)])

    def const_marginal_effect(self, X: Any) -> Array:
        """Return the expected effect per unit, (N,): EconML's name for :meth:`effect` of a binary treatment."""
        return self.effect(X)

    def effect_interval(self, X: Any, *, T0: int = 0, T1: int = 1, alpha: float = 0.05) -> tuple[Array, Array]:
        """Return lower and upper ends (N,) of pointwise credible intervals for the expected effects.

        Each interval holds the unit's *expected* effect with posterior probability 1 - alpha, given the model;
        outcome noise is not part of it, and the intervals do not hold jointly.
        """
        sign = self._sign(T0, T1)  # -1 swaps the ends; 0 leaves nothing uncertain
        parts = [belief.effect_interval(alpha) for belief in self._chunks(X)]
        ends = [sign * np.concatenate(part) for part in zip(*parts, strict=True)]
        return np.minimum(*ends), np.maximum(*ends)

    def ate(self, X: Any, *, T0: int = 0, T1: int = 1) -> float:
        """Return the expected average effect over the units in ``X``."""
        return float(self.effect(X, T0=T0, T1=T1).mean())

    def ate_interval(self, X: Any, *, T0: int = 0, T1: int = 1, alpha: float = 0.05) -> tuple[float, float]:
        """Return a credible interval for the average effect over ``X``, from the joint belief about all units."""
        sign, belief = self._sign(T0, T1), self.posterior(X)
        mean, variance = belief.average_effect()
        ends = interval(np.array(mean), np.array(belief.quantile(alpha) * variance**0.5), belief.largest_effect)
        lower, upper = sorted(float(sign * end) for end in ends)
        return lower, upper

    def _chunks(self, X: Any) -> Iterator[Posterior]:
        x = self._check_new(X)
        return (self._posterior(x[start : start + CHUNK_UNITS], joint=False) for start in range(0, len(x), CHUNK_UNITS))

    def _check_new(self, X: Any) -> AnyArray:
        check_is_fitted(self)
        return self._check_alike(X, "X", self._shape, fitted_names(self))

    def _check_alike(self, X: Any, name: str, shape: tuple[int, ...], names: Sequence[str] | None) -> AnyArray:
        return check_inputs(X, name, images=self.accepts_images, shape=shape, names=names)

    def _check_validation(
        self, validation: tuple[ArrayLike, ArrayLike, Any], shape: tuple[int, ...], names: Sequence[str] | None
    ) -> LabelSet:
        if len(validation) != 3:
            raise InputError("validation must be a triple (Y, T, X).")
        x = self._check_alike(validation[2], "validation X", shape, names)
        y = check_vector(validation[0], "validation Y", len(x))
        return LabelSet(y, check_treatment(validation[1], len(x), "validation T"), x)

    @staticmethod
    def _sign(T0: int, T1: int) -> int:
        if {T0, T1} - {0, 1}:
            raise InputError(f"T0 and T1 must be arms 0 or 1, got {T0!r} and {T1!r}.")
        return int(T1) - int(T0)


def balanced_folds(treatment: Treatment, folds: int, rng: np.random.Generator) -> Positions:
    """Return a random fold per label, each arm dealt evenly over the folds."""
    order = rng.permutation(len(treatment))
    by_arm = order[np.argsort(treatment[order], kind="stable")]
    fold = np.empty(len(treatment), dtype=np.intp)
    fold[by_arm] = np.arange(len(treatment)) % folds
    return fold
