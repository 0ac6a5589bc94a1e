from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from causalbald.campaign import Campaign
from causalbald.campaign.storage import MemoryStorage
from causalbald.errors import InputError
from causalbald.models import GaussianProcess
from tests.helpers.campaigns import OPTIONS, measured, new_campaign, people, pool_of, run_rounds, running_campaign
from tests.helpers.postgres import campaign_url

STUDY = people()


@pytest.fixture(scope="module")
def running() -> Campaign:
    """For tests that do not change it."""
    return running_campaign(STUDY)


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
        of_arm = np.flatnonzero(fresh.pool.arm == arm)
        chosen = fresh.pool.units.positions(batch.loc[batch["drug"] == fresh.settings.arms[arm], "patient"])

        def far(units: Any, of_arm: Any = of_arm) -> float:
            return float(np.linalg.norm(x[of_arm][:, None] - x[units], axis=-1).min(axis=1).mean())

        assert far(chosen) < np.quantile([far(rng.choice(of_arm, 5, replace=False)) for _ in range(200)], 0.2)


def test_the_first_batch_says_how_many_people_each_stands_for(fresh: Campaign) -> None:
    batch = fresh.ask(10)
    numbers = batch["why"].str.extract(r"stands for (\d+) people like this under (\w+)$")
    assert numbers[1].tolist() == batch["drug"].tolist()
    represented = numbers[0].astype(int).groupby(batch["drug"]).sum()
    assert represented.to_dict() == STUDY["drug"].value_counts().to_dict()
    few = new_campaign(people(12)).ask(12)
    assert few["why"].str.contains("stands for 1 people").all()


def test_the_first_batch_fills_the_arm_that_has_no_outcomes() -> None:
    table = pool_of(STUDY)
    is_measured = (table["drug"] == "placebo") & (table.index < 40)
    table["cd4"] = STUDY["truth_y"].where(is_measured)
    campaign = Campaign.create(MemoryStorage(), table, **OPTIONS)
    assert set(campaign.ask(6)["drug"]) == {"drug"}
    assert campaign.status()["units"]["measured"]["placebo"] == is_measured.sum()


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
    sentence = (
        r"outcome under (\w+) uncertain by ±(\S+) and effect by ±(\S+); (\d+%) of people like this got the other arm"
    )
    said = chosen["why"].str.extract(sentence)
    pool, units = running.pool, running.pool.units.positions(chosen["patient"])
    posterior, arm, pi = running.belief().model.posterior(pool.x[units]), pool.arm[units], pool.propensity[units]
    outcome_sd = np.sqrt(posterior.variance[np.arange(len(units)), arm])
    assert said[0].tolist() == chosen["drug"].tolist()
    assert said[1].tolist() == [f"{sd:.2g}" for sd in outcome_sd]
    assert said[2].tolist() == [f"{sd:.2g}" for sd in np.sqrt(posterior.effect_variance)]
    assert said[3].tolist() == [f"{p:.0%}" for p in np.where(arm == 1, 1 - pi, pi)]
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
        model.posterior(pool.x), pool.arm, "tau-vr", 4, excluded=where, rng=generator(0, "ask", 3)
    )
    assert fresh.ask(4)["patient"].tolist() == STUDY["patient"].to_numpy()[expected].tolist()


def test_only_those_who_matter_count() -> None:
    """Weights choose the population: the batch is that of a belief whose targets are these people alone."""
    from causalbald import acquisition, selection
    from causalbald._random import generator

    study = people()
    study.insert(2, "region", np.where(study["age"] > 52, 1.0, 0.0))
    campaign = new_campaign(study, weight="region")
    assert "region" not in [c.name for c in campaign.columns]
    run_rounds(campaign, study, 2)
    pool = campaign.pool
    where = np.sort(pool.units.positions(campaign.state.outcomes))
    y = study["truth_y"].to_numpy()[where]
    model = GaussianProcess(random_state=0).fit(y, pool.arm[where], X=pool.x[where], pool=pool.x)
    matter = np.flatnonzero(study["region"])
    expected = selection.select_greedy(
        model.posterior(pool.x),
        pool.arm,
        "tau-vr",
        6,
        excluded=where,
        population=acquisition.TargetPopulation.of(matter, len(pool)),
        rng=generator(0, "ask", 3),
    )
    batch = campaign.ask(6)["patient"].tolist()
    assert batch == study["patient"].to_numpy()[expected].tolist()
    everyone = new_campaign(study.drop(columns="region"))
    run_rounds(everyone, study, 2)
    assert everyone.ask(6)["patient"].tolist() != batch


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


def test_ids_that_are_text_in_a_frame_stay_text(tmp_path: Path) -> None:
    table = pool_of(STUDY).assign(patient=[str(k) for k in range(120)])
    campaign = Campaign.create(tmp_path / "s.db", table, **OPTIONS)
    for study in (campaign, Campaign(tmp_path / "s.db")):
        assert table["patient"].isin(study.ask(3)["patient"]).sum() == 3


@pytest.mark.parametrize("outcome", ["score", "rank", "effect", "why"])
def test_what_we_say_is_never_told_as_an_outcome(outcome: str) -> None:
    campaign = new_campaign(STUDY, outcome=outcome)
    batch = campaign.ask(20)
    campaign.tell(batch[["patient"]].assign(**{outcome: np.arange(20.0)}))
    batch = campaign.ask(3)
    assert outcome not in batch
    batch.loc[0, outcome] = 0.5
    assert campaign.tell(batch).new == 1


def test_those_who_failed_come_after_all_others() -> None:
    study = STUDY.assign(price=np.where(np.arange(120) == 0, 1.0, 20.0))
    campaign = new_campaign(study, cost="price")
    failed = set(campaign.ask(40)["patient"])
    campaign.fail(failed)
    assert not failed & set(campaign.ask(budget=200)["patient"])
    rest = 120 - 40 - len(campaign.pending())
    batch = campaign.ask(rest + 6)["patient"]
    assert len(failed & set(batch)) == 6
    assert failed.isdisjoint(batch[:rest])


def test_ids_that_a_spreadsheet_would_run_survive_the_way_there_and_back(tmp_path: Path) -> None:
    from causalbald.tables import read_table, write_table

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


def test_questions_are_asked_about_columns_that_look_like_consequences() -> None:
    table = pool_of(STUDY)
    table["dose"] = np.where(table["drug"] == "drug", 1.0, 0.0) * 5 + np.random.default_rng(0).random(len(table))
    table["weight_followup"] = table["age"] * 2
    campaign = Campaign.create(MemoryStorage(), table, **OPTIONS)
    questions = campaign.state.start.questions
    assert any("'dose'" in q and "before the treatment?" in q for q in questions)
    assert any("'weight_followup'" in q for q in questions)
