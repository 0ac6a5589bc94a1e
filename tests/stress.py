"""Kill processes in the middle of ask and tell, and let many tell at once: `python -m tests.stress --kills 200`.

Children are forked, so that hundreds of calls can be cut short in minutes. What a call had returned is reported
through a pipe before the next call begins; afterwards the storage must hold all of it, once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from causalbald.campaign import Campaign
from causalbald.models import GaussianProcess, register
from tests.helpers.postgres import campaign_url

UNITS = 3000
Report = Callable[[str, list[str]], None]


@register("stress-gp")
class QuickProcess(GaussianProcess):
    """A process whose hyper-parameters are hardly learned: the moments of a call matter here, not its result."""

    def __init__(self, *, sites: int = 8, max_exact: int = 100, inducing: int = 16, random_state: int = 0) -> None:
        super().__init__(sites=sites, max_exact=max_exact, inducing=inducing, max_iter=1, random_state=random_state)


def new_study(where: Any) -> None:
    """Create a campaign whose model is quick."""
    rng = np.random.default_rng(0)
    pool = pd.DataFrame({"unit": np.arange(UNITS), "arm": np.arange(UNITS) % 2, "x": rng.normal(size=UNITS)})
    options: dict[str, Any] = {
        "id": "unit",
        "treatment": "arm",
        "outcome": "y",
        "model": "stress-gp",
        "acquisition": "mu-bald",
    }
    Campaign.create(where, pool, **options).close()


def outcome(unit: str) -> float:
    return int(unit) / 7


def fork(work: Callable[[Report], None]) -> tuple[int, int]:
    """Start a child; return its process id and the end of the pipe to read its reports from."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    status = 1
    try:
        os.close(read)
        work(lambda kind, ids: _send(write, [kind, ids]))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _send(pipe: int, message: Any) -> None:
    os.write(pipe, json.dumps(message).encode() + b"\n")


def reports(lines: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return what a child has reported."""
    return [(kind, ids) for kind, ids in map(json.loads, lines)]


def ask_and_tell(where: Any, report: Report) -> None:
    """Ask and tell until killed; report each call after it has returned."""
    with Campaign(where) as campaign:
        while True:
            ids = [str(u) for u in campaign.ask(2)["unit"]]
            report("asked", ids)
            campaign.tell({u: outcome(u) for u in ids})
            report("told", ids)


def kill_at_random(where: Any, kills: int, seed: int = 0) -> str:
    """Kill a child ``kills`` times, in or after one of its first four calls, and check after each."""
    new_study(where)
    rng, returned = random.Random(seed), []
    for _ in range(kills):
        child, pipe = fork(lambda report: ask_and_tell(where, report))
        with os.fdopen(pipe) as lines:
            first = list(islice(lines, rng.randrange(4)))
            time.sleep(rng.uniform(0, 0.2))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            returned += reports(chain(first, lines))
        verify(where, returned)
    told = sum(kind == "told" for kind, _ in returned)
    return f"{kills} kills, {len(returned) - told} asks and {told} tells had returned: all there, once"


def verify(where: Any, returned: list[tuple[str, list[str]]]) -> None:
    """Raise unless the storage is whole, holds all that was returned, and holds nothing twice."""
    with Campaign(where) as campaign:
        campaign.storage.check()
        events = campaign.storage.events()
        asked = Counter(u["id"] for e in events if e.kind == "asked" for u in e.body["units"])
        told = Counter(u for e in events if e.kind == "told" for u in e.body["outcomes"])
        for counts in (asked, told):
            doubled = [u for u, n in counts.items() if n > 1]
            assert not doubled, f"doubled: {doubled[:5]}"
        for kind, ids in returned:
            lost = [u for u in ids if u not in (asked if kind == "asked" else told)]
            assert not lost, f"lost although {kind} had returned: {lost[:5]}"
        state = campaign.state
        assert all(state.outcomes[u] == outcome(u) for u in told)


def tell_at_once(where: Any, processes: int, outcomes: int) -> str:
    """Let processes tell outcomes one by one at the same time, each its share, and check that all are there once."""
    new_study(where)

    def work(first: int) -> Callable[[Report], None]:
        def tell_share(report: Report) -> None:
            with Campaign(where) as campaign:
                for unit in range(first, outcomes, processes):
                    campaign.tell({str(unit): outcome(str(unit))})
                    report("told", [str(unit)])

        return tell_share

    started = time.perf_counter()
    children = [fork(work(k)) for k in range(processes)]
    codes = [os.waitpid(child, 0)[1] for child, _ in children]
    assert not any(codes), f"a process failed: {codes}"
    returned = []
    for _, pipe in children:
        with os.fdopen(pipe) as lines:
            returned += reports(lines)
    verify(where, returned)
    with Campaign(where) as campaign:
        assert len(campaign.state.outcomes) == outcomes == len(returned)
    return f"{processes} processes told {outcomes} outcomes in {time.perf_counter() - started:.1f} s: all there, once"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--outcomes", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, where in (("SQLite", Path(folder) / "a.db"), ("PostgreSQL", campaign_url())):
            sys.stdout.write(f"{name}: {kill_at_random(where, options.kills, options.seed)}\n")
        for name, where in (("SQLite", Path(folder) / "b.db"), ("PostgreSQL", campaign_url())):
            sys.stdout.write(f"{name}: {tell_at_once(where, options.processes, options.outcomes)}\n")


if __name__ == "__main__":
    main()
