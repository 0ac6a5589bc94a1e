"""What happened in a campaign, in order. Events are the record; all else is derived from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from causalbald._version import __version__


@dataclass(frozen=True)
class Draft:
    """An event that is about to be recorded, now unless ``time`` says when it was. The body must be plain JSON."""

    kind: str
    body: dict[str, Any]
    time: str | None = None


@dataclass(frozen=True)
class Event:
    """A recorded event: its number (1, 2, … without gaps), when it was recorded (UTC, ISO 8601), and what happened."""

    number: int
    time: str
    kind: str
    body: dict[str, Any]


def versions() -> dict[str, str]:
    """Return the versions on which a batch depends, to be recorded with it."""
    from importlib.metadata import version

    return {"causalbald": __version__} | {name: version(name) for name in ("numpy", "scikit-learn", "scipy", "torch")}
