"""Diagnostics, against definitions written out by hand, other libraries, and data whose answer is known."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from causalbald import datasets
from causalbald.campaign._preparation import propensity_model
from causalbald.diagnostics import (
    balance_table,
    common_support,
    determines_treatment,
    find_leaks,
    is_outside,
    missing_by_arm,
    separation,
    sounds_measured_after,
    support_band,
    support_lines,
    support_margin,
)
from causalbald.diagnostics._support import propensity_edges
from causalbald.errors import InputError
from causalbald.figures import draw_balance, draw_support
from causalbald.models import PropensityModel


def test_importing_is_light() -> None:
    code = (
        "import sys, causalbald.diagnostics; sys.exit(' '.join({'torch', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


class TestSupport:
    pi = np.array([0.05, 0.1, 0.3, 0.6, 0.9, 0.95, 0.2, 0.99])
    t = np.array([0, 0, 0, 0, 1, 1, 1, 1])

    def test_by_hand(self) -> None:
        support = common_support(self.pi, self.t)
        assert support.outside.tolist() == [True, False, False, False, False, True, False, True]
        # Controls reach from 0.05 to 0.6, treated from 0.2 to 0.99.
        assert support.unmatched.tolist() == [True, True, False, False, True, True, False, True]
        assert support.arm_sizes.tolist() == [4, 4]
        assert support.outside_by_arm.tolist() == [1, 2]
        assert support.unmatched_by_arm.tolist() == [2, 3]
        # With the propensity of the other arm's extreme, a unit is matched.
        assert common_support([0.2, 0.5, 0.2, 0.5], [0, 0, 1, 1]).unmatched.tolist() == [False] * 4
        assert common_support([0.2, 0.6, 0.2, 0.5], [0, 0, 1, 1]).unmatched.tolist() == [False, True, False, False]

    def test_summary_is_a_sentence_with_counts_per_arm(self) -> None:
        sentence = common_support(self.pi, self.t).summary(("continued", "quit"))
        start = "3 of 8 units (37.5 %) have P(quit) outside [0.1, 0.9], 1 of 4 continued and 2 of 4 quit: "
        assert sentence.startswith(start)
        inside = common_support(np.full(4, 0.5), [0, 1, 0, 1]).summary()
        assert inside.startswith("None of 4 units has P(treated) outside [0.1, 0.9]")

    def test_equal_arms_have_the_rule_of_thumb(self) -> None:
        assert support_band(0.5) == (0.1, 0.9)
        assert support_margin(0.5) == 0.1

    @pytest.mark.parametrize("share", [1e-4, 0.01, 0.04, 0.2, 0.45])
    def test_a_rare_arm_is_compared_with_its_odds_among_all(self, share: float) -> None:
        low, high = support_band(share)
        assert low / (1 - low) == pytest.approx(share / (1 - share) / 9)
        assert high == 0.9
        assert low < 0.1
        assert support_band(1 - share) == pytest.approx((0.1, 1 - low))
        pi = np.array([low, high, share, 0.5, np.nextafter(low, 0), np.nextafter(high, 1)])
        assert is_outside(pi, share).tolist() == [False] * 4 + [True] * 2
        assert is_outside(1 - pi[2:4], 1 - share).tolist() == [False] * 2

    @pytest.mark.parametrize(("units", "treated"), [(1000, 50), (2300, 2208), (5000, 12)])
    def test_a_randomised_table_with_a_rare_arm_raises_no_alarm(self, units: int, treated: int) -> None:
        rng = np.random.default_rng(0)
        t = np.zeros(units, dtype=int)
        t[rng.choice(units, size=treated, replace=False)] = 1
        support = common_support(propensity_model(rng.normal(size=(units, 5)), t, 0).cross_fitted_, t)
        assert not support.outside.any()
        assert "everyone can be compared with people of the other arm" in support.summary()

    def test_few_treated_people_unlike_the_others_raise_an_alarm(self) -> None:
        """As job trainees among the employees of a survey, who are older and better paid."""
        rng = np.random.default_rng(0)
        t = np.repeat([1, 0], [150, 6000])
        age, pay = rng.normal(np.where(t == 1, 26, 36), 8), rng.normal(np.where(t == 1, 3, 14), 5)
        support = common_support(propensity_model(np.column_stack([age, pay]), t, 0).cross_fitted_, t)
        outside = support.outside_by_arm / support.arm_sizes
        assert outside[0] > 0.5
        assert 0 < outside[1] < 0.5
        assert "hardly anyone in the other arm is like them" in support.summary()

    def test_the_summary_says_that_the_band_allows_for_the_share_treated_and_for_few_people(self) -> None:
        t = np.arange(1000) < 40
        sentence = common_support(np.full(1000, 0.04), t).summary(("usual", "drug"))
        assert sentence == (
            "None of 1,000 units has P(drug) outside [0.0046, 0.9] (the share in arm drug is 4 %): "
            "everyone can be compared with people of the other arm."
        )
        t = np.arange(1000) >= 3
        sentence = common_support(np.full(1000, 0.997), t).summary(("usual", "drug"))
        assert sentence.startswith(
            "None of 1,000 units has P(drug) outside [0.1, 0.99967] (the share in arm drug is 99.7 %): "
        )
        assert sentence.endswith("people of the other arm, as far as the few units in arm usual can tell (3).")

    def test_separation_is_the_auc_and_warns_when_treatment_is_determined(self, rng: np.random.Generator) -> None:
        pi = rng.uniform(size=500).round(2)
        t = rng.binomial(1, pi)
        separated = separation(pi, t)
        assert separated.auc == pytest.approx(roc_auc_score(t, pi))
        assert not separated.determined
        assert f"AUC {separated.auc:.2f}" in separated.summary()
        certain = separation(np.where(t == 1, 0.99, 0.01), t)
        assert (certain.auc, certain.determined) == (1.0, True)
        assert certain.summary().startswith("Treatment is determined by the covariates (AUC 1.000)")

    def test_a_cross_fitted_propensity_of_noise_does_not_separate(self, rng: np.random.Generator) -> None:
        t = rng.binomial(1, 0.5, size=300)
        assert abs(separation(PropensityModel().fit(rng.normal(size=(300, 10)), t).cross_fitted_, t).auc - 0.5) < 0.1

    def test_bad_input(self) -> None:
        with pytest.raises(InputError, match="no units in arm 1"):
            common_support([0.5, 0.5], [0, 0])
        with pytest.raises(InputError, match="propensity must lie in"):
            common_support([0.5, 1.5], [0, 1])
        with pytest.raises(InputError, match="propensity has 3 entries for 2 units"):
            separation([0.5, 0.5, 0.5], [0, 1])


class TestSupportLines:
    def test_counts_bars_and_marks(self) -> None:
        pi = np.repeat([0.05, 0.1, 0.9, 0.95, 0.45], [2, 2, 2, 1, 9])
        t = np.array([0, 0, 0, 1, 0, 1, 1] + [0] * 4 + [1] * 5)
        title, *lines = support_lines(pi, t, ("continued", "quit"), width=60)
        assert title.split() == ["P(quit)", "continued", "8", "quit", "8"]
        cells = [line.replace("outside", "").split() for line in lines]
        counts = [[int(word) for word in row if word.isdecimal()] for row in cells]
        # 0.1 and 0.9 themselves are inside, next to the marked lines.
        assert counts == [[2, 0], [1, 1], *[[0, 0]] * 2, [4, 5], *[[0, 0]] * 3, [1, 1], [0, 1]]
        assert [line.endswith("outside") for line in lines] == [True, *[False] * 8, True]
        longest = {line.count("█") for line in lines}
        assert lines[4].count("█") == max(longest)

    @pytest.mark.parametrize("width", [48, 60, 100])
    def test_fit_the_width_whatever_the_names_and_counts(self, width: int, rng: np.random.Generator) -> None:
        pi = rng.uniform(size=200_000)
        t = rng.binomial(1, pi)
        lines = support_lines(pi, t, ("usual care in the region", "a new medicine"), width)
        assert len(lines) in (11, 12)
        assert max(map(len, lines)) <= width
        assert "█" in lines[1]

    def test_a_lone_unit_is_visible_and_a_narrow_terminal_refused(self) -> None:
        pi, t = np.repeat([0.55, 0.25], [999, 1]), np.arange(1000) % 2
        assert "▏ 1" in support_lines(pi, t)[3]
        with pytest.raises(InputError, match="width must be at least 48"):
            support_lines(pi, t, width=20)

    def test_edges_of_bins_agree_with_the_rule(self) -> None:
        for share in (0.5, 0.04, 0.96, 1e-4):
            low, high = band = support_band(share)
            pi = np.array([low, high, np.nextafter(low, 0), np.nextafter(high, 1)])
            edges = propensity_edges(band)
            where = np.digitize(pi, edges) - 1
            assert is_outside(pi, share).tolist() == [False, False, True, True]
            assert (edges[where] >= low).tolist() == [True, True, False, True]
            assert (edges[where] <= high).tolist() == [True, True, True, False]

    @pytest.mark.parametrize("width", [48, 100])
    def test_a_rare_arm_splits_a_bin_at_the_end_of_the_band(self, width: int) -> None:
        t = np.arange(1000) < 40
        pi = np.where(np.arange(1000) < 900, 0.04, 0.002)
        _, first, second, third, *other_lines = support_lines(pi, t, ("usual", "drug"), width)
        assert first.startswith("0.0-0.0046 ")
        assert (first.split()[-1], first.split()[-2]) == ("outside", "0")
        assert second.startswith("0.0046-0.1 ")
        assert third.startswith("0.1-0.2 ")
        assert "outside" not in second + third
        assert [line.endswith("outside") for line in other_lines] == [False] * 7 + [True]
        _, *mirrored = support_lines(1 - pi, ~t, ("drug", "usual"), width)
        assert [line.split()[0] for line in mirrored[-2:]] == ["0.9-0.9954", "0.9954-1.0"]
        assert [line.endswith("outside") for line in mirrored] == [True] + [False] * 9 + [True]


class TestLeaks:
    t = np.arange(400) % 2

    @pytest.mark.parametrize(
        "values",
        [
            np.where(t == 1, "drug", "placebo"),
            np.where(t == 1, -1.5, 2.0) + np.linspace(0, 1, 400),
            np.where(t == 1, 1, np.where(np.arange(400) % 4 == 0, 0, 2)),
            t == 1,
            pd.array(np.where(t == 1, 7, 3), dtype="Int64"),
            np.where(t == 1, "2020-02-01", "2020-01-01").astype("datetime64[D]"),
            np.where(np.arange(400) < 300, t.astype(float), np.nan),
            pd.Categorical(["yes" if arm else None for arm in t]),
            np.array([f"ward {k % 20}" for k in range(400)]),
        ],
        ids=[
            "words",
            "numbers",
            "a middle code",
            "true or false",
            "nullable",
            "dates",
            "where known",
            "known for treated",
            "wards",
        ],
    )
    def test_what_determines_the_treatment_has_an_auc_of_one(self, values: Any) -> None:
        assert determines_treatment(values, self.t) > 0.99

    @pytest.mark.parametrize(
        "values",
        [
            [f"id{k}" for k in range(400)],
            [f"name{k // 2}" for k in range(400)],
            ["same"] * 400,
            np.zeros(400),
            np.full(400, np.nan),
            [None] * 400,
        ],
        ids=["ids", "pairs", "one category", "one number", "all missing", "all None"],
    )
    def test_what_says_nothing_does_not(self, values: Any) -> None:
        assert determines_treatment(values, self.t) == pytest.approx(0.5, abs=0.01)

    def test_a_few_known_values_are_chance(self) -> None:
        is_known = np.arange(400) < 10
        assert determines_treatment(np.where(is_known, self.t + np.arange(400) / 1000, np.nan), self.t) < 0.53

    @pytest.mark.parametrize("levels", [2, 5, 40, 133, 200, 399])
    def test_random_categories_are_not_suspected(self, levels: int, rng: np.random.Generator) -> None:
        aucs = [determines_treatment(rng.integers(levels, size=400).astype(str), self.t) for _ in range(20)]
        assert np.mean(aucs) < 0.52
        assert max(aucs) < 0.6

    def test_a_number_is_judged_by_its_auc_in_either_direction(self, rng: np.random.Generator) -> None:
        x = self.t + rng.normal(size=400)
        expected = roc_auc_score(self.t, x)
        assert determines_treatment(x, self.t) == pytest.approx(expected)
        assert determines_treatment(-x, self.t) == pytest.approx(expected)
        gaps = pd.Series(np.where(np.arange(400) % 5, x, np.nan), index=np.arange(400) * 7)
        is_known = gaps.notna().to_numpy()
        assert determines_treatment(gaps, self.t) == pytest.approx(roc_auc_score(self.t[is_known], x[is_known]))

    def test_categories_are_judged_by_other_folds(self, rng: np.random.Generator) -> None:
        """For large categories cross-fitting changes little: the AUC is that of the true share of treated people."""
        group = rng.integers(4, size=20_000)
        t = rng.binomial(1, np.array([0.1, 0.4, 0.6, 0.9])[group])
        expected = roc_auc_score(t, group)
        assert determines_treatment(np.array(list("dbca"))[group], t) == pytest.approx(expected, abs=0.005)

    def test_missing_by_arm(self) -> None:
        values = np.where((self.t == 1) & (np.arange(400) % 4 == 1), np.nan, 1.0)
        assert missing_by_arm(values, self.t) == pytest.approx(roc_auc_score(self.t, np.isnan(values)))
        assert missing_by_arm(values, 1 - self.t) == 0.75
        assert missing_by_arm(["a"] * 400, self.t) == 0.5

    @pytest.mark.parametrize(
        "name",
        ["sbp_followup", "Follow-up weight", "weightAfter", "post_score", "FINAL_grade", "outcome2", "sbp fu", "death"],
    )
    def test_names_that_sound_late(self, name: str) -> None:
        assert sounds_measured_after(name)

    @pytest.mark.parametrize(
        "name",
        ["postcode", "post_code", "Post-office", "finalist", "compost", "fuel", "rafter", *datasets.load_nhefs()],
    )
    def test_names_that_do_not(self, name: str) -> None:
        assert not sounds_measured_after(name)

    def test_a_table_of_reasons(self) -> None:
        people = datasets.load_nhefs(outcomes=True)
        t = (people["smoking"] == "quit").astype(int)
        people["months_without"] = np.where(t == 1, 7.0, np.nan)
        people["weight_after"] = people["wt82_71"]
        leaks = find_leaks(people, t).set_index("column")
        suspected = leaks.loc[leaks["reason"] != "", "reason"].to_dict()
        assert suspected == {
            "smoking": "determines the treatment (AUC 1.000)",
            "months_without": "determines the treatment (AUC 1.000); known almost only in one arm",
            "weight_after": "sounds as if measured after treatment",
        }
        assert len(leaks) == people.shape[1]


class TestBalance:
    def test_by_definition(self, rng: np.random.Generator) -> None:
        t = rng.binomial(1, 0.3, size=200)
        x = pd.DataFrame({"age": rng.normal(50, 10, 200) + 3 * t, "male": rng.binomial(1, 0.5, 200), "one": 0.1})
        balance = balance_table(x, t).set_index("covariate")
        assert list(balance) == ["mean_control", "mean_treated", "difference", "flagged"]
        for name in ("age", "male"):
            treated, control = x.loc[t == 1, name], x.loc[t == 0, name]
            scale = np.sqrt((treated.var(ddof=0) + control.var(ddof=0)) / 2)
            assert balance.loc[name, "mean_treated"] == pytest.approx(treated.mean())
            assert balance.loc[name, "mean_control"] == pytest.approx(control.mean())
            assert balance.loc[name, "difference"] == pytest.approx((treated.mean() - control.mean()) / scale)
        assert list(balance.loc["one"]) == [0.1, 0.1, 0.0, False]
        assert balance["flagged"].tolist() == (balance["difference"].abs() > 0.1).tolist()

    def test_weights_by_inverse_propensity_balance(self) -> None:
        pool = datasets.load("synthetic", 0, pool=20_000).pool
        assert pool.propensity is not None
        clear = (pool.propensity > 0.05) & (pool.propensity < 0.95)
        x, t, pi = pool.x[clear], pool.t[clear], pool.propensity[clear]
        before, after = (balance_table(x, t, w)["difference"][0] for w in (None, 1 / np.where(t == 1, pi, 1 - pi)))
        assert abs(before) > 0.5
        assert abs(after) < 0.1

    def test_weights_count_as_copies_in_the_means_alone(self) -> None:
        x, t, w = np.array([[1.0], [2.0], [4.0], [8.0]]), np.array([0, 0, 1, 1]), np.array([1, 3, 2, 0])
        balance = balance_table(x, t, w).iloc[0]
        assert balance["covariate"] == "x0"
        assert (balance["mean_control"], balance["mean_treated"]) == (1.75, 4.0)
        assert balance["difference"] == pytest.approx(2.25 / np.sqrt((0.25 + 4.0) / 2))

    def test_a_column_that_is_the_arm_differs_infinitely(self) -> None:
        t = np.array([0, 0, 1, 1])
        balance = balance_table(np.column_stack([t, -t]), t)
        assert balance["difference"].tolist() == [np.inf, -np.inf]
        assert balance["flagged"].all()

    def test_bad_input(self) -> None:
        x = np.ones((4, 1))
        with pytest.raises(InputError, match="weights must not be negative, found -1"):
            balance_table(x, [0, 1, 0, 1], [1, 1, 1, -1])
        with pytest.raises(InputError, match="all weights of arm 1 are zero"):
            balance_table(x, [0, 1, 0, 1], [1, 0, 1, 0])
        with pytest.raises(InputError, match="no units in arm 0"):
            balance_table(x, [1, 1, 1, 1])


class TestFigures:
    def test_support_is_mirrored_and_counted(self, rng: np.random.Generator) -> None:
        pi = rng.beta(1, 3, size=500)
        t = rng.binomial(1, pi)
        (axes,) = draw_support(pi, t, ("continued", "quit")).axes
        support = common_support(pi, t)
        heights = np.array([[bar.get_height() for bar in bars] for bars in axes.containers])
        assert heights.sum(axis=1) == pytest.approx([-1, 1])
        outside = [support.outside_by_arm[arm] / support.arm_sizes[arm] for arm in (0, 1)]
        low, high = support.band
        left = np.array([bar.get_x() for bar in axes.containers[0]])
        assert np.abs(heights[:, (left < low) | (left > high)]).sum(axis=1) == pytest.approx(outside)
        grey = [patch.get_window_extent().transformed(axes.transData.inverted()) for patch in axes.patches[:2]]
        assert [(box.x0, box.x1) for box in grey] == [
            pytest.approx((left[0], low)),
            pytest.approx((high, axes.get_xlim()[1])),
        ]
        texts = [text.get_text() for text in axes.texts]
        assert texts[0] == f"continued: {(t == 0).sum()}\n{support.outside_by_arm[0]} outside [{low:.2g}, 0.9]"
        assert texts[1].startswith(f"quit: {t.sum()}\n")
        assert axes.get_xlabel() == "P(quit | covariates)"

    def test_text_stays_clear_of_the_bars(self, rng: np.random.Generator) -> None:
        pi = np.clip(rng.normal(0.7, 0.05, size=2000), 0, 1)
        figure = draw_support(pi, rng.binomial(1, pi), ("a" * 60, "b" * 60))
        figure.canvas.draw()
        (axes,) = figure.axes
        bars = [bar.get_window_extent() for bars in axes.containers for bar in bars]
        for text in axes.texts:
            box = text.get_window_extent()
            assert not any(box.overlaps(bar) for bar in bars)
            assert box.x0 > axes.get_window_extent().x0

    def test_balance_shows_the_largest_differences(self) -> None:
        table = pd.DataFrame({"covariate": list("abcd"), "difference": [0.05, -np.inf, 0.4, -0.2]})
        table["flagged"] = table["difference"].abs() > 0.1
        (axes,) = draw_balance(table, top=3).axes
        assert [label.get_text() for label in axes.get_yticklabels()] == ["d", "c", "b"]
        assert axes.get_title(loc="right") == "3 of 4 differ by more than 0.1; the largest 3 are shown"
        dots = np.concatenate([np.asarray(c.get_offsets()) for c in axes.collections])
        assert sorted(map(tuple, dots[np.abs(dots[:, 0]) < 0.41])) == [(-0.2, 0), (0.4, 1)]
        assert axes.get_xlim()[0] < dots[:, 0].min() < -0.4
        with pytest.raises(InputError, match="nothing to draw"):
            draw_balance(table.drop(columns="flagged"))
