from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from causalbald import pools
from causalbald._money import Budget
from causalbald.campaign import Campaign, Round
from causalbald.campaign.storage import MemoryStorage
from causalbald.errors import InputError
from causalbald.models import GaussianProcess
from tests.helpers.campaigns import OPTIONS, measured, new_campaign, people, pool_of, run_rounds

STUDY = people()


def priced(prices: Any) -> pd.DataFrame:
    study = people()
    study.insert(2, "price", np.resize(prices, len(study)))
    return study


def test_batches_of_audits_alone() -> None:
    campaign = new_campaign(STUDY, audit=1.0)
    run_rounds(campaign, STUDY, 2)
    assert set(campaign.ask(3)["by"]) == {"audit"}
    assert campaign.advice(3).verdict == "go on"


def test_one_at_a_time_with_audits() -> None:
    campaign = new_campaign(STUDY, audit=0.1)
    run_rounds(campaign, STUDY, 1, size=8)
    assert [campaign.ask(1)["by"].iloc[0] for _ in range(3)] == ["score", "audit", "score"]


def test_too_little_money_is_said_also_after_a_model_is_there() -> None:
    study = priced([5.0])
    campaign = new_campaign(study, cost="price", budget=103.0)
    run_rounds(campaign, study, 2)
    with pytest.raises(InputError, match="nobody who is left can be paid"):
        campaign.ask(2, budget=4.0)
    advice = campaign.advice(5)
    assert advice.verdict == "stop: the budget is spent"
    assert advice.size == 0
    assert not any("more measurements" in reason for reason in advice.reasons)
    with pytest.raises(InputError, match="nobody who is left can be paid"):
        campaign.ask(5)


@pytest.mark.parametrize("seed", range(3))
def test_who_is_too_dear_is_passed_over_also_in_the_first_batch(seed: int) -> None:
    campaign = new_campaign(priced([1.0, 50.0]), cost="price", seed=seed)
    batch = campaign.ask(4, budget=10.0)
    assert len(batch) == 4
    assert set(batch["price"]) == {1.0}


@pytest.mark.parametrize(("batch", "shortlist"), [("softmax", 4096), ("greedy", 4096), ("greedy", 60)])
@pytest.mark.parametrize("acquisition", ["mu-bald", "random"])
def test_a_budget_pays_for_cheap_units_where_dear_ones_score_higher(
    batch: Any, shortlist: int, acquisition: str
) -> None:
    rng = np.random.default_rng(0)
    x, arm = rng.normal(size=(300, 2)), np.arange(300) % 2
    model = GaussianProcess(max_iter=3).fit(x[:20, 0] + 0.3 * rng.normal(size=20), arm[:20], X=x[:20], pool=x)
    dear = np.arange(300) >= 150
    chosen = pools.choose_batch(
        model,
        pools.MemoryPool(x, arm, cost=np.where(dear, 5.0, 1.0)),
        acquisition,
        5,
        available=np.arange(20, 300),
        rng=rng,
        batch=batch,
        budget=4.0,
        scores=np.where(dear, 6.0, 0.0),
        shortlist=shortlist,
    )
    assert len(chosen) == 4
    assert not dear[chosen].any()


def test_advice_is_about_what_the_money_pays() -> None:
    campaign = new_campaign(STUDY, budget=24)
    run_rounds(campaign, STUDY, 2)
    few, many = campaign.advice(4), campaign.advice(10)
    assert few == many
    assert any(reason.startswith("4 more measurements") for reason in many.reasons)


def test_two_who_ask_at_once_stay_within_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second has chosen other people before the first records, and must look at the money again."""
    study, path = STUDY, tmp_path / "study.db"
    campaign = new_campaign(study, path, budget=24)
    run_rounds(campaign, study, 2)
    record = Campaign._record

    def late(self: Campaign, batch: Round) -> Round | None:
        monkeypatch.setattr(Campaign, "_record", record)
        with Campaign(path) as other:
            taken = set(batch.ids)
            left = [str(i) for i in study["patient"] if str(i) not in taken]
            other.tell(measured(study, study.loc[study["patient"].astype(str).isin(left[-3:]), "patient"]))
            assert not taken & set(other.ask(2)["patient"].astype(str))
        return record(self, batch)

    monkeypatch.setattr(Campaign, "_record", late)
    batch = campaign.ask(4)
    assert len(batch) == 2
    assert campaign.status()["left"] == 0
    campaign.close()


@pytest.mark.parametrize("rounds", [0, 2])
def test_two_who_ask_at_once_get_different_people(rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both see the same study, so both choose the same batch, and the one who comes late must choose again."""
    path = tmp_path / "study.db"
    campaign = new_campaign(STUDY, path)
    run_rounds(campaign, STUDY, rounds)
    record, other_batch = Campaign._record, list[str]()

    def late(self: Campaign, batch: Round) -> Round | None:
        monkeypatch.setattr(Campaign, "_record", record)
        with Campaign(path) as other:
            other_batch.extend(other.ask(4)["patient"].astype(str))
        assert set(batch.ids) == set(other_batch)
        return record(self, batch)

    monkeypatch.setattr(Campaign, "_record", late)
    batch = campaign.ask(4)
    assert not set(batch["patient"].astype(str)) & set(other_batch)
    assert batch["round"].unique().tolist() == [rounds + 2]
    assert len(campaign.pending()) == 8
    campaign.close()


@pytest.mark.parametrize("price", [0.1, 0.35, 1.1, 7.7])
def test_sums_of_prices_may_be_rounded(price: float) -> None:
    assert len(Budget(10 * price).pays_in_order(np.full(12, price))) == 10
    assert len(Budget(10 * price * (1 - 1e-6)).pays_in_order(np.full(12, price))) == 9
    assert Budget(None).spendable == np.inf
    campaign = new_campaign(priced([price]), cost="price", budget=3 * price)
    assert len(campaign.ask(3)) == 3


def test_audits_keep_their_share_when_money_is_short_and_say_no_probability_that_is_wrong() -> None:
    campaign = new_campaign(priced([1.0]), cost="price", audit=0.5)
    assert (campaign.ask(40, budget=6.0)["by"] == "audit").sum() == 3
    study = priced([1.0, 9.0])
    probabilities = [
        list(new_campaign(study, cost="price", audit=0.5, seed=seed).ask(8, budget=8.0)["probability"].dropna())
        for seed in range(8)
    ]
    # Where expensive people are drawn, not all can be paid; otherwise everyone was equally likely.
    assert [] in probabilities
    assert all(p == [4 / 120] * 4 for p in probabilities if p)


def test_binary_outcomes_of_the_pool_are_checked() -> None:
    table = pool_of(STUDY).assign(cd4=2.5)
    with pytest.raises(InputError, match="must be 0 or 1 in this campaign, but is"):
        Campaign.create(MemoryStorage(), table, **{**OPTIONS, "outcome_type": "binary"})


def test_nobody_left_to_score() -> None:
    campaign = new_campaign(STUDY)
    run_rounds(campaign, STUDY, 1)
    campaign.ask(len(STUDY) - 10)
    with pytest.raises(InputError, match="nobody is left to score"):
        campaign.score()
    assert campaign.advice().verdict == "stop: nobody is left to measure"
