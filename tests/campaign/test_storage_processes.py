"""Storages under many processes, and under processes that are killed at any moment."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from causalbald.campaign.storage import Draft, Storage, open_storage
from causalbald.errors import StorageError
from tests.helpers.postgres import campaign_url

# A process that has imported everything and forks workers, as each line that it reads demands: [job, where, tokens,
# seconds after which they are killed or null]. It kills them itself, because it knows that their ids are still theirs.
# The time runs from when all workers are under way, however slow the machine. A worker says "done <what>" when a call
# has returned; "gone" means that all workers are.
NURSERY = """
import json, os, signal, sys, time
from causalbald.campaign.storage import Draft, _sql, _sqlite, open_storage
if "://" in sys.argv[1]:
    import causalbald.campaign.storage._postgres

started, start = os.pipe()

def say(*words):
    os.write(1, (" ".join(words) + "\\n").encode())

def create(where, token):
    os.write(start, b".")
    parts = ((f"part-{k}", bytes([k]) * 200_000) for k in range(20))
    open_storage(where).create(parts, [Draft("start", {"token": f"{token}.{k}"}) for k in range(3)])
    say("done", token)

def append(where, token):
    storage = open_storage(where)
    for k in range(100_000):
        storage.append(0, lambda _: [Draft("note", {"token": f"{token}.{k}", "half": h}) for h in (0, 1)])
        say("done", f"{token}.{k}")
        if k == 0:
            os.write(start, b".")

def share(where, token, seen=0):
    storage, (worker, appends) = open_storage(where), token.split(":")
    for k in range(int(appends)):
        decide = lambda known: [Draft("note", {"token": f"{worker}.{k}", "seen": seen + len(known)})]
        seen = storage.append(seen, decide)[-1].number

def bear(job, *arguments):
    pid = os.fork()
    if pid == 0:
        try:
            job(*arguments)
        except BaseException as error:
            say("error", repr(error))
        os._exit(0)
    return pid

say("ready")
for line in sys.stdin:
    job, where, tokens, kill_after = json.loads(line)
    workers = [bear(globals()[job], where, token) for token in tokens]
    if kill_after is not None:
        for _ in workers:
            os.read(started, 1)
        time.sleep(kill_after)
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
    for pid in workers:
        os.waitpid(pid, 0)
    say("gone")
"""


class Nursery:
    """Where worker processes come from, without a second of imports for each."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders, self._answers = process.stdin, process.stdout
        self._until("ready")

    def run(self, job: str, where: str, *tokens: str, kill_after: float | None = None) -> list[str]:
        """Run a worker per token, perhaps kill them after some seconds, and return what they have done."""
        self._orders.write(json.dumps([job, where, tokens, kill_after]) + "\n")
        self._orders.flush()
        return self._until("gone")

    def _until(self, last: str) -> list[str]:
        done: list[str] = []
        for line in self._answers:
            word, _, rest = line.rstrip().partition(" ")
            assert word != "error", line
            if word == last:
                return done
            done.append(rest)
        raise AssertionError("the nursery died")


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "study.db") if request.param == "sqlite" else campaign_url()


@pytest.fixture
def nursery(where: str) -> Iterator[Nursery]:
    command = [sys.executable, "-c", NURSERY, where]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield Nursery(process)


@pytest.mark.parametrize("appends", [25, pytest.param(125, marks=pytest.mark.slow)])
def test_eight_processes_record_every_event_once(appends: int, where: str, nursery: Nursery) -> None:
    storage = open_storage(where)
    storage.create([], [Draft("start", {"token": "start", "seen": 0})])
    nursery.run("share", where, *(f"{worker}:{appends}" for worker in range(8)))
    storage.check()
    events = storage.events()
    assert [event.number for event in events] == list(range(1, 8 * appends + 2))
    assert [event.body["seen"] for event in events] == list(range(8 * appends + 1)), "somebody decided in the dark"
    expected = {f"{worker}.{k}" for worker in range(8) for k in range(appends)}
    assert {event.body["token"] for event in events} == expected | {"start"}


KILLS = pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.slow)])


@KILLS
def test_what_append_returned_survives_its_process(kills: int, where: str, nursery: Nursery) -> None:
    storage = open_storage(where)
    storage.create([], [])
    rng = random.Random(0)
    returned: list[str] = []
    for k in range(kills):
        returned += nursery.run("append", where, str(k), kill_after=rng.uniform(0, 0.1))
        storage.check()
    recorded = Counter(event.body["token"] for event in storage.events())
    assert set(recorded.values()) == {2}, "half of what was appended is missing, or there twice"
    assert set(returned) <= set(recorded), "what was recorded is lost"
    assert len(recorded) <= len(returned) + kills, "more than the calls that were killed"


@KILLS
def test_creation_is_whole_or_nothing(kills: int, where: str, nursery: Nursery) -> None:
    start = time.monotonic()
    assert nursery.run("create", where, "whole") == ["whole"]
    duration = time.monotonic() - start
    rng = random.Random(0)
    for k in range(kills):
        place = f"{where}-{k}"
        returned = nursery.run("create", place, "whole", kill_after=rng.uniform(0, duration))
        exists = is_there_whole(open_storage(place))
        assert exists or not returned, "a campaign that was created is lost"


def is_there_whole(storage: Storage) -> bool:
    try:
        tokens = [event.body["token"] for event in storage.events()]
    except StorageError as error:
        if "there is no" in str(error):
            return False
        raise
    storage.check()
    assert tokens == ["whole.0", "whole.1", "whole.2"]
    assert all(storage.part(f"part-{part}") == bytes([part]) * 200_000 for part in range(20))
    return True


def test_creation_succeeds_where_one_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    script = """
import os, sys
from causalbald.campaign.storage import open_storage
parts = ((f"part-{k}", b"x" * 5_000_000) if k < 3 else os._exit(9) for k in range(4))
open_storage(sys.argv[1]).create(parts, [])
"""
    assert subprocess.run([sys.executable, "-c", script, path]).returncode == 9
    assert not path.exists()
    storage = open_storage(path)
    storage.create([], [Draft("start", {})])
    storage.check()
