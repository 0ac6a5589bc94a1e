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
    """Units with their truth: covariates x (N, D) or images (N, C, H, W), and per unit (N,) arm t, outcome y, and
    expected outcomes mu0 and mu1.
    """

    x: AnyArray
    t: Treatment
    y: Array
    mu0: Array
    mu1: Array
    propensity: Array | None = None
    """True P(treated | x), where the benchmark knows it."""
    latent: Array | None = None
    """Hidden coordinate (N,) behind images that decides arms and outcomes: for pictures, never for models."""

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
        """Return the units at ``positions``."""
        i = np.asarray(positions)
        pi = None if self.propensity is None else self.propensity[i]
        latent = None if self.latent is None else self.latent[i]
        return Split(self.x[i], self.t[i], self.y[i], self.mu0[i], self.mu1[i], pi, latent)


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A pool to choose from, a validation split (track ``paper`` only) and a test split."""

    name: str
    pool: Split
    validation: Split
    test: Split
    covariate_names: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of the columns of x (D,), where they have any."""

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
        """Split your own data: ``test`` of all units, then ``validation`` of the rest; what remains is the pool.

        The splits are those of scikit-learn's ``train_test_split`` with ``random_state=seed``, as in the paper.
        The columns of a DataFrame ``x`` give the covariates their names.
        """
        from sklearn.model_selection import train_test_split

        covariates = check_inputs(x, "x", images=True)
        n = len(covariates)
        seed = check_int(seed, "seed", low=0)
        everyone = Split(
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
        rest, test_rows = train_test_split(np.arange(n), test_size=test, random_state=seed)
        pool_rows, validation_rows = train_test_split(rest, test_size=validation, random_state=seed)
        check_both_arms(everyone.t[pool_rows], "units of the pool")
        splits = (everyone.take(rows) for rows in (pool_rows, validation_rows, test_rows))
        return cls(name, *splits, covariate_names=tuple(str(c) for c in table_columns(x, "x") or ()))


_REGISTRY: Registry[Callable[..., Benchmark]] = Registry("data set", "datasets")
names, register, summary = _REGISTRY.names, _REGISTRY.register, _REGISTRY.summary
check_options, version = _REGISTRY.check_options, _REGISTRY.version


def load(name: str, seed: int = 0, **options: Any) -> Benchmark:
    """Return one realisation of a data set; ``options`` are those of its function."""
    _REGISTRY.check_options(name, options)
    return _REGISTRY[name](check_int(seed, "seed", low=0), **options)
