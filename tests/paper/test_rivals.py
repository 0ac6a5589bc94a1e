"""The rivals that choose batches by covariates: against loops over units, pairs and edges written out here."""

from __future__ import annotations

import itertools
import json
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from causalbald import acquisition, datasets, pools
from causalbald._random import generator
from causalbald._typing import Array, Positions, Treatment
from causalbald.cli._app import app
from causalbald.errors import InputError
from causalbald.experiments import Plan, run_trial
from causalbald.models import CateEstimator, GaussianProcess
from causalbald.paper import _rivals
from causalbald.selection import select_greedy
from causalbald.testing import fake_posterior
from tests.helpers.campaigns import measured as outcomes
from tests.helpers.campaigns import new_campaign, people

NAMES = ("qhte", "macal", "lcmd", "fccm")
UNITS = np.arange(36)
MEASURED = UNITS[:8]
AVAILABLE = UNITS[8:30]  # six more can neither be chosen nor are they measured
Point = list[float]
Naive = Callable[[list[Point], list[int], list[int], list[int], int], list[int]]


def pool(seed: int, columns: int = 2) -> tuple[Array, Treatment]:
    rng = np.random.default_rng(seed)
    t = rng.integers(2, size=36)
    t[:4] = [0, 1, 0, 1]
    x = rng.normal(size=(36, columns)) + 0.7 * t[:, None]
    return (x - x.mean(axis=0)) / x.std(axis=0), t


def batch_function(name: str) -> acquisition.BatchFunction:
    function = acquisition.load(name)
    assert isinstance(function, acquisition.BatchFunction)
    return function


def choose(name: str, x: Any, t: Any, size: int, seed: int = 0, **plan: Any) -> list[int]:
    options = {"measured": MEASURED, "available": AVAILABLE} | plan
    batch = batch_function(name).choose(x, t, size, rng=np.random.default_rng(seed), **options)
    return [int(k) for k in batch]


def naive_qhte(x: list[Point], t: list[int], measured: list[int], available: list[int], size: int) -> list[int]:
    chosen: list[int] = []
    for _ in range(size):
        best, pick = -1.0, -1
        for i in available:
            if i in chosen:
                continue
            gap = min(math.dist(x[i], x[k]) for k in measured + chosen if t[k] == t[i])
            if gap > best:
                best, pick = gap, i
        chosen.append(pick)
    return chosen


def naive_macal(x: list[Point], t: list[int], measured: list[int], available: list[int], size: int) -> list[int]:
    chosen: list[int] = []

    def gain(i: int) -> float:
        return min(math.dist(x[i], x[k]) ** 2 for k in measured + chosen if t[k] == t[i])

    while len(chosen) < size:
        left = [i for i in available if i not in chosen]
        controls, treated = [i for i in left if t[i] == 0], [i for i in left if t[i] == 1]
        best, pair = -math.inf, list[int]()
        for k in controls:
            for j in treated:
                value = -2.5 * math.dist(x[k], x[j]) ** 2 + gain(k) + gain(j)
                if value > best:
                    best, pair = value, [k, j]
        pair = sorted(pair or [max(left, key=gain)], key=gain, reverse=True)
        chosen += pair[: size - len(chosen)]
    return chosen


def naive_lcmd(x: list[Point], t: list[int], measured: list[int], available: list[int], size: int) -> list[int]:
    share = sum(t) / len(t)
    sd = math.sqrt(share * (1 - share))
    z = [[*point, (arm - share) / sd] for point, arm in zip(x, t, strict=True)]
    chosen: list[int] = []
    for _ in range(size):
        clusters: dict[int, list[tuple[float, int]]] = {}
        for i in available:
            if i not in chosen:
                gap, centre = min((math.dist(z[i], z[k]), k) for k in measured + chosen)
                clusters.setdefault(centre, []).append((gap, i))
        largest = max(clusters.values(), key=lambda members: sum(gap**2 for gap, _ in members))
        chosen.append(max(largest)[1])
    return chosen


def naive_radius(x: list[Point], t: list[int], centres: list[int], to: int) -> float:
    """The 95 % quantile, by linear interpolation, of the distances of one arm's units to the nearest centre."""
    gaps = sorted(min(math.dist(x[v], x[c]) for c in centres) for v in range(len(x)) if t[v] == to)
    place = 0.95 * (len(gaps) - 1)
    low = math.floor(place)
    return gaps[low] + (place - low) * (gaps[min(low + 1, len(gaps) - 1)] - gaps[low])


def naive_centres(x: list[Point], members: list[int], count: int) -> list[int]:
    middle = [sum(x[i][c] for i in members) / len(members) for c in range(len(x[0]))]
    centres = [min(members, key=lambda i: math.dist(x[i], middle))]
    while len(centres) < count:
        centres.append(max(members, key=lambda i: min(math.dist(x[i], x[c]) for c in centres)))
    return centres


def naive_fccm(x: list[Point], t: list[int], measured: list[int], available: list[int], size: int) -> list[int]:
    """A graph with its edges written out; once the last radius helps nobody, fewer than ``size`` are returned."""
    arms = {a: [i for i in range(len(x)) if t[i] == a] for a in (0, 1)}
    counts = {a: min(50, math.ceil(len(members) / 4)) for a, members in arms.items()}
    chosen: list[int] = []
    while True:
        centres = {a: naive_centres(x, members, min(counts[a], len(members))) for a, members in arms.items()}
        radius = {(a, b): naive_radius(x, t, centres[a], b) * (1 + 1e-9) for a in (0, 1) for b in (0, 1)}
        pairs = itertools.permutations(range(len(x)), 2)
        near = {(u, v) for u, v in pairs if math.dist(x[u], x[v]) <= radius[t[u], t[v]]}
        while len(chosen) < size:
            done = measured + chosen
            covered = {v for v in range(len(x)) if v in done or any((u, v) in near for u in done if t[u] == t[v])}
            best, pick = 0.0, -1
            for u in (i for i in available if i not in chosen):
                after = [v for v in range(len(x)) if (u, v) in near and (t[u] != t[v] or v not in covered)]
                weight = sum(1.0 if t[v] == t[u] else 2.5 for v in after)
                n1 = sum(t[v] for v in after)
                n0 = len(after) - n1
                value = weight * n1 * n0 / (n1 + n0) ** 2 if after else 0.0
                if value > best + 1e-12:
                    best, pick = value, u
            if pick < 0:
                break
            chosen.append(pick)
        if len(chosen) == size or all(counts[a] >= len(members) for a, members in arms.items()):
            return chosen
        counts = {a: 2 * c for a, c in counts.items()}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(("name", "naive"), [("qhte", naive_qhte), ("macal", naive_macal), ("lcmd", naive_lcmd)])
def test_batches_are_those_of_plain_loops(
    name: str, naive: Naive, columns: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, t = pool(seed, columns)
    expected = naive(x.tolist(), t.tolist(), MEASURED.tolist(), AVAILABLE.tolist(), len(AVAILABLE))
    assert choose(name, x, t, len(AVAILABLE)) == expected
    monkeypatch.setattr(_rivals, "PAIRS_TOGETHER", 20)
    assert choose(name, x, t, 7, seed=1) == expected[:7], "a batch cut short is the beginning of a longer one"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("columns", [1, 3])
def test_coverage_is_that_of_a_graph(columns: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts tie often, so that the loops follow our choice as long as it is as good as theirs."""
    x, t = pool(seed, columns)
    got = choose("fccm", x, t, len(AVAILABLE))
    monkeypatch.setattr(_rivals, "PAIRS_TOGETHER", 20)
    assert choose("fccm", x, t, len(AVAILABLE)) == got
    agreed = 0
    for k, pick in enumerate(got):
        order = [pick, *(i for i in AVAILABLE.tolist() if i not in got[: k + 1])]
        measured = MEASURED.tolist() + got[:k]
        expected = naive_fccm(x.tolist(), t.tolist(), measured, order, 1)
        if not expected:
            break
        assert expected == [pick], f"pick {k}"
        agreed += 1
    assert agreed >= 3


def test_radii_cover_95_percent_of_each_arm_and_shrink(rng: np.random.Generator) -> None:
    x, t = rng.normal(size=(600, 2)), rng.integers(2, size=600)
    radii = list(_rivals._radii(x, t))
    arms = {a: np.flatnonzero(t == a).tolist() for a in (0, 1)}
    for a, b in itertools.product((0, 1), (0, 1)):
        centres = naive_centres(x.tolist(), arms[a], 50)
        gaps = [min(math.dist(x[v], x[c]) for c in centres) for v in arms[b]]
        assert np.mean(np.array(gaps) <= radii[0][a, b]) == pytest.approx(0.95, abs=0.005)
    assert all((finer <= coarse).all() for coarse, finer in itertools.pairwise(radii))
    assert radii[-1][0, 0] == radii[-1][1, 1] == 0


def test_coverage_does_not_go_where_the_other_arm_is_missing(rng: np.random.Generator) -> None:
    x = np.concatenate([rng.normal(size=(200, 1)), 30 + rng.normal(size=(100, 1))])
    t = np.concatenate([rng.integers(2, size=200), np.zeros(100, dtype=int)])
    available = np.arange(10, 300)
    assert max(choose("fccm", x, t, 20, measured=np.arange(10), available=available)) < 200
    assert max(choose("qhte", x, t, 1, measured=np.arange(10), available=available)) >= 200


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_one_batch_and_ties_are_broken_at_random(name: str) -> None:
    x, t = pool(0)
    assert choose(name, x, t, 9) == choose(name, x, t, 9)
    alike = np.full((36, 2), 0.1)
    batches = [choose(name, alike, t, 9, seed=s) for s in range(30)]
    assert batches[0] == choose(name, alike, t, 9)
    assert set().union(*batches) == set(AVAILABLE.tolist()), "anyone can be chosen where all are alike"
    assert all(len(set(batch)) == 9 for batch in batches)


@pytest.mark.parametrize("name", NAMES)
def test_covariates_are_standardised_and_images_flattened(name: str) -> None:
    x, t = pool(3)
    expected = choose(name, x, t, 6)
    assert choose(name, np.column_stack([2000 * x[:, 0], x[:, 1] - 7, np.full(36, 0.1)]), t, 6) == expected
    assert choose(name, x.reshape(36, 1, 1, 2).astype(np.float32), t, 6) == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("measured", [[], [0], [1]])
def test_arms_without_measured_units(name: str, measured: list[int]) -> None:
    x, t = pool(1)
    first = choose(name, x, t, 1, measured=measured)
    batch = choose(name, x, t, len(AVAILABLE), measured=measured)
    assert batch[:1] == first
    assert sorted(batch) == AVAILABLE.tolist()
    if measured and name in ("qhte", "macal"):
        assert t[first[0]] == 1 - t[measured[0]], "nothing is known of the other arm"


def test_pairs_where_nothing_is_measured_are_the_closest(rng: np.random.Generator) -> None:
    x, t = pool(2)
    pairs = [(math.dist(x[k], x[j]), {k, j}) for k in AVAILABLE for j in AVAILABLE if t[k] < t[j]]
    assert set(choose("macal", x, t, 2, measured=[])) == min(pairs, key=lambda pair: pair[0])[1]


def test_pairs_with_one_arm_left_are_the_farthest() -> None:
    x, t = pool(2)
    controls = AVAILABLE[t[AVAILABLE] == 0]
    assert choose("macal", x, t, 4, available=controls) == choose("qhte", x, t, 4, available=controls)


@pytest.mark.parametrize("name", NAMES)
def test_pools_with_one_arm(name: str) -> None:
    x, _ = pool(2)
    assert len(set(choose(name, x, np.ones(36, dtype=int), 9))) == 9


@pytest.mark.parametrize("name", ["macal", "fccm"])
def test_memory_grows_with_units_not_with_pairs(name: str, rng: np.random.Generator) -> None:
    n = 6000
    x, t = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    tracemalloc.start()
    choose(name, x, t, 4, measured=np.arange(50), available=np.arange(50, n))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60e6, "a matrix of all pairs of both arms would take 72 MB, of all units 288 MB"


class Silent(CateEstimator):
    """A model that must not be asked."""

    def _fit(self, data: Any, pool: Any, validation: Any) -> None: ...

    def _posterior(self, x: Any, *, joint: bool) -> Any:
        raise AssertionError("asked for a belief")


def in_loop(name: str, x: Array, t: Treatment, size: int, **plan: Any) -> Positions:
    units, rng = pools.MemoryPool(x, t, cost=plan.pop("cost", None)), np.random.default_rng(0)
    return pools.choose_batch(Silent(), units, name, size, rng=rng, batch="auto", **plan)


@pytest.mark.parametrize("name", NAMES)
def test_the_loop_asks_no_model_and_knows_who_is_measured(name: str) -> None:
    x, t = pool(4)
    expected = choose(name, x, t, 6)
    assert in_loop(name, x, t, 6, available=AVAILABLE, measured=MEASURED).tolist() == expected
    waiting = {"available": UNITS[4:30], "pending": MEASURED[4:]}  # as good as measured
    assert in_loop(name, x, t, 6, **waiting, measured=MEASURED[:4]).tolist() == expected
    assert in_loop(name, x, t, 6, **waiting, measured=[]).tolist() == choose(name, x, t, 6, measured=MEASURED[4:])
    not_available = np.setdiff1d(UNITS, AVAILABLE)
    assert in_loop(name, x, t, 6, available=AVAILABLE).tolist() == choose(name, x, t, 6, measured=not_available)
    assert len(in_loop(name, x, t, 0, available=AVAILABLE)) == 0
    with pytest.raises(InputError, match="23 units asked for, but only 22 can be chosen"):
        in_loop(name, x, t, 23, available=AVAILABLE)


@pytest.mark.parametrize("name", NAMES)
def test_costs_cut_a_batch_short(name: str) -> None:
    x, t = pool(5)
    expected = choose(name, x, t, 6, measured=np.setdiff1d(UNITS, AVAILABLE))
    cost = np.ones(36)
    cost[expected[1]] = 3.0
    got = in_loop(name, x, t, 6, available=AVAILABLE, cost=cost, budget=3.5)
    assert got.tolist() == [expected[k] for k in (0, 2, 3)]
    cost[expected[1]] = 10.0  # more than there is: no candidate, and not measured either
    cheap = np.setdiff1d(AVAILABLE, expected[1])
    got = in_loop(name, x, t, 6, available=AVAILABLE, cost=cost, budget=3.5)
    not_available = np.setdiff1d(UNITS, AVAILABLE)
    assert got.tolist() == choose(name, x, t, 6, measured=not_available, available=cheap)[:3]


def test_there_are_no_scores() -> None:
    x, t = pool(0)
    words = "'qhte' chooses batches by covariates and has no score"
    with pytest.raises(InputError, match=words):
        acquisition.score("qhte", fake_posterior(36), t)
    with pytest.raises(InputError, match=words):
        select_greedy(fake_posterior(36), t, "qhte", 3)
    model = GaussianProcess(max_iter=2).fit(x[:, 0], t, X=x)
    with pytest.raises(InputError, match=words):
        pools.score_pool(model, pools.MemoryPool(x, t), "qhte")


def test_rules_that_break_their_promise_are_told_so() -> None:
    x, t = pool(0)

    def wrong(x: Array, treatment: Treatment, *arguments: Any) -> Positions:
        """Whoever is measured."""
        return MEASURED[:3]

    rule = acquisition.BatchFunction("wrong", wrong)
    with pytest.raises(InputError, match="'wrong' did not return 3 of the units that are available"):
        rule.choose(x, t, 3, measured=MEASURED, available=AVAILABLE, rng=np.random.default_rng(0))


def test_trials_and_plans_take_them_by_name() -> None:
    benchmark = datasets.load("synthetic", 0, pool=200)
    model = GaussianProcess(max_iter=2)
    plan: dict[str, Any] = {"model": model, "warm_start": 10, "batch_size": 5, "steps": 2, "seed": 0}
    for name in NAMES:
        table = run_trial(benchmark, acquisition=name, **plan)
        first, second, third = table.attrs["acquired"]
        available, rng = np.setdiff1d(np.arange(200), first + second), generator(0, "choose", 1)
        rule = batch_function(name).choose
        expected = rule(benchmark.pool.x, benchmark.pool.t, 5, measured=first + second, available=available, rng=rng)
        assert third == expected.tolist()
    specs = Plan(("synthetic",), acquisitions=NAMES).specs()
    assert {spec.acquisition for spec in specs} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_campaigns_take_them_and_say_so(name: str) -> None:
    study = people()
    campaign = new_campaign(study, acquisition=name, seed=1)
    first = campaign.ask(10)["patient"]
    campaign.tell(outcomes(study, first))
    gone = next(unit for unit in study["patient"] if unit not in set(first))
    campaign.withdraw([gone], reason="moved")
    batch, everyone = campaign.ask(6), campaign.pool
    done = everyone.units.positions(first)
    available = np.setdiff1d(np.arange(120), [*done, *everyone.units.positions([gone])])
    rule, rng = batch_function(name).choose, generator(1, "ask", 2)
    expected = rule(everyone.x, everyone.arm, 6, measured=done, available=available, rng=rng)
    assert batch["patient"].tolist() == everyone.units.at(expected), "who is gone is not as good as measured"
    assert set(batch["by"]) == {"covariates"}
    assert batch["why"].str.contains(f"chosen by {name}: ").all()
    assert batch["score"].isna().all()
    assert batch["effect"].notna().all()
    again = campaign.ask(6)
    assert not set(again["patient"]) & set(batch["patient"])
    with pytest.raises(InputError, match="chooses batches by covariates"):
        campaign.score()


def test_the_command_line_lists_them() -> None:
    rows = {row["name"]: row for row in json.loads(CliRunner().invoke(app, ["acquisitions", "--json"]).stdout)}
    assert all(rows[name]["temperature"] is None and rows[name]["needs"] == "covariates" for name in NAMES)
    assert pd.DataFrame(rows.values())["prefers"].str.len().min() > 0
