"""Thread pools: small matrices are faster on one thread, and sums depend on the number of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
_before_caps: list[int] = []  # torch's threads before each `one_thread` that is open


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
    """Cap all thread pools at one, and restore them afterwards."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    _before_caps.append(before)
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        _before_caps.pop()
        torch.set_num_threads(before)


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
    import torch

    reuse_memory()
    workers = _before_caps[0] if _before_caps else torch.get_num_threads()
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
