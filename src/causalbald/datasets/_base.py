"""What every benchmark looks like, and the registry of those that ship."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from causalbald._covariate_names import table_columns
from causalbald._registry import Registry
from causalbald._typing import AnyArray, Array, Treatment
from causalbald._validation import (
    check_both_arms,
    check_inputs,
    check_int,
    check_probability,
    check_treatment,
    check_vector,
)
from causalbald.errors import InputError


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Units with their true expected outcomes. Nothing is checked here; :meth:`Benchmark.from_arrays` checks.

    Parameters
    ----------
    x : (N, D) or (N, C, H, W)
        Covariates or images.
    t : (N,)
        The arm of each unit, 0 or 1.
    y : (N,)
        The outcome of each unit under its arm.
    mu0, mu1 : (N,)
        Expected outcomes without and with treatment.
    propensity : (N,), optional
        The true P(treated | x), if the benchmark knows it.
    latent : (N,), optional
        The hidden coordinate behind images, on which arms and outcomes depend. It is for figures, never for models.

    Examples
    --------
    >>> from causalbald import datasets
    >>> split = datasets.load("synthetic", pool=4).pool
    >>> split
    Split(units=4, covariates=1, treated=1)
    >>> split.take([2, 0]).effect.shape
    (2,)
    """

    x: AnyArray
    t: Treatment
    y: Array
    mu0: Array
    mu1: Array
    propensity: Array | None = None
    latent: Array | None = None

    @property
    def effect(self) -> Array:
        """True effect per unit, (N,)."""
        return self.mu1 - self.mu0

    def __len__(self) -> int:
        return len(self.t)

    def __repr__(self) -> str:
        what = f"covariates={self.x.shape[1]}" if self.x.ndim == 2 else f"image={self.x.shape[1:]}"
        return f"Split(units={len(self)}, {what}, treated={int(self.t.sum())})"

    def take(self, positions: ArrayLike) -> Split:
        """Return a split with copies of the units at ``positions``, in the order of ``positions``."""
        i = np.asarray(positions)
        pi = None if self.propensity is None else self.propensity[i]
        latent = None if self.latent is None else self.latent[i]
        return Split(self.x[i], self.t[i], self.y[i], self.mu0[i], self.mu1[i], pi, latent)


@dataclass(frozen=True, eq=False)
class Benchmark:
    """One realisation of a data set with known truth, in three splits.

    Parameters
    ----------
    name : str
        The name of the data set.
    pool : Split
        The units that can be measured.
    validation : Split
        Units for early stopping and the choice of hyper-parameters; used by the track ``paper`` only.
    test : Split
        The units on which effects are judged.
    covariate_names : tuple of str
        Names of the D columns of ``x``; empty if the columns have no names.

    Examples
    --------
    >>> from causalbald import datasets
    >>> benchmark = datasets.load("ihdp", seed=1)
    >>> len(benchmark.pool), len(benchmark.validation), len(benchmark.test)
    (470, 202, 75)
    >>> benchmark.covariate_names[:2]
    ('bw', 'b.head')
    """

    name: str
    pool: Split
    validation: Split
    test: Split
    covariate_names: tuple[str, ...] = field(default=(), kw_only=True)

    @classmethod
    def from_arrays(
        cls,
        x: ArrayLike,
        t: ArrayLike,
        y: ArrayLike,
        mu0: ArrayLike,
        mu1: ArrayLike,
        *,
        seed: int,
        test: float = 0.1,
        validation: float = 0.3,
        propensity: ArrayLike | None = None,
        name: str = "custom",
    ) -> Benchmark:
        """Return your own data as a benchmark, split at random into pool, validation and test.

        The splits are those of scikit-learn's ``train_test_split`` with ``random_state=seed``, as in the paper. The
        test split is drawn first.

        Parameters
        ----------
        x : (N, D) or (N, C, H, W)
            Covariates or images. The columns of a DataFrame give the covariates their names.
        t : (N,)
            The arm of each unit, 0 or 1.
        y : (N,)
            The outcome of each unit under its arm.
        mu0, mu1 : (N,)
            Expected outcomes without and with treatment.
        seed : int
            Seed of the splits.
        test : float
            Share of all units in the test split.
        validation : float
            Share of the other units in the validation split. The remaining units are the pool.
        propensity : (N,), optional
            The true P(treated | x).
        name : str
            The name of the data set.

        Returns
        -------
        Benchmark

        Raises
        ------
        InputError
            If there are fewer than ten units, a share is not between 0 and 1, or the pool lacks an arm. Also if an
            array has another length, or a value that is missing or infinite.

        Examples
        --------
        >>> import numpy as np
        >>> from causalbald.datasets import Benchmark
        >>> x = np.linspace(0, 1, 20)
        >>> benchmark = Benchmark.from_arrays(x[:, None], np.arange(20) % 2, x, x, x + 1, seed=0)
        >>> benchmark.pool
        Split(units=12, covariates=1, treated=6)
        """
        from sklearn.model_selection import train_test_split

        covariates = check_inputs(x, "x", images=True)
        n = len(covariates)
        seed = check_int(seed, "seed", low=0)
        all_units = Split(
            covariates,
            check_treatment(t, n, "t"),
            check_vector(y, "y", n),
            check_vector(mu0, "mu0", n),
            check_vector(mu1, "mu1", n),
            None if propensity is None else check_probability(propensity, n),
        )
        for share, what in ((test, "test"), (validation, "validation")):
            if not 0 < share < 1:
                raise InputError(f"{what} must be a share between 0 and 1, got {share!r}.")
        if n < 10:
            raise InputError(f"{n} units are too few to split into pool, validation and test: give at least 10.")
        other_rows, test_rows = train_test_split(np.arange(n), test_size=test, random_state=seed)
        pool_rows, validation_rows = train_test_split(other_rows, test_size=validation, random_state=seed)
        check_both_arms(all_units.t[pool_rows], "units of the pool")
        splits = (all_units.take(rows) for rows in (pool_rows, validation_rows, test_rows))
        return cls(name, *splits, covariate_names=tuple(str(c) for c in table_columns(x, "x") or ()))


_REGISTRY: Registry[Callable[..., Benchmark]] = Registry("data set", "datasets")
names, register, summary = _REGISTRY.names, _REGISTRY.register, _REGISTRY.summary
check_options, version = _REGISTRY.check_options, _REGISTRY.version


def load(name: str, seed: int = 0, **options: Any) -> Benchmark:
    """Return one realisation of a data set, drawn anew at each call.

    Parameters
    ----------
    name : str
        One of ``datasets.names()``.
    seed : int
        At least 0. The same seed returns the same data.
    **options
        Keyword arguments of the data set's own function, such as ``pool`` of :func:`synthetic`.

    Returns
    -------
    Benchmark

    Raises
    ------
    InputError
        If there is no such data set, the data set has no such option, or the seed is negative.

    Examples
    --------
    >>> from causalbald import datasets
    >>> datasets.load("synthetic", seed=3, pool=100, sigma=0.1).pool
    Split(units=100, covariates=1, treated=53)
    """
    _REGISTRY.check_options(name, options)
    return _REGISTRY[name](check_int(seed, "seed", low=0), **options)
