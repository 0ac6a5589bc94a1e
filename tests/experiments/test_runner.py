"""Runs: nothing is lost, nothing is done twice, and neither workers, backends nor interruptions change a table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from causalbald.errors import InputError
from causalbald.experiments import (
    BenchmarkSettings,
    Plan,
    Store,
    TrialSpec,
    TrialState,
    _runner,
    run,
    run_trials,
    status_of,
)

PLAN = Plan(
    ("synthetic",),
    acquisitions=("random", "mu-pi-bald"),
    seeds=(0, 1),
    settings={"synthetic": BenchmarkSettings(10, 5, 3, {"pool": 200, "test": 50})},
    model_options={"gp": {"max_iter": 5}},
)
TOML = """
datasets = ["synthetic"]
acquisitions = ["random", "mu-pi-bald"]
seeds = 2
[settings.synthetic]
warm_start = 10
batch_size = 5
steps = 3
options = { pool = 200, test = 50 }
[model_options.gp]
max_iter = 5
"""


def without_seconds(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns=["seconds_fit", "seconds_score"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A run that nothing interrupted, with one worker."""
    folder = tmp_path_factory.mktemp("whole")
    calls: list[tuple[int, int]] = []
    outcome = run(PLAN.specs(), folder, progress=lambda *c: calls.append(c))
    assert (outcome.finished, outcome.skipped, outcome.failed) == (4, 0, [])
    assert calls[0] == (0, 16)
    assert calls[-1] == (16, 16)
    return Store(folder)


def test_first_seeds_of_everything_come_first() -> None:
    order = [(s.seed, s.acquisition) for s in PLAN.specs()]
    assert order == [(0, "random"), (0, "mu-pi-bald"), (1, "random"), (1, "mu-pi-bald")]


def test_run_again_does_nothing(whole: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runner, "local_pool", None)
    outcome = run(PLAN.specs(), whole.folder)
    assert (outcome.finished, outcome.skipped) == (0, 4)


def test_one_worker_unless_more_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []

    def refuse(workers: int) -> None:
        numbers.append(workers)
        raise KeyboardInterrupt

    monkeypatch.setattr(_runner, "local_pool", refuse)
    for start_run in (run, lambda specs, folder: _runner.PreparedRun.of(specs, folder).start()):
        with pytest.raises(KeyboardInterrupt):
            start_run(PLAN.specs(), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_trials(PLAN.specs())
    assert numbers == [1, 1, 1]


def test_two_workers_give_the_same_table(whole: Store, tmp_path: Path) -> None:
    assert run(PLAN.specs(), tmp_path, workers=2).finished == 4
    pd.testing.assert_frame_equal(without_seconds(Store(tmp_path).table()), without_seconds(whole.table()))


def test_a_trial_goes_on_where_it_was_cut_off(whole: Store, tmp_path: Path) -> None:
    """With one fit or three of four done, and in this process, where the fits can be counted."""
    spec = PLAN.specs()[1]
    expected = {s.key: state for s, state in whole.results()}[spec.key]
    propensity = whole.propensity(spec)
    assert propensity is not None
    for fits in (1, 3):
        state = TrialState(list(expected.rows[:fits]), [list(a) for a in expected.acquired[: fits + 1]])
        calls: list[tuple[int, int]] = []
        spec.run(propensity=propensity, state=state, progress=lambda *c, calls=calls: calls.append(c))
        assert calls == [(k, 4) for k in range(fits + 1, 5)]
        assert state.acquired == expected.acquired
        pd.testing.assert_frame_equal(without_seconds(state.table()), without_seconds(expected.table()))


def start(folder: Path, spec: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "causalbald", "run", str(spec), "--out", str(folder), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def wait_for_steps(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until some trial is half done."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        for path in (folder / "partial").glob("[!.]*.json"):
            try:
                if 1 <= len(json.loads(path.read_text())["rows"]) <= 3:
                    return
            except FileNotFoundError:
                continue
        time.sleep(0.01)
    raise AssertionError("the run ended, or nothing happened, before it could be interrupted")


def test_killed_in_the_middle_and_started_again(whole: Store, tmp_path: Path) -> None:
    spec, folder = tmp_path / "spec.toml", tmp_path / "out"
    spec.write_text(TOML)
    process = start(folder, spec, "--workers", "2")
    wait_for_steps(folder, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(Store(folder).results()) < 4
    assert start(folder, spec, "--workers", "1").wait(180) == 0
    pd.testing.assert_frame_equal(without_seconds(Store(folder).table()), without_seconds(whole.table()))
    assert not list((folder / "partial").glob("[!.]*.json"))


def test_workers_of_a_killed_run_end(tmp_path: Path) -> None:
    spec, folder = tmp_path / "spec.toml", tmp_path / "out"
    spec.write_text(TOML.replace("steps = 3", "steps = 30"))
    process = start(folder, spec, "--workers", "1")
    wait_for_steps(folder, process)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.2)
    raise AssertionError("a worker has outlived its run")


def test_a_failed_trial_is_reported_and_the_rest_is_run(tmp_path: Path) -> None:
    """A pool of 200 has no room for 60 steps."""
    good, bad = PLAN.specs()[0], replace(PLAN.specs()[2], steps=60)
    outcome = run([bad, good], tmp_path)
    assert outcome.finished == 1
    assert [spec for spec, _ in outcome.failed] == [bad]
    assert "pool has 200 units" in outcome.failed[0][1]
    store = Store(tmp_path)
    [(spec, error)] = store.failures()
    assert spec == bad
    assert "Traceback" in error
    status = status_of(tmp_path)
    assert status.rows[0].done == 1
    assert status.rows[0].failed == 1
    assert "pool has 200 units" in status.failed[0][1]
    assert run([bad], tmp_path).failed, "a failed trial is tried again"


def die_once(spec: TrialSpec, folder: str) -> TrialState:
    """End the process at the first attempt, and always where the seed is 1."""
    marker = Path(folder) / f"attempt-{spec.key}"
    if spec.seed == 1 or not marker.exists():
        marker.touch()
        os._exit(9)
    return spec.run()


def test_a_worker_that_dies_is_replaced_a_few_times(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_runner, "_run_stored", die_once)
    outcome = run([s for s in PLAN.specs() if s.acquisition == "random"], tmp_path)
    assert outcome.finished == 1
    [(spec, error)] = outcome.failed
    assert spec.seed == 1
    assert "process that ran it died" in error


def die_with_seed_0(spec: TrialSpec, folder: str) -> TrialState:
    if spec.seed == 0:
        os._exit(9)
    time.sleep(0.5)  # so that a process that dies finds the others at work
    return spec.run()


def test_a_worker_that_always_dies_takes_no_other_trial_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_runner, "_run_stored", die_with_seed_0)
    outcome = run(replace(PLAN, acquisitions=("random",), seeds=(0, 1, 2)).specs(), tmp_path, workers=3)
    assert outcome.finished == 2
    assert [spec.seed for spec, _ in outcome.failed] == [0]


def test_files_that_workers_remove_are_no_error(whole: Store, tmp_path: Path) -> None:
    """Progress and status look at the files of trials that are finishing at that moment."""
    spec, state = whole.results()[0]
    store, stop = Store(tmp_path).open(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            store.keep(spec, state)
            store.fail(spec, "an error")
            store.finish(spec, state)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(3000):
            assert len(store.state(spec).rows) in (0, len(state.rows))
            assert len(store.failures()) <= 1
    finally:
        stop.set()
        worker.join()


def plan_one(folder: Path, seed: int) -> None:
    Store(folder).plan([replace(PLAN.specs()[0], seed=seed)])


def test_runs_that_start_at_once_forget_no_plan_of_each_other(tmp_path: Path) -> None:
    Store(tmp_path).open()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda seed: plan_one(tmp_path, seed), range(40)))
    assert sorted(spec.seed for spec in Store(tmp_path).planned()) == list(range(40))


def test_propensity_is_fitted_once_per_data_set_and_seed(whole: Store) -> None:
    stored = sorted(p.stem for p in (whole.folder / "propensity").iterdir())
    assert stored == sorted({spec.data_key for spec in PLAN.specs()})
    assert len(stored) == 2


def test_keys_tell_trials_apart() -> None:
    spec = PLAN.specs()[0]
    changes: list[dict[str, Any]] = [
        {"seed": 7},
        {"track": "paper"},
        {"model_options": {}},
        {"preset": "ihdp"},
        {"dataset_options": {"pool": 201}},
        {"temperature": 1.0},
    ]
    keys = {spec.key, *(replace(spec, **change).key for change in changes)}
    assert len(keys) == 7
    assert replace(spec).key == spec.key
    assert replace(spec, temperature=1).key == replace(spec, temperature=1.0).key
    assert replace(spec, dataset_options={"pool": 200.0, "test": 50}).key == spec.key
    assert spec.arguments()["batch"] == "softmax", "also without the package that knows the function"
    assert TrialSpec(**spec.arguments()) == spec
    assert "temperature" not in spec.arguments()
    assert spec.data_key != replace(spec, seed=7).data_key
    assert spec.data_key == replace(spec, model="due").data_key


def test_packed_trials_are_known_and_read(whole: Store, tmp_path: Path) -> None:
    run(PLAN.specs()[:2], tmp_path)
    store = Store(tmp_path)
    before, acquired = store.table(), store.acquired(PLAN.specs()[0])
    assert store.pack() == 2
    assert not list((tmp_path / "trials").glob("[!.]*"))
    assert sorted(p.name for p in (tmp_path / "tables").iterdir()) == ["acquired.csv", "synthetic-gp-paid.csv"]
    pd.testing.assert_frame_equal(Store(tmp_path).table(), before, rtol=1e-4, check_dtype=False)
    assert Store(tmp_path).acquired(PLAN.specs()[0]) == acquired
    outcome = run(PLAN.specs(), tmp_path)
    assert (outcome.finished, outcome.skipped) == (2, 2)
    table = Store(tmp_path).table()
    pd.testing.assert_frame_equal(without_seconds(table), without_seconds(whole.table()), rtol=1e-4, check_dtype=False)
    assert Store(tmp_path).pack() == 2
    pd.testing.assert_frame_equal(Store(tmp_path).table(), table, rtol=1e-4, check_dtype=False)
    with pytest.raises(InputError, match="another seed"):
        Store(tmp_path).acquired(PLAN.specs()[2])


def test_names_that_would_share_a_file_are_packed_side_by_side(whole: Store, tmp_path: Path) -> None:
    store = Store(tmp_path).open()
    spec, state = whole.results()[0]
    for dataset, model in (("a-b", "c"), ("a", "b-c")):
        store.finish(replace(spec, dataset=dataset, model=model), state)
    assert store.pack() == 2
    assert len(Store(tmp_path).table()) == 2 * len(state.rows)


def test_a_damaged_file_is_named(whole: Store, tmp_path: Path) -> None:
    run(PLAN.specs()[:1], tmp_path)
    [path] = (tmp_path / "trials").glob("*.json")
    path.write_text(path.read_text()[:100])
    with pytest.raises(InputError, match=rf"{path.name}.*delete it"):
        Store(tmp_path).table()


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished trials"):
        Store(tmp_path).table()
    with pytest.raises(InputError, match="nothing was planned"):
        status_of(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        run(PLAN.specs(), tmp_path / "file")
    for options in ({"workers": 0}, {"backend": "slurm"}):
        with pytest.raises(InputError, match=next(iter(options))):
            run(PLAN.specs(), tmp_path, **options)


def test_status_says_what_is_left(whole: Store) -> None:
    store = Store(whole.folder)
    more = replace(PLAN, seeds=(0, 1, 2))
    store.plan(more.specs())
    status = status_of(whole.folder, workers=2)
    assert [asdict(row) for row in status.rows] == [
        {
            "dataset": "synthetic",
            "model": "gp",
            "track": "paid",
            "done": 4,
            "failed": 0,
            "started": 0,
            "left": 2,
            "core_hours": 0.0,
            "minutes_left": pytest.approx(status.rows[0].minutes_left),
        }
    ]
    table = whole.table()
    per_fit = np.mean(table["seconds_fit"] + table["seconds_score"])
    assert status.hours_left == pytest.approx(2 * 4 * per_fit / 2 / 3600)
    assert status.unknown == 0
    store.plan(replace(more, models=("due",), seeds=(0,)).specs())
    again = status_of(whole.folder, workers=2)
    assert (again.hours_left, again.unknown) == (status.hours_left, 2)
    assert again.rows[1].model == "due"
    assert again.rows[1].minutes_left is None
