"""Where a campaign is kept, whatever the backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from causalbald.campaign._events import Draft, Event

Decide = Callable[[list[Event]], Sequence[Draft]]


class Storage(ABC):
    """One campaign: named parts, written once when it is created, and events, which are only ever appended.

    Every method that changes something is durable before it returns, and changes all or nothing. Until the campaign is
    created, by this object or another, all methods but ``create`` and ``close`` raise StorageError.
    """

    file: Path | None = None
    """The file that holds the campaign, if there is one: what is written of it is no more open than this file."""

    @abstractmethod
    def create(self, parts: Iterable[tuple[str, bytes]], events: Sequence[Draft]) -> list[Event]:
        """Create the campaign; raises CampaignExistsError if there is one already, and then changes nothing."""

    @abstractmethod
    def part(self, name: str) -> bytes:
        """Return one part as it was written; raises StorageError if there is none of this name."""

    @abstractmethod
    def events(self, after: int = 0) -> list[Event]:
        """Return the events with a number above ``after``, in order."""

    @abstractmethod
    def append(self, after: int, decide: Decide) -> list[Event]:
        """Record what ``decide`` returns; return all events above ``after``, the new ones included.

        ``decide`` gets the events above ``after`` that are recorded already. No other process can record anything
        between this and what it returns. If it raises, nothing is recorded; it must not call the storage. If there are
        fewer than ``after`` events, which happens when an older copy was restored, StorageError is raised.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise StorageError unless the storage is whole and event numbers run from 1 without gaps."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; does nothing the second time."""
