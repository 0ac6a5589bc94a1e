"""Random generators derived from one seed and a purpose, never from global state or call order."""

from __future__ import annotations

from zlib import crc32

import numpy as np


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """Return a new random generator for a seed and a purpose: equal arguments give equal streams, on any worker.

    ``seed`` and whole numbers in ``purpose`` must not be negative. Another purpose gives an independent stream.
    """
    words = [crc32(p.encode()) if isinstance(p, str) else p for p in purpose]
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))
