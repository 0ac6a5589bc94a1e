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
from causalbald._validation import check_both_arms, check_inputs, check_treatment, check_vector
from causalbald.errors import InputError
from causalbald.posterior import Posterior

# The end of the message about images that a model cannot take.
IMAGE_MODELS = "a model that takes them: auto, gp, due, ensemble or PropensityNetwork"


class LabelSet(NamedTuple):
    """Measured units: their outcomes, arms and covariates, checked.

    Parameters
    ----------
    y : (n,)
        Outcomes.
    t : (n,)
        Arms, 0 or 1.
    x : (n, D), or images (n, C, H, W)
        Covariates.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.models import LabelSet
    >>> labels = LabelSet(y=np.array([1.0, 2.0, 3.0]), t=np.array([0, 1, 1]), x=np.zeros((3, 2)))
    >>> labels.take(np.array([2, 0])).y
    array([3., 1.])
    """

    y: Array
    t: Treatment
    x: AnyArray

    def take(self, rows: Positions) -> LabelSet:
        """Return the labels at positions ``rows``, in the order of ``rows``; a position may repeat."""
        return LabelSet(self.y[rows], self.t[rows], self.x[rows])


class CrossBelief(NamedTuple):
    """The belief about N units, each considered alone, and their covariances with J other units.

    Parameters
    ----------
    belief : Posterior
        Belief about the N units. Covariances between them may be missing.
    covariance : callable
        ``covariance(rows, treatment, arm)`` returns Cov(mu_treatment(x_i), mu_arm(x_j)), (n, J), between the n units in
        the slice ``rows``, each under its arm in ``treatment`` (n,), and the J others under ``arm``. With ``arm=None``
        it returns covariances with the effects of the others.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.models import GaussianProcess
    >>> x, t = np.linspace(-2, 2, 12)[:, None], np.arange(12) % 2
    >>> model = GaussianProcess(max_iter=3).fit(x[:, 0] + t, t, X=x, pool=np.linspace(-3, 3, 30)[:, None])
    >>> cross_belief = model.cross_belief(x[:4])
    >>> cross_belief(x[4:6]).covariance(slice(0, 2), t[4:6], None).shape
    (2, 4)
    """

    belief: Posterior
    covariance: Callable[[slice, Treatment, int | None], Array]


CrossBeliefOf = Callable[[AnyArray], CrossBelief]


class CateEstimator(BaseEstimator, ABC):
    """Base of all models of treatment effects.

    A subclass implements ``_fit`` and ``_posterior`` on checked arrays, and sets ``accepts_images`` if it takes images
    (N, C, H, W), which it gets as float32. :func:`causalbald.testing.check_model` checks a subclass.

    Parameters
    ----------
    random_state : int
        Every subclass has this parameter: equal seeds and labels give equal beliefs.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.models import CateEstimator
    >>> from causalbald.posterior import Posterior
    >>> class MeanOfArms(CateEstimator):
    ...     def __init__(self, *, random_state=0):
    ...         self.random_state = random_state
    ...
    ...     def _fit(self, labels, pool, validation):
    ...         self.mean_ = [labels.y[labels.t == arm].mean() for arm in (0, 1)]
    ...
    ...     def _posterior(self, x, *, joint):
    ...         mean = np.broadcast_to(self.mean_, (len(x), 2))
    ...         return Posterior(mean, np.zeros((len(x), 2, 0)), residual=0.1 * np.eye(2), noise=1.0)
    >>> model = MeanOfArms().fit(Y=[1.0, 2.0, 5.0], T=[0, 0, 1], X=[[0.1], [0.2], [0.3]])
    >>> model.effect([[0.5]])
    array([3.5])
    """

    accepts_images: ClassVar[bool] = False
    random_state: int

    @abstractmethod
    def _fit(self, labels: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None:
        """Learn from checked labels, and set the attributes that :meth:`_posterior` needs. Called by :meth:`fit`.

        ``pool`` holds checked covariates of all units; those of the labels if the caller of ``fit`` gave no pool.
        """

    @abstractmethod
    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        """Return the belief about units whose covariates are checked. Called by :meth:`posterior` and other methods.

        With ``joint=False`` covariances between units may be left out.
        """

    def fit(
        self,
        Y: ArrayLike,
        T: ArrayLike,
        *,
        X: Any,
        pool: Any = None,
        validation: tuple[ArrayLike, ArrayLike, Any] | None = None,
    ) -> Self:
        """Learn the expected outcomes of both arms from measured units, and return the model.

        Parameters
        ----------
        Y : (n,)
            Measured outcomes, in their own unit.
        T : (n,)
            Arm of each measured unit, 0 or 1; both must occur.
        X : (n, D) array or DataFrame, or images (n, C, H, W) if the model takes them
            Covariates of the measured units. The model remembers the names of a DataFrame's columns: another DataFrame
            needs the same names, in any order. Columns of arrays are matched by position.
        pool : like X, optional
            Covariates of all units that might be measured, by default those of ``X``. They need no outcomes and improve
            scaling and joint beliefs.
        validation : (Y, T, X), optional
            Labels for early stopping. They cost money too; models that can do without ignore them.

        Returns
        -------
        CateEstimator
            The model itself, fitted.

        Raises
        ------
        InputError
            If shapes disagree, a value is missing or not numeric, an arm has no label, or an option is out of range.
        """
        x, names = self._check_alike(X, "X", None, None), text_names(X, "X")
        labels = LabelSet(check_vector(Y, "Y", len(x)), check_treatment(T, len(x), "T"), x)
        check_both_arms(labels.t)
        pool_x = x if pool is None else self._check_alike(pool, "pool", x.shape[1:], names)
        checked = None if validation is None else self._check_validation(validation, x.shape[1:], names)
        self._fitted = False  # stays so if the fit fails
        self._shape = x.shape[1:]
        remember(self, names, self._shape)
        with self._threads(x):
            self._fit(labels, pool_x, checked)
        self._fitted = True
        return self

    def _threads(self, x: AnyArray) -> AbstractContextManager[None]:
        """Return a context that limits the threads of a fit to ``x``. Subclasses override it; here it limits none."""
        return nullcontext()

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the last ``fit`` has succeeded. Called by scikit-learn's ``check_is_fitted``."""
        return getattr(self, "_fitted", False)

    def posterior(self, X: Any, *, joint: bool = True) -> Posterior:
        """Return the belief about the expected outcomes of all units in ``X``.

        Parameters
        ----------
        X : (N, D) array or DataFrame, or images (N, C, H, W)
            Covariates of the units, in the columns of ``fit``.
        joint : bool
            Whether covariances between units are needed. Without them, beliefs about single units are the same. That is
            enough for scores and effects of single units, and faster.

        Returns
        -------
        Posterior
            Belief about N units, in the order of ``X``.

        Raises
        ------
        NotFittedError
            If ``fit`` has not succeeded.
        InputError
            If ``X`` does not have the columns of ``fit``, or has missing values.
        """
        return self._posterior(self._check_new(X), joint=joint)

    def cross_belief(self, X: Any) -> CrossBeliefOf | None:
        """Return a function from new units to their covariances with the units in ``X``.

        Called by :class:`causalbald.pools` to score a large pool with targets, block by block.

        Parameters
        ----------
        X : (J, D) array or DataFrame, or images (J, C, H, W)
            Covariates of the units with which covariances are needed, for example of the target population.

        Returns
        -------
        callable or None
            Takes checked covariates (N, D) of new units and returns their :class:`CrossBelief`. None, also by default,
            if only a joint belief about all units can tell these covariances, or if a joint belief is cheaper.
        """
        return None

    def effect(self, X: Any, *, T0: int = 0, T1: int = 1) -> Array:
        """Return the expected effect of arm ``T1`` against arm ``T0`` for each unit.

        Parameters
        ----------
        X : (N, D) array or DataFrame, or images (N, C, H, W)
            Covariates of the units, in the columns of ``fit``.
        T0, T1 : int
            Arms 0 or 1; InputError is raised for others. Equal arms have the effect 0.

        Returns
        -------
        (N,) array
            Expected effects, in the unit of the outcome.
        """
        sign = self._sign(T0, T1)
        return sign * np.concatenate([belief.effect_mean for belief in self._chunks(X)])

    def const_marginal_effect(self, X: Any) -> Array:
        """Return the expected effect for each unit, (N,): EconML's name for :meth:`effect` of a binary treatment.

        Parameters
        ----------
        X : (N, D) array or DataFrame, or images (N, C, H, W)
            Covariates of the units, in the columns of ``fit``.

        Returns
        -------
        (N,) array
            Expected effects of arm 1 against arm 0.
        """
        return self.effect(X)

    def effect_interval(self, X: Any, *, T0: int = 0, T1: int = 1, alpha: float = 0.05) -> tuple[Array, Array]:
        """Return the ends of a credible interval for the expected effect of each unit.

        Given the model, each interval holds its unit's *expected* effect with posterior probability 1 - ``alpha``.
        Outcome noise is not part of it, and the intervals do not hold jointly.

        Parameters
        ----------
        X : (N, D) array or DataFrame, or images (N, C, H, W)
            Covariates of the units, in the columns of ``fit``.
        T0, T1 : int
            Arms 0 or 1; the effect is that of ``T1`` against ``T0``.
        alpha : float
            Probability of error, between 0 and 1.

        Returns
        -------
        lower, upper : (N,) arrays
            Ends of the intervals, in the unit of the outcome.
        """
        sign = self._sign(T0, T1)  # -1 swaps the ends; 0 leaves nothing uncertain
        parts = [belief.effect_interval(alpha) for belief in self._chunks(X)]
        ends = [sign * np.concatenate(part) for part in zip(*parts, strict=True)]
        return np.minimum(*ends), np.maximum(*ends)

    def ate(self, X: Any, *, T0: int = 0, T1: int = 1) -> float:
        """Return the expected average effect of arm ``T1`` against arm ``T0`` over the units in ``X``.

        Parameters
        ----------
        X : (N, D) array or DataFrame, or images (N, C, H, W)
            Covariates of the units, in the columns of ``fit``.
        T0, T1 : int
            Arms 0 or 1.

        Returns
        -------
        float
            Mean of :meth:`effect`.
        """
        return float(self.effect(X, T0=T0, T1=T1).mean())

    def ate_interval(self, X: Any, *, T0: int = 0, T1: int = 1, alpha: float = 0.05) -> tuple[float, float]:
        """Return the ends of a credible interval for the average effect over ``X``, from the joint belief.

        Parameters
        ----------
        X : (N, D) array or DataFrame, or images (N, C, H, W)
            Covariates of the units, in the columns of ``fit``.
        T0, T1 : int
            Arms 0 or 1; the effect is that of ``T1`` against ``T0``.
        alpha : float
            Probability of error, between 0 and 1.

        Returns
        -------
        lower, upper : float
            Ends of the interval, in the unit of the outcome.
        """
        sign, belief = self._sign(T0, T1), self.posterior(X)
        mean, variance = belief.average_effect()
        ends = interval(np.array(mean), np.array(belief.quantile(alpha) * variance**0.5), belief.largest_effect)
        lower, upper = sorted(float(sign * end) for end in ends)
        return lower, upper

    def _chunks(self, X: Any) -> Iterator[Posterior]:
        """Return beliefs about ``CHUNK_UNITS`` units at a time, without covariances between units.

        ``X`` is checked at once; beliefs are computed when they are asked for.
        """
        x = self._check_new(X)
        starts = range(0, len(x), CHUNK_UNITS)
        return (self._posterior(x[start : start + CHUNK_UNITS], joint=False) for start in starts)

    def _check_new(self, X: Any) -> AnyArray:
        """Return covariates as a checked array with the columns of ``fit``, in their order.

        Raises NotFittedError if the model is not fitted, and InputError if the columns or values do not suit.
        """
        check_is_fitted(self)
        return self._check_alike(X, "X", self._shape, fitted_names(self))

    def _check_alike(self, X: Any, name: str, shape: tuple[int, ...] | None, names: Sequence[str] | None) -> AnyArray:
        """Return covariates as a checked array; raise InputError if they do not suit.

        ``name`` names the argument in messages. With ``shape``, each unit must have this shape. With ``names``, columns
        of a DataFrame are put in this order.
        """
        images = self.accepts_images
        return check_inputs(X, name, images=images, shape=shape, names=names, image_models=IMAGE_MODELS)

    def _check_validation(
        self, validation: tuple[ArrayLike, ArrayLike, Any], shape: tuple[int, ...], names: Sequence[str] | None
    ) -> LabelSet:
        """Return validation labels, checked as the labels of ``fit`` are; one arm may be missing.

        ``shape`` is the shape of one unit of ``fit``, and ``names`` are its columns, if they have names.
        """
        if len(validation) != 3:
            raise InputError("validation must be a triple (Y, T, X).")
        x = self._check_alike(validation[2], "validation X", shape, names)
        y = check_vector(validation[0], "validation Y", len(x))
        return LabelSet(y, check_treatment(validation[1], len(x), "validation T"), x)

    @staticmethod
    def _sign(T0: int, T1: int) -> int:
        """Return the factor of the effect of arm 1 against arm 0 that gives the effect of ``T1`` against ``T0``.

        It is 1, -1, or 0 for equal arms. Raises InputError for arms other than 0 and 1.
        """
        if {T0, T1} - {0, 1}:
            raise InputError(f"T0 and T1 must be arms 0 or 1, got {T0!r} and {T1!r}.")
        return int(T1) - int(T0)


def balanced_folds(treatment: Treatment, folds: int, rng: np.random.Generator) -> Positions:
    """Return the number of a random fold for each label, (n,), from 0 to ``folds`` - 1.

    The labels of each arm are spread evenly: folds differ by at most one label, and by at most one label of an arm.
    """
    order = rng.permutation(len(treatment))
    by_arm = order[np.argsort(treatment[order], kind="stable")]
    fold = np.empty(len(treatment), dtype=np.intp)
    fold[by_arm] = np.arange(len(treatment)) % folds
    return fold
