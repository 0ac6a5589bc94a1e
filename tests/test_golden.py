"""Files of an older release still open, and give the answers that they gave then.

What was asked is in ``tests/golden/questions.py``; ``tests/golden/make.py`` says how the files were made, and
``tests/golden/commands.py`` and ``renamed.py`` are the only places that change when the code's names do.

On the machine that made the files, numbers are equal to the last digit: ``GOLDEN_EXACT=1`` asks for that. On others
they may differ by what rounding does: models find their parameters by optimisation, which stops a little elsewhere on
another processor. Ids, arms and counts must be equal everywhere, and so must prose, except for its wording where
``renamed.py`` says so.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.golden import questions
from tests.golden.cases import CASES, LOOKS
from tests.golden.commands import call
from tests.golden.compare import Difference, differences
from tests.golden.make import FILES
from tests.golden.questions import STUDY, lines
from tests.golden.renamed import REWORDED

OTHERS: dict[str, Callable[[], dict[str, Any]]] = {
    "experiment": questions.of_experiment,
    "pools": questions.of_pools,
    "models": questions.of_models,
    "lists": questions.of_lists,
}
TOLERANCE = {"lists": 0.0, "experiment": 1e-6, "pools": 1e-6, "models": 1e-5}
_SHOWN = 10


@cache
def golden(name: str, file: str = "answers.json") -> Any:
    return json.loads((FILES / name / file).read_text(encoding="utf-8"))


def check(name: str, expected: Any, now: Any, tolerance: float) -> None:
    found: list[Difference] = list(differences(expected, now, tolerance, name))
    found = [one for one in found if not (REWORDED and one.wording)]
    assert not found, f"{len(found)} differences:\n" + "\n".join(map(str, found[:_SHOWN]))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new current folder."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def bring(name: str, *files: str) -> None:
    """Copy golden files into the current folder, by default all."""
    for path in (FILES / name).iterdir() if not files else [FILES / name / file for file in files]:
        (shutil.copytree if path.is_dir() else shutil.copy)(path, Path(path.name))


@pytest.mark.parametrize("name", CASES)
def test_a_campaign_of_then_gives_the_same_answers(name: str, folder: Path) -> None:
    bring(name, STUDY, "others.csv")
    answers, now = dict(golden(name)), questions.of_campaign(CASES[name])
    recorded, looked_up = ({question: given.pop(question) for question in LOOKS} for given in (answers, now))
    check(name, recorded, looked_up, 0.0)
    check(name, answers, now, CASES[name].tolerance)


@pytest.mark.parametrize("name", CASES)
def test_a_campaign_of_then_can_be_exported_and_imported(name: str, folder: Path) -> None:
    bring(name, STUDY, "export.jsonl")
    call("export", STUDY, output="again.jsonl")
    check(name, lines(Path("export.jsonl")), lines(Path("again.jsonl")), 0.0)
    call("import", "copy.db", "export.jsonl")
    check(name, golden(name)["history"], call("history", "copy.db", json=True), 0.0)
    call("export", "copy.db", output="copy.jsonl")
    assert Path("copy.jsonl").read_bytes() == Path("again.jsonl").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_the_same_commands_make_the_same_campaign(name: str, folder: Path) -> None:
    bring(name, "export.jsonl", *(path.name for path in (FILES / name).glob("*.csv")))
    tolerance = CASES[name].tolerance
    for k, step in enumerate(golden(name, "steps.json")):
        answer = call(step["command"], STUDY, *step["arguments"], **step["options"], json=True)
        check(f"step {k}: {step['command']}", step["answer"], answer, tolerance)
        if "written" in step:
            written = questions.cells(Path(step["options"]["output"]))
            check(f"step {k}: {step['command']}", {"written": step["written"]}, {"written": written}, tolerance)
    call("export", STUDY, output="now.jsonl")
    then, now = (questions.timeless(lines(Path(file))) for file in ("export.jsonl", "now.jsonl"))
    check(name, then, now, tolerance)


@pytest.mark.parametrize("name", OTHERS)
def test_what_was_stored_elsewhere_gives_the_same_answers(name: str, folder: Path) -> None:
    bring(name)
    check(name, golden(name), OTHERS[name](), TOLERANCE[name])


def test_a_run_that_was_cut_off_goes_on_with_the_same_result(folder: Path) -> None:
    bring("experiment")
    before = {p.name: p.read_bytes() for p in Path("finished/trials").iterdir()}
    call("run", questions.PLAN, out="finished", workers=1)
    assert {p.name: p.read_bytes() for p in Path("finished/trials").iterdir()} == before
    check("half", questions.trials(Path("finished")), questions.of_half_a_run(), TOLERANCE["experiment"])


@pytest.mark.parametrize(
    ("then", "now", "wording"),
    [
        ({"effect": 1.0}, {"effect": 1.001}, False),
        ({"effect": 1.0}, {"effect": None}, False),
        ({"effect": 1.0}, {"sd": 1.0}, False),
        ({"patient": "p1"}, {"patient": "p2"}, False),
        ({"patient": "a"}, {"patient": "b"}, False),
        ({"outside": 1}, {"outside": True}, False),
        ({"units": [1, 2]}, {"units": [1]}, False),
        ({"why": "above 98% of 1,000"}, {"why": "above 97% of 1,000"}, False),
        ({"why": "above 98% of those"}, {"why": "higher than 98% of them"}, True),
    ],
)
def test_a_difference_is_found(then: Any, now: Any, wording: bool) -> None:
    assert not list(differences(then, then, 0.0))
    found = list(differences(then, now, 1e-6))
    assert found
    assert all(one.wording is wording for one in found)
