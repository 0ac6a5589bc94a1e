from __future__ import annotations

import numpy as np
import pytest

from causalbald import pools
from causalbald._scaling import column_scale, outcome_scale
from causalbald.models import GaussianProcess


def test_scales_by_hand() -> None:
    rare = np.zeros(1000)
    rare[0] = 5.0
    three = rare + (np.arange(1000) == 1)
    x = np.column_stack([np.arange(1000.0), np.full(1000, 0.1), np.arange(1000) % 2, rare, three])
    sd = x.std(axis=0)
    expected = [sd[0], 1.0, 0.5, 0.15**2 * 25 / sd[3], sd[4]]
    np.testing.assert_allclose(column_scale(x), expected)
    np.testing.assert_allclose(column_scale(x.astype(np.float32)), expected, rtol=1e-6)
    assert outcome_scale(np.full(5, 0.1)) == 1.0
    assert outcome_scale(np.array([0.0, 0.0, 0.0, 4.0])) == pytest.approx(np.sqrt(3.0))


def test_tiny_units_are_units() -> None:
    y = np.array([0.0, 1.0, 2.0])
    assert outcome_scale(1e-15 * y) == pytest.approx(1e-15 * outcome_scale(y))
    np.testing.assert_allclose(column_scale(1e-15 * y[:, None]), 1e-15 * column_scale(y[:, None]))
    assert outcome_scale(np.zeros(3)) == 1.0
    assert column_scale(np.zeros((3, 1))) == 1.0


def test_people_with_a_rare_mark_do_not_take_over_batches() -> None:
    rng = np.random.default_rng(0)
    n, marks = 4000, 6
    x = rng.normal(size=(n, 4 + marks))
    x[:, 4:] = 0.0
    marked = rng.choice(n, size=3 * marks, replace=False)
    x[marked, 4 + np.arange(3 * marks) % marks] = 1.0
    t = rng.integers(0, 2, n)
    y = x[:, 0] + t * x[:, 1] + rng.normal(0, 0.5, n)
    measured = np.setdiff1d(rng.choice(n, size=100, replace=False), marked)
    model = GaussianProcess().fit(y[measured], t[measured], X=x[measured], pool=x)
    unmeasured = np.setdiff1d(np.arange(n), measured)
    for name in ("mu-bald", "mu-rho-bald", "tau-bald"):
        batch = pools.choose_batch(
            model, pools.MemoryPool(x, t), name, 20, available=unmeasured, rng=rng, batch="greedy"
        )
        assert np.isin(batch, marked).sum() <= 6
