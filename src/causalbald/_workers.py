"""Where trials run: on processes of this machine, or on a Ray cluster. Both return futures."""

from __future__ import annotations

import logging
import multiprocessing
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol, Self

from causalbald._addresses import masked, without_passwords
from causalbald._registry import PLUGINS_VARIABLE
from causalbald.errors import CausalBaldError, InputError

_PASSED_ON = (PLUGINS_VARIABLE, "CAUSALBALD_DATA")  # environment variables that workers get
_ANSWER_SECONDS = 5.0  # that a cluster may take to answer


class Lost(CausalBaldError, RuntimeError):
    """The process that did the work died."""


class WorkerPool(Protocol):
    """Runs functions elsewhere, within ``with pool:``. A future whose process died raises :class:`Lost`."""

    workers: int

    def submit(self, work: Callable[..., object], *arguments: object) -> Future[object]:
        """Start work and return its future."""
        ...

    def __enter__(self) -> Self:
        """Get ready for work. Call ``submit`` only within the context."""
        ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Stop the workers."""
        ...


class local_pool:
    """A :class:`WorkerPool` of up to ``workers`` processes on this machine.

    If a process dies, the futures of all unfinished work raise :class:`Lost`. The next work gets new processes.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def __enter__(self) -> Self:
        """Return the pool; processes start with the first work."""
        self._executor = self._new()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Wait until started work is done, and cancel the rest. After an error or an interrupt, kill the processes."""
        if kind is not None:
            for process in list((self._executor._processes or {}).values()):
                process.kill()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def submit(self, work: Callable[..., object], *arguments: object) -> Future[object]:
        """Start work in one of the processes, and return its future."""
        try:
            inner = self._executor.submit(work, *arguments)
        except BrokenProcessPool:
            self._executor.shutdown(wait=False)
            self._executor = self._new()
            inner = self._executor.submit(work, *arguments)
        return _relay(inner, BrokenProcessPool)

    def _new(self) -> ProcessPoolExecutor:
        """Return processes that have not started yet."""
        # A fork server imports the heavy libraries once for all workers.
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(method)
        if method == "forkserver":
            context.set_forkserver_preload([__name__, "causalbald.experiments._runner"])
        return ProcessPoolExecutor(
            self.workers, mp_context=context, initializer=_start_worker, initargs=(_environment(),)
        )


def _environment() -> dict[str, str]:
    """Return the environment variables that workers get."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


def _start_worker(environment: dict[str, str]) -> None:
    """Set environment variables, and end this process when its parent ends, even if the parent is killed."""
    os.environ.update(environment)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        """End this process after its parent."""
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def check_address(address: str | None) -> None:
    """Raise InputError if no cluster answers at an address; Ray itself would try for many minutes.

    None, and addresses without a port, such as "auto", pass unchecked.
    """
    host, separator, port = (address or "").removeprefix("ray://").rpartition(":")
    if not separator or not port.isdigit():
        return  # no address, or a word that Ray looks up, such as "auto"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
    except OSError as error:
        raise InputError(f"no Ray cluster at {masked(address or '')!r}: {error.strerror or error}.") from None


class ray_pool:
    """A :class:`WorkerPool` of tasks on a Ray cluster, one CPU each.

    If Ray is connected already, its cluster is used. Otherwise the cluster is at ``address``; None starts a new cluster
    of ``workers`` CPUs on this machine.
    """

    def __init__(self, workers: int, address: str | None) -> None:
        """Raise InputError if Ray is not installed."""
        try:
            import ray
        except ImportError as error:
            raise InputError('--backend ray needs Ray: pip install "causalbald[ray]".') from error
        self.workers, self._address, self._ray = workers, address, ray

    def __enter__(self) -> Self:
        """Connect to the cluster, or start one, unless Ray is connected already. InputError if that fails."""
        environment = _environment()
        options: dict[str, Any] = {"runtime_env": {"env_vars": environment}} if environment else {}
        if self._address is None:
            options |= {"num_cpus": self.workers, "include_dashboard": False}
        self._started = not self._ray.is_initialized()
        if self._started:
            check_address(self._address)
            try:
                self._ray.init(
                    address=self._address or "local", log_to_driver=False, logging_level=logging.ERROR, **options
                )
            except (ConnectionError, RuntimeError, ValueError) as error:
                where, reason = masked(self._address or ""), without_passwords(str(error), [self._address or ""])
                raise InputError(f"no Ray cluster at {where!r}: {reason}") from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Leave the cluster, unless Ray was connected before; a cluster that was started here ends."""
        if self._started:
            self._ray.shutdown()

    def submit(self, work: Callable[..., object], *arguments: object) -> Future[object]:
        """Start a task, and return its future. The task is not tried again if its process dies."""
        task = self._ray.remote(num_cpus=1, max_retries=0)(work)
        exceptions = self._ray.exceptions
        lost = (exceptions.WorkerCrashedError, exceptions.NodeDiedError, exceptions.OutOfMemoryError)
        return _relay(task.remote(*arguments).future(), lost)


def _relay(inner: Future[Any], lost: type[BaseException] | tuple[type[BaseException], ...]) -> Future[object]:
    """Return a future with the result or the exception of ``inner``.

    Exceptions of the types ``lost`` become :class:`Lost`. An exception that Ray has wrapped is unwrapped.
    """
    outer: Future[object] = Future()

    def copy(done: Future[Any]) -> None:
        """Pass on a result or an exception when it is there."""
        error = done.exception()
        if isinstance(error, lost):
            outer.set_exception(
                Lost("the process that ran it died: killed, out of memory, or the script has no `__name__` guard.")
            )
        elif error is not None:
            outer.set_exception(getattr(error, "cause", None) or error)
        else:
            outer.set_result(done.result())

    inner.add_done_callback(copy)
    return outer
