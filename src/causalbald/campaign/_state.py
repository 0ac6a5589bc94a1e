"""Where a campaign stands: the events, one after another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from causalbald.campaign._events import Event
from causalbald.errors import StorageError

UnitState = Literal["available", "pending", "measured", "failed", "withdrawn"]


@dataclass
class State:
    """What the events so far add up to, by id.

    ``failed`` may be asked again; ``withdrawn`` never. An outcome that is known stays known whatever else happens.
    """

    number: int = 0
    told: int = 0
    """Number of the last event that changed an outcome: beliefs depend on nothing later."""
    created: dict[str, Any] = field(default_factory=dict)
    outcomes: dict[str, float] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    withdrawn: dict[str, str] = field(default_factory=dict)
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def apply(self, events: Iterable[Event]) -> State:
        """Take further events into account and return self."""
        for event in events:
            if event.number != self.number + 1:
                raise StorageError(f"event {event.number} follows event {self.number}: the campaign is not whole.")
            apply = getattr(self, f"_{event.kind}", None)
            if apply is None:
                raise StorageError(f"unknown event {event.kind!r}: this campaign needs a newer causalbald.")
            self.number = event.number
            apply(event.body)
        return self

    def of(self, unit: str) -> UnitState:
        """Return the state of one unit."""
        for state, units in (
            ("measured", self.outcomes),
            ("withdrawn", self.withdrawn),
            ("pending", self.pending),
            ("failed", self.failed),
        ):
            if unit in units:
                return state  # type: ignore[return-value]
        return "available"

    @property
    def closed(self) -> set[str]:
        """Units that must not be asked for: measured, pending or withdrawn."""
        return {*self.outcomes, *self.pending, *self.withdrawn}

    @property
    def asked(self) -> int:
        """Measurements asked for in all rounds."""
        return sum(len(r["units"]) for r in self.rounds)

    @property
    def spent(self) -> float:
        """What all measurements asked for cost: their own cost, or 1 each."""
        return float(sum(unit.get("cost", 1.0) for r in self.rounds for unit in r["units"]))

    def _created(self, body: dict[str, Any]) -> None:
        self.created = body

    def _told(self, body: dict[str, Any]) -> None:
        self.told = self.number
        for unit, value in body["outcomes"].items():
            self.outcomes[unit] = float(value)
            self.pending.pop(unit, None)
            self.failed.pop(unit, None)

    def _asked(self, body: dict[str, Any]) -> None:
        self.rounds.append(body)
        for unit in body["units"]:
            self.pending[unit["id"]] = body["round"]
            self.failed.pop(unit["id"], None)

    def _failed(self, body: dict[str, Any]) -> None:
        for unit in body["units"]:
            self.pending.pop(unit, None)
            self.failed[unit] = body["reason"]

    def _withdrawn(self, body: dict[str, Any]) -> None:
        for unit in body["units"]:
            self.pending.pop(unit, None)
            self.failed.pop(unit, None)
            self.withdrawn[unit] = body["reason"]
