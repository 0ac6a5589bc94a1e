"""Trials: pairing, determinism, bookkeeping and both tracks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from causalbald import acquisition, datasets, models, pools, selection
from causalbald._typing import Array, Treatment
from causalbald.errors import InputError
from causalbald.experiments import TrialSpec, TrialState, _trial, run_trial, run_trials, warm_start_positions
from causalbald.models import GaussianProcess, LabelSet, PropensityModel
from causalbald.pools import MemoryPool, _choosing, _population, _scoring
from causalbald.posterior import Posterior
from causalbald.testing import fake_posterior

ERRORS = ["pehe", "ate_error", "policy_regret", "coverage95"]
SHARES = ["width_inside", "width_outside", "overlap_share", "treated_share"]
COLUMNS = ["step", "labels", *ERRORS, *SHARES, "seconds_fit", "seconds_score"]
PLAN: dict[str, Any] = {"warm_start": 10, "batch_size": 5, "steps": 2}
SPEC = TrialSpec("synthetic", "mu-rho-bald", **PLAN, seed=3, dataset_options={"pool": 300, "test": 50})


def without_seconds(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns=["seconds_fit", "seconds_score"])


@pytest.fixture(scope="module")
def benchmark() -> datasets.Benchmark:
    return datasets.load("synthetic", 3, pool=300, test=50)


def test_one_row_per_fit_and_nothing_is_measured_twice(benchmark: datasets.Benchmark) -> None:
    calls: list[tuple[int, int]] = []
    table = run_trial(
        benchmark, model="gp", acquisition="mu-rho-bald", **PLAN, seed=3, progress=lambda *c: calls.append(c)
    )
    assert list(table.columns) == COLUMNS
    assert table["labels"].tolist() == [10, 15, 20]
    assert calls == [(1, 3), (2, 3), (3, 3)]
    acquired = table.attrs["acquired"]
    assert [len(a) for a in acquired] == [10, 5, 5]
    everyone = np.concatenate(acquired)
    assert len(set(everyone.tolist())) == 20
    assert benchmark.pool.propensity is not None
    pi = benchmark.pool.propensity[everyone]
    assert table["overlap_share"].iloc[-1] == pytest.approx(((pi >= 0.1) & (pi <= 0.9)).mean())
    assert table["treated_share"].iloc[-1] == pytest.approx(benchmark.pool.t[everyone].mean())


def test_a_trial_that_was_cut_off_before_its_row_was_there_goes_on_as_if_it_had_not(
    benchmark: datasets.Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"model": "gp", "acquisition": "mu-rho-bald", **PLAN, "seed": 3}
    whole, state = run_trial(benchmark, **given), TrialState()

    def interrupted(*arguments: Any) -> dict[str, float]:
        if state.rows:
            raise KeyboardInterrupt
        return describe(*arguments)

    describe = _trial._Study.describe
    monkeypatch.setattr(_trial._Study, "describe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_trial(benchmark, **given, state=state)
    monkeypatch.undo()
    assert (len(state.rows), len(state.acquired)) == (1, 3)
    resumed = run_trial(benchmark, **given, state=state)
    pd.testing.assert_frame_equal(without_seconds(resumed), without_seconds(whole))


def test_errors_are_those_of_a_fit_by_hand(benchmark: datasets.Benchmark) -> None:
    table = run_trial(benchmark, model="gp", acquisition="random", **PLAN, seed=3)
    rows = np.concatenate(table.attrs["acquired"])
    d, test = benchmark.pool.take(rows), benchmark.test
    model = GaussianProcess(random_state=3).fit(d.y, d.t, X=d.x, pool=benchmark.pool.x)
    error = model.effect(test.x) - test.effect
    last = table.iloc[-1]
    assert last["pehe"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert last["ate_error"] == pytest.approx(abs(error.mean()))
    treated = model.effect(test.x) > 0
    best, reached = np.maximum(test.effect, 0).mean(), np.where(treated, test.effect, 0).mean()
    assert last["policy_regret"] == pytest.approx(best - reached)
    assert last["policy_regret"] > 0
    sd = np.sqrt(model.posterior(test.x).effect_variance)
    assert last["coverage95"] == pytest.approx(np.mean(np.abs(error) <= 1.959964 * sd))
    assert test.propensity is not None
    inside = (test.propensity >= 0.1) & (test.propensity <= 0.9)
    assert 0 < inside.sum() < len(test)
    assert last["width_inside"] == pytest.approx(np.mean(2 * 1.959964 * sd[inside]))
    assert last["width_outside"] == pytest.approx(np.mean(2 * 1.959964 * sd[~inside]))


def test_one_seed_one_warm_start_for_every_method(benchmark: datasets.Benchmark) -> None:
    tables = [run_trial(benchmark, model="gp", acquisition=a, **PLAN, seed=3) for a in ("random", "tau-bald")]
    assert tables[0].attrs["acquired"][0] == tables[1].attrs["acquired"][0]
    assert tables[0]["pehe"][0] == tables[1]["pehe"][0]
    assert tables[0].attrs["acquired"] != tables[1].attrs["acquired"]


def test_warm_start_always_has_both_arms() -> None:
    rare = np.zeros(200, dtype=np.intp)
    rare[7] = 1
    for seed in range(20):
        chosen = warm_start_positions(rare, 4, seed)
        assert 7 in chosen
        assert len(set(chosen.tolist())) == 4

    with pytest.raises(InputError, match="no units of the pool in arm 1"):
        warm_start_positions(np.zeros(10, dtype=np.intp), 4, 0)


def test_tables_of_workers_are_those_of_this_process() -> None:
    specs = [SPEC, replace(SPEC, acquisition="mu-bald", batch="greedy", seed=1)]
    done: list[tuple[int, int]] = []
    tables = run_trials(specs, workers=2, progress=lambda *c: done.append(c))
    assert done[-1] == (6, 6)
    for spec, table in zip(specs, tables, strict=True):
        here = spec.run().table()
        assert table["seed"].unique().tolist() == [spec.seed]
        pd.testing.assert_frame_equal(
            without_seconds(table)[without_seconds(here).columns], without_seconds(here), check_exact=True
        )
        assert table.attrs["acquired"] == here.attrs["acquired"]


def test_trials_that_fail_are_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"1 of 1 trials failed.*seed 3.*pool has 300 units"):
        run_trials([replace(SPEC, steps=100)])


class Recorder(models.CateEstimator):
    """A model that learns nothing and notes what it was shown."""

    seen: list[LabelSet | None] = []  # noqa: RUF012

    def __init__(self, *, random_state: int = 0) -> None:
        self.random_state = random_state

    def _fit(self, data: LabelSet, pool: Array, validation: LabelSet | None) -> None:
        self.fitted_ = True
        Recorder.seen.append(validation)

    def _posterior(self, x: Array, *, joint: bool) -> Posterior:
        return fake_posterior(units=len(x))


class FewDraws(Recorder):
    """A model whose draws are too few for greedy batches."""

    def _posterior(self, x: Array, *, joint: bool) -> Posterior:
        return replace(fake_posterior(units=len(x)), n_draws=5)


def test_validation_outcomes_are_free_on_track_paper_only(benchmark: datasets.Benchmark) -> None:
    Recorder.seen.clear()
    run_trial(benchmark, model=Recorder(), acquisition="random", **PLAN, seed=0)
    assert Recorder.seen == [None] * 3
    Recorder.seen.clear()
    run_trial(benchmark, model=Recorder(), acquisition="random", **PLAN, seed=0, track="paper")
    assert all(v is not None and len(v.y) == 1000 for v in Recorder.seen)


def test_track_paper_leaves_the_propensity_term_untempered(
    benchmark: datasets.Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is divided by T = 0.25 must be T log(1 - pi_t), so that log(1 - pi_t) itself is the exponent."""
    pi = PropensityModel(random_state=0).fit(benchmark.pool.x, benchmark.pool.t).cross_fitted_
    log_other = np.log(np.where(benchmark.pool.t == 1, 1 - pi, pi))
    seen: list[Array] = []

    def spy(scores: Array, *args: Any, **kwargs: Any) -> Any:
        seen.append(scores)
        return selection.select(scores, *args, **kwargs)

    monkeypatch.setattr(_choosing, "select", spy)
    for track, factor, batch in (("paid", 1.0, None), ("paper", 0.25, None), ("paper", 0.25, "auto")):
        seen.clear()
        run_trial(
            benchmark,
            model=Recorder() if batch is None else FewDraws(),
            acquisition="propensity",
            warm_start=10,
            batch_size=5,
            steps=1,
            seed=0,
            track=track,  # type: ignore[arg-type]
            batch=batch,  # type: ignore[arg-type]
        )
        open_units = np.isfinite(seen[-1])
        assert open_units.sum() == 290
        np.testing.assert_allclose(seen[-1][open_units], factor * log_other[open_units], atol=1e-9)


def test_given_propensity_is_used_for_overlap_where_the_truth_is_unknown() -> None:
    b = datasets.load("ihdp", 0)
    table = run_trial(b, model=Recorder(), acquisition="random", **PLAN, seed=0, propensity=np.full(len(b.pool), 0.99))
    assert (table["overlap_share"] == 0).all()
    estimated = run_trial(b, model=Recorder(), acquisition="random", **PLAN, seed=0)
    assert (estimated["overlap_share"] > 0.3).all()


def test_scores_in_chunks_equal_scores_at_once(benchmark: datasets.Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    d = benchmark.pool.take(np.arange(30))
    model = GaussianProcess(max_iter=10).fit(d.y, d.t, X=d.x)
    pi = np.full(300, 0.4)
    args = (model, MemoryPool(benchmark.pool.x, benchmark.pool.t, propensity=pi), "mu-pi-bald")
    whole = pools.score_pool(*args)
    monkeypatch.setattr(_scoring, "CHUNK_UNITS", 7)
    np.testing.assert_allclose(pools.score_pool(*args), whole, atol=1e-9)


@pytest.mark.parametrize("name", ["random", "propensity"])
def test_functions_that_look_at_no_belief_do_not_cost_one(benchmark: datasets.Benchmark, name: str) -> None:
    class Silent(Recorder):
        def _posterior(self, x: Array, *, joint: bool) -> Posterior:
            raise AssertionError("a belief that nobody looks at")

    d, pool = benchmark.pool.take(np.arange(30)), benchmark.pool
    pi = np.linspace(0.1, 0.9, 300)
    scores = pools.score_pool(Silent().fit(d.y, d.t, X=d.x), MemoryPool(pool.x, pool.t, propensity=pi), name)
    other = np.log(np.where(pool.t == 1, 1 - pi, pi))
    np.testing.assert_allclose(scores, 0.0 * other if name == "random" else other)


@pytest.mark.parametrize("few", [1000, 100])
def test_targeted_functions_see_all_targets_beside_each_chunk(
    benchmark: datasets.Benchmark, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(_population, "MAX_EXACT_TARGETS", few)
    monkeypatch.setattr(_population, "TARGETS_IN_SAMPLE", 50)
    monkeypatch.setattr(_scoring, "CHUNK_UNITS", 70)
    d, pool = benchmark.pool.take(np.arange(30)), benchmark.pool
    model = GaussianProcess(max_iter=2).fit(d.y, d.t, X=d.x, pool=pool.x)
    goal, units = pools.pool_population(300), MemoryPool(pool.x, pool.t)
    assert len(goal.positions) == (300 if few == 1000 else 50)
    expected = acquisition.score("tau-vr", model.posterior(pool.x), pool.t, population=goal)
    np.testing.assert_allclose(pools.score_pool(model, units, "tau-vr"), expected, rtol=1e-8)
    rest, rng = np.arange(30, 300), np.random.default_rng
    options: dict[str, Any] = {"excluded": np.arange(30), "population": goal, "pending": [40]}
    by_hand = selection.select_greedy(model.posterior(pool.x), pool.t, "tau-vr", 4, **options, rng=rng(0))
    got = pools.choose_batch(model, units, "tau-vr", 4, available=rest, pending=[40], batch="greedy", rng=rng(0))
    np.testing.assert_array_equal(got, by_hand)


@pytest.mark.parametrize("has_cross_belief", [True, False])
@pytest.mark.parametrize("name", ["tau-vr", "epig-tau", "epig-mu", "regret"])
def test_units_gain_nothing_from_being_drawn_into_the_sample(
    benchmark: datasets.Benchmark, monkeypatch: pytest.MonkeyPatch, name: str, has_cross_belief: bool
) -> None:
    monkeypatch.setattr(_population, "MAX_EXACT_TARGETS", 100)
    monkeypatch.setattr(_population, "TARGETS_IN_SAMPLE", 20)
    monkeypatch.setattr(_scoring, "CHUNK_UNITS", 70)
    if not has_cross_belief:
        monkeypatch.setattr(GaussianProcess, "cross_belief", lambda *_: None)
    d, pool = benchmark.pool.take(np.arange(30)), benchmark.pool
    model = GaussianProcess(max_iter=2).fit(d.y, d.t, X=d.x, pool=pool.x)
    drawn = pools.pool_population(300)
    assert drawn.unit_weight == 1 / 300
    unit = drawn.positions[7]
    not_drawn = acquisition.TargetPopulation.of(np.delete(drawn.positions, 7), 300, unit_weight=drawn.unit_weight)
    with_it, without = (
        pools.score_pool(model, MemoryPool(pool.x, pool.t), name, population=p)[unit] for p in (drawn, not_drawn)
    )
    assert with_it == pytest.approx(without, rel=1e-6)


class Strangers(Recorder):
    """A model to which nobody says anything about anyone else."""

    def _posterior(self, x: Array, *, joint: bool) -> Posterior:
        return Posterior(
            np.zeros((len(x), 2)), np.zeros((len(x), 2, 1)), np.tile(np.eye(2), (len(x), 1, 1)), np.ones((len(x), 2))
        )


@pytest.mark.filterwarnings("ignore::causalbald.errors.ApproximationWarning")
def test_people_who_matter_more_count_more_to_themselves_in_large_pools_too(monkeypatch: pytest.MonkeyPatch) -> None:
    x, t = np.random.default_rng(0).normal(size=(300, 2)), np.arange(300) % 2
    model = Strangers().fit(x[:10, 0], t[:10], X=x[:10])
    weights = np.where(np.arange(300) < 150, 1.0, 3.0)
    monkeypatch.setattr(_scoring, "CHUNK_UNITS", 70)
    for few in (300, 100):
        monkeypatch.setattr(_population, "MAX_EXACT_TARGETS", few)
        goal = pools.pool_population(300, weights=weights)
        scores = pools.score_pool(model, MemoryPool(x, t), "tau-vr", population=goal)
        np.testing.assert_allclose(np.exp(scores), weights / weights.sum() / 2)
        rng, rest = np.random.default_rng(0), np.arange(300)
        chosen = pools.choose_batch(
            model, MemoryPool(x, t), "tau-vr", 20, available=rest, batch="greedy", population=goal, rng=rng
        )
        assert (chosen >= 150).all()


def test_a_shortlist_has_only_units_that_can_be_chosen(benchmark: datasets.Benchmark) -> None:
    """With fewer finite scores than a shortlist has places, all of them are on it."""
    x, t = benchmark.pool.x, benchmark.pool.t
    known = benchmark.pool.take(np.arange(20))
    model = GaussianProcess(max_iter=5).fit(known.y, known.t, X=known.x, pool=x)

    def of_few(posterior: Posterior, treatment: Treatment) -> Array:
        return np.where(posterior.mean[:, 0] > np.median(posterior.mean[:, 0]), 0.0, -np.inf)

    rng = np.random.default_rng(0)
    possible = np.flatnonzero(np.isfinite(of_few(model.posterior(x), t)))
    chosen = pools.choose_batch(
        model, MemoryPool(x, t), of_few, 5, available=np.arange(300), rng=rng, batch="greedy", shortlist=200
    )
    assert np.isin(chosen, possible).all()


def test_pending_units_are_never_chosen_again(benchmark: datasets.Benchmark) -> None:
    d = benchmark.pool.take(np.arange(30))
    model = GaussianProcess(max_iter=5).fit(d.y, d.t, X=d.x)
    for batch in ("softmax", "greedy"):
        chosen = pools.choose_batch(
            model,
            MemoryPool(benchmark.pool.x, benchmark.pool.t),
            "mu-bald",
            5,
            available=np.arange(30, 40),
            pending=np.arange(30, 35),
            batch=batch,
            rng=np.random.default_rng(0),
        )
        assert set(chosen.tolist()) == set(range(35, 40))


def test_the_smallest_trial(benchmark: datasets.Benchmark) -> None:
    table = run_trial(benchmark, model=Recorder(), acquisition="random", warm_start=2, batch_size=1, steps=0, seed=0)
    assert table["labels"].tolist() == [2]


def test_bad_plans_are_named(benchmark: datasets.Benchmark) -> None:
    good: dict[str, Any] = {"model": "gp", "acquisition": "random", **PLAN, "seed": 0}
    for change, message in (
        ({"steps": 100}, r"10 \+ 100 x 5 = 510 labels asked for, but the pool has 300"),
        ({"warm_start": 1}, "warm_start"),
        ({"batch_size": 0}, "batch_size"),
        ({"track": "free"}, "track"),
        ({"batch": "topk"}, "batch"),
        ({"acquisition": "bald"}, "unknown acquisition"),
        ({"model": "bart"}, "unknown model"),
    ):
        with pytest.raises(InputError, match=message):
            run_trial(benchmark, **{**good, **change})


def test_choosing_beats_random_on_the_synthetic_data() -> None:
    """A small version of what the demo shows: two paired seeds, the same labels, less error when choosing."""
    specs = [TrialSpec("synthetic", a, 10, 15, 10, seed=s) for a in ("random", "mu-rho-bald") for s in (0, 1)]
    errors = [t["pehe"].iloc[-1] for t in run_trials(specs, workers=1)]
    assert np.mean(errors[2:]) < 0.6
    assert np.mean(errors[2:]) < 0.7 * np.mean(errors[:2])
