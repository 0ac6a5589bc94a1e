"""A campaign in memory, for simulations and tests. It is gone with its process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock

from causalbald.campaign.storage._base import Decide, Draft, Event, Storage
from causalbald.campaign.storage._records import Row, require_known, require_part, require_whole, to_rows
from causalbald.errors import CampaignExistsError, StorageError


class MemoryStorage(Storage):
    """A campaign that lives as long as this object, for simulations and tests. Threads may share it.

    Examples
    --------
    >>> from causalbald.campaign.storage import Draft, MemoryStorage
    >>> storage = MemoryStorage()
    >>> len(storage.create([], [Draft("created", {"rows": 120})]))
    1
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._parts: dict[str, bytes] | None = None
        self._rows: list[Row] = []

    def create(self, parts: Iterable[tuple[str, bytes]], events: Sequence[Draft]) -> list[Event]:
        """Create the campaign, and return its first events; see :meth:`Storage.create`."""
        with self._lock:
            if self._parts is not None:
                raise CampaignExistsError("there is a campaign in this memory already: take a new MemoryStorage.")
            all_parts: dict[str, bytes] = {}
            for name, data in parts:
                require_part(name, data)
                if name in all_parts:
                    raise StorageError(f"part {name!r} is given twice: give every part a name of its own.")
                all_parts[name] = bytes(data)
            self._rows = to_rows(events, 0)
            self._parts = all_parts
            return [row.event() for row in self._rows]

    def part(self, name: str) -> bytes:
        """Return the bytes of one part; raises StorageError for an unknown name."""
        with self._lock:
            parts = self._created()
        if name not in parts:
            raise StorageError(f"the campaign has no part {name!r}: it has {', '.join(sorted(parts)) or 'none'}.")
        return parts[name]

    def events(self, after: int = 0) -> list[Event]:
        """Return the events with a number above ``after``, in order."""
        with self._lock:
            self._created()
            return [row.event() for row in self._rows[after:]]

    def append(self, after: int, decide: Decide) -> list[Event]:
        """Record the events that ``decide`` returns; return all events above ``after``. See :meth:`Storage.append`.

        Other threads wait until ``decide`` has returned.
        """
        with self._lock:
            self._created()
            require_known(after, len(self._rows), "this memory")
            drafts = decide([row.event() for row in self._rows[after:]])
            self._rows += to_rows(drafts, len(self._rows))
            return [row.event() for row in self._rows[after:]]

    def check(self) -> None:
        """Raise StorageError unless the numbers of events run from 1 without gaps."""
        require_whole([event.number for event in self.events()], "this memory")

    def close(self) -> None:
        """Do nothing: the campaign lives as long as this object."""

    def _created(self) -> dict[str, bytes]:
        """Return the parts by name. Raises StorageError before the campaign is created. The caller holds the lock."""
        if self._parts is None:
            raise StorageError("there is no campaign in this memory: create it first.")
        return self._parts
