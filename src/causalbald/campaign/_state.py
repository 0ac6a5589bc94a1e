"""Where a campaign stands: what its events add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from causalbald.campaign._events import Creation, Failure, Happening, Measurements, Pick, Round, Withdrawal, happening
from causalbald.campaign.storage._base import Event
from causalbald.errors import StorageError

UnitState = Literal["available", "pending", "measured", "failed", "withdrawn"]


@dataclass
class State:
    """What the events so far add up to, by id. :meth:`apply` changes the fields in place.

    A unit that failed may be asked for again, a withdrawn unit never. An outcome stays in use whatever else happens to
    its unit.

    Parameters
    ----------
    number : int
        Number of the last event.
    told : int
        Number of the last event that changed an outcome. Later events do not change beliefs.
    creation : Creation, optional
        None before the first event.
    outcomes : dict
        Outcome of each measured unit.
    pending : dict
        Round in which each pending unit was asked for.
    failed, withdrawn : dict
        Reason for each unit.
    rounds : list of Round

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> columns = {"id": "patient", "treatment": "drug", "outcome": "cd4"}
    >>> campaign = Campaign.create(MemoryStorage(), pool, **columns)
    >>> _ = campaign.tell({7: 1.5})
    >>> campaign.state.of("7"), campaign.state.of("8")
    ('measured', 'available')
    """

    number: int = 0
    told: int = 0
    creation: Creation | None = None
    outcomes: dict[str, float] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    withdrawn: dict[str, str] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)

    def apply(self, events: Iterable[Event]) -> State:
        """Change this state by the next events, and return it.

        Raises StorageError if the first event does not follow ``number``, numbers have gaps, or an event is unknown.
        Events before the one that fails remain applied.
        """
        for event in events:
            if event.number != self.number + 1:
                raise StorageError(f"event {event.number} follows event {self.number}: the campaign is not whole.")
            self._take(happening(event), event.number)
            self.number = event.number
        return self

    def _take(self, content: Happening, number: int) -> None:
        """Change this state by the content of event ``number``. Called by ``apply``."""
        match content:
            case Creation():
                self.creation = content
            case Measurements():
                self.told = number
                for unit, value in content.outcomes.items():
                    self.outcomes[unit] = float(value)
                    self.pending.pop(unit, None)
                    self.failed.pop(unit, None)
            case Round():
                self.rounds.append(content)
                for unit in content.ids:
                    self.pending[unit] = content.number
                    self.failed.pop(unit, None)
            case Failure():
                for unit in content.units:
                    self.pending.pop(unit, None)
                    self.failed[unit] = content.reason
            case Withdrawal():
                for unit in content.units:
                    self.pending.pop(unit, None)
                    self.failed.pop(unit, None)
                    self.withdrawn[unit] = content.reason

    def of(self, unit: str) -> UnitState:
        """Return the state of the unit with this id. An id that no event has named is "available".

        The first that holds counts: measured, withdrawn, pending, failed.
        """
        if unit in self.outcomes:
            return "measured"
        if unit in self.withdrawn:
            return "withdrawn"
        if unit in self.pending:
            return "pending"
        return "failed" if unit in self.failed else "available"

    @property
    def start(self) -> Creation:
        """What the campaign is about; raises StorageError if its first event is missing."""
        if self.creation is None:
            raise StorageError("event 1 is missing: restore the campaign from a copy.")
        return self.creation

    @property
    def closed(self) -> set[str]:
        """Ids of the units that must not be asked for: measured, pending or withdrawn."""
        return {*self.outcomes, *self.pending, *self.withdrawn}

    @property
    def asked(self) -> int:
        """Number of measurements asked for in all rounds."""
        return sum(len(r.picks) for r in self.rounds)

    @property
    def spent(self) -> float:
        """Sum of the costs of all measurements asked for, 1 each without costs. Failed measurements count, too."""
        return float(sum(pick.price for r in self.rounds for pick in r.picks))

    @property
    def audits(self) -> int:
        """Number of audits asked for in all rounds."""
        return sum(pick.by == "audit" for r in self.rounds for pick in r.picks)

    @property
    def latest_picks(self) -> dict[str, tuple[int, Pick]]:
        """By id of each unit that was asked for: the number of the last round that asked for it, and the pick."""
        return {pick.id: (r.number, pick) for r in self.rounds for pick in r.picks}
