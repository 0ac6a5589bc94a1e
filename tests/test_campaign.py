from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from causalbald._typing import AnyArray
from causalbald.campaign import Campaign
from causalbald.campaign.storage import MemoryStorage
from causalbald.errors import InputError
from causalbald.models import GaussianProcess
from causalbald.posterior import Posterior
from tests.campaigns import OPTIONS, measured, new_campaign, people, pool_of, run_rounds
from tests.postgres import campaign_url

STUDY = people()


@pytest.fixture(scope="module")
def running() -> Campaign:
    """A campaign with three rounds told and five units pending; tests must not change it."""
    campaign = new_campaign(STUDY, protected=["sex"], audit=0.1)
    run_rounds(campaign, STUDY, 3)
    campaign.ask(5)
    return campaign


@pytest.fixture
def fresh() -> Campaign:
    return new_campaign(STUDY)


def test_the_first_batch_is_balanced_and_spread(fresh: Campaign) -> None:
    batch = fresh.ask(10)
    assert batch["drug"].value_counts().to_dict() == {"drug": 5, "placebo": 5}
    assert set(batch["by"]) == {"spread"}
    assert batch["effect"].isna().all()
    assert batch["rank"].tolist() == list(range(1, 11))
    x = fresh.pool.x / fresh.pool.x.std(axis=0)
    rng = np.random.default_rng(0)
    for arm in (0, 1):
        own = np.flatnonzero(fresh.pool.arm == arm)
        chosen = fresh.pool.units.positions(batch.loc[batch["drug"] == fresh.settings.arms[arm], "patient"])

        def far(units: Any, own: Any = own) -> float:
            return float(np.linalg.norm(x[own][:, None] - x[units], axis=-1).min(axis=1).mean())

        assert far(chosen) < np.quantile([far(rng.choice(own, 5, replace=False)) for _ in range(200)], 0.2)


def test_the_first_batch_fills_the_arm_that_has_no_outcomes() -> None:
    table = pool_of(STUDY)
    known = (table["drug"] == "placebo") & (table.index < 40)
    table["cd4"] = STUDY["truth_y"].where(known)
    campaign = Campaign.create(MemoryStorage(), table, **OPTIONS)
    assert set(campaign.ask(6)["drug"]) == {"drug"}
    assert campaign.status()["units"]["measured"]["placebo"] == known.sum()


def test_asking_twice_gives_other_units_and_pending_gives_both_again(fresh: Campaign) -> None:
    first, second = fresh.ask(6), fresh.ask(6)
    assert not set(first["patient"]) & set(second["patient"])
    assert second["drug"].value_counts().to_dict() == {"drug": 3, "placebo": 3}
    pd.testing.assert_frame_equal(fresh.pending(), pd.concat([first, second], ignore_index=True))


def test_a_batch_says_why(running: Campaign) -> None:
    batch = running.pending()
    chosen = batch[batch["by"] == "score"]
    assert len(chosen) >= 4
    assert chosen["why"].str.contains("uncertain by").all()
    assert (chosen["lower"] < chosen["effect"]).all()
    assert (chosen["effect"] < chosen["upper"]).all()
    assert chosen["propensity"].between(0, 1).all()
    scores = running.score(chosen["patient"])
    np.testing.assert_allclose(scores.set_index("patient").loc[chosen["patient"], "score"], chosen["score"], rtol=1e-10)


def test_a_batch_is_that_of_the_model_and_the_rule_by_hand(fresh: Campaign) -> None:
    from causalbald import selection
    from causalbald._random import generator

    run_rounds(fresh, STUDY, 2)
    pool = fresh.pool
    told = fresh.state.outcomes
    where = np.sort(pool.units.positions(told))
    y = STUDY["truth_y"].to_numpy()[where]
    model = GaussianProcess(random_state=0).fit(y, pool.arm[where], X=pool.x[where], pool=pool.x)
    expected = selection.select_greedy(
        model.posterior(pool.x), pool.arm, "mu-rho-bald", 4, excluded=where, rng=generator(0, "ask", 3)
    )
    assert fresh.ask(4)["patient"].tolist() == STUDY["patient"].to_numpy()[expected].tolist()


def test_pending_units_are_conditioned_on(running: Campaign) -> None:
    """A second batch is that of one larger batch, since the first is taken into account before it is measured."""
    whole = new_campaign(STUDY)
    split = new_campaign(STUDY)
    for campaign in (whole, split):
        run_rounds(campaign, STUDY, 2)
    together = whole.ask(6)["patient"].tolist()
    apart = split.ask(3)["patient"].tolist() + split.ask(3)["patient"].tolist()
    assert together == apart


def test_audits_are_drawn_at_random_and_say_with_which_probability() -> None:
    campaign = new_campaign(STUDY, audit=0.25)
    batches = [campaign.ask(6) for _ in range(4)]
    counts = [int((b["by"] == "audit").sum()) for b in batches]
    assert sum(counts) == 6
    audits = batches[1][batches[1]["by"] == "audit"]
    assert audits["probability"].tolist() == [counts[1] / (120 - 6)] * counts[1]
    assert batches[1].loc[batches[1]["by"] != "audit", "probability"].isna().all()
    drawn = {new_campaign(STUDY, audit=1.0, seed=seed).ask(1)["patient"].iloc[0] for seed in range(6)}
    assert len(drawn) > 3


def test_costs_and_budgets() -> None:
    study = people()
    study.insert(2, "price", np.where(np.arange(len(study)) % 2, 1.0, 10.0))
    campaign = new_campaign(study, cost="price", budget=60.0)
    first = campaign.ask(budget=30.0)
    assert first["price"].sum() <= 30
    campaign.tell(measured(study, first["patient"]))
    campaign.ask(4)
    dear = new_campaign(study, cost="price")
    run_rounds(dear, study, 2)
    assert (dear.ask(10)["price"] == 1.0).mean() > 0.5
    spent = campaign.status()["spent"]
    assert spent == campaign.status()["budget"] - campaign.status()["left"]
    while campaign.status()["left"] >= 1:
        campaign.ask(20)
    with pytest.raises(InputError, match="budget"):
        campaign.ask(1)
    assert campaign.status()["spent"] <= 60


def test_a_budget_without_costs_counts_measurements(fresh: Campaign) -> None:
    campaign = new_campaign(STUDY, budget=12)
    assert len(campaign.ask(10)) == 10
    assert len(campaign.ask(10)) == 2
    with pytest.raises(InputError, match="is spent"):
        campaign.ask()


def test_a_dry_run_records_nothing(fresh: Campaign) -> None:
    dry = fresh.ask(5, dry_run=True)
    assert fresh.status()["asked"] == 0
    pd.testing.assert_frame_equal(fresh.ask(5), dry)


def test_tell_takes_any_subset_in_any_order_and_never_fits(fresh: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = fresh.ask(6)
    monkeypatch.setattr(GaussianProcess, "fit", None)
    some = measured(STUDY, [batch["patient"].iloc[4], batch["patient"].iloc[1], "p119"])
    told = fresh.tell(some)
    assert (told.new, told.known, told.corrected, told.empty) == (3, 0, 0, 0)
    assert len(fresh.pending()) == 4
    assert fresh.tell(some).known == 3
    assert fresh.status()["events"] == 3


def test_rows_without_an_outcome_are_left_out(fresh: Campaign) -> None:
    frame = measured(STUDY, ["p001", "p002"])
    frame.loc[1, "cd4"] = np.nan
    assert fresh.tell(frame).empty == 1
    assert list(fresh.state.outcomes) == ["p001"]


def test_a_correction_needs_to_be_said_and_is_kept_in_the_history(fresh: Campaign) -> None:
    fresh.tell({"p001": 1.0, "p002": 2.0})
    with pytest.raises(InputError, match=r"'p001': 1, now 3\..*overwrite"):
        fresh.tell({"p001": 3.0, "p003": 4.0})
    assert fresh.state.outcomes == {"p001": 1.0, "p002": 2.0}
    assert fresh.tell({"p001": 3.0}, overwrite=True).corrected == 1
    last = fresh.history().iloc[-1]
    assert (last["id"], last["value"], last["detail"]) == ("p001", 3.0, "instead of 1")


def test_withdrawn_units_are_never_asked_for_and_failed_ones_may_be(fresh: Campaign) -> None:
    batch = fresh.ask(4)["patient"].tolist()
    assert fresh.fail(batch[0], reason="not at home") == 1
    assert fresh.withdraw(batch[1:3], reason="moved away") == 2
    assert fresh.withdraw(batch[1], reason="again") == 0
    rest = [p for p in STUDY["patient"] if p not in batch]
    fresh.tell(measured(STUDY, rest[:-1]))
    assert set(fresh.ask(2)["patient"]) == {batch[0], rest[-1]}
    with pytest.raises(InputError, match="nobody is left"):
        fresh.ask(1)
    with pytest.raises(InputError, match=r"withdrawn.*moved away"):
        fresh.tell({batch[1]: 1.0})
    with pytest.raises(InputError, match="not pending"):
        fresh.fail(batch[1])
    with pytest.raises(InputError, match="reason"):
        fresh.withdraw(rest[0], reason=" ")


def test_effects_follow_the_truth_with_intervals_in_its_unit(running: Campaign) -> None:
    found = running.effects().merge(STUDY, on="patient")
    assert np.corrcoef(found["effect"], found["truth_effect"])[0, 1] > 0.8
    np.testing.assert_allclose(found["upper"] - found["effect"], 1.959964 * found["sd"], rtol=1e-6)
    some = running.effects(["p003", "p001"], alpha=0.5)
    assert some["patient"].tolist() == ["p003", "p001"]
    np.testing.assert_allclose((some["upper"] - some["effect"]) / some["sd"], 0.67448975, rtol=1e-6)


def test_averages_have_intervals_from_the_joint_belief(running: Campaign) -> None:
    """Against the moments of joint draws, which know nothing of how averages are accumulated."""
    belief = running.belief()
    draws = belief.model.posterior(belief.pool.x).draws(20_000, np.random.default_rng(0))
    effect = draws[:, :, 1] - draws[:, :, 0]
    ate = running.ate()
    assert ate.effect == pytest.approx(effect.mean(), abs=0.02)
    assert ate.sd == pytest.approx(effect.mean(axis=1).std(), rel=0.03)
    groups = running.subgroups("sex").set_index("sex")
    for sex, row in groups.iterrows():
        mean = effect[:, (STUDY["sex"] == sex).to_numpy()].mean(axis=1)
        assert row["effect"] == pytest.approx(mean.mean(), abs=0.02)
        assert row["sd"] == pytest.approx(mean.std(), rel=0.03)
        assert row["units"] == (STUDY["sex"] == sex).sum()
    policy = running.policy()
    treat = (policy.units["recommended"] == "drug").to_numpy()
    gain = (effect * treat).mean(axis=1)
    assert policy.gain == pytest.approx(gain.mean(), abs=0.02)
    assert policy.lower == pytest.approx(np.quantile(gain, 0.025), abs=0.05)
    likely = (effect > 0).mean(axis=0)
    np.testing.assert_allclose(policy.units["probability_worthwhile"], likely, atol=0.02)


def test_averages_do_not_depend_on_chunks(running: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = running.ate()
    monkeypatch.setattr("causalbald.campaign.belief._CHUNK", 17)
    parts = running.ate()
    assert parts.effect == pytest.approx(whole.effect, rel=1e-9)
    assert parts.sd == pytest.approx(whole.sd, rel=1e-9)


def test_nobody_has_no_effect_but_nobody_may_fail(running: Campaign) -> None:
    assert running.fail([]) == 0
    with pytest.raises(InputError, match="no ids"):
        running.effects([])


def test_numeric_groups_are_cut_into_fifths(running: Campaign) -> None:
    groups = running.subgroups("age")
    assert 4 <= len(groups) <= 6
    assert groups["units"].sum() == len(STUDY)
    with pytest.raises(InputError, match="no column 'height'"):
        running.subgroups("height")


def test_the_policy_follows_what_is_better_and_worthwhile() -> None:
    higher, lower = (new_campaign(STUDY, better=b, worthwhile=2.5) for b in ("higher", "lower"))
    for campaign in (higher, lower):
        campaign.tell(measured(STUDY, STUDY["patient"][:60]))
    effects = higher.effects()["effect"].to_numpy()
    np.testing.assert_array_equal(higher.policy().units["recommended"] == "drug", effects > 2.5)
    np.testing.assert_array_equal(lower.policy().units["recommended"] == "drug", effects < -2.5)
    assert lower.policy().gain_of_all == pytest.approx(-higher.policy().gain_of_all)


def test_people_in_another_table(running: Campaign) -> None:
    new = pool_of(people(5, seed=9)).drop(columns=["drug"])
    new.loc[0, "sex"] = "unknown"
    found = running.predict(pl.from_pandas(new))
    assert isinstance(found, pl.DataFrame)
    assert found["patient"].to_list() == new["patient"].tolist()
    same = running.predict(pool_of(STUDY))
    np.testing.assert_allclose(same["effect"], running.effects()["effect"])
    with pytest.raises(InputError, match="no column 'age'"):
        running.predict(new.drop(columns="age"))


def test_advice_grows_with_what_is_known() -> None:
    campaign = new_campaign(STUDY, budget=100)
    assert campaign.advice().verdict == "go on"
    assert campaign.advice().expected_error is None
    run_rounds(campaign, STUDY, 2)
    early = campaign.advice()
    assert early.verdict == "go on"
    run_rounds(campaign, STUDY, 4)
    late = campaign.advice()
    assert early.drift is None
    assert late.drift is not None
    assert early.after_next is not None
    assert early.expected_error is not None
    assert late.expected_error is not None
    assert early.after_next < early.expected_error
    assert late.expected_error < early.expected_error
    assert late.left == 40


def test_the_advised_gain_is_that_of_measuring(running: Campaign) -> None:
    """What further measurements do to the spread is known before their outcomes are, at given hyper-parameters."""
    advice = running.advice(3)
    belief = running.belief()
    pool = belief.pool
    pending = running.pending()["patient"]
    batch = running.ask(3, dry_run=True)["patient"]
    posterior = belief.model.posterior(pool.x)
    for unit in [*pending, *batch]:
        k = int(pool.units.positions([unit])[0])
        posterior = posterior.condition(k, int(pool.arm[k]))
    assert advice.after_next == pytest.approx(np.sqrt(posterior.effect_variance.mean()), rel=1e-6)


def test_everything_is_said_to_be_settled_when_it_is() -> None:
    campaign = new_campaign(STUDY)
    campaign.tell(measured(STUDY, STUDY["patient"][:100]))
    run_rounds(campaign, STUDY, 2, size=2)
    assert campaign.advice(3).verdict == "go on"  # too early to see whether the recommendation is stable
    run_rounds(campaign, STUDY, 1, size=2)
    assert campaign.advice(3).verdict.startswith("consider stopping")


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.Table])
def test_frames_come_back_in_the_kind_they_came_in(kind: Any) -> None:
    table = pa.Table.from_pandas(pool_of(STUDY), preserve_index=False)
    frame = {pd.DataFrame: pool_of(STUDY), pl.DataFrame: pl.from_arrow(table), pa.Table: table}[kind]
    campaign = Campaign.create(MemoryStorage(), frame, **OPTIONS)
    assert isinstance(campaign.ask(4), kind)


@pytest.mark.parametrize(
    ("arms", "control", "expected"),
    [
        ((0, 1), None, (0, 1)),
        ((1.0, 0.0), None, (0.0, 1.0)),
        ((True, False), None, (False, True)),
        (("yes", "no"), None, ("no", "yes")),
        (("A", "B"), "B", ("B", "A")),
        ((3, 7), 7, (7, 3)),
        ((3, 7), "7", (7, 3)),
        ((True, False), "false", (False, True)),
    ],
)
def test_a_treatment_has_any_two_values(arms: Any, control: Any, expected: Any) -> None:
    table = pool_of(STUDY)
    table["drug"] = [arms[k % 2] for k in range(len(table))]
    campaign = Campaign.create(MemoryStorage(), table, **{**OPTIONS, "control": control})
    assert campaign.settings.arms == expected
    np.testing.assert_array_equal(campaign.pool.arm, table["drug"] == expected[1])
    assert campaign.ask(2)["drug"].tolist() == [expected[0], expected[1]]


@pytest.mark.parametrize("ids", [[f"{k:04d}" for k in range(120)], list(range(1000, 1120))])
def test_ids_come_back_as_they_were_written(tmp_path: Path, ids: list[Any]) -> None:
    table = pool_of(STUDY)
    table["patient"] = ids
    table.to_csv(tmp_path / "pool.csv", index=False)
    campaign = Campaign.create(MemoryStorage(), tmp_path / "pool.csv", **OPTIONS)
    batch = campaign.ask(3)
    assert set(batch["patient"]) <= set(ids)
    batch.assign(cd4=1.0)[["patient", "cd4"]].to_csv(tmp_path / "results.csv", index=False)
    assert campaign.tell(tmp_path / "results.csv").new == 3


def test_ids_that_a_spreadsheet_would_run_survive_the_way_there_and_back(tmp_path: Path) -> None:
    from causalbald.campaign.tables import read_table, write_table

    table = pool_of(STUDY)
    table["patient"] = [f"={k}+1" for k in range(len(table))]
    campaign = Campaign.create(MemoryStorage(), table, **OPTIONS)
    batch = read_table(campaign.ask(3)).data.append_column("cd4", pa.array([1.0, 2.0, 3.0]))
    write_table(batch, tmp_path / "batch.csv")
    assert "'=" in (tmp_path / "batch.csv").read_text()
    assert campaign.tell(tmp_path / "batch.csv").new == 3


def test_an_export_gives_the_same_batch_on_any_storage(tmp_path: Path) -> None:
    campaign = new_campaign(STUDY, audit=0.2)
    run_rounds(campaign, STUDY, 2)
    campaign.fail(campaign.ask(3)["patient"].iloc[0])
    campaign.export(tmp_path / "study.jsonl")
    expected = campaign.ask(5)
    for place in (tmp_path / "study.db", campaign_url(), MemoryStorage()):
        with Campaign.from_export(place, tmp_path / "study.jsonl") as copy:
            pd.testing.assert_frame_equal(copy.history(), campaign.history()[: len(copy.history())])
            pd.testing.assert_frame_equal(copy.ask(5), expected)


def test_opening_again_gives_the_same_batch(tmp_path: Path) -> None:
    with new_campaign(STUDY, tmp_path / "study.db") as campaign:
        run_rounds(campaign, STUDY, 2)
        dry = campaign.ask(5, dry_run=True)
    with Campaign(tmp_path / "study.db") as again:
        pd.testing.assert_frame_equal(again.ask(5), dry)


def test_the_order_of_telling_does_not_matter() -> None:
    one, other = new_campaign(STUDY), new_campaign(STUDY)
    some = measured(STUDY, STUDY["patient"][:20])
    one.tell(some)
    other.tell(some.iloc[::-1])
    pd.testing.assert_frame_equal(one.effects(), other.effects())


def test_a_model_is_fitted_once_for_the_same_outcomes(running: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    running.effects()
    monkeypatch.setattr(GaussianProcess, "fit", None)
    running.ate()
    running.policy()
    running.ask(1, dry_run=True)


class FewDraws(GaussianProcess):
    """Stands for an ensemble: a belief of five draws."""

    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        draws = super()._posterior(x, joint=joint).draws(5, np.random.default_rng(0))
        return Posterior.from_draws(draws, 0.1)


def test_a_model_of_a_few_draws_chooses_by_softmax_and_says_no_more_than_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("causalbald.campaign.belief.make_model", lambda name, **options: FewDraws(**options))
    campaign = new_campaign(STUDY)
    campaign.tell(measured(STUDY, STUDY["patient"][:24]))
    assert len(campaign.ask(3)) == 3
    effects = campaign.effects()
    np.testing.assert_allclose(effects["upper"] - effects["effect"], 2.776445 * np.sqrt(1.2) * effects["sd"], rtol=1e-6)
    assert campaign.advice(2).after_next is None


def test_outcomes_that_happen_or_not() -> None:
    campaign = new_campaign(STUDY, outcome_type="binary")
    outcomes = measured(STUDY, STUDY["patient"][:24])
    with pytest.raises(InputError, match="must be 0 or 1"):
        campaign.tell(outcomes)
    outcomes["cd4"] = (outcomes["cd4"] > outcomes["cd4"].median()).astype(float)
    campaign.tell(outcomes)
    assert campaign.effects()["effect"].between(-1.5, 1.5).all()


def test_questions_are_asked_about_columns_that_look_like_consequences() -> None:
    table = pool_of(STUDY)
    table["dose"] = np.where(table["drug"] == "drug", 1.0, 0.0) * 5 + np.random.default_rng(0).random(len(table))
    table["weight_followup"] = table["age"] * 2
    campaign = Campaign.create(MemoryStorage(), table, **OPTIONS)
    questions = campaign.state.created["questions"]
    assert any("'dose'" in q and "before the treatment?" in q for q in questions)
    assert any("'weight_followup'" in q for q in questions)
