"""Golden answers against those of the code as it is."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.golden.renamed import ADDED, DESCRIPTIONS, FIELDS, PROSE, UNORDERED, WORDS

EXACT = bool(os.environ.get("GOLDEN_EXACT"))
_NUMBER = r"\d+(?:[.,]\d+)*"


@dataclass(frozen=True)
class Difference:
    """One place where an answer is not the golden one; ``wording`` if only the words of some prose have changed."""

    path: str
    golden: Any
    now: Any
    wording: bool = False

    def __str__(self) -> str:
        return f"{self.path}: was {self.golden!r}, is {self.now!r}"


def differences(golden: Any, now: Any, tolerance: float, path: str = "", field: str = "") -> Iterator[Difference]:
    """Yield all differences; numbers may differ by ``tolerance``, relative or of 1, unless GOLDEN_EXACT is set."""
    if isinstance(golden, dict) and isinstance(now, dict):
        renamed = {FIELDS.get(k, k): (k, v) for k, v in golden.items()}
        renamed.pop(None, None)
        for name in now.keys() - renamed.keys() - ADDED:
            yield Difference(f"{path}.{name}", "no such field", now[name])
        for name, (old, value) in renamed.items():
            if name not in now:
                yield Difference(f"{path}.{name}", value, "no such field")
            else:
                yield from differences(value, now[name], tolerance, f"{path}.{name}", old)
    elif isinstance(golden, list) and isinstance(now, list):
        if len(golden) != len(now):
            yield Difference(path, f"{len(golden)} items", f"{len(now)} items")
        if field in UNORDERED:
            golden, now = (sorted(items, key=lambda item: str(item["name"])) for items in (golden, now))
        for k, (one, other) in enumerate(zip(golden, now, strict=False)):
            yield from differences(one, other, tolerance, f"{path}[{k}]", field)
    elif isinstance(golden, str) and isinstance(now, str) and field in DESCRIPTIONS:
        return
    elif isinstance(golden, str) and isinstance(now, str):
        if now not in (golden, _reworded(golden)):
            wording = field in PROSE and re.findall(_NUMBER, golden) == re.findall(_NUMBER, now)
            yield Difference(path, *_where(golden, now), wording)
    elif not _same(golden, now, tolerance):
        yield Difference(path, golden, now)


def _same(golden: Any, now: Any, tolerance: float) -> bool:
    numbers = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in (golden, now)]
    if not all(numbers):
        return type(golden) is type(now) and bool(golden == now)
    if EXACT:
        return bool(golden == now)
    return math.isclose(golden, now, rel_tol=tolerance, abs_tol=tolerance)


def _reworded(text: str) -> str:
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    return text


def _where(golden: str, now: str) -> tuple[str, str]:
    """Return long texts from shortly before the first difference."""
    first = next((k for k, (a, b) in enumerate(zip(golden, now, strict=False)) if a != b), 0)
    start = max(0, first - 30)
    return golden[start : start + 200], now[start : start + 200]
