from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from causalbald._typing import AnyArray
from causalbald.campaign import Campaign
from causalbald.errors import InputError
from causalbald.models import GaussianProcess
from causalbald.posterior import Posterior
from causalbald.report import write_report
from tests.helpers.campaigns import measured, new_campaign, people, pool_of, run_rounds, running_campaign

STUDY = people()


@pytest.fixture(scope="module")
def running() -> Campaign:
    """For tests that do not change it."""
    return running_campaign(STUDY)


def test_effects_follow_the_truth_with_intervals_in_its_unit(running: Campaign) -> None:
    effects = running.effects().merge(STUDY, on="patient")
    assert np.corrcoef(effects["effect"], effects["truth_effect"])[0, 1] > 0.8
    np.testing.assert_allclose(effects["upper"] - effects["effect"], 1.959964 * effects["sd"], rtol=1e-6)
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
    monkeypatch.setattr("causalbald.campaign._belief.CHUNK_UNITS", 17)
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


def test_codes_are_groups_of_their_own_whatever_their_column_is_called() -> None:
    study = STUDY.assign(units=np.arange(len(STUDY)) % 8 + 1)
    campaign = new_campaign(study, covariates={"units": "categorical"}, protected=["units"])
    run_rounds(campaign, study, 2)
    groups = campaign.subgroups("units")
    assert groups["group"].tolist() == [str(k) for k in range(1, 9)]
    assert groups["units"].sum() == len(study)


def test_advice_is_about_those_who_matter() -> None:
    """Only the oldest matter, and less is known of them than of all."""
    study = STUDY.assign(matters=(STUDY["age"] > STUDY["age"].quantile(0.9)) * 1.0)
    campaigns = [new_campaign(study.drop(columns="matters")), new_campaign(study, weight="matters")]
    for campaign in campaigns:
        campaign.tell(measured(study, study["patient"][:40]))
    everyone, some = (campaign.advice(5) for campaign in campaigns)
    effects = campaigns[1].effects(study.loc[study["matters"] > 0, "patient"])
    assert some.expected_error == pytest.approx(np.sqrt((effects["sd"] ** 2).mean()))
    assert some.expected_error != pytest.approx(everyone.expected_error)
    assert "those who matter, by 'matters'" in some.reasons[0]


def test_nobody_left_is_no_matter_of_money() -> None:
    study = STUDY.head(30).assign(price=10.0)
    campaign = new_campaign(study, cost="price", budget=1000.0)
    campaign.tell(measured(study, campaign.ask(30)["patient"]))
    advice = campaign.advice()
    assert advice.verdict == "stop: nobody is left to measure"
    assert advice.reasons[-1] == "700 of the budget of 1,000 is left."
    assert advice.size == 0


def test_people_in_another_table(running: Campaign) -> None:
    new = pool_of(people(5, seed=9)).drop(columns=["drug"])
    new.loc[0, "sex"] = "unknown"
    predicted = running.predict(pl.from_pandas(new))
    assert isinstance(predicted, pl.DataFrame)
    assert predicted["patient"].to_list() == new["patient"].tolist()
    same = running.predict(pool_of(STUDY))
    np.testing.assert_allclose(same["effect"], running.effects()["effect"])
    assert (same["outside_support"] == running.effects()["outside_support"]).mean() > 0.9
    assert same["outside_support"].dtype == bool
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
    monkeypatch.setattr("causalbald.campaign._belief.models.load", lambda name, **options: FewDraws(**options))
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


def test_a_rare_arm_alone_puts_nobody_outside_support(tmp_path: Path) -> None:
    study = people(1000)
    study["drug"] = np.random.default_rng(0).permutation(["drug"] * 50 + ["placebo"] * 950)
    campaign = new_campaign(study)
    batch = campaign.ask(12)
    campaign.tell(measured(study, batch["patient"]))
    for table in (batch, campaign.effects(), campaign.predict(pool_of(study)), campaign.policy().units):
        assert not np.asarray(table["outside_support"]).any()
    write_report(campaign, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "everyone can be compared with people of the other arm" in page
    assert "have hardly anyone comparable" not in page
