"""A pool on disk gives the scores and batches that the same rows give in memory, however its files are cut."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, current_thread
from time import sleep
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from causalbald import Posterior, acquisition, pools
from causalbald._random import generator
from causalbald._threads import in_threads, one_thread
from causalbald._typing import Positions
from causalbald.campaign import Preparation, prepare
from causalbald.errors import InputError
from causalbald.models import GaussianProcess, TarnetEnsemble
from causalbald.pools import Block, MemoryPool, ParquetPool, ParquetRound, Scorer, _choosing, _population, _scoring
from causalbald.tables import _parquet_files as files_module

UNITS, MEASURED, PENDING = 600, 40, 5
COLUMNS: dict[str, Any] = {"id": "person", "treatment": "drug", "control": "placebo", "exclude": ["site"]}


def make_people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(UNITS, 2))
    age = np.where(rng.random(UNITS) < 0.05, np.nan, 50 + 10 * x[:, 1])
    treated = rng.random(UNITS) < 1 / (1 + np.exp(-x[:, 0]))
    return pd.DataFrame(
        {
            "person": [f"P{i:03d}" for i in rng.permutation(UNITS)],
            "drug": np.where(treated, "verum", "placebo"),
            "dose": x[:, 0],
            "age": age,
            "eyes": pd.Categorical(rng.choice(["blue", "brown", "green"], UNITS)),
            "city": rng.choice(["Bern", "Oslo"], UNITS),
            "site": "A",
        }
    )


PEOPLE = make_people()
WHO = np.random.default_rng(1).choice(UNITS, MEASURED + PENDING, replace=False)


def results() -> pd.DataFrame:
    people, rng = PEOPLE.iloc[WHO], np.random.default_rng(2)
    y = people["dose"] * (people["drug"] == "verum") + 0.3 * rng.normal(size=len(people))
    y.iloc[:PENDING] = np.nan
    return pd.DataFrame({"person": people["person"], "outcome": y})


def write(path: Path, people: pd.DataFrame = PEOPLE, rows: int = UNITS) -> Path:
    people.to_parquet(path, row_group_size=rows, index=False)
    return path


def open_pool(path: Path, **options: Any) -> ParquetPool:
    return ParquetPool(path, **{**COLUMNS, **options})


def small(**options: Any) -> GaussianProcess:
    return GaussianProcess(max_iter=3, sites=150, **options)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> ParquetRound:
    pool = open_pool(write(tmp_path_factory.mktemp("pool") / "pool.parquet", rows=64))
    return ParquetRound(pool, results(), outcome="outcome", model=small())


@pytest.fixture(scope="module")
def prepared() -> Preparation:
    return prepare(PEOPLE, **COLUMNS, outcome="outcome")


@pytest.fixture(scope="module")
def in_memory(on_disk: ParquetRound, prepared: Preparation) -> InMemory:
    return InMemory(on_disk, prepared)


class InMemory:
    """The same rows and the same fitted model, without a file."""

    def __init__(self, one_round: ParquetRound, prepared: Preparation) -> None:
        propensity = one_round._propensity_model.predict(prepared.x)
        self.model, self.pool = one_round.model, MemoryPool(prepared.x, prepared.arm, propensity=propensity)

    def scores(self, name: str) -> Any:
        return pools.score_pool(self.model, self.pool, name)

    def choose(self, size: int, name: str, **options: Any) -> list[str]:
        chosen = pools.choose_batch(
            self.model,
            self.pool,
            name,
            size,
            available=np.setdiff1d(np.arange(UNITS), WHO),
            pending=np.sort(WHO[:PENDING]),
            rng=generator(0, "choose"),
            **options,
        )
        return PEOPLE["person"].iloc[chosen].tolist()


def test_columns_and_outcomes_are_understood_as_by_a_campaign(on_disk: ParquetRound, prepared: Preparation) -> None:
    pool = on_disk.pool
    np.testing.assert_array_equal(pool.arm, prepared.arm)
    np.testing.assert_array_equal(pool.take(np.arange(UNITS)).x, prepared.x)
    np.testing.assert_array_equal(pool.take([7, 3, 599]).x, prepared.x[[7, 3, 599]])
    np.testing.assert_array_equal(pool.take([7, 3, 599]).arm, prepared.arm[[7, 3, 599]])
    assert sorted(on_disk.measured) == sorted(WHO[PENDING:])
    assert sorted(on_disk.pending) == sorted(WHO[:PENDING])
    x, y = prepared.x[np.sort(WHO[PENDING:])], results().iloc[np.argsort(WHO)]["outcome"].dropna()
    expected = small().fit(y, prepared.arm[np.sort(WHO[PENDING:])], X=x, pool=prepared.x).effect(prepared.x)
    np.testing.assert_array_equal(on_disk.model.effect(prepared.x), expected)


@pytest.mark.parametrize("rows", [7, 64, UNITS])
@pytest.mark.parametrize("name", ["mu-rho-bald", "mu-pi-bald", "tau-vr"])
def test_scores_do_not_depend_on_how_files_are_cut(
    tmp_path: Path, on_disk: ParquetRound, in_memory: InMemory, monkeypatch: pytest.MonkeyPatch, rows: int, name: str
) -> None:
    monkeypatch.setattr(_population, "MAX_EXACT_TARGETS", 100)
    monkeypatch.setattr(_population, "TARGETS_IN_SAMPLE", 20)
    monkeypatch.setattr(files_module, "BLOCK_CELLS", 5 * rows)
    monkeypatch.setattr(on_disk, "pool", open_pool(write(tmp_path / "pool.parquet", rows=rows)))
    expected = in_memory.scores(name)
    np.testing.assert_array_equal(on_disk.scores(name), expected)
    monkeypatch.setattr(_scoring, "CHUNK_UNITS", rows)
    np.testing.assert_allclose(on_disk.scores(name), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"batch": "softmax"},
        {"batch": "softmax", "temperature": 0.0},
        {"batch": "softmax", "temperature": 2.0},
        {"batch": "greedy"},
        {"batch": "greedy", "temperature": 0.5},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["mu-rho-bald", "mu-pi-bald", "tau-vr"])
@pytest.mark.parametrize("shortlist", [60, 4096])
def test_the_batch_is_the_one_chosen_in_memory(
    on_disk: ParquetRound,
    in_memory: InMemory,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    name: str,
    shortlist: int,
) -> None:
    monkeypatch.setattr(_population, "MAX_EXACT_TARGETS", 100)
    monkeypatch.setattr(_population, "TARGETS_IN_SAMPLE", 20)
    monkeypatch.setattr(_choosing, "SHORTLIST_UNITS", shortlist)
    expected = in_memory.choose(6, name, **options, shortlist=shortlist)
    batch = on_disk.choose(6, name, **options)
    assert batch["person"].to_pylist() == expected
    assert not set(expected) & set(results()["person"])


@pytest.mark.parametrize("name", ["tau-vr", "regret"])
def test_those_who_matter_and_what_is_worthwhile(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets on disk are those in memory, for few people and for a sample of many."""
    matters = np.where(np.arange(UNITS) % 3 == 0, 2.0, 0.0) * (1 + np.arange(UNITS) % 2)
    pool = open_pool(
        write(tmp_path / "pool.parquet", PEOPLE.assign(matters=matters), rows=64), exclude=["matters", "site"]
    )
    for few in (UNITS, 50):
        monkeypatch.setattr(_population, "MAX_EXACT_TARGETS", few)
        monkeypatch.setattr(_population, "TARGETS_IN_SAMPLE", 80)
        one_round = ParquetRound(pool, results(), outcome="outcome", model=small(), weight="matters", worthwhile=0.5)
        targets = pools.pool_population(UNITS, weights=matters, threshold=0.5)
        assert set(targets.positions) <= set(np.flatnonzero(matters))
        whole = pool.take(np.arange(UNITS))
        scores = pools.score_pool(one_round.model, MemoryPool(whole.x, whole.arm), name, population=targets)
        np.testing.assert_allclose(one_round.scores(name), scores, rtol=1e-9)
    assert not np.allclose(
        one_round.scores(name), ParquetRound(pool, results(), outcome="outcome", model=small()).scores(name)
    )


def test_targets_are_drawn_by_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_population, "MAX_EXACT_TARGETS", 10)
    weights = np.arange(400.0)
    targets = pools.pool_population(400, weights=weights)
    assert targets.weights.sum() == pytest.approx(1.0)
    expected = (weights**2).sum() / weights.sum()
    spread = np.sqrt((weights**3).sum() / weights.sum() - expected**2)
    assert abs(targets.weights @ targets.positions - expected) < 4 * spread / np.sqrt(1000)
    with pytest.raises(
        InputError, match=r"population must be TargetPopulation.of\(positions, 5, weights\), got ndarray"
    ):
        pools.score_pool(
            GaussianProcess(),
            MemoryPool(np.eye(5), [0, 1, 0, 1, 0]),
            "tau-vr",
            population=np.ones(5),  # type: ignore[arg-type]
        )


def test_a_batch_says_who_and_what_is_believed(on_disk: ParquetRound) -> None:
    seen: list[tuple[int, int]] = []
    batch = on_disk.choose(4, progress=lambda done, total: seen.append((done, total))).to_pandas()
    assert seen[-1] == (UNITS, UNITS)
    assert list(batch) == ["person", "drug", "score", "effect", "lower", "upper"]
    rows = PEOPLE.set_index("person").loc[batch["person"]]
    assert batch["drug"].tolist() == rows["drug"].tolist()
    where = PEOPLE.reset_index().set_index("person").loc[batch["person"], "index"]
    units = on_disk.pool.take(where.to_numpy())
    np.testing.assert_allclose(batch["effect"], on_disk.model.effect(units.x), rtol=1e-12)
    lower, upper = on_disk.model.effect_interval(units.x)
    np.testing.assert_allclose(batch[["lower", "upper"]].to_numpy().T, [lower, upper], rtol=1e-9)
    np.testing.assert_array_equal(batch["score"], on_disk.scores()[where])
    again = on_disk.choose(4, scores=on_disk.scores()).to_pandas()
    pd.testing.assert_frame_equal(again, batch)


def test_another_seed_another_batch(on_disk: ParquetRound, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"batch": "softmax", "temperature": 5.0}
    first, again = (on_disk.choose(6, **options)["person"].to_pylist() for _ in range(2))
    assert first == again
    monkeypatch.setattr(on_disk, "seed", 1)
    assert on_disk.choose(6, **options)["person"].to_pylist() != first


def test_models_of_few_draws_choose_by_softmax(tmp_path: Path) -> None:
    model = TarnetEnsemble(members=2, hidden=8, max_epochs=1)
    one_round = ParquetRound(open_pool(write(tmp_path / "pool.parquet")), results(), outcome="outcome", model=model)
    batch = one_round.choose(5)["person"].to_pylist()
    assert batch == one_round.choose(5, batch="softmax")["person"].to_pylist()
    scored: list[int] = []
    with pytest.raises(InputError, match="use batch='softmax'"):
        one_round.choose(5, batch="greedy", progress=lambda done, _: scored.append(done))
    assert not scored, "found before the pool is scored"


def test_scores_on_disk(on_disk: ParquetRound, tmp_path: Path) -> None:
    on_disk.save_scores(on_disk.scores(), tmp_path / "scores.parquet")
    saved = pd.read_parquet(tmp_path / "scores.parquet")
    assert saved["person"].tolist() == PEOPLE["person"].tolist()
    np.testing.assert_array_equal(saved["score"], on_disk.scores())


def test_random_scores_are_drawn_in_the_order_of_rows(on_disk: ParquetRound, monkeypatch: pytest.MonkeyPatch) -> None:
    def noise(posterior: Any, treatment: Any, *, rng: np.random.Generator) -> Any:
        return rng.normal(size=len(posterior))

    monkeypatch.setattr(_scoring, "CHUNK_UNITS", 100)
    np.testing.assert_array_equal(on_disk.scores(noise), generator(0, "choose").normal(size=UNITS))


@pytest.fixture
def two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def slow_name(_: int) -> str:
    sleep(0.01)
    return current_thread().name


def test_threads_keep_order_and_caps(two_threads: None) -> None:
    def work(item: int) -> tuple[int, int]:
        return item, torch.get_num_threads()

    assert list(in_threads(work, range(50))) == [(k, 1) for k in range(50)]
    assert torch.get_num_threads() == 2
    with one_thread():  # for the sake of sums, which do not depend on who works on a block
        names = set(in_threads(slow_name, range(20)))
    assert len(names) == 2
    assert torch.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda k: 1 / k, [1, 0, 1]))
    assert torch.get_num_threads() == 2


def test_caps_may_be_lifted_in_any_order(two_threads: None) -> None:
    inside, leave = Event(), Event()

    def other() -> None:
        with one_thread():
            inside.set()
            leave.wait()

    with ThreadPoolExecutor(1) as executor:
        with one_thread():
            later = executor.submit(other)
            inside.wait()
        assert torch.get_num_threads() == 2
        leave.set()
        later.result()
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(torch.get_num_threads).result() == 2


def test_twins_are_told_apart_by_the_seed_and_not_by_threads(two_threads: None) -> None:
    rng = np.random.default_rng(2)
    x, t = rng.integers(0, 3, size=(1200, 4)).astype(float), rng.integers(0, 2, 1200)
    model = GaussianProcess(max_iter=20).fit(x[:60, 0] + rng.normal(size=60), t[:60], X=x[:60], pool=x)

    def choose() -> Positions:
        left, seed = np.arange(60, 1200), np.random.default_rng(0)
        return pools.choose_batch(model, MemoryPool(x, t), "tau-vr", 8, available=left, rng=seed, batch="greedy")

    on_two = choose()
    torch.set_num_threads(1)
    np.testing.assert_array_equal(choose(), on_two)


def test_scores_do_not_depend_on_the_number_of_threads(
    on_disk: ParquetRound, monkeypatch: pytest.MonkeyPatch, two_threads: None
) -> None:
    monkeypatch.setattr(_scoring, "CHUNK_UNITS", 50)
    on_two = on_disk.scores()
    torch.set_num_threads(1)
    np.testing.assert_array_equal(on_two, on_disk.scores())


def test_a_scorer_needs_no_positions() -> None:
    """Blocks that hold targets score them as strangers; the targets' own scores make up for it."""
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(60, 5)), np.arange(60) % 2
    model = GaussianProcess(max_iter=3, sites=3).fit(x[:20, 0], t[:20], X=x[:20], pool=x)

    def from_joint_belief(posterior: Posterior, treatment: Any, *, population: acquisition.TargetPopulation) -> Any:
        targets = acquisition.TargetBelief.within(posterior, treatment, population)
        return acquisition.tau_vr(posterior, treatment, targets=targets)

    goal = acquisition.TargetPopulation.of(np.arange(30, 40), 60)
    score = Scorer.of(model, acquisition.load_score_function(from_joint_belief), MemoryPool(x, t), goal)
    expected = acquisition.score("tau-vr", model.posterior(x), t, population=goal)
    strangers = np.delete(np.arange(60), goal.positions)
    got = score(Block(x, t))
    np.testing.assert_allclose(got[strangers], expected[strangers], rtol=1e-9)
    np.testing.assert_allclose(score.target_scores(), expected[goal.positions], rtol=1e-9)
    assert (np.abs(got[goal.positions] - expected[goal.positions]) > 1e-6).any()


@pytest.mark.parametrize("name", ["tau-vr", "epig-tau", "epig-mu", "regret", "default"])
def test_links_to_targets_score_as_a_joint_belief_through_everyone_does(name: str) -> None:
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(60, 4)), np.arange(60) % 2
    model = GaussianProcess(max_iter=3, sites=60).fit(x[:20, 0] + rng.normal(size=20), t[:20], X=x[:20], pool=x)
    function, goal = (
        acquisition.load_score_function(name),
        acquisition.TargetPopulation.of(np.arange(30, 40), 60, rng.random(10), threshold=0.3),
    )
    score = Scorer.of(model, function, MemoryPool(x, t), goal)
    assert score.cross_belief is not None
    expected = acquisition.score(name, model.posterior(x), t, population=goal)
    np.testing.assert_allclose(score(Block(x, t)), expected, rtol=1e-5)
