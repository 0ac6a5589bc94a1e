"""What is stored of a campaign, and what a release does with what a newer one has stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from causalbald.campaign import Campaign, Creation, Failure, Measurements, Round, Withdrawal
from causalbald.campaign._events import happening
from causalbald.campaign._state import State
from causalbald.campaign.storage import Event, MemoryStorage
from causalbald.errors import StorageError
from tests.helpers.campaigns import new_campaign, people, running_campaign

STUDY = people()


@pytest.fixture(scope="module")
def eventful() -> Campaign:
    campaign = running_campaign(STUDY)
    first, second, *_ = campaign.pending()["patient"]
    campaign.tell({first: 1.5})
    campaign.tell({first: 2.5}, overwrite=True)
    campaign.fail([second], reason="did not come")
    campaign.withdraw([second], reason="moved away")
    return campaign


def test_events_come_back_as_they_were_stored(eventful: Campaign) -> None:
    events = eventful.storage.events()
    contents = [happening(event) for event in events]
    assert {type(content) for content in contents} == {Creation, Failure, Measurements, Round, Withdrawal}
    for event, content in zip(events, contents, strict=True):
        assert json.dumps(content.to_json()) == json.dumps(event.body)


def changed(event: Event, **fields: Any) -> Event:
    return Event(event.number, event.time, event.kind, event.body | fields)


def test_what_a_newer_release_has_stored_is_refused(eventful: Campaign) -> None:
    first, *later = eventful.storage.events()
    batch = next(event for event in later if event.kind == "asked")
    with pytest.raises(StorageError, match=r"unknown event 'paused': this campaign needs a newer causalbald\."):
        State().apply([Event(1, "", "paused", {})])
    for event in (
        changed(first, mood="good"),
        changed(first, settings=first.body["settings"] | {"mood": "good"}),
        changed(batch, mood="good"),
        changed(batch, units=[batch.body["units"][0] | {"mood": "good"}]),
        changed(batch, belief={"mood": "good"}),
    ):
        with pytest.raises(
            StorageError, match=r"unknown field 'mood' of a \w+: this campaign needs a newer causalbald\."
        ):
            happening(event)


def test_a_stored_event_that_lacks_a_field_is_damaged(eventful: Campaign) -> None:
    event = eventful.storage.events()[0]
    body = {name: value for name, value in event.body.items() if name != "rows"}
    with pytest.raises(StorageError, match=r"lacks its field 'rows': restore the campaign from a copy\."):
        happening(Event(1, "", "created", body))


def test_a_campaign_without_its_first_event_is_damaged() -> None:
    with pytest.raises(StorageError, match="event 1 is missing"):
        _ = State().start


def test_a_campaign_that_was_just_created_knows_its_events() -> None:
    storage = MemoryStorage()
    campaign = new_campaign(STUDY, storage)
    assert campaign.state.number == len(storage.events()) == 1
