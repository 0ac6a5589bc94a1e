"""A pool on disk scored by a real Ray cluster on this machine: the same scores and the same batch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from causalbald.errors import CausalBaldError, InputError
from causalbald.pools import ParquetRound, _parquet, _population
from tests.experiments.test_ray import cluster
from tests.pools.test_pool_input import with_cell
from tests.pools.test_pools_on_disk import PEOPLE, UNITS, WHO, open_pool, results, small, write

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
__all__ = ["cluster"]


@pytest.fixture
def one_round(tmp_path: Path) -> ParquetRound:
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(3):
        part = PEOPLE.assign(matters=1.0 + np.arange(UNITS) % 3).iloc[200 * k : 200 * (k + 1)]
        write(folder / f"{k}.parquet", part, rows=30)
    pool = open_pool(folder, exclude=["matters", "site"])
    return ParquetRound(pool, results(), outcome="outcome", model=small(), weight="matters")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["mu-pi-bald", "tau-vr"])
def test_same_scores_and_batch_as_on_this_machine(
    cluster: None, one_round: ParquetRound, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        _population, "MAX_EXACT_TARGETS", 100
    )  # so that a sample stands for everyone, and weights count apart
    seen: list[int] = []
    scores = one_round.scores(name, backend="ray", progress=lambda done, _: seen.append(done))
    assert seen[-1] == UNITS
    np.testing.assert_allclose(scores, one_round.scores(name), rtol=0, atol=1e-9)
    options: dict[str, Any] = {"batch": "softmax", "temperature": 1.0}
    batch, expected = one_round.choose(6, name, scores=scores, **options), one_round.choose(6, name, **options)
    assert batch["person"].to_pylist() == expected["person"].to_pylist()


@pytest.mark.filterwarnings("ignore")
def test_a_task_that_fails_is_one_line(cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parquet, "SAMPLE_UNITS", 50)
    unseen = np.setdiff1d(np.arange(UNITS), open_pool(write(tmp_path / "a.parquet")).sampled)
    people = with_cell("dose", int(np.setdiff1d(unseen, WHO)[0]), np.inf)
    pool = open_pool(write(tmp_path / "b.parquet", people))
    with pytest.raises(CausalBaldError, match=r"Ray cluster failed \(.*'dose' has an infinite value") as error:
        ParquetRound(pool, results(), outcome="outcome", model=small()).scores("mu-rho-bald", backend="ray")
    assert "\n" not in str(error.value)


def test_random_scores_stay_here(one_round: ParquetRound) -> None:
    def noise(posterior: Any, treatment: Any, *, rng: np.random.Generator) -> Any:
        return rng.normal(size=len(posterior))

    with pytest.raises(InputError, match="'noise' draws at random, row after row: use backend 'local'"):
        one_round.scores(noise, backend="ray")


def test_rows_that_are_missing_or_in_another_order_are_noticed(
    one_round: ParquetRound, monkeypatch: pytest.MonkeyPatch
) -> None:
    from causalbald.pools import _cluster as module

    class Shuffled:
        def __init__(self, arm: Any) -> None:
            self.arm = arm

        def __getattr__(self, _: str) -> Any:
            return lambda *arguments, **options: self

        def iter_batches(self, **_: Any) -> Iterator[Any]:
            yield pa.table({"score": np.zeros(len(self.arm)), "arm": self.arm})

    monkeypatch.setattr(module, "ray_pool", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(ray.data, "read_parquet", lambda *_, **__: Shuffled(one_round.pool.arm[::-1]))
    with pytest.raises(CausalBaldError, match="in another order"):
        one_round.scores("mu-rho-bald", backend="ray")
    monkeypatch.setattr(ray.data, "read_parquet", lambda *_, **__: Shuffled(one_round.pool.arm[:200]))
    with pytest.raises(CausalBaldError, match="200 of 600 rows"):
        one_round.scores("mu-rho-bald", backend="ray")


@pytest.mark.filterwarnings("ignore")
def test_files_that_ray_reads_in_another_way_are_left_to_this_machine(cluster: None, tmp_path: Path) -> None:
    folder = tmp_path / "pool"
    folder.mkdir()
    write(folder / "a.parquet", PEOPLE.iloc[:300].assign(city=PEOPLE["city"].iloc[:300].astype("category")))
    write(folder / "b.parquet", PEOPLE.iloc[300:])
    one_round = ParquetRound(open_pool(folder), results(), outcome="outcome", model=small())
    with pytest.raises(InputError, match=r"Ray cannot read these files as one table .*: use backend 'local'"):
        one_round.scores("mu-rho-bald", backend="ray")
    assert len(one_round.scores("mu-rho-bald")) == UNITS
