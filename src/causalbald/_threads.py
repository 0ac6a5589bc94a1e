"""Thread pools: small matrices are faster on one thread, and sums depend on the number of threads."""

from __future__ import annotations

import os
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
    """Lower torch's number of threads, never raise it, and restore it afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(min(before, threads))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Cap all thread pools at one, and restore them afterwards, whatever caps other threads open or close meanwhile."""
    from threadpoolctl import threadpool_limits

    within = _caps.enter()
    try:
        with threadpool_limits(1):
            yield
    finally:
        _caps.leave(within)


@contextmanager
def threads_of_fit(*, large: bool) -> Iterator[None]:
    """Cap all thread pools: large fits at ``CAUSALBALD_THREADS`` if it is set, all others at one. Raise no number."""
    threads = _threads_asked_for()
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


def _threads_asked_for() -> int:
    """Return the number in ``CAUSALBALD_THREADS``, one if it is not set or empty."""
    text = os.environ.get(THREADS_VARIABLE, "").strip() or "1"
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise InputError(
            f"{THREADS_VARIABLE} must be a whole number of threads, at least 1, for example 2, got {text!r}: "
            "correct the environment variable, or unset it for one thread."
        )
    return int(text)


class _Caps:
    """Caps on torch's threads that are open: new threads take over the number that another has set."""

    def __init__(self) -> None:
        self._lock, self._own = Lock(), local()
        self._open = self._before = 0

    @property
    def before(self) -> int:
        """How many threads torch may use, but for the caps that are open."""
        import torch

        with self._lock:
            return self._before if self._open else torch.get_num_threads()

    def enter(self) -> bool:
        """Cap this thread, and return whether it was capped already."""
        import torch

        with self._lock:
            if self._open == 0:
                self._before = torch.get_num_threads()
            self._open += 1
        within, self._own.capped = getattr(self._own, "capped", False), True
        torch.set_num_threads(1)
        return within

    def leave(self, within: bool) -> None:
        """Restore this thread's number, unless another cap of its own is open."""
        import torch

        self._own.capped = within
        with self._lock:
            self._open -= 1
        if not within:
            torch.set_num_threads(self._before)


_caps = _Caps()


def reuse_memory() -> None:
    """Let the C library keep the memory of arrays of a few MB for the next ones.

    By default glibc gives it back, and the system clears it page by page for the next array, which took a quarter of
    the time of scoring. Freeing one large block tells it that such blocks come and go.
    """
    bytearray(31 << 20)


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield ``work(item)`` for all items, in their order, on as many threads as torch may use, one core each.

    Faster than many threads within each matrix product, and sums do not depend on the number of threads: so all cores
    are used also inside `one_thread`, which is there for the sums. Only a few items are taken ahead of what is asked
    for.
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
