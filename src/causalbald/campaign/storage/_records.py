"""What all storages share: the form in which events are kept, and the limits of what can be kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from causalbald._text import check_texts, readable
from causalbald.campaign.storage._base import Draft, Event
from causalbald.errors import InputError, StorageError

# SQLite takes 1,000,000,000 bytes in a row and PostgreSQL 2**30 in a value; both need some for themselves.
PART_LIMIT = 900_000_000


@dataclass(frozen=True)
class Row:
    """An event as it is kept: the body is JSON text."""

    number: int
    time: str
    kind: str
    body: str

    def event(self) -> Event:
        """Return the event, as every reader sees it."""
        try:
            body = json.loads(self.body)
        except ValueError as error:
            raise StorageError(f"event {self.number} is damaged ({error}): restore the campaign from a copy.") from None
        # Version 0.1.0 recorded bytes that are no text, which JSON writes as \udc80 to \udcff.
        return Event(self.number, self.time, self.kind, readable(body) if "\\ud" in self.body.lower() else body)


def to_rows(drafts: Sequence[Draft], last: int) -> list[Row]:
    """Return events to be recorded, with the numbers that follow ``last``."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    for draft in drafts:
        _require_name("the kind of an event", draft.kind)
    return [Row(last + k, draft.time or now, draft.kind, _to_json(draft)) for k, draft in enumerate(drafts, start=1)]


def require_part(name: str, data: bytes) -> None:
    """Refuse what some storage could not hold, so that all refuse the same."""
    _require_name("the name of a part", name)
    if len(data) > PART_LIMIT:
        raise InputError(
            f"part {name!r} has {len(data):,} bytes, and {PART_LIMIT:,} is the limit: split it into several parts."
        )


def require_whole(numbers: Sequence[int], place: str) -> None:
    """Raise unless the numbers of a campaign's events run from 1 without gaps."""
    for expected, number in enumerate(numbers, start=1):
        if number != expected:
            raise StorageError(f"{place}: event {expected} is missing; restore the campaign from a copy.")


def require_known(after: int, last: int, place: str) -> None:
    """Raise if someone builds on events that are not there, as after a restore from an older copy."""
    if after > last:
        raise StorageError(f"{place} holds {last} events, but {after} were seen before: open the campaign anew.")


def _to_json(draft: Draft) -> str:
    """Return the body of an event as JSON text; raises InputError if it is not plain JSON."""
    try:
        text = json.dumps(draft.body, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        check_texts(draft.body, f"event {draft.kind!r}")
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"event {draft.kind!r} cannot be kept as JSON ({error}): give plain, finite values.") from None
    return text


def _require_name(what: str, name: str) -> None:
    if not (name and name.isprintable()):
        raise InputError(f"{what} is {name!r}: give printable text.")
