"""Gaussian integrals against scipy's general-purpose routines."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from causalbald._gaussian import bernoulli_entropy, bivariate_cdf, expectation


@pytest.mark.parametrize("h", [-3.0, -0.4, 0.0, 1.1])
@pytest.mark.parametrize("k", [-1.2, 0.0, 0.7, 2.5])
@pytest.mark.parametrize("correlation", [-0.95, -0.3, 0.0, 0.6, 0.99])
def test_bivariate_cdf(h: float, k: float, correlation: float) -> None:
    def integrand(z: float) -> float:
        return float(stats.norm.pdf(z) * stats.norm.cdf((k - correlation * z) / np.sqrt(1 - correlation**2)))

    exact, _ = integrate.quad(integrand, -12, h, limit=200)
    got = bivariate_cdf(np.array(h), np.array(k), np.array(correlation))
    assert float(got) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("sd", [1e-3, 1.0, 30.0])
def test_expectation_of_an_interval_is_its_probability(sd: float) -> None:
    mean = np.array([-1.0, 0.2, 3.0])
    got = expectation(np.ones_like, mean, np.full(3, sd), -0.5, 2.0)
    exact = stats.norm.cdf(2.0, mean, sd) - stats.norm.cdf(-0.5, mean, sd)
    np.testing.assert_allclose(got, exact, atol=1e-9)


def test_bernoulli_entropy_at_the_ends() -> None:
    np.testing.assert_allclose(bernoulli_entropy(np.array([0.0, 0.5, 1.0])), [0.0, np.log(2), 0.0])
