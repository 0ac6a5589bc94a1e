"""Text that is not UTF-8 is refused before it is recorded; what version 0.1.0 recorded of it can be read."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from causalbald.campaign import Campaign
from causalbald.campaign.storage import Draft, MemoryStorage
from causalbald.errors import InputError
from tests.helpers.campaigns import OPTIONS, new_campaign, people, pool_of, running_campaign
from tests.helpers.cli_campaigns import call_main, finished_study, run

STUDY = people(60)
LOST = b"moved to K\xf6ln".decode(errors="surrogateescape")
READ = "moved to K\ufffdln"


@pytest.mark.parametrize("kind", ["withdraw", "fail"])
def test_a_reason_that_is_no_text_is_refused(kind: str) -> None:
    campaign = running_campaign(STUDY)
    unit, before = campaign.pending()["patient"][0], campaign.history()
    with pytest.raises(InputError, match=r"reason of event '(withdrawn|failed)' is 'moved to K\\udcf6ln'.*UTF-8"):
        getattr(campaign, kind)([unit], reason=LOST)
    pd.testing.assert_frame_equal(campaign.history(), before)
    campaign.fail([unit], reason="moved to Köln 😀")


@pytest.mark.parametrize(
    "body", [{"note": LOST}, {LOST: 1}, {"outcomes": {LOST: 1.0}}, {"questions": ["", [LOST]]}, {"a": {"b": LOST}}]
)
def test_no_storage_takes_text_that_is_none(body: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="not text in UTF-8"):
        MemoryStorage().create([], [Draft("note", body)])


@pytest.mark.parametrize(
    "act",
    [
        lambda c: c.withdraw([LOST], reason="x"),
        lambda c: c.tell({LOST: 1.0}),
        lambda c: c.effects([LOST]),
        lambda c: c.subgroups(LOST),
        *(
            lambda _, name=name: Campaign.create(MemoryStorage(), pool_of(STUDY), **{**OPTIONS, name: LOST})
            for name in ("id", "treatment", "outcome", "control", "cost", "weight", "model", "acquisition")
        ),
        lambda _: Campaign.create(MemoryStorage(), pool_of(STUDY), **OPTIONS, exclude=[LOST]),
        lambda _: Campaign.create(MemoryStorage(), pool_of(STUDY), **OPTIONS, covariates=[LOST]),
        lambda _: Campaign.create(MemoryStorage(), pool_of(STUDY), **OPTIONS, protected=[LOST]),
    ],
)
def test_names_and_ids_that_are_no_text_are_refused(act: Any) -> None:
    campaign = new_campaign(STUDY)
    campaign.tell(STUDY.rename(columns={"truth_y": "cd4"})[["patient", "cd4"]])
    with pytest.raises(InputError, match=r"\\udcf6"):
        act(campaign)


def test_the_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    finished_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert call_main(monkeypatch, "campaign", "withdraw", "study.db", "1", "--reason", LOST) == 1
    assert "is 'moved to K\\udcf6ln', which is not text in UTF-8" in " ".join(capsys.readouterr().err.split())
    assert "withdrawn" not in run("history", "study.db")


def test_a_campaign_that_holds_such_a_reason_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    run("withdraw", "study.db", "1", "--reason", READ)
    with closing(sqlite3.connect("study.db")) as file, file:  # as version 0.1.0 recorded it
        changed = file.execute("UPDATE causalbald_events SET body = replace(body, '\ufffd', '\\udcf6')")
        assert changed.rowcount
        assert "K\\udcf6ln" in file.execute("SELECT group_concat(body) FROM causalbald_events").fetchone()[0]
    assert READ in run("history", "study.db")
    run("status", "study.db")
    run("report", "study.db", "-o", "report.html")
    assert READ in Path("report.html").read_text(encoding="utf-8")
    run("export", "study.db", "-o", "study.jsonl")
    exported = Path("study.jsonl").read_text(encoding="utf-8")
    assert READ in exported
    Path("old.jsonl").write_text(exported.replace(json.dumps(READ, ensure_ascii=False), json.dumps(LOST)), "utf-8")
    assert "\\udcf6" in Path("old.jsonl").read_text(encoding="utf-8")
    run("import", "copy.db", "old.jsonl")
    assert run("history", "copy.db") == run("history", "study.db")
