"""A real Ray cluster on this machine: the same tables, and a killed worker loses nothing."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from causalbald.errors import InputError
from causalbald.experiments import BenchmarkSettings, Plan, Store, TrialSpec, TrialState, _runner, run

ray = pytest.importorskip("ray")

PLAN = Plan(
    ("synthetic",),
    acquisitions=("random", "mu-pi-bald"),
    settings={"synthetic": BenchmarkSettings(10, 5, 3, {"pool": 200, "test": 50})},
    model_options={"gp": {"max_iter": 5}},
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setenv("RAY_worker_niceness", "0")  # by default workers wait for everything else on the machine
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()


def killing(spec: TrialSpec, folder: str) -> TrialState:
    """Run a trial; the first attempt kills its own process after two fits, as the system would."""
    store, marker = Store(folder), Path(folder) / f"killed-{spec.key}"

    def progress(done: int, _: int) -> None:
        store.keep(spec, state)
        if done == 2 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    state = store.state(spec)
    assert marker.exists() == bool(state.rows)
    spec.run(propensity=store.propensity(spec), state=state, progress=progress)
    store.finish(spec, state)
    return state


@pytest.mark.filterwarnings("ignore")
def test_same_tables_as_in_this_process_though_every_worker_is_killed_once(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = PLAN.specs()
    expected = {spec.key: spec.run(propensity=None) for spec in specs}
    assert run(specs, tmp_path / "whole", workers=2, backend="ray").finished == 2
    monkeypatch.setattr(_runner, "_run_stored", killing)
    outcome = run(specs, tmp_path / "killed", workers=2, backend="ray")
    assert (outcome.finished, outcome.failed) == (2, [])
    assert len(list((tmp_path / "killed").glob("killed-*"))) == 2
    for folder in ("whole", "killed"):
        for spec, state in Store(tmp_path / folder).results():
            assert state.acquired == expected[spec.key].acquired
            drop = ["seconds_fit", "seconds_score"]
            pd.testing.assert_frame_equal(
                state.table().drop(columns=drop), expected[spec.key].table().drop(columns=drop), check_exact=True
            )


def test_no_cluster_at_the_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)

    def refuse(**_: object) -> None:
        raise ConnectionError("refused")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(InputError, match=r"no Ray cluster at '10\.0\.0\.1:6379': refused"):
        run(PLAN.specs(), tmp_path, backend="ray", ray_address="10.0.0.1:6379")
