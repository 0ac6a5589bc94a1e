"""What every storage of campaigns must satisfy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from typing import Any

from causalbald.campaign.storage import Decide, Draft, Event, Storage
from causalbald.errors import CampaignExistsError, InputError, StorageError

Opener = Callable[[str], Storage]

N_THREADS, APPENDS_PER_THREAD = 4, 5
_TEXTS = ("naïve 😀 漢字", "line\nbreak\r\n\ttab", "'one' \"two\" \\ --", "NUL \0 inside", "", "{}%s:x")


class _Refusal(Exception):
    """Raised by functions that a storage calls, to see that the storage lets errors through."""


def check_storage(opener: Opener) -> None:
    """Check that campaigns are created once, and events recorded in order, whole, and by one writer at a time.

    Creates about a dozen campaigns under names such as "once" and "threads", and leaves them in the storage.

    Parameters
    ----------
    opener : callable
        Takes a name and returns a storage of the campaign with that name. At first, no campaign exists. A second call
        with the same name must return another handle on the same campaign.

    Raises
    ------
    AssertionError
        At the first rule that the storage breaks.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from causalbald.campaign.storage import open_storage
    >>> from causalbald.testing import check_storage
    >>> with TemporaryDirectory() as folder:
    ...     check_storage(lambda name: open_storage(Path(folder) / f"{name}.db"))
    """
    _creates_once(opener)
    _needs_creation(opener)
    _creates_all_or_nothing(opener)
    _keeps_parts(opener)
    _numbers_in_order(opener)
    _records_all_or_nothing(opener)
    _shows_what_others_recorded(opener)
    _lets_one_write_at_a_time(opener)
    _keeps_bodies(opener)
    _closes_twice(opener)


def _creates_once(opener: Opener) -> None:
    """Check that a second creation of a campaign is refused and changes nothing."""
    with _created(opener, "once", Draft("start", {"n": 1})) as storage:
        with closing(opener("once")) as other, _raises(CampaignExistsError, "create a campaign a second time"):
            other.create([("table", b"second")], [Draft("start", {"n": 2})])
        assert storage.part("table") == b"first", "a refused creation must change nothing"
        assert [event.body for event in storage.events()] == [{"n": 1}], "a refused creation must change nothing"


def _needs_creation(opener: Opener) -> None:
    """Check that every call but create and close raises StorageError before the campaign is created."""
    calls: list[Callable[[Storage], object]] = [
        lambda storage: storage.events(),
        lambda storage: storage.part("table"),
        lambda storage: storage.append(0, _deciding()),
        lambda storage: storage.check(),
    ]
    for call in calls:
        with closing(opener("absent")) as storage, _raises(StorageError, "use a campaign that was not created"):
            call(storage)
    with _created(opener, "absent"):
        pass


def _creates_all_or_nothing(opener: Opener) -> None:
    """Check that a creation that fails leaves nothing, and that the campaign can be created afterwards."""

    def parts() -> Iterator[tuple[str, bytes]]:
        yield "table", b"half"
        raise _Refusal

    with closing(opener("half")) as storage, _raises(_Refusal, "create a campaign whose parts cannot be read"):
        storage.create(parts(), [Draft("start", {})])
    with closing(opener("half")) as storage, _raises(InputError, "create a campaign with NaN in an event"):
        storage.create([("table", b"half")], [Draft("start", {}), Draft("start", {"y": math.nan})])
    with _created(opener, "half") as storage:
        assert storage.part("table") == b"first", "a creation that failed must leave nothing"
        assert storage.events() == [], "a creation that failed must leave nothing"


def _keeps_parts(opener: Opener) -> None:
    """Check that parts come back byte for byte, and that two parts of one name are refused."""
    every_byte = bytes(range(256))
    parts = {"empty": b"", "bytes": every_byte, "folder/ä-1.safetensors": b"x", "large": every_byte * 2**14}
    with closing(opener("parts")) as storage:
        storage.create(iter(parts.items()), [])
        for name, data in parts.items():
            part = storage.part(name)
            assert isinstance(part, bytes), f"part {name}: give bytes, not {type(part).__name__}"
            assert part == data, f"part {name}: must come back as it was written"
        with _raises(StorageError, "read a part that does not exist"):
            storage.part("other")
    with closing(opener("twice")) as storage, _raises(StorageError, "write two parts of one name"):
        storage.create([("a", b"1"), ("a", b"2")], [])


def _numbers_in_order(opener: Opener) -> None:
    """Check that events are numbered from 1 without gaps, and keep order, kind and time.

    Also checks what append returns: the events above ``after``, earlier recorded ones included.
    """
    drafts = [Draft("start", {"k": 0}), Draft("note", {"k": 1})]
    with closing(opener("order")) as storage:
        assert _numbers(storage.create([], drafts)) == [1, 2], "create must return its events, from number 1"
        added = storage.append(2, _deciding({"k": 2}, {"k": 3}))
        assert _numbers(added) == [3, 4], "append must return the events above `after`, in order"
        assert _numbers(storage.append(1, _deciding({"k": 4}))) == [2, 3, 4, 5], (
            "those recorded before must be included"
        )
        assert storage.append(5, _deciding()) == [], "nothing decided, nothing recorded"
        assert _numbers(storage.append(4, _deciding())) == [5], "nothing decided: what is known must come back"
        events = storage.events()
        assert [event.body["k"] for event in events] == list(range(5)), "events must keep their order"
        assert [event.kind for event in events] == ["start", *["note"] * 4], "events must keep their kind"
        assert storage.events(after=3) == events[3:], "`after` must leave out the events up to that number"
        assert events[2:4] == added, "events must read as append returned them"
        for event in events:
            assert datetime.fromisoformat(event.time).utcoffset() == timedelta(0), f"{event.time}: times must be UTC"
        dated = storage.append(5, lambda _: [Draft("note", {}, time="2021-12-06T08:00:00+00:00")])
        assert dated[0].time == "2021-12-06T08:00:00+00:00", "a time that the draft gives must be kept"
        storage.check()


def _records_all_or_nothing(opener: Opener) -> None:
    """Check that an append that fails records nothing, keeps no lock and uses up no number."""

    def refuse(_earlier: list[Event]) -> list[Draft]:
        raise _Refusal

    with _created(opener, "refused", Draft("start", {})) as storage:
        with _raises(_Refusal, "let an error of `decide` through"):
            storage.append(1, refuse)
        for body in ({"y": math.nan}, {"y": math.inf}, {"y": {1, 2}}, {"y": b"bytes"}):
            with _raises(InputError, f"record {body}, which JSON cannot hold"):
                storage.append(1, _deciding({"y": 1}, body))
        with _raises(InputError, "record an event without a kind"):
            storage.append(1, lambda _: [Draft("note", {}), Draft("", {})])
        with _raises(StorageError, "build on events that are not there"):
            storage.append(7, _deciding({}))
        assert _numbers(storage.events()) == [1], "if anything fails, nothing must be recorded"
        assert _numbers(storage.append(1, _deciding({}))) == [2], "a failure must not use up a number, nor keep a lock"


def _shows_what_others_recorded(opener: Opener) -> None:
    """Check that `decide` gets the events that other handles recorded, and that append returns these events too."""
    seen: list[Event] = []

    def decide(earlier: list[Event]) -> list[Draft]:
        seen.extend(earlier)
        return [Draft("second", {})]

    with _created(opener, "others", Draft("start", {})) as storage, closing(opener("others")) as other:
        theirs = other.append(1, _deciding({"who": "other"}))
        ours = storage.append(1, decide)
        assert seen == theirs, "`decide` must see what others have recorded above `after`"
        assert _numbers(ours) == [2, 3], "what others recorded must be returned, too"
        assert other.events() == storage.events(), "all handles must see the same events"


def _lets_one_write_at_a_time(opener: Opener) -> None:
    """Check that no event is lost or decided on old events when several threads append by two handles."""

    def work(worker: int, storage: Storage) -> None:
        """Append events of one worker, one at a time."""

        def decide(earlier: list[Event]) -> list[Draft]:
            by_worker = sum(event.body["who"][0] == worker for event in earlier)
            return [Draft("note", {"who": [worker, by_worker], "seen": len(earlier)})]

        for _ in range(APPENDS_PER_THREAD):
            storage.append(0, decide)

    with _created(opener, "threads") as shared, closing(opener("threads")) as other:
        with ThreadPoolExecutor(N_THREADS) as pool:
            jobs = [pool.submit(work, worker, (shared, other)[worker % 2]) for worker in range(N_THREADS)]
            for job in jobs:
                job.result()
        events = shared.events()
        assert _numbers(events) == list(range(1, N_THREADS * APPENDS_PER_THREAD + 1)), (
            "numbers must have neither gaps nor repeats"
        )
        for event in events:
            assert event.body["seen"] == event.number - 1, "nobody may record anything while another one decides"
        expected = [[worker, k] for worker in range(N_THREADS) for k in range(APPENDS_PER_THREAD)]
        assert sorted(event.body["who"] for event in events) == expected, "every event must be recorded once"
        shared.check()


def _keeps_bodies(opener: Opener) -> None:
    """Check that bodies of events come back as JSON keeps them: any text and number, and tuples as lists."""
    body = {
        "texts": list(_TEXTS),
        "keys": {text: k for k, text in enumerate(_TEXTS)},
        "numbers": [0, -1, 2**63, 0.1, 1e-300, -1.5e300],
        "rest": [True, False, None, [], {}],
    }
    with _created(opener, "bodies") as storage:
        recorded = storage.append(0, _deciding(body))
        assert recorded[0].body == body, "append must return bodies as they were given"
        with closing(opener("bodies")) as other:
            assert other.events() == recorded, "bodies must come back as they were given"
        storage.append(1, _deciding({"pair": (1, 2)}))
        assert storage.events(1)[0].body == {"pair": [1, 2]}, "a body is JSON: a tuple comes back as a list"


def _closes_twice(opener: Opener) -> None:
    """Check that a storage may be closed twice, or without use, and that closing loses no event."""
    with _created(opener, "closed", Draft("start", {})) as storage:
        storage.close()
        storage.close()
    with closing(opener("closed")) as storage:
        assert _numbers(storage.events()) == [1], "closing must lose nothing"
    opener("unused").close()


@contextmanager
def _created(opener: Opener, name: str, *events: Draft) -> Iterator[Storage]:
    """Yield a storage of a new campaign with the part "table" and some events; close the storage afterwards."""
    with closing(opener(name)) as storage:
        storage.create([("table", b"first")], events)
        yield storage


@contextmanager
def _raises(expected: type[Exception], what: str) -> Iterator[None]:
    """Raise AssertionError unless the block raises ``expected``; ``what`` is what the block does, for the message."""
    try:
        yield
    except expected:
        return
    raise AssertionError(f"to {what} must raise {expected.__name__}")


def _deciding(*bodies: dict[str, Any]) -> Decide:
    """Return a function for append that decides on events with these bodies, whatever was recorded before."""
    return lambda _earlier: [Draft("note", body) for body in bodies]


def _numbers(events: list[Event]) -> list[int]:
    """Return the numbers of events, in the order of ``events``."""
    return [event.number for event in events]
