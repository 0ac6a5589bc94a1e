"""Benchmarks: conformance, and the facts that the literature gives about them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split

from causalbald import datasets
from causalbald.datasets._ihdp import covariates
from causalbald.datasets._synthetic import synthetic_bimodal
from causalbald.errors import InputError
from causalbald.testing import check_dataset
from tests.helpers.digits import write_stand_in


@pytest.mark.parametrize("name", datasets.names())
def test_conformance(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAUSALBALD_DATA", str(write_stand_in(tmp_path)))
    check_dataset(name)


def test_all_are_listed() -> None:
    assert {"synthetic", "ihdp", "ihdp-cov", "cmnist"} <= set(datasets.names())


def test_synthetic_follows_the_papers_equations() -> None:
    b = datasets.load("synthetic", 5)
    assert (len(b.pool), len(b.validation), len(b.test)) == (10_000, 1_000, 2_000)
    x = b.pool.x[:, 0]
    for t, mu in ((0, b.pool.mu0), (1, b.pool.mu1)):
        paper = (2 * t - 1) * x + (2 * t - 1) - 2 * np.sin(2 * (2 * t - 1) * x) + 2 * (1 + 0.5 * x)
        np.testing.assert_allclose(mu, paper)
    assert b.pool.propensity is not None
    np.testing.assert_allclose(b.pool.propensity, 1 / (1 + np.exp(-(2 * x + 0.5))))
    noise = b.pool.y - np.where(b.pool.t == 1, b.pool.mu1, b.pool.mu0)
    assert noise.std() == pytest.approx(1, abs=0.03)
    assert abs((b.pool.t - b.pool.propensity).mean()) < 0.02


def test_synthetic_options() -> None:
    quiet = datasets.load("synthetic", 0, sigma=0.0, pool=100)
    np.testing.assert_allclose(quiet.pool.y, np.where(quiet.pool.t == 1, quiet.pool.mu1, quiet.pool.mu0))
    two = datasets.load("synthetic", 0, bimodal=True).pool.x[:, 0]
    assert two.mean() == pytest.approx(0, abs=0.1)
    assert np.abs(two).mean() == pytest.approx(2, abs=0.1)
    assert datasets.load("synthetic", 0, beta=0.0).pool.propensity == pytest.approx(1 / (1 + np.exp(-0.5)))
    with pytest.raises(InputError, match=r"no option 'betta'. Known: pool"):
        datasets.load("synthetic", 0, betta=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pool": 0}, "pool must be an integer of at least 1, got 0"),
        ({"validation": 2.5}, "validation must be an integer of at least 1, got 2.5"),
        ({"test": -3}, "test must be an integer of at least 1, got -3"),
        ({"beta": math.nan}, "beta must be a number, got nan"),
        ({"beta": "strong"}, "beta must be a number, got 'strong'"),
        ({"sigma": -1.0}, "sigma must be at least 0, got -1.0"),
        ({"sigma": math.inf}, "sigma must be a number, got inf"),
        ({"bimodal": "no"}, "bimodal must be True or False, got 'no'"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ({"seed": "one"}, "seed must be an integer of at least 0, got 'one'"),
    ],
)
def test_synthetic_names_the_bad_option(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        datasets.load("synthetic", **options)
    with pytest.raises(InputError, match=words):
        datasets.synthetic(**options)


def test_ihdp_is_the_published_table() -> None:
    x, t, names = covariates()
    assert x.shape == (747, 25)
    assert t.sum() == 139
    assert names[0] == "bw"
    np.testing.assert_allclose(x[:, :6].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(x[:, :6].std(axis=0), 1)
    for name, column in zip(names[6:], x.T[6:], strict=True):
        assert set(np.unique(column)) == ({1, 2} if name == "first" else {0, 1}), name


def test_ihdp_cannot_be_changed_by_one_caller_for_all() -> None:
    for shared in covariates()[:2]:
        with pytest.raises(ValueError, match="read-only"):
            shared[0] = 7


@pytest.mark.parametrize("make", [datasets.ihdp, datasets.ihdp_cov, datasets.synthetic, synthetic_bimodal])
def test_the_default_seed_is_0(make: Any) -> None:
    np.testing.assert_array_equal(make().test.y, make(0).test.y)


def test_ihdp_outcomes_are_hills_surface_b() -> None:
    x, t, _ = covariates()
    rng = np.random.default_rng(7)
    beta = rng.choice([0, 0.1, 0.2, 0.3, 0.4], size=25, p=[0.6, 0.1, 0.1, 0.1, 0.1])
    noise = rng.normal(size=747)
    b = datasets.load("ihdp", 7)
    rows = np.concatenate(list(_split(7).values()))
    parts = [b.pool, b.validation, b.test]
    mu0, mu1 = (np.concatenate([getattr(p, name) for p in parts]) for name in ("mu0", "mu1"))
    y, arm = (np.concatenate([getattr(p, name) for p in parts]) for name in ("y", "t"))
    np.testing.assert_allclose(np.log(mu0), (x[rows] + 0.5) @ beta)
    assert np.ptp(mu1 - (x[rows] + 0.5) @ beta) < 1e-9
    assert (mu1 - mu0)[arm == 1].mean() == pytest.approx(4)
    np.testing.assert_allclose(y - np.where(arm == 1, mu1, mu0), noise[rows])
    np.testing.assert_array_equal(arm, t[rows])


def test_ihdp_surfaces_are_those_of_stored_results() -> None:
    """Sums over the pool, computed with version 0.1.0."""
    sums = {
        ("ihdp", 0): (4631.720698853122, 4292.763833138663, 6393.370377016011),
        ("ihdp", 7): (4081.210686848548, 3765.138803882339, 6137.05435105352),
        ("ihdp-cov", 0): (2550.4928809925914, 2321.5675805564183, 3319.4955249100803),
    }
    for (name, seed), expected in sums.items():
        pool = datasets.load(name, seed).pool
        assert [pool.y.sum(), pool.mu0.sum(), pool.mu1.sum()] == pytest.approx(expected, rel=1e-13)


def _split(seed: int) -> dict[str, np.ndarray]:
    other_rows, test = train_test_split(np.arange(747), test_size=0.1, random_state=seed)
    pool, validation = train_test_split(other_rows, test_size=0.3, random_state=seed)
    assert (len(pool), len(validation), len(test)) == (470, 202, 75)
    return {"pool": pool, "validation": validation, "test": test}


def test_ihdp_cov_shifts_pool_and_validation_only() -> None:
    benchmark, shifted = datasets.load("ihdp", 3), datasets.load("ihdp-cov", 3)
    married = covariates()[2].index("b.marr")
    assert benchmark.covariate_names == covariates()[2]
    assert shifted.covariate_names == tuple(name for name in covariates()[2] if name != "b.marr")
    for name in ("pool", "validation", "test"):
        before, after = getattr(benchmark, name), getattr(shifted, name)
        rows_left = np.arange(len(before)) if name == "test" else np.flatnonzero(before.x[:, married] == 1)
        assert name == "test" or 0 < len(rows_left) < len(before)
        np.testing.assert_array_equal(
            after.x, np.hstack([before.x[rows_left, :married], before.x[rows_left, married + 1 :]])
        )
        for column in ("t", "y", "mu0", "mu1"):
            np.testing.assert_array_equal(getattr(after, column), getattr(before, column)[rows_left])
    assert set(np.unique(benchmark.test.x[:, married])) == {0, 1}
    with pytest.raises(InputError, match="seed must be an integer"):
        datasets.ihdp_cov("one")  # type: ignore[arg-type]


def test_own_arrays() -> None:
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(50, 2)), np.arange(50) % 2
    b = datasets.Benchmark.from_arrays(x, t, x[:, 0], x[:, 0], x[:, 1], seed=0, propensity=np.full(50, 0.5))
    assert (len(b.pool), len(b.validation), len(b.test)) == (31, 14, 5)
    assert b.pool.propensity is not None
    assert "units=31" in repr(b.pool)
    assert b.covariate_names == ()
    table = pd.DataFrame(x, columns=["age", "weight"])
    named = datasets.Benchmark.from_arrays(table, t, x[:, 0], x[:, 0], x[:, 1], seed=0)
    assert named.covariate_names == ("age", "weight")
    with pytest.raises(InputError, match="share"):
        datasets.Benchmark.from_arrays(x, t, x[:, 0], x[:, 0], x[:, 1], seed=0, test=1.5)
    with pytest.raises(InputError, match="at least 10"):
        datasets.Benchmark.from_arrays(x[:5], t[:5], x[:5, 0], x[:5, 0], x[:5, 1], seed=0)
    with pytest.raises(InputError, match="mu1 has 3 entries"):
        datasets.Benchmark.from_arrays(x, t, x[:, 0], x[:, 0], x[:3, 1], seed=0)
    with pytest.raises(InputError, match="unknown data set"):
        datasets.load("idhp2")
