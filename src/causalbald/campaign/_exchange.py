"""A campaign as text: JSON Lines that any storage can take in, and its history as a table."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from causalbald._files import check_place, replacing
from causalbald._text import readable
from causalbald._words import amount
from causalbald.campaign._events import Creation, Failure, Happening, Measurements, Round, Withdrawal, happening
from causalbald.campaign._pool import part_names
from causalbald.campaign._state import State
from causalbald.campaign.storage import Draft, Event, Storage
from causalbald.errors import InputError, StorageError
from causalbald.tables import Ids

FORMAT = 1
_BEGINNING = b'{"format": "causalbald campaign"'


def write(storage: Storage, rows: int, path: Path) -> None:
    """Write all parts and events of a campaign to ``path`` as JSON Lines. Called by ``Campaign.export``.

    ``rows`` is the number of units. The file appears when it is whole. An earlier export is replaced. Raises InputError
    if there is a file that is no export, or no file can be written there.
    """
    check_place(path)
    if path.exists() and not _is_export(path):
        raise InputError(f"{str(path)!r} exists and is no exported campaign: choose another name, or delete it first.")
    with replacing(path, storage.file) as whole_file, whole_file.open("w", encoding="utf-8") as file:
        events = storage.events()
        head = {"format": "causalbald campaign", "version": FORMAT, "events": len(events)}
        file.write(json.dumps(head) + "\n")
        for name in part_names(rows):
            data = base64.b64encode(storage.part(name)).decode("ascii")
            file.write(json.dumps({"part": name, "parquet": data}) + "\n")
        for event in events:
            file.write(json.dumps(asdict(event), ensure_ascii=False, allow_nan=False) + "\n")


def read(storage: Storage, path: Path) -> list[Event]:
    """Create the campaign of an exported file in an empty storage, and return its events. Called by ``from_export``.

    Everything is checked before anything is written. Raises InputError if there is no file, or it is no export, was cut
    short or was written by a newer release. Raises StorageError if its events are not those of a campaign, or a part of
    the pool is missing or superfluous. Raises CampaignExistsError if the storage has a campaign.
    """
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    lines = _lines(path)
    head = next(lines, {})
    if head.get("format") != "causalbald campaign":
        raise InputError(f"{path.name} is no exported campaign: make one with `causalbald campaign export`.")
    if head["version"] > FORMAT:
        raise InputError(f"{path.name} was written by a newer causalbald: upgrade to read it.")
    parts, drafts = [], []
    for line in lines:
        if "part" in line:
            parts.append((str(line["part"]), base64.b64decode(line["parquet"])))
        else:
            drafts.append(Draft(line["kind"], line["body"], line["time"]))
    if len(drafts) != head["events"]:
        raise InputError(
            f"{path.name} has {len(drafts)} of {head['events']} events: it was cut short, export it again."
        )
    state = State().apply(Event(k, "", d.kind, d.body) for k, d in enumerate(drafts, start=1))
    if {name for name, _ in parts} != set(part_names(state.start.rows)):
        raise StorageError(f"{path.name} lacks a part of the pool: export it again.")
    return storage.create(parts, drafts)


def history(events: Iterable[Event], units: Ids) -> pa.Table:
    """Return a table with a row per event and unit: number, time, what, id, value, detail.

    ``number``, ``time`` and ``what`` (the kind) are the event's. ``value`` is an outcome or a score. The event that
    created the campaign has one row without an id. ``id`` is text. Called by ``Campaign.history``.
    """
    rows = [(event.number, event.time, event.kind, *cells) for event in events for cells in _rows(happening(event))]
    names = ("number", "time", "what", "id", "value", "detail")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())
    kinds = (pa.int64(), pa.string(), pa.string(), pa.string(), pa.float64(), pa.string())
    table = {name: pa.array(columns[name], kind) for name, kind in zip(names, kinds, strict=True)}
    return pa.table(table)


def _rows(content: Happening) -> Iterator[tuple[str | None, float | None, str]]:
    """Yield id, value (an outcome, a score or None) and detail of each unit of an event. Called by ``history``."""
    match content:
        case Creation():
            yield None, None, f"{content.rows} people"
        case Measurements():
            before, source = content.before or {}, "with the pool" if content.source == "pool" else ""
            for unit, value in content.outcomes.items():
                yield unit, value, f"instead of {amount(before[unit])}" if unit in before else source
        case Round():
            for pick in content.picks:
                yield pick.id, pick.score, f"round {content.number}: {pick.why}"
        case Failure() | Withdrawal():
            for unit in content.units:
                yield unit, None, content.reason


def _is_export(path: Path) -> bool:
    """Return whether a path is a file that begins as an export does. The rest of the file is not read."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_BEGINNING)) == _BEGINNING


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file, one from each line. Called by ``read``.

    Raises InputError at the first line that is no JSON, which the message names, or no JSON object. Bytes that are no
    text, which version 0.1.0 recorded, become replacement characters.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                content = json.loads(line)
            except ValueError:  # no JSON, or no text at all
                raise InputError(
                    f"{path.name} cannot be read at line {number}: was it cut short, or is it no exported campaign?"
                ) from None
            if not isinstance(content, dict):
                raise InputError(f"{path.name} is no exported campaign: make one with `causalbald campaign export`.")
            yield readable(content)
