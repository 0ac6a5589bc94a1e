"""Summaries of trials, against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from causalbald._typing import Array
from causalbald.errors import InputError
from causalbald.experiments import summarise
from causalbald.metrics import areas, paired_interval

CURVES = {  # seed 0, 1, 2; errors at 10, 20, 40 labels
    "random": [[4.0, 3.0, 2.0], [5.0, 4.0, 4.0], [6.0, 3.0, 3.0]],
    "mine": [[4.0, 2.0, 1.0], [5.0, 5.0, 4.5], [6.0, 1.0, 0.5]],
}


def make_trials(curves: dict[str, list[list[float]]] = CURVES) -> pd.DataFrame:
    rows = [
        {
            "dataset": "d",
            "model": "m",
            "track": "paid",
            "acquisition": name,
            "seed": seed,
            "labels": labels,
            "pehe": error,
            "seconds_fit": 1.0,
            "seconds_score": 0.5,
        }
        for name, seeds in curves.items()
        for seed, errors in enumerate(seeds)
        for labels, error in zip((10, 20, 40), errors, strict=False)
    ]
    return pd.DataFrame(rows)


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): v for k, v in row.items()} for row in table.to_dict("records")]


def test_a_row_by_hand() -> None:
    random, mine = rows_of(summarise(make_trials(), timings=True))
    assert mine["seeds"] == 3
    assert mine["labels"] == 40
    assert mine["mean"] == pytest.approx(2.0)
    assert mine["se"] == pytest.approx(np.std([1.0, 4.5, 0.5], ddof=1) / np.sqrt(3))
    assert mine["median"] == 1.0
    area = [(10 * 3 + 20 * 1.5) / 30, (10 * 5 + 20 * 4.75) / 30, (10 * 3.5 + 20 * 0.75) / 30]
    base = [(10 * 3.5 + 20 * 2.5) / 30, (10 * 4.5 + 20 * 4) / 30, (10 * 4.5 + 20 * 3) / 30]
    assert mine["area"] == pytest.approx(np.mean(area))
    assert mine["wins"] == pytest.approx(2 / 3)
    gap = np.array(area) - np.array(base)
    expected = stats.ttest_rel(area, base).confidence_interval(0.95)
    assert mine["difference"] == pytest.approx(gap.mean())
    assert (mine["lower"], mine["upper"]) == pytest.approx((expected.low, expected.high))
    assert np.isnan(random["wins"])
    assert mine["seconds"] == pytest.approx(4.5)
    # Mean curve 5, 8/3, 2; random ends at 3, which the line from (10, 5) to (20, 8/3) crosses at 10 + 60 / 7.
    assert mine["needed"] == pytest.approx(10 + 60 / 7)
    assert random["needed"] == 40


def test_the_baseline_comes_first() -> None:
    trials = make_trials()
    for name in trials["acquisition"].unique():
        assert summarise(trials, baseline=name)["acquisition"].iloc[0] == name


def test_labels_needed_are_of_the_baseline_of_the_same_seeds() -> None:
    """The error to be reached is that of the seeds drawn: with pairs that differ by a factor it is always reached."""
    scales = (0.1, 0.3, 0.7, 1.0, 2.0, 4.0)
    mine_curves = [[3.0 * s, 1.0 * s, 0.5 * s] for s in scales]
    random = [[3.0 * s, 2.0 * s, 1.0 * s] for s in scales]
    base, mine = rows_of(summarise(make_trials({"random": random, "mine": mine_curves})))
    assert [mine[name] for name in ("needed", "needed_lower", "needed_upper")] == [20, 20, 20]
    assert [base[name] for name in ("needed", "needed_lower", "needed_upper")] == [40, 40, 40]


def test_two_trials_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match=r"more than one trial of dataset d, model m, .* acquisition mine, seed 2"):
        summarise(pd.concat([make_trials(), make_trials().query("acquisition == 'mine' and seed == 2")]))


def test_curves_of_other_numbers_of_labels_are_not_compared() -> None:
    trials = make_trials()
    trials.loc[trials["acquisition"] == "mine", "labels"] += 5
    trials = pd.concat([trials, trials.query("acquisition == 'mine' and labels == 45").assign(labels=40)])
    with pytest.raises(
        InputError, match=r"d, m, paid cannot be compared: 'random' has fits at 10, 20, 40 labels, 'mine'"
    ):
        summarise(trials)


def test_judged_at_fewer_labels_and_another_target() -> None:
    _, mine = rows_of(summarise(make_trials(), labels=20, target=1.0))
    assert mine["mean"] == pytest.approx(8 / 3)
    assert mine["labels"] == 20
    assert mine["needed"] == np.inf
    with pytest.raises(InputError, match="no fit has 15 labels"):
        summarise(make_trials(), labels=15)


def test_pairs_are_the_seeds_that_both_have() -> None:
    trials = make_trials()
    fewer = trials[~((trials["acquisition"] == "random") & (trials["seed"] == 2))]
    _, row = rows_of(summarise(fewer))
    gap = [(10 * 3 + 20 * 1.5 - 10 * 3.5 - 20 * 2.5) / 30, (10 * 5 + 20 * 4.75 - 10 * 4.5 - 20 * 4) / 30]
    assert row["difference"] == pytest.approx(np.mean(gap))
    assert row["wins"] == 0.5


def test_an_unfinished_trial_shortens_the_comparison() -> None:
    trials = make_trials({**CURVES, "mine": [[4.0, 2.0], [5.0, 5.0], [6.0, 1.0]]})
    assert summarise(trials)["labels"].tolist() == [20, 20]


def test_without_the_baseline_and_with_one_seed() -> None:
    [row] = rows_of(summarise(make_trials({"mine": [[3.0, 2.0, 1.0]]})))
    assert all(np.isnan(row[name]) for name in ("se", "needed", "wins", "difference", "lower", "upper"))
    _, one = rows_of(summarise(make_trials({name: seeds[:1] for name, seeds in CURVES.items()})))
    assert one["difference"] < 0
    assert np.isnan(one["lower"])


def test_two_seeds_have_a_standard_error() -> None:
    table = summarise(make_trials({"mine": [[3.0, 2.0, 1.0], [3.0, 2.0, 2.0]]}))
    assert table["se"].iloc[0] == pytest.approx(np.std([1.0, 2.0], ddof=1) / np.sqrt(2))


def test_seconds_are_shown_only_if_asked_for() -> None:
    assert "seconds" not in summarise(make_trials())


def test_groups_are_kept_apart() -> None:
    other = make_trials().assign(track="paper", pehe=lambda t: 2 * t["pehe"])
    table = summarise(pd.concat([make_trials(), other]))
    assert table["track"].tolist() == ["paid", "paid", "paper", "paper"]
    assert table["mean"].iloc[3] == pytest.approx(2 * table["mean"].iloc[1])


def test_missing_columns_are_named() -> None:
    with pytest.raises(InputError, match="no column 'seed'"):
        summarise(make_trials().drop(columns="seed"))
    with pytest.raises(InputError, match="no column 'rmse'"):
        summarise(make_trials(), error="rmse")
    with pytest.raises(InputError, match="alpha"):
        summarise(make_trials(), alpha=2.0)


def test_trials_without_the_value_are_left_out() -> None:
    trials = make_trials().assign(policy_regret=lambda t: t["pehe"])
    old = (trials["seed"] == 1) & (trials["labels"] == 10)
    trials.loc[old, "policy_regret"] = np.nan
    random, mine = rows_of(summarise(trials, error="policy_regret"))
    assert (random["seeds"], mine["seeds"]) == (2, 2)
    assert mine["mean"] == pytest.approx((1.0 + 0.5) / 2)
    assert mine["wins"] == 1.0
    with pytest.raises(InputError, match="no trial has values of policy_regret"):
        summarise(trials.assign(policy_regret=np.nan), error="policy_regret")


def test_area_does_not_depend_on_the_order_of_rows() -> None:
    trials = make_trials({"mine": CURVES["mine"]})
    shuffled = trials.sample(frac=1, random_state=0)
    pd.testing.assert_series_equal(areas(shuffled), areas(trials))


def test_intervals_of_paired_differences_cover() -> None:
    rng = np.random.default_rng(0)
    draws: list[Array] = [rng.normal(0.3, 1.0, size=6) for _ in range(2000)]
    inside = [low <= 0.3 <= high for _, low, high in map(paired_interval, draws)]
    assert 0.93 < np.mean(inside) < 0.97
