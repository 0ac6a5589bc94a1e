"""What every acquisition function, model and data set must satisfy."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from causalbald import acquisition as acq
from causalbald import datasets
from causalbald.datasets import Benchmark
from causalbald.errors import InputError
from causalbald.models import CateEstimator
from causalbald.posterior import Link, Posterior
from causalbald.selection import select_greedy
from causalbald.testing._fake import fake_posterior

_LINKS: tuple[Link, ...] = ("identity", "probit")


def check_acquisition(acquisition: acq.AcquisitionLike) -> None:
    """Check what users of any acquisition function rely on.

    A score function must return one finite score per unit, for continuous and for binary outcomes. The same input must
    give the same scores, and the order of the units must not matter. A function that takes neither ``population`` nor
    ``targets`` must score each unit from the unit's own belief alone. A certain belief must not give NaN, and a greedy
    batch must be possible. For a function that takes ``rng``, neither order nor other units are checked.

    A batch function must return available units, each once. The same input must give the same batch. The scale of
    covariates and constant covariates must not matter, and all units may be alike.

    Parameters
    ----------
    acquisition : str or callable
        A registered name, or the function itself. The function must have a docstring.

    Raises
    ------
    AssertionError
        At the first rule that the function breaks.

    Examples
    --------
    >>> from causalbald.testing import check_acquisition
    >>> check_acquisition("mu-rho-bald")
    """
    function = acq.load(acquisition)
    assert function.summary, f"{function.name}: give the function a docstring; its first line is shown to users"
    if isinstance(function, acq.BatchFunction):
        _check_batches(function)
        return
    for link in _LINKS:
        posterior = fake_posterior(link=link)
        treatment = np.arange(len(posterior)) % 2
        pi = np.linspace(0.1, 0.9, len(posterior))

        def scores(
            belief: Posterior, units: np.ndarray, arm: np.ndarray = treatment, pi: np.ndarray = pi
        ) -> np.ndarray:
            """Return the function's scores of some units of a belief; ``arm`` and ``pi`` are of all its units."""
            return function(belief.take(units), arm[units], propensity=pi[units], rng=np.random.default_rng(0))

        units = np.arange(len(posterior))
        whole = scores(posterior, units)
        assert whole.shape == (len(posterior),), f"{function.name}: one score per unit, got {whole.shape}"
        assert np.isfinite(whole).all(), f"{function.name}: scores of an ordinary belief must be finite"
        np.testing.assert_array_equal(whole, scores(posterior, units), f"{function.name}: same input, same scores")
        if "rng" not in function.needs:
            backwards = scores(posterior, units[::-1])[::-1]
            np.testing.assert_allclose(
                whole, backwards, rtol=1e-9, atol=1e-12, err_msg="order of units must not matter"
            )
        if not function.needs_population and "rng" not in function.needs:
            part = scores(posterior, units[:5])
            message = f"{function.name}: without `population` or `targets`, a score may depend on its own unit alone"
            np.testing.assert_allclose(part, whole[:5], rtol=1e-9, atol=1e-12, err_msg=message)
        certain = Posterior(posterior.mean, np.zeros((len(posterior), 2, 1)), np.zeros(()), posterior.noise, link)
        flat = scores(certain, units)
        assert not np.isnan(flat).any(), f"{function.name}: a certain belief must not give NaN"
        batch = select_greedy(posterior, treatment, function, 3, propensity=pi, rng=np.random.default_rng(0))
        assert len(set(batch.tolist())) == 3, f"{function.name}: a greedy batch repeats units"


def _check_batches(function: acq.BatchFunction) -> None:
    """Raise AssertionError if a batch function breaks a rule on 60 units; see `check_acquisition`."""
    x, units = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60)
    treatment = units % 3 % 2

    def batch(x: np.ndarray, size: int, measured: np.ndarray) -> list[int]:
        """Return the chosen positions. Five of the units that are not measured are not available."""
        available, rng = np.setdiff1d(units, measured)[5:], np.random.default_rng(0)
        chosen = function.choose(x, treatment, size, measured=measured, available=available, rng=rng)
        return [int(k) for k in chosen]

    rescaled = np.column_stack([1000 * x + 5, np.full(60, 0.1)])
    for measured in (units[:12], units[treatment == 0][:5], units[:0]):
        for size in (0, 1, 7, 43):
            first = batch(x, size, measured)
            assert first == batch(x, size, measured), f"{function.name}: same input, same batch"
            assert first == batch(rescaled, size, measured), f"{function.name}: scale and constants must not matter"
            assert len(batch(np.zeros_like(x), size, measured)) == size, f"{function.name}: units may all be alike"


def _check_many_covariates(model: CateEstimator) -> None:
    """Raise AssertionError if a model believes after 20 labels with 40 covariates that some outcome is certain.

    ``model`` is fitted in place. Called by `check_model`.
    """
    rng = np.random.default_rng(1)
    x, t = rng.normal(size=(60, 40)), np.arange(60) % 2
    few = model.fit(x[:20, 0] + t[:20] + 0.1 * rng.normal(size=20), t[:20], X=x[:20], pool=x).posterior(x, joint=False)
    assert (few.variance > 0).all(), "with more covariates than labels, something must be left to learn"


def check_model(model: CateEstimator) -> None:
    """Check what users of any model rely on.

    A fit must not change the model's parameters, must find an easy effect, and must repeat exactly. A belief has a row
    per unit and a column per arm. Effects and average effects must agree with the belief, change sign with the arms,
    lie in their intervals, and follow the unit of the outcome. With more covariates than labels, something must be left
    to learn. InputError must be raised for labels of one arm, arms other than 0 and 1, unequal lengths and NaN.

    Parameters
    ----------
    model : CateEstimator
        Unfitted. It is cloned, not changed, and fitted several times on at most 60 labels.

    Raises
    ------
    AssertionError
        At the first rule that the model breaks.

    Examples
    --------
    >>> from causalbald.models import GaussianProcess
    >>> from causalbald.testing import check_model
    >>> check_model(GaussianProcess(max_iter=20, sites=40))
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    t = np.arange(60) % 2
    y = x[:, 0] + t * (1 + x[:, 1]) + 0.1 * rng.normal(size=60)
    new = rng.normal(size=(7, 2))
    before = model.get_params()
    fitted = clone(model).fit(y, t, X=x, pool=np.vstack([x, new]))
    assert model.get_params() == before, "fit must not change parameters"
    try:
        posterior, single = fitted.posterior(new), fitted.posterior(new, joint=False)
    except InputError as refusal:
        raise AssertionError(f"posterior: a belief must be possible, but {refusal}") from refusal
    assert posterior.mean.shape == (7, 2), "posterior: one row per unit, one column per arm"
    np.testing.assert_allclose(single.mean, posterior.mean, rtol=1e-5, atol=1e-4, err_msg="joint=False changes means")
    np.testing.assert_allclose(single.covariance, posterior.covariance, rtol=1e-3, atol=1e-6, err_msg="or covariances")
    effect = fitted.effect(new)
    np.testing.assert_allclose(
        effect, posterior.effect_mean, rtol=1e-5, atol=1e-4, err_msg="effect must be the posterior's mean effect"
    )
    np.testing.assert_allclose(fitted.effect(new, T0=1, T1=0), -effect, err_msg="effect must change sign with the arms")
    nothing = np.array(fitted.effect_interval(new, T0=1, T1=1))
    np.testing.assert_array_equal(nothing, 0.0, err_msg="an arm has no effect against itself")
    np.testing.assert_array_equal(fitted.const_marginal_effect(new), effect, "EconML's name must give the same")
    np.testing.assert_allclose(fitted.ate(new), effect.mean(), err_msg="ate must be the mean effect")
    lower, upper = fitted.effect_interval(new)
    wide_lower, wide_upper = fitted.effect_interval(new, alpha=0.01)
    assert ((wide_lower < lower) & (lower < effect) & (effect < upper) & (upper < wide_upper)).all(), (
        "intervals must nest"
    )
    ate_lower, ate_upper = fitted.ate_interval(new)
    assert ate_lower < fitted.ate(new) < ate_upper, "the average effect must lie in its interval"
    again = clone(model).fit(y, t, X=x, pool=np.vstack([x, new]))
    np.testing.assert_array_equal(again.effect(new), effect, "same seed, same data, same answer")
    rescaled = clone(model).fit(1000 * y + 5, t, X=x, pool=np.vstack([x, new])).effect(new)
    np.testing.assert_allclose(rescaled, 1000 * effect, rtol=0.05, atol=50, err_msg="effects are in the outcome's unit")
    error = np.sqrt(np.mean((fitted.effect(x) - 1 - x[:, 1]) ** 2))
    assert error < 0.5, f"an easy effect is missed: root mean squared error {error:.2f} where 0.5 is generous"
    _check_many_covariates(clone(model))
    for broken in ((y, np.zeros(60), x), (y, t + 1, x), (y[:5], t, x), (np.where(t == 1, np.nan, y), t, x)):
        try:
            clone(model).fit(broken[0], broken[1], X=broken[2])
        except InputError:
            continue
        raise AssertionError("fit must raise InputError on one arm, arms not 0/1, unequal lengths and NaN")


def check_dataset(name: str) -> None:
    """Check the splits of a registered data set, loaded with the seeds 0 (twice) and 1.

    Each split must have one finite value per unit for ``t``, ``y``, ``mu0`` and ``mu1``, as many rows of ``x``, and
    both arms. In each split, the outcome minus the expected outcome of the unit's arm must average about 0: within five
    standard errors. Outcomes of the pool must be the same for the same seed, and differ for another seed.

    Parameters
    ----------
    name : str
        One of ``datasets.names()``.

    Raises
    ------
    AssertionError
        At the first rule that the data set breaks.

    Examples
    --------
    >>> from causalbald.testing import check_dataset
    >>> check_dataset("synthetic")
    """
    first, again, other = datasets.load(name, 0), datasets.load(name, 0), datasets.load(name, 1)
    for split in ("pool", "validation", "test"):
        part = getattr(first, split)
        assert len(part.x) == len(part.t), f"{name}.{split}: x must have a row per unit"
        for column in (part.t, part.y, part.mu0, part.mu1):
            assert column.shape == (len(part),), f"{name}.{split}: one value per unit"
            assert np.isfinite(column).all(), f"{name}.{split}: values must be finite"
        assert set(np.unique(part.t)) == {0, 1}, f"{name}.{split}: both arms must occur"
        noise = part.y - np.where(part.t == 1, part.mu1, part.mu0)
        assert abs(noise.mean()) < 5 * noise.std() / np.sqrt(len(part)) + 1e-9, f"{name}.{split}: y must centre on mu_t"
    np.testing.assert_array_equal(first.pool.y, again.pool.y, f"{name}: same seed, same data")
    assert not _equal(first, other), f"{name}: another seed must give other data"


def _equal(first: Benchmark, second: Benchmark) -> bool:
    """Return whether two benchmarks have the same outcomes in their pools."""
    return first.pool.y.shape == second.pool.y.shape and bool((first.pool.y == second.pool.y).all())
