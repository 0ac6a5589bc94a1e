"""Simulated campaigns: would choosing pay here?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from causalbald import pools
from causalbald.campaign import CampaignSettings, Simulation, simulate
from causalbald.campaign import _simulation as module
from causalbald.datasets import Benchmark, Split, _hill
from causalbald.errors import InputError
from causalbald.experiments import run_trial, warm_start_positions
from causalbald.models import GaussianProcess
from causalbald.selection import select_greedy
from causalbald.testing import fake_posterior
from tests.helpers.campaigns import OPTIONS, people, pool_of

PLAN: dict[str, Any] = {"batch_size": 5, "rounds": 3, "seeds": 2, "workers": 1} | OPTIONS


@pytest.fixture(scope="module")
def pool() -> pd.DataFrame:
    return pool_of(people(80))


@pytest.fixture(scope="module")
def simulation(pool: pd.DataFrame) -> Simulation:
    return simulate(pool, **PLAN)


def test_a_row_per_fit_of_pairs_with_the_same_start(simulation: Simulation) -> None:
    trials = simulation.trials
    assert len(trials) == 2 * 2 * 4
    assert trials["paid"].tolist() == [10, 15, 20, 25] * 4
    assert (trials["labels"] == trials["paid"]).all()
    first = trials[trials["step"] == 0].pivot(index="seed", columns="acquisition", values="pehe")
    assert first["random"].to_numpy() == pytest.approx(first["default"].to_numpy())
    assert first["random"].nunique() == 2


def test_same_answer_for_any_number_of_workers_and_outcomes_are_not_read(
    pool: pd.DataFrame, simulation: Simulation
) -> None:
    seen: list[tuple[int, int]] = []
    measured = pool.assign(cd4="not even a number")
    again = simulate(measured, **{**PLAN, "workers": 2}, progress=lambda *done: seen.append(done))
    pd.testing.assert_frame_equal(again.trials, simulation.trials)
    assert again.summary() == simulation.summary()
    assert seen == [(k, 4) for k in range(1, 5)]


def test_another_seed_draws_other_studies(pool: pd.DataFrame, simulation: Simulation) -> None:
    other = simulate(pool, **PLAN, seed=1)
    assert not np.isclose(other.trials["pehe"], simulation.trials["pehe"]).any()


def test_summary_and_verdict(simulation: Simulation) -> None:
    summary = simulation.summary()
    assert (summary["seeds"], summary["units"], summary["pool"], summary["paid"]) == (2, 80, 80, 25)
    chosen, random = (simulation.trials[simulation.trials["acquisition"] == name] for name in ("default", "random"))
    target = random.loc[random["labels"] == 25, "pehe"].mean()
    reached = chosen.groupby("labels")["pehe"].mean() <= target
    if reached.loc[25]:
        assert summary["saved"] == pytest.approx(1 - summary["needed"] / 25)
    else:
        assert summary["needed"] is None
    assert not simulation.helps
    assert simulation.verdict.startswith("Too few studies to tell: in 2 simulated studies")
    assert "not what your own outcome is like" in simulation.verdict
    assert "took part" not in simulation.verdict


def test_a_plan_that_measures_everyone_cannot_be_improved(pool: pd.DataFrame) -> None:
    everyone = simulate(pool.head(30), **{**PLAN, "rounds": 4})
    assert everyone.measures_everyone
    assert not everyone.helps
    assert everyone.verdict.startswith("Choosing cannot help at the end of this plan, which measures all 30 people")


def test_large_pools_are_sampled(pool: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SIMULATED_UNITS", 40)
    some = simulate(pool, **{**PLAN, "rounds": 1})
    assert (some.units, some.pool) == (40, 80)
    assert "40 of 80 people took part." in some.verdict
    with pytest.raises(InputError, match=r"10 \+ 7 x 5 = 45 measurements, but the simulation has 40 of 80 people"):
        simulate(pool, **{**PLAN, "rounds": 7})


def test_rounds_of_equal_money(pool: pd.DataFrame) -> None:
    price = np.where(np.arange(len(pool)) % 2, 1.0, 9.0)
    simulation = simulate(pool.assign(price=price), **PLAN, cost="price")
    chosen, random = (simulation.trials[simulation.trials["acquisition"] == a] for a in ("default", "random"))
    assert chosen["paid"].tolist() == [50, 75, 100, 125] * 2
    assert random["labels"].tolist() == [10, 15, 20, 25] * 2
    later = chosen["step"] > 0
    assert (chosen.loc[later, "spent"] <= chosen.loc[later, "paid"].clip(lower=float(chosen["spent"].min()))).all()
    assert chosen["labels"].max() > 25  # cheap people, and so more of them
    assert "(the sum of column 'price')" in simulation.verdict


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acquisition": "random"}, "'random' is what others are compared with"),
        ({"rounds": 20}, r"10 \+ 20 x 5 = 110 measurements, but the simulation has 80 people: plan fewer rounds"),
        ({"warm_start": 1}, "warm_start must be an integer of at least 2"),
        ({"rounds": 0}, "rounds must be an integer of at least 1"),
        ({"seeds": 1}, "seeds must be an integer of at least 2"),
        ({"workers": 0}, "workers must be an integer of at least 1"),
        ({"treatment": "dose"}, "there is no column 'dose' for the treatment"),
        ({"outcome_type": "binary"}, "outcomes of a simulation are continuous"),
        ({"weight": "age"}, "errors in a simulation are those of everyone: leave out the weight"),
    ],
)
def test_what_cannot_be_simulated(pool: pd.DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate(pool, **{**PLAN, **options})


def told(chosen: list[float], random: list[float], **settings: Any) -> Simulation:
    """Return a simulation with these mean errors along the plan; seeds differ by a factor."""
    rows = [
        {"acquisition": a, "seed": s, "step": k, "paid": 10.0 + 10 * k, "labels": 10 + 10 * k, "pehe": e * (1 + s / 10)}
        for a, curve in (("default", chosen), ("random", random))
        for s in range(6)
        for k, e in enumerate(curve)
    ]
    about = CampaignSettings(id="i", treatment="t", outcome="y", arms=(0, 1), **settings)
    return Simulation(pd.DataFrame(rows), about, 100, 100)


def test_plain_words_for_help_no_help_and_doubt() -> None:
    better = told([4, 2, 1], [4, 3, 2])
    assert better.helps
    assert better.verdict.startswith(
        "Choosing would have paid here, saving 33%: in 6 simulated studies choosing by 'default'"
    )
    assert "needed 20 measurements for the accuracy that random choice reached with 30" in better.verdict
    assert better.summary()["saved"] == pytest.approx(1 / 3)
    worse = told([4, 3.5, 3], [4, 3, 2])
    assert not worse.helps
    assert worse.verdict.startswith("Choosing would not have helped here")
    assert "needed more than 30 measurements" in worse.verdict
    assert worse.summary()["needed"] is worse.summary()["saved"] is None
    same = told([4, 3, 2], [4, 3, 2])
    assert not same.helps
    assert same.verdict.startswith("It is not clear that choosing helps here")


def test_surfaces_have_the_same_spread_whatever_the_covariates(rng: np.random.Generator) -> None:
    arm = rng.integers(2, size=500)
    one = rng.normal(size=(500, 1))
    for x in (one, np.hstack([one, -one]), np.hstack([one] * 60), rng.standard_cauchy((500, 8))):
        linear = _hill.linear_predictor(x, rng)
        assert (linear.mean(), linear.std()) == pytest.approx((1.25, 0.75**0.5))
        mu0, mu1 = _hill.surface_b(linear, arm)
        assert (mu1 - mu0)[arm == 1].mean() == pytest.approx(4)
    with pytest.raises(InputError, match="do not vary"):
        _hill.linear_predictor(np.full((6, 1), 0.1), rng)  # whose standard deviation is a rounding error


def test_a_covariate_that_hardly_varies_gives_a_predictor() -> None:
    """Once weights were drawn for ever: for covariates that do not vary, or if one unit of two million differs."""
    draws = iter([np.array([0.0])] * 5 + [np.array([0.1])])
    drawing = cast(np.random.Generator, SimpleNamespace(choice=lambda *_, **__: next(draws)))
    assert _hill._varying_sum(np.array([[1e-4], [0.0], [0.0]]), drawing).tolist() == pytest.approx([1e-5, 0, 0])
    with pytest.raises(InputError, match="do not vary"):
        _hill._varying_sum(np.zeros((5, 3)), drawing)


@pytest.mark.parametrize("seed", range(5))
def test_a_rarely_missing_cell_does_not_explode(seed: int) -> None:
    """Once the one person with a missing cell was 15 standard deviations out, and errors were 4e5."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"id": range(300), "t": np.arange(300) % 2, "a": rng.normal(size=300)})
    table["b"] = np.where(np.arange(300) == 7, np.nan, rng.normal(size=300))
    about: dict[str, Any] = {"id": "id", "treatment": "t", "outcome": "y", "control": 0, "model": "gp", "seed": seed}
    study = simulate(table, **about, batch_size=5, rounds=1, seeds=4, workers=1)
    assert study.trials["pehe"].max() < 20


@pytest.mark.parametrize("bearers", [1, 3, 10])
def test_bearers_of_a_rare_mark_are_no_outliers(bearers: int, rng: np.random.Generator) -> None:
    mark = np.arange(300) < bearers
    covariates = {
        "beside others": np.column_stack([rng.normal(size=(300, 2)), mark]),
        "alone": mark[:, None] * 1.0,
        "where others cancel": np.column_stack([male := rng.integers(2, size=300) * ~mark, ~mark & (male == 0)]) * 1.0,
        "an income": np.where(mark, 1e6, rng.normal(size=300))[:, None],
    }
    for name, x in covariates.items():
        for _ in range(50):
            linear = _hill.linear_predictor(x, rng)
            assert np.abs(linear - 1.25).max() <= 4 * 0.75**0.5 + 1e-9, name
            if name in ("beside others", "where others cancel"):
                assert linear.std() == pytest.approx(0.75**0.5), name
                assert linear[~mark].std() > 0.5, f"{name}: others differ too"


def test_random_does_not_prefer_the_cheap(rng: np.random.Generator) -> None:
    posterior = fake_posterior(200)
    cost = np.repeat([1.0, 100.0], 100)
    arm = rng.integers(2, size=200)
    chosen = select_greedy(posterior, arm, "random", 40, cost=cost, rng=rng)
    assert 8 < (chosen >= 100).sum() < 32
    assert (select_greedy(posterior, arm, "mu-bald", 40, cost=cost, rng=rng) < 100).all()


def test_trials_with_costs_may_run_out_of_people(rng: np.random.Generator) -> None:
    x, arm = rng.normal(size=(24, 2)), np.arange(24) % 2
    split = Split(x, arm, rng.normal(size=24), np.zeros(24), np.zeros(24))
    plan: dict[str, Any] = {"warm_start": 4, "batch_size": 8, "steps": 2, "seed": 0, "propensity": np.full(24, 0.5)}
    dear = 23 if 23 not in warm_start_positions(arm, 4, 0) else 22
    cost = np.where(np.arange(24) == dear, 200.0, 1.0)
    model, study = GaussianProcess(max_iter=2), Benchmark("study", split, split, split)
    table = run_trial(study, model=model, acquisition="mu-bald", batch="auto", cost=cost, **plan)
    assert table["labels"].tolist() == table["spent"].tolist() == [4, 23, 23]  # the money left does not pay the last
    fitted = model.fit(split.y, arm, X=x)
    assert (
        len(pools.choose_batch(fitted, pools.MemoryPool(x, arm), "mu-bald", 0, available=[], rng=rng, batch="auto"))
        == 0
    )
