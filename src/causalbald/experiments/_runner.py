"""Run many trials: skip what is done, go on where something was cut off, never let one failure stop the rest."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pandas as pd

from causalbald import acquisition as acq
from causalbald._typing import Array
from causalbald._validation import check_choice, check_int
from causalbald._workers import Lost, WorkerPool, local_pool, ray_pool
from causalbald.errors import InputError
from causalbald.experiments._packed import named_table
from causalbald.experiments._spec import TrialSpec
from causalbald.experiments._store import Store
from causalbald.experiments._trial import TrialState, fit_propensity

Backend = Literal["local", "ray"]
Progress = Callable[[int, int], None]
_POLL_SECONDS = 1.0
_ATTEMPTS = 3


@dataclass
class TrialResult:
    """What a run did: trials finished now, found finished, and failed with the reason."""

    finished: int = 0
    skipped: int = 0
    failed: list[tuple[TrialSpec, str]] = field(default_factory=list)


def run(
    specs: Iterable[TrialSpec],
    folder: str | Path,
    *,
    workers: int = 1,
    backend: Backend = "local",
    ray_address: str | None = None,
    progress: Progress | None = None,
) -> TrialResult:
    """Run the trials whose results are not in ``folder`` yet, and keep each result there.

    A trial that was cut off goes on after its last finished fit, with the same result as an uninterrupted one. A
    trial that fails is noted and tried again by the next run.

    Parameters
    ----------
    specs : iterable of TrialSpec
    folder : path
        Made if it is not there. On a cluster: a folder that all nodes see, otherwise trials that were cut off
        start again.
    workers : int
        Processes on this machine; with ``ray``, how many trials are sent at a time at most.
    backend : "local" or "ray"
    ray_address : str, optional
        Of a Ray cluster; by default one is started on this machine.
    progress : callable, optional
        Called with (fits done, fits in all).
    """
    check_int(workers, "workers", low=1)
    check_choice(backend, "backend", ("local", "ray"))
    plan = list({spec.key: spec for spec in specs}.values())
    store = Store(folder)
    _check_beside(store, plan)
    store.open().plan(plan)
    left = [spec for spec in plan if not store.is_done(spec)]
    outcome = TrialResult(skipped=len(plan) - len(left))
    bar = _Bar(plan, left, store, progress)
    if left:
        pool = local_pool(workers) if backend == "local" else ray_pool(workers, ray_address)
        with pool:
            _run_all(pool, left, store, outcome, bar)
    return outcome


def _check_beside(store: Store, plan: list[TrialSpec]) -> None:
    """Refuse trials that tables could not tell from those that the folder has already."""
    done = {tuple(spec.names.values()): spec for spec in store.planned() if store.is_done(spec)}
    for spec in plan:
        other = done.get(tuple(spec.names.values()), spec)
        own, theirs = spec.settings, other.settings  # versions of plugins are told apart
        if own != theirs:
            changed = "; ".join(f"{k} {theirs[k]!r}, now {own[k]!r}" for k in own if own[k] != theirs[k])
            raise InputError(
                f"{str(store.folder)!r} has a trial of {spec} already, with other settings ({changed}). Tables could "
                "not tell them apart: choose another folder."
            )


def _run_all(pool: WorkerPool, left: list[TrialSpec], store: Store, outcome: TrialResult, bar: _Bar) -> None:
    for spec, values in _each(pool, _propensity, _first_on_data(left, store), store, bar):
        if isinstance(values, np.ndarray) and store.propensity(spec) is None:
            store.keep_propensity(spec, values)  # a worker that does not see the folder could not
    for spec, state in _each(pool, _trial, left, store, bar):
        if isinstance(state, TrialState):
            if not store.is_done(spec):
                store.finish(spec, state)
            outcome.finished += 1
        else:
            message = "".join(traceback.format_exception(state))
            store.fail(spec, message)
            outcome.failed.append((spec, f"{type(state).__name__}: {state}"))
        bar.done(spec)


def _each(
    pool: WorkerPool, work: Callable[..., object], specs: list[TrialSpec], store: Store, bar: _Bar
) -> Iterator[tuple[TrialSpec, Any]]:
    """Yield each spec with what ``work`` returned, or the exception that it raised, as they come.

    Work whose process died is given to another one, a few times; the last time when all others are done, by itself:
    a process that dies takes all of this machine's with it, and their work must not be blamed for it.
    """
    attempts = dict.fromkeys((spec.key for spec in specs), 0)
    waiting, alone, running = list(reversed(specs)), list[TrialSpec](), dict[Future[object], TrialSpec]()
    while waiting or alone or running:
        while (waiting and len(running) < pool.workers) or (alone and not running):
            spec = waiting.pop() if waiting else alone.pop(0)
            attempts[spec.key] += 1
            running[pool.submit(work, spec, str(store.folder.resolve()))] = spec
        finished, _ = wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        for future in finished:
            spec, error = running.pop(future), future.exception()
            if isinstance(error, Lost) and attempts[spec.key] < _ATTEMPTS:
                (alone if attempts[spec.key] == _ATTEMPTS - 1 else waiting).append(spec)
            else:
                yield spec, error if error is not None else future.result()
        bar.show(running.values())


def _first_on_data(specs: list[TrialSpec], store: Store) -> list[TrialSpec]:
    """Return a trial for each data set and seed whose propensities are not here yet: one that needs them, if any."""
    needing = sorted(specs, key=lambda spec: "propensity" in acq.load(spec.acquisition).needs)
    return [spec for spec in {spec.data_key: spec for spec in needing}.values() if store.propensity(spec) is None]


def _propensity(spec: TrialSpec, folder: str) -> Array | None:
    """Fit and keep the propensities of a trial's pool, unless the trial does without."""
    store, pool = Store(folder), spec.load().pool
    if pool.propensity is not None and "propensity" not in acq.load(spec.acquisition).needs:
        return None
    values = fit_propensity(pool, spec.seed)
    if store.folder.is_dir():
        store.keep_propensity(spec, values)
    return values


def _trial(spec: TrialSpec, folder: str) -> TrialState:
    store = Store(folder)
    if not store.folder.is_dir():
        return spec.run()
    state, propensity = store.state(spec), store.propensity(spec)
    spec.run(propensity=propensity, state=state, progress=lambda *_: store.keep(spec, state))
    store.finish(spec, state)
    return state


class _Bar:
    """Counts fits: of finished trials, and of running ones from what they have put on disk."""

    def __init__(self, plan: list[TrialSpec], left: list[TrialSpec], store: Store, progress: Progress | None) -> None:
        self._store, self._progress = store, progress
        self._total = sum(spec.steps + 1 for spec in plan)
        self._done = self._total - sum(spec.steps + 1 for spec in left)
        self.show([])

    def done(self, spec: TrialSpec) -> None:
        self._done += spec.steps + 1

    def show(self, running: Iterable[TrialSpec]) -> None:
        if self._progress is not None:
            self._progress(self._done + sum(len(self._store.state(spec).rows) for spec in running), self._total)


def run_trials(specs: Iterable[TrialSpec], *, workers: int = 1, progress: Progress | None = None) -> list[pd.DataFrame]:
    """Run trials without keeping files and return their tables in the order of ``specs``, with naming columns."""
    plan = list(specs)
    with TemporaryDirectory() as folder:
        outcome = run(plan, folder, workers=workers, progress=progress)
        if outcome.failed:
            spec, error = outcome.failed[0]
            raise RuntimeError(f"{len(outcome.failed)} of {len(plan)} trials failed, first {spec}: {error}")
        found = {spec.key: named_table(spec, state) for spec, state in Store(folder).results()}
        return [found[spec.key] for spec in plan]
