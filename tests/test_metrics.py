"""Metrics, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from causalbald import metrics
from causalbald.errors import InputError


def test_errors_of_effects() -> None:
    assert metrics.sqrt_pehe([1.0, 3.0], [0.0, 1.0]) == pytest.approx(np.sqrt((1 + 4) / 2))
    assert metrics.ate_error([1.0, 3.0], [0.0, 5.0]) == pytest.approx(0.5)
    # One is treated in vain (loses 2), one is right, one is left out (loses 3).
    assert metrics.policy_regret([1.0, 1.0, -1.0], [-2.0, 4.0, 3.0]) == pytest.approx(5 / 3)
    # Worthwhile from 3.5 up: only the second is, and nobody is said to be.
    assert metrics.policy_regret([1.0, 1.0, -1.0], [-2.0, 4.0, 3.0], worthwhile=3.5) == pytest.approx(0.5 / 3)
    assert metrics.interval_coverage([0, 0, 0], [1, 1, 1], [0.5, 1.0, 2.0]) == pytest.approx(2 / 3)
    assert metrics.interval_width([0, 1], [1, 4]) == pytest.approx(2)
    with pytest.raises(InputError, match="2 units"):
        metrics.sqrt_pehe([1.0, 2.0], [1.0])


def test_area_is_the_mean_height() -> None:
    assert metrics.area_under_curve([10, 20, 40], [3, 3, 3]) == pytest.approx(3)
    assert metrics.area_under_curve([0, 10, 30], [2, 0, 1]) == pytest.approx((10 * 1 + 20 * 0.5) / 30)
    with pytest.raises(InputError, match="increase"):
        metrics.area_under_curve([10, 10], [1, 1])


def curves(*rows: list[float]) -> pd.DataFrame:
    labels = [10, 20, 30, 40]
    return pd.DataFrame(
        [{"seed": s, "labels": n, "pehe": e} for s, row in enumerate(rows) for n, e in zip(labels, row, strict=True)]
    )


def test_labels_needed_is_the_crossing_that_lasts() -> None:
    assert metrics.labels_to_reach(curves([4, 1, 3, 1]), 2).labels == pytest.approx(35)
    assert metrics.labels_to_reach(curves([4, 1, 1, 1]), 2).labels == pytest.approx(10 + 10 * 2 / 3)
    assert metrics.labels_to_reach(curves([2, 1, 1, 1]), 2).labels == 10
    never = metrics.labels_to_reach(curves([4, 3, 1, 2.5]), 2)
    assert never.censored
    assert str(never) == "not reached"
    assert str(metrics.labels_to_reach(curves(*[[4, 3, 1, 2.5]] * 6), 2)) == "not reached [not reached, not reached]"


def test_labels_needed_uses_the_mean_curve_and_bootstraps_seeds() -> None:
    slow, fast = [4.0, 3.0, 2.0, 0.0], [4.0, 1.0, 0.0, 0.0]
    six = curves(slow, fast, slow, fast, slow, fast)
    needed = metrics.labels_to_reach(six, 1.5)
    assert needed.labels == pytest.approx(25)
    # Of six draws, all are fast, or slow, in 1.6 % of the cases: the bounds are those of one slow, or fast, among six.
    assert needed.lower == pytest.approx(10 + 10 * 2.5 / (4 - 8 / 6))
    assert needed.upper == pytest.approx(30 + 10 * (10 / 6 - 1.5) / (10 / 6))
    assert needed == metrics.labels_to_reach(six, 1.5)


def test_few_seeds_have_no_interval() -> None:
    needed = metrics.labels_to_reach(curves([4, 3, 2, 0], [4, 1, 0, 0]), 1.5)
    assert str(needed) == "25"
    assert np.isnan([needed.lower, needed.upper]).all()


def test_labels_needed_checks_its_table() -> None:
    with pytest.raises(InputError, match="'seed'"):
        metrics.labels_to_reach(curves([4, 3, 2, 1]).drop(columns="seed"), 1)
    with pytest.raises(InputError, match="target"):
        metrics.labels_to_reach(curves([4, 3, 2, 1]), float("nan"))
    with pytest.raises(InputError, match="different numbers of labels"):
        metrics.labels_to_reach(curves([4, 3, 2, 1], [4, 3, 2, 1]).iloc[:-1], 1)


def test_labels_to_match_pairs_seeds() -> None:
    # The second study is ten times as hard; in each, half of the last step is needed less.
    method: list[list[float]] = [[8, 4, 2, 1], [80, 40, 20, 10]] * 3
    baseline: list[list[float]] = [[8, 6, 4, 1.5], [80, 60, 40, 15]] * 3
    needed = metrics.labels_to_match(curves(*method), curves(*baseline))
    assert (needed.labels, needed.lower, needed.upper) == pytest.approx((35, 35, 35))
    assert metrics.labels_to_match(curves(*baseline), curves(*baseline)).labels == 40
    with pytest.raises(InputError, match="same seeds"):
        metrics.labels_to_match(curves(*method), curves(baseline[0]))
