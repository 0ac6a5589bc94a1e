"""What tests of storages share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from causalbald.campaign.storage import Draft, Event, Storage, open_storage
from causalbald.errors import StorageError

START = [Draft("start", {"n": 1})]
PARTS = [("table", b"12345" * 2000), ("model", b"abc")]


def created(where: str | Path) -> Storage:
    storage = open_storage(where)
    storage.create(PARTS, START)
    return storage


def note(_known: list[Event]) -> list[Draft]:
    return [Draft("note", {})]


@contextmanager
def refused(*words: str, error: type[Exception] = StorageError, without: str = "\n") -> Iterator[None]:
    """Expect an error of one sentence with these words."""
    with pytest.raises(error) as caught:
        yield
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert message.endswith(".")
    assert "\n" not in message
    assert without not in message
    assert caught.value.__cause__ is None
