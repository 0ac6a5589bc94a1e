"""Where a campaign is kept, whatever the backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Draft:
    """An event that is about to be recorded.

    Parameters
    ----------
    kind : str
        What happened, in one word.
    body : dict
        Plain JSON.
    time : str, optional
        When the event was first recorded, if it comes from an export. If None, the storage takes the present time.

    Examples
    --------
    >>> from causalbald.campaign.storage import Draft
    >>> Draft("told", {"outcomes": {"p7": 1.5}}).kind
    'told'
    """

    kind: str
    body: dict[str, Any]
    time: str | None = None


@dataclass(frozen=True)
class Event:
    """A recorded event.

    Parameters
    ----------
    number : int
        1, 2, 3 and so on, without gaps.
    time : str
        When the event was recorded: UTC, ISO 8601.
    kind : str
        What happened, in one word.
    body : dict
        Plain JSON.

    Examples
    --------
    >>> from causalbald.campaign.storage import Draft, MemoryStorage
    >>> storage = MemoryStorage()
    >>> [event] = storage.create([], [Draft("created", {"rows": 120})])
    >>> event.number, event.body
    (1, {'rows': 120})
    """

    number: int
    time: str
    kind: str
    body: dict[str, Any]


Decide = Callable[[list[Event]], Sequence[Draft]]
"""Gets the events that its caller has not seen, and returns the events to record; see :meth:`Storage.append`."""


class Storage(ABC):
    """One campaign: named parts, written once when it is created, and events, which are only ever appended.

    Every method that changes something is durable before it returns, and changes all or nothing. Until the campaign is
    created, by this object or another, all methods except ``create`` and ``close`` raise StorageError. Subclasses are
    checked by :func:`causalbald.testing.check_storage`.

    Examples
    --------
    >>> from causalbald.campaign.storage import Draft, MemoryStorage, Storage
    >>> storage = MemoryStorage()
    >>> isinstance(storage, Storage)
    True
    >>> _ = storage.create([("ids", b"...")], [Draft("created", {"rows": 120})])
    >>> storage.part("ids")
    b'...'
    >>> new = storage.append(1, lambda events: [Draft("told", {"outcomes": {"p7": 1.5}})])
    >>> [event.kind for event in storage.events()]
    ['created', 'told']
    """

    file: Path | None = None
    """The file that holds the campaign, if there is one. Files written from it get no more permissions than it has."""

    @abstractmethod
    def create(self, parts: Iterable[tuple[str, bytes]], events: Sequence[Draft]) -> list[Event]:
        """Create the campaign from its parts, as (name, bytes), and its first events; return these events as recorded.

        Raises CampaignExistsError if there is a campaign already. Raises StorageError if two parts have the same name.
        Raises InputError if a part is too large, a name is not printable, or a body is not plain JSON. Nothing is
        created if anything is raised.
        """

    @abstractmethod
    def part(self, name: str) -> bytes:
        """Return the bytes of one part as they were given to ``create``; raises StorageError for an unknown name."""

    @abstractmethod
    def events(self, after: int = 0) -> list[Event]:
        """Return the events with a number above ``after``, in order; an empty list if there are none."""

    @abstractmethod
    def append(self, after: int, decide: Decide) -> list[Event]:
        """Record the events that ``decide`` returns, and return all events above ``after``, the new ones included.

        ``decide`` gets the events above ``after`` that are recorded already. It may return no events, and must not call
        the storage. From its call until its events are recorded, no other process can record any. If ``decide`` raises,
        nothing is recorded. Raises StorageError if there are fewer than ``after`` events, which happens when an older
        copy was restored.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise StorageError unless the storage is whole and event numbers run from 1 without gaps."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. A second call does nothing."""
