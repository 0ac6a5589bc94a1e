"""Run many trials: skip finished ones, resume interrupted ones, and never let one failure stop the others."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import pandas as pd

from causalbald import acquisition as acq
from causalbald._choices import Backend
from causalbald._validation import check_choice, check_int
from causalbald._workers import Lost, WorkerPool, local_pool, ray_pool
from causalbald.experiments._packed import named_table
from causalbald.experiments._spec import TrialSpec
from causalbald.experiments._state import TrialState
from causalbald.experiments._store import Store
from causalbald.experiments._trial import fit_propensity, needs_estimated_propensity

Progress = Callable[[int, int], None]
"""Called with (fits done, fits in all)."""
POLL_SECONDS = 1.0
"""How long to wait for the end of a trial before progress is reported again."""
MAX_ATTEMPTS = 3
"""How often a trial whose process dies is tried in all."""


@dataclass
class TrialResult:
    """What a run did.

    Parameters
    ----------
    finished : int
        Number of trials that the run finished.
    skipped : int
        Number of trials that were finished before the run.
    failed : list of (TrialSpec, str)
        Trials that failed in the run, each with the type and the message of its error.

    Examples
    --------
    >>> from causalbald.experiments import TrialResult
    >>> TrialResult(finished=3, skipped=1).failed
    []
    """

    finished: int = 0
    skipped: int = 0
    failed: list[tuple[TrialSpec, str]] = field(default_factory=list)


@dataclass(frozen=True)
class PreparedRun:
    """The trials of a run, and which of them are left. Nothing is written or fitted until :meth:`start`.

    Parameters
    ----------
    store : Store
        The folder of results.
    specs : list of TrialSpec
        All trials, each once.
    left : list of TrialSpec
        The trials that had no result when the run was prepared.

    Examples
    --------
    >>> from causalbald.experiments import PreparedRun, Store, TrialSpec
    >>> spec = TrialSpec("synthetic", "random", 8, 4, 1, seed=0)
    >>> prepared = PreparedRun.of([spec, spec], "a-folder-that-does-not-exist")
    >>> len(prepared.specs), len(prepared.left)
    (1, 1)
    """

    store: Store
    specs: list[TrialSpec]
    left: list[TrialSpec]

    @classmethod
    def of(cls, specs: Iterable[TrialSpec], folder: str | Path) -> PreparedRun:
        """Return the trials, and which of them have no result in ``folder`` yet. Writes nothing.

        Parameters
        ----------
        specs : iterable of TrialSpec
            The trials. Repeated trials count once.
        folder : path
            Where results are kept. It need not exist.

        Returns
        -------
        PreparedRun

        Raises
        ------
        InputError
            If a packed table in the folder is damaged.
        """
        store, distinct = Store(folder), list({spec.key: spec for spec in specs}.values())
        return cls(store, distinct, [spec for spec in distinct if not store.is_done(spec)])

    def changed_plugins(self) -> int:
        """Return how many of the trials that are left have a result of an older version of a plugin.

        Returns
        -------
        int
        """
        left = {spec.settings_key for spec in self.left}
        return len({spec.settings_key for spec in self.store.older()} & left)

    def start(
        self,
        *,
        workers: int = 1,
        backend: Backend = "local",
        ray_address: str | None = None,
        progress: Progress | None = None,
    ) -> TrialResult:
        """Write the plan into the folder, run the trials that are left, and keep each result there.

        The plan is written before the first trial starts, also if no trial is left. A trial that fails does not stop
        the run: the error is kept in the folder and returned.

        Parameters
        ----------
        workers, backend, ray_address, progress
            As for :func:`run`.

        Returns
        -------
        TrialResult
            How many trials were finished and skipped, and which failed.

        Raises
        ------
        InputError
            As for :func:`run`.
        """
        check_int(workers, "workers", low=1)
        check_choice(backend, "backend", get_args(Backend))
        self.store.open().plan(self.specs)
        result = TrialResult(skipped=len(self.specs) - len(self.left))
        count = _FitCount(self, progress)
        if self.left:
            pool = local_pool(workers) if backend == "local" else ray_pool(workers, ray_address)
            with pool:
                for spec, outcome in _outcomes(pool, self.left, self.store, count):
                    self._keep(spec, outcome, result)
                    count.add(spec)
        return result

    def _keep(self, spec: TrialSpec, outcome: object, result: TrialResult) -> None:
        """Write into the folder how a trial ended, and change ``result`` in place. Called by :meth:`start`.

        ``outcome`` is the trial's last TrialState, or the exception that the trial raised.
        """
        if isinstance(outcome, TrialState):
            if not self.store.is_done(spec):  # a worker that does not see the folder could not write
                self.store.finish(spec, outcome)
            result.finished += 1
        elif isinstance(outcome, BaseException):
            self.store.fail(spec, "".join(traceback.format_exception(outcome)))
            result.failed.append((spec, f"{type(outcome).__name__}: {outcome}"))


def run(
    specs: Iterable[TrialSpec],
    folder: str | Path,
    *,
    workers: int = 1,
    backend: Backend = "local",
    ray_address: str | None = None,
    progress: Progress | None = None,
) -> TrialResult:
    """Run the trials that have no result in ``folder`` yet, and keep each result there.

    The plan is written into the folder first. A trial that was interrupted continues after its last finished fit, with
    the same result as an uninterrupted one. A trial that fails does not stop the others: its error is kept in the
    folder, and the next run tries the trial again.

    Parameters
    ----------
    specs : iterable of TrialSpec
        The trials.
    folder : path
        Created if it does not exist. On a cluster, all nodes should see the folder: otherwise interrupted trials start
        again.
    workers : int
        How many processes run trials on this machine; with ``ray``, how many trials are sent at a time.
    backend : "local" or "ray"
        Where trials run.
    ray_address : str, optional
        Address of a Ray cluster. By default, a cluster is started on this machine. Ignored by ``local``.
    progress : callable, optional
        Called with (fits done, fits in all): at once, and then about every second. A failed trial counts as done.

    Returns
    -------
    TrialResult

    Raises
    ------
    InputError
        If ``workers`` is below 1 or ``backend`` is unknown; if the folder is a file, or has a finished trial with the
        same name and other settings; or if Ray is not installed or no cluster answers at the address.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from causalbald.experiments import TrialSpec, run
    >>> with TemporaryDirectory() as folder:
    ...     run([], folder)
    TrialResult(finished=0, skipped=0, failed=[])
    """
    prepared = PreparedRun.of(specs, folder)
    return prepared.start(workers=workers, backend=backend, ray_address=ray_address, progress=progress)


def run_trials(specs: Iterable[TrialSpec], *, workers: int = 1, progress: Progress | None = None) -> list[pd.DataFrame]:
    """Run trials without keeping files, and return their tables.

    Parameters
    ----------
    specs : iterable of TrialSpec
        The trials.
    workers, progress
        As for :func:`run`.

    Returns
    -------
    list of DataFrame
        In the order of ``specs``, with the columns of :meth:`Store.table`.

    Raises
    ------
    InputError
        If ``workers`` is below 1.
    RuntimeError
        If a trial fails. It is raised after all trials have ended, and their tables are lost.

    Examples
    --------
    >>> from causalbald.experiments import run_trials
    >>> run_trials([])
    []
    """
    plan = list(specs)
    with TemporaryDirectory() as folder:
        result = run(plan, folder, workers=workers, progress=progress)
        if result.failed:
            spec, error = result.failed[0]
            raise RuntimeError(f"{len(result.failed)} of {len(plan)} trials failed, first {spec}: {error}")
        tables = {spec.key: named_table(spec, state) for spec, state in Store(folder).results()}
        return [tables[spec.key] for spec in plan]


def _run_stored(spec: TrialSpec, folder: str) -> TrialState:
    """Run a trial from where its file says that it stopped, and return its last state. Called in the worker processes.

    Each fit replaces the trial's file, and the result replaces that file at the end. If the trial needs estimated
    propensities, they are fitted once for all trials on the same data, and kept in the folder.
    On a machine that does not see the folder, the trial starts anew and writes nothing.
    """
    store = Store(folder)
    if not store.folder.is_dir():
        return spec.run()
    benchmark, propensity = spec.load(), None
    if needs_estimated_propensity(benchmark.pool, acq.load(spec.acquisition)):
        propensity = store.propensity_or(spec, lambda: fit_propensity(benchmark.pool, spec.seed))
    state = store.state(spec)
    spec.run(benchmark=benchmark, propensity=propensity, state=state, progress=lambda *_: store.keep(spec, state))
    store.finish(spec, state)
    return state


def _outcomes(
    pool: WorkerPool, specs: list[TrialSpec], store: Store, count: _FitCount
) -> Iterator[tuple[TrialSpec, object]]:
    """Yield each trial as it ends, with its last state or the exception that it raised. Called by ``start``.

    A trial whose process died is tried again, ``MAX_ATTEMPTS`` times in all. The last attempt is made alone, when no
    other trial runs: a process that dies ends all other processes of this machine too, and their trials must not be
    blamed. ``count`` reports progress at least every ``POLL_SECONDS``.
    """
    attempts = dict.fromkeys((spec.key for spec in specs), 0)
    waiting, alone, running = list(reversed(specs)), list[TrialSpec](), dict[Future[object], TrialSpec]()
    while waiting or alone or running:
        while (waiting and len(running) < pool.workers) or (alone and not running):
            spec = waiting.pop() if waiting else alone.pop(0)
            attempts[spec.key] += 1
            running[pool.submit(_run_stored, spec, str(store.folder.resolve()))] = spec
        ended, _ = wait(running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
        for future in ended:
            spec, error = running.pop(future), future.exception()
            if isinstance(error, Lost) and attempts[spec.key] < MAX_ATTEMPTS:
                (alone if attempts[spec.key] == MAX_ATTEMPTS - 1 else waiting).append(spec)
            else:
                yield spec, error if error is not None else future.result()
        count.show(running.values())


class _FitCount:
    """Reports how many fits are done: all fits of ended trials, and the fits in the files of running trials.

    The files are read because worker processes and the nodes of a cluster share nothing else with this process.
    """

    def __init__(self, prepared: PreparedRun, progress: Progress | None) -> None:
        """Report at once the fits of trials that were finished before the run."""
        self._store, self._progress = prepared.store, progress
        self._total = sum(spec.steps + 1 for spec in prepared.specs)
        self._done = self._total - sum(spec.steps + 1 for spec in prepared.left)
        self.show([])

    def add(self, spec: TrialSpec) -> None:
        """Count all fits of a trial that has ended, also if it failed. Reports nothing."""
        self._done += spec.steps + 1

    def show(self, running: Iterable[TrialSpec]) -> None:
        """Call ``progress``, if there is one, with the fits done and the fits in all.

        ``running`` are the trials whose files are read.
        """
        if self._progress is not None:
            self._progress(self._done + sum(len(self._store.state(spec).rows) for spec in running), self._total)
