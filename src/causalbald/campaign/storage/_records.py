"""Shared by all storages: the form in which events are stored, and the limits of what can be stored."""

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
    """An event in the form in which it is stored: the body is JSON text."""

    number: int
    time: str
    kind: str
    body: str

    def event(self) -> Event:
        """Return the event, with its body as plain JSON. Raises StorageError if the body is damaged.

        Bytes that are no text become replacement characters.
        """
        try:
            body = json.loads(self.body)
        except ValueError as error:
            raise StorageError(f"event {self.number} is damaged ({error}): restore the campaign from a copy.") from None
        # Version 0.1.0 recorded bytes that are no text, which JSON writes as \udc80 to \udcff.
        return Event(self.number, self.time, self.kind, readable(body) if "\\ud" in self.body.lower() else body)


def to_rows(drafts: Sequence[Draft], last: int) -> list[Row]:
    """Return the rows to store for new events, with the numbers that follow ``last``.

    Events without a time get the present time. Raises InputError if a kind is not printable text, or a body is not
    plain JSON with finite numbers and text in UTF-8.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    for draft in drafts:
        _require_name("the kind of an event", draft.kind)
    return [Row(last + k, draft.time or now, draft.kind, _to_json(draft)) for k, draft in enumerate(drafts, start=1)]


def require_part(name: str, data: bytes) -> None:
    """Raise InputError if the name of a part is not printable text, or it has more than ``PART_LIMIT`` bytes.

    All storages have the limits of the smallest, so that a campaign can move between storages.
    """
    _require_name("the name of a part", name)
    if len(data) > PART_LIMIT:
        raise InputError(
            f"part {name!r} has {len(data):,} bytes, and {PART_LIMIT:,} is the limit: split it into several parts."
        )


def require_whole(numbers: Sequence[int], place: str) -> None:
    """Raise StorageError unless ``numbers``, of all events of a campaign, run from 1 without gaps.

    A missing last event is not noticed. ``place`` is the name of the storage in the message.
    """
    for expected, number in enumerate(numbers, start=1):
        if number != expected:
            raise StorageError(f"{place}: event {expected} is missing; restore the campaign from a copy.")


def require_known(after: int, last: int, place: str) -> None:
    """Raise StorageError if the caller has seen ``after`` events, but the storage has only ``last``.

    This happens after a restore from an older copy. ``place`` is the name of the storage in the message.
    """
    if after > last:
        raise StorageError(f"{place} holds {last} events, but {after} were seen before: open the campaign anew.")


def _to_json(draft: Draft) -> str:
    """Return the body of an event as JSON text. Called by ``to_rows``.

    Raises InputError if the body is not plain JSON, or has a number that is not finite or text that is not UTF-8.
    """
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
    """Raise InputError if ``name`` is empty or not printable; ``what`` says in the message what it is."""
    if not (name and name.isprintable()):
        raise InputError(f"{what} is {name!r}: give printable text.")
