"""Who was measured, by group."""

from __future__ import annotations

from math import comb
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from causalbald.diagnostics import (
    group_values,
    representativeness,
)
from causalbald.errors import InputError


def exact_interval(chosen: int, sample: int, units: int, tail: float) -> tuple[int, int]:
    """Try every size of the group, with probabilities by counting samples."""
    possible = []
    for size in range(units + 1):
        ways = [comb(size, k) * comb(units - size, sample - k) / comb(units, sample) for k in range(sample + 1)]
        if sum(ways[: chosen + 1]) > tail and sum(ways[chosen:]) > tail:
            possible.append(size)
    return min(possible), max(possible)


class TestRepresentativeness:
    def test_intervals_by_counting_samples(self, rng: np.random.Generator) -> None:
        groups = np.array(["a"] * 30 + ["b"] * 8 + ["c"] * 2)
        for _ in range(5):
            measured = rng.permutation(40) < rng.integers(1, 40)
            table = representativeness(groups, measured, alpha=0.1)
            sample = int(measured.sum())
            for row in (SimpleNamespace(**record) for record in table.to_dict("records")):  # type: ignore[arg-type]
                low, high = exact_interval(row.measured, sample, 40, 0.1 / 6)
                assert (row.lower * row.pool, row.upper * row.pool) == pytest.approx((low, high))
                assert row.under_measured == (high < row.pool)
                assert row.ratio == pytest.approx((measured[groups == row.group].sum() / sample) / (row.pool / 40))
                assert row.lower <= row.ratio <= row.upper

    def test_a_group_that_is_left_out_is_found(self) -> None:
        groups = np.repeat(["old", "young"], [200, 800])
        measured = np.zeros(1000, dtype=bool)
        measured[200:300] = True
        table = representativeness(groups, measured).set_index("group")
        assert table["under_measured"].to_dict() == {"old": True, "young": False}
        shares = ["pool", "pool_share", "measured", "measured_share", "ratio"]
        assert list(table.loc["old", shares]) == [200, 0.2, 0, 0, 0]

    def test_random_choice_is_rarely_suspected(self, rng: np.random.Generator) -> None:
        groups = rng.choice(list("abcd"), p=[0.5, 0.3, 0.15, 0.05], size=600)
        tries = [representativeness(groups, rng.permutation(600) < 120) for _ in range(400)]
        missed = [((table["lower"] > 1) | (table["upper"] < 1)).any() for table in tries]
        assert np.mean(missed) < 0.05

    def test_nobody_and_everybody(self) -> None:
        groups = ["a", "a", "b", None]
        nobody = representativeness(groups, np.zeros(4, dtype=bool))
        assert nobody["group"].tolist() == ["a", "b", "(missing)"]
        assert nobody["ratio"].isna().all()
        assert not nobody["under_measured"].any()
        everybody = representativeness(groups, np.ones(4, dtype=bool))
        assert (everybody[["ratio", "lower", "upper"]] == 1).to_numpy().all()

    def test_bad_input(self) -> None:
        with pytest.raises(InputError, match="measured must be true or false for each of 2 units, got int64"):
            representativeness(["a", "b"], [0, 1])
        with pytest.raises(InputError, match="groups is empty"):
            representativeness([], np.zeros(0, dtype=bool))
        with pytest.raises(InputError, match="alpha"):
            representativeness(["a", "b"], np.array([True, False]), alpha=0)


class TestGroups:
    def test_numbers_become_quantile_groups_named_by_their_range(self) -> None:
        groups = group_values(np.arange(100, 0, -1))
        assert list(groups.categories) == ["1 to 20", "21 to 40", "41 to 60", "61 to 80", "81 to 100"]
        assert groups[0] == "81 to 100"
        assert pd.Series(groups).value_counts().unique().tolist() == [20]

    def test_ties_stay_together_and_missing_is_last(self) -> None:
        groups = group_values([0.0] * 70 + list(range(1, 31)) + [np.nan] * 3)
        assert list(groups.categories) == ["0", "1 to 10", "11 to 30", "(missing)"]
        assert pd.Series(groups).value_counts(sort=False).tolist() == [70, 10, 20, 3]

    @pytest.mark.parametrize(
        ("values", "names"),
        [
            ([3, 1, 2, 2], ["1", "2", "3"]),
            ([0.5, np.nan], ["0.5", "(missing)"]),
            ([np.nan, np.nan], ["(missing)"]),
            ([True, False], ["False", "True"]),
            (["b", None, "a"], ["a", "b", "(missing)"]),
            (["b", "(missing)", None], ["b", "(missing)"]),
            (pd.array(["b", pd.NA], dtype="string"), ["b", "(missing)"]),
            (pd.array([2, pd.NA], dtype="Int64"), ["2", "(missing)"]),
            (pd.Categorical(["lo", "hi"], categories=["lo", "mid", "hi"]), ["lo", "hi"]),
            (1e6 + np.arange(10) / 1000, None),
            (1234.5678 * np.arange(1, 7), None),
        ],
    )
    def test_names(self, values: Any, names: list[str] | None) -> None:
        group_names = [str(c) for c in group_values(values).categories]
        assert len(set(group_names)) == len(group_names)
        assert not any("e+" in name for name in group_names)
        assert names is None or group_names == names

    def test_many_categories_share_one(self) -> None:
        letters = [letter for k, letter in enumerate("abcdefghijklmnopqrst") for _ in range(30 - k)]
        groups = group_values(letters)
        assert list(groups.categories) == [*"abcdefghijk", "(other)"]
        assert (np.asarray(groups) == "(other)").sum() == sum(30 - k for k in range(11, 20))

    def test_bad_input(self) -> None:
        with pytest.raises(InputError, match="max_groups must be an integer of at least 2"):
            group_values([1, 2, 3], max_groups=1)
