"""Makes the golden files: ``python -m tests.golden.make [CASE ...]``.

They are what an older release left on people's disks, and what it answered to questions about them. ``files/MADE.json``
says which commit made them, and with which versions. Making them again is for a change of behaviour that is meant:
first see that the tests fail in the places that should change, and in no others. Two runs give the same files.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tests.golden import commands, questions
from tests.golden.cases import CASES
from tests.golden.commands import call
from tests.golden.people import People, people
from tests.golden.questions import PLAN, ROLES, STUDY

FILES = Path(__file__).parent / "files"
_BEGINNING = datetime(2026, 1, 5, 8, tzinfo=UTC)


class Lab:
    """Runs a campaign in the current folder, and notes every command, so that it can be run again."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.waiting: list[str] = []
        self.told: list[str] = []
        self._forms: dict[str, tuple[list[str], list[str]]] = {}

    def new(self, who: People, **options: Any) -> None:
        """Create the campaign; somebody from the same population is kept for predictions."""
        self._who = who
        who.table.to_csv("pool.csv", index=False)
        others = who.table.head(12).drop(columns=[who.roles["outcome"]], errors="ignore")
        others.assign(**{who.roles["id"]: [f"other {k}" for k in range(12)]}).to_csv("others.csv", index=False)
        self._do("new", pool="pool.csv", **who.roles, **options)

    def ask(self, n: int, **options: Any) -> list[str]:
        """Ask for people and return their ids."""
        form = f"batch-{len(self._forms) + 1}.csv"
        batch = self._do("ask", n=n, output=form, **options)
        with open(form, newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        ids = [str(row[self._who.roles["id"]]) for row in batch]
        self._forms |= {form: (head, [])}
        self._rows = getattr(self, "_rows", {}) | dict(zip(ids, rows, strict=True))
        self._head = head
        self.waiting += ids
        return ids

    def tell(self, count: int | None = None, *, first: Sequence[str] | None = None) -> None:
        """Fill in and tell the first ``count`` who are waiting, by default all; or some people who were not asked."""
        ids = list(first) if first is not None else self.waiting[:count]
        self._tell(ids, [self._who.outcomes[i] for i in ids])

    def correct(self, ids: Sequence[str], by: float) -> None:
        """Tell other outcomes of people who have some."""
        self._tell(ids, [self._who.outcomes[i] + by for i in ids], overwrite=True)

    def _tell(self, ids: Sequence[str], values: Sequence[float], **options: Any) -> None:
        results = f"results-{sum(step['command'] == 'tell' for step in self.steps) + 1}.csv"
        roles = self._who.roles
        with open(results, "w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            if all(i in self._rows for i in ids):  # the batch itself, filled in; in another order than it was asked for
                rows.writerow(self._head)
                for i, value in sorted(zip(ids, values, strict=True)):
                    rows.writerow([*self._rows[i][:-1], f"{value:g}"])
            else:
                rows.writerow([roles["id"], roles["outcome"]])
                rows.writerows([i, f"{value:g}"] for i, value in zip(ids, values, strict=True))
        self._do("tell", results, **options)
        self.told += [i for i in ids if i not in self.told]
        self.waiting = [i for i in self.waiting if i not in ids]

    def fail(self, ids: Sequence[str], **options: Any) -> None:
        """Report measurements that have failed."""
        ids = list(ids)
        self._do("fail", *ids, **options)
        self.waiting = [i for i in self.waiting if i not in ids]

    def withdraw(self, ids: Sequence[str], **options: Any) -> None:
        """Withdraw people."""
        self._do("withdraw", *ids, **options)
        self.waiting = [i for i in self.waiting if i not in ids]

    def others(self) -> list[str]:
        """Return the ids of all who were neither asked for nor told."""
        return [i for i in self._who.outcomes if i not in self.told and i not in self._rows]

    def _do(self, command: str, *arguments: str, **options: Any) -> Any:
        answer = call(command, STUDY, *arguments, **options, json=True)
        assert "error" not in answer, f"{command}: {answer}"
        step = {"command": command, "arguments": list(arguments), "options": options, "answer": answer}
        if (output := options.get("output")) is not None:
            step["written"] = questions.cells(Path(output))
        self.steps.append(step)
        return answer


def make_campaign(name: str) -> None:
    """Make one campaign in the current folder: database, export, steps, answers."""
    lab = Lab()
    CASES[name].story(lab)
    _fix_times()
    for form in Path().glob("batch-*.csv"):
        form.unlink()
    _write("steps.json", lab.steps)
    _write("answers.json", questions.of_campaign(CASES[name]))
    Path("report.html").unlink(missing_ok=True)


def _fix_times() -> None:
    """Let every event have happened at a fixed time, in the database and its export."""
    call("export", STUDY, output="export.jsonl")
    records = questions.lines(Path("export.jsonl"))
    for record in records:
        if "time" in record:
            record["time"] = (_BEGINNING + timedelta(hours=record["number"])).isoformat(timespec="milliseconds")
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    Path("export.jsonl").write_text(text, encoding="utf-8")
    Path(STUDY).unlink()
    call("import", STUDY, "export.jsonl")
    with sqlite3.connect(STUDY) as connection:
        connection.execute("UPDATE causalbald_campaigns SET created = ?", (_BEGINNING.isoformat("T", "milliseconds"),))
    connection.close()


_PLAN_TEXT = """datasets = ["synthetic"]
models = ["gp"]
acquisitions = ["random", "mu-pi-bald"]
seeds = "0-1"

[settings.synthetic]
warm_start = 8
batch_size = 4
steps = 2

[settings.synthetic.options]
pool = 80
validation = 20
test = 60
"""


def make_experiment() -> None:
    """Make a finished run, and one that was cut off, in the current folder."""
    Path(PLAN).write_text(_PLAN_TEXT, encoding="utf-8")
    call("run", PLAN, out="finished", workers=1)
    for path in sorted(Path("finished/trials").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        record["rows"] = [row | {"seconds_fit": 0.25, "seconds_score": 0.125} for row in record["rows"]]
        path.write_text(json.dumps(record), encoding="utf-8")
    _drop_empty(Path("finished"))
    answers = questions.of_experiment()
    shutil.rmtree("packed")
    shutil.copytree("finished", "half")
    for path in sorted(Path("half/trials").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        rows, acquired = record["rows"][:2], record["acquired"][:3]
        Path("half/partial").mkdir(exist_ok=True)
        Path("half/partial", path.name).write_text(json.dumps(record | {"rows": rows, "acquired": acquired}))
    shutil.rmtree("half/trials")
    _write("answers.json", answers)


def _drop_empty(folder: Path) -> None:
    """Remove what git does not keep."""
    for path in folder.iterdir():
        if path.suffix == ".lock":
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def make_pools() -> None:
    """Make a pool on disk, as one file and as a folder of two, and a table of what is measured."""
    who = people(120, 20)
    table = who.table.drop(columns=["site"])
    table.to_parquet("pool.parquet", index=False)
    Path("folder").mkdir()
    for name, part in (("a", table[:50]), ("b", table[50:])):
        part.to_parquet(f"folder/{name}.parquet", index=False)
    known = table["patient"][::6].tolist()
    outcomes = [who.outcomes[i] if k % 5 else None for k, i in enumerate(known)]
    pd.DataFrame({ROLES["id"]: known, ROLES["outcome"]: outcomes}).to_csv("measured.csv", index=False)
    answers = questions.of_pools()
    Path("s.parquet").unlink()
    _write("answers.json", answers)


def make_models() -> None:
    """Make small deep models, and rows of which they believe something."""
    rng = np.random.default_rng(21)
    x = rng.normal(size=(60, 3)).round(3)
    t = (rng.random(60) < 0.5).astype(int)
    y = x[:, 0] + t * (1 + x[:, 1]) + rng.normal(0, 0.2, 60)
    event = (y > 0.5).astype(float)
    few: dict[str, Any] = {"hidden": 12, "depth": 2, "members": 2, "max_epochs": 3, "epoch_steps": 5, "random_state": 1}
    made = {
        "due": commands.train("due", y, t, x, folds=2, **few),
        "due-binary": commands.train("due", event, t, x, folds=2, inducing=8, **few),
        "ensemble": commands.train("ensemble", y, t, x, **few),
        "ensemble-binary": commands.train("ensemble", event, t, x, **few),
        "ensemble-named": commands.train("ensemble", y, t, pd.DataFrame(x, columns=["a", "b", "c"]), **few),
    }
    for name, model in made.items():
        commands.save(model, Path(f"{name}.safetensors"))
    _without_names("due")
    pd.DataFrame(rng.normal(size=(8, 3)).round(3), columns=["a", "b", "c"]).to_csv("rows.csv", index=False)
    _write("answers.json", questions.of_models())


def _without_names(name: str) -> None:
    """Copy a stored model as it was written before names of columns were kept with it."""
    with safe_open(f"{name}.safetensors", framework="pt") as file:
        metadata, tensors = file.metadata(), {key: file.get_tensor(key) for key in sorted(file.keys())}
    description = json.loads(metadata["causalbald"])
    del description["names"]
    metadata = {"causalbald": json.dumps(description)}
    save_file(tensors, f"{name}-without-names.safetensors", metadata=metadata)


def make_lists() -> None:
    """Write the names that the code knows."""
    _write("answers.json", questions.of_lists())


OTHERS = {"experiment": make_experiment, "pools": make_pools, "models": make_models, "lists": make_lists}


def _write(name: str, content: Any) -> None:
    """Write JSON, a line for each entry of the second level, so that a change is seen in a diff."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=True, separators=(",", ": "))
    if isinstance(content, list):
        text = "[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in content) + "\n]"
    elif isinstance(content, dict):
        entries = (f"{json.dumps(k, ensure_ascii=False)}: {_lines(v)}" for k, v in content.items())
        text = "{\n" + ",\n".join(entries) + "\n}"
    Path(name).write_text(text + "\n", encoding="utf-8")


def _lines(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value, ensure_ascii=False)
    return "[\n" + ",\n".join(json.dumps(v, ensure_ascii=False) for v in value) + "\n]"


@contextmanager
def _within(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def main(names: Sequence[str]) -> None:
    """Make the cases named, or all."""
    torch.set_num_threads(1)
    known = [*CASES, *OTHERS]
    for name in names or known:
        target = FILES / name
        with tempfile.TemporaryDirectory() as folder, _within(Path(folder)):
            OTHERS[name]() if name in OTHERS else make_campaign(name)
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target)
        sys.stderr.write(f"{name}\n")
    for old in FILES.iterdir():
        if old.is_dir() and old.name not in known:
            shutil.rmtree(old)
    commit = subprocess.run(["git", "rev-parse", "HEAD:src"], cwd=FILES, capture_output=True, text=True, check=True)
    packages = ("numpy", "scikit-learn", "scipy", "torch", "pandas", "pyarrow")
    made = {"tree of src": commit.stdout.strip(), "versions": {name: version(name) for name in packages}}
    (FILES / "MADE.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
