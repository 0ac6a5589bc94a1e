"""Thread pools: small matrices are faster on one thread, and sums depend on the number of threads."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock, local
from typing import TypeVar

from causalbald.errors import InputError

THREADS_VARIABLE = "CAUSALBALD_THREADS"
# Units whose belief or scores are computed at once: their intermediate results stay in the cache.
CHUNK_UNITS = 1024

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Let torch use at most ``threads`` threads within the context, and restore its number afterwards.

    The number is never raised.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(min(before, threads))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Cap torch and all thread pools of numerical libraries at one thread within the context; restore them afterwards.

    Contexts may be nested. Contexts of several threads may overlap in any order. torch is capped only if it is imported
    already, because importing it takes seconds. A module that computes with torch imports it before it opens a context.
    """
    from threadpoolctl import threadpool_limits

    if "torch" not in sys.modules:
        with threadpool_limits(1):
            yield
        return
    is_nested = _caps.enter()
    try:
        with threadpool_limits(1):
            yield
    finally:
        _caps.leave(is_nested)


@contextmanager
def threads_of_fit(*, large: bool) -> Iterator[None]:
    """Cap all thread pools within the context: at ``CAUSALBALD_THREADS`` for large fits, at one thread for others.

    No pool gets more threads than it has. Raises InputError if ``CAUSALBALD_THREADS`` is no number of threads. Called
    around fits of Gaussian processes.
    """
    threads = _threads_for_large_fits()
    if threads == 1 or not large:
        with one_thread():
            yield
        return
    from threadpoolctl import threadpool_info, threadpool_limits

    limits: dict[str, int] = {}
    for library in threadpool_info():
        prefix = library["prefix"]  # several libraries may share one
        limits[prefix] = min(library["num_threads"], limits.get(prefix, threads))
    with at_most(threads), threadpool_limits(limits):
        yield


def _threads_for_large_fits() -> int:
    """Return the number in ``CAUSALBALD_THREADS``; 1 if it is not set or empty.

    Raises InputError if it is no whole number of at least 1.
    """
    text = os.environ.get(THREADS_VARIABLE, "").strip() or "1"
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise InputError(
            f"{THREADS_VARIABLE} must be a whole number of threads, at least 1, for example 2, got {text!r}: "
            "correct the environment variable, or unset it for one thread."
        )
    return int(text)


class _Caps:
    """Counts open caps on torch's threads. The number from before the first cap is restored after the last one.

    torch has one number per thread, but a new thread starts with the number that another thread has set last.
    """

    def __init__(self) -> None:
        self._lock, self._this_thread = Lock(), local()
        self._open = self._before = 0

    @property
    def before(self) -> int:
        """Number of threads that torch may use outside of all open caps; its present number if no cap is open."""
        import torch

        with self._lock:
            return self._before if self._open else torch.get_num_threads()

    def enter(self) -> bool:
        """Cap torch at one thread in this thread; return whether this thread was capped already, for :meth:`leave`."""
        import torch

        with self._lock:
            if self._open == 0:
                self._before = torch.get_num_threads()
            self._open += 1
        is_nested, self._this_thread.capped = getattr(self._this_thread, "capped", False), True
        torch.set_num_threads(1)
        return is_nested

    def leave(self, is_nested: bool) -> None:
        """Close a cap of this thread, and restore torch's number unless the cap was nested in another.

        ``is_nested`` is what :meth:`enter` returned for this cap.
        """
        import torch

        self._this_thread.capped = is_nested
        with self._lock:
            self._open -= 1
        if not is_nested:
            torch.set_num_threads(self._before)


_caps = _Caps()


def reuse_memory() -> None:
    """Let the C library keep the memory of arrays of a few MB for the next ones.

    By default glibc returns such memory to the system, which clears it page by page for the next array. That took a
    quarter of the time of scoring. Freeing one large block tells glibc to keep blocks of up to this size.
    """
    bytearray(31 << 20)


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield ``work(item)`` for all items, in their order, computed on as many threads as torch may use.

    Each call of ``work`` runs on one core; this is faster than many threads within each matrix product. Sums do not
    depend on the number of threads. Therefore all cores are used within `one_thread` too, whose purpose is equal sums.
    At most twice as many items as threads, plus one, are taken ahead of the results that the caller has asked for.
    An error in ``work`` is raised where its result would be yielded.
    """
    reuse_memory()
    workers = _caps.before
    if workers == 1:
        yield from map(work, items)
        return
    with one_thread(), ThreadPoolExecutor(workers) as executor:
        waiting: deque[Future[R]] = deque()
        for item in items:
            waiting.append(executor.submit(work, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
