"""A small study for tests of the command line."""

from __future__ import annotations

import csv
import io
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from causalbald.cli import _campaign as commands
from causalbald.cli._app import app, main

ROLES = ["--id", "patient", "--treatment", "drug", "--control", "placebo", "--outcome", "cd4"]
NEW = ["--pool", "patients.csv", *ROLES]
EXAMPLES = {
    str(command.name): re.findall(r"causalbald campaign (.*)", command.epilog or "")
    for command in commands.app.registered_commands
}


def table(n: int = 60, seed: int = 0) -> pd.DataFrame:
    """Return patients; column ``cd4`` is what would be measured."""
    rng = np.random.default_rng(seed)
    age, sex = rng.normal(50, 10, n), rng.choice(["f", "m"], n)
    treated = rng.random(n) < 1 / (1 + np.exp((50 - age) / 10))
    return pd.DataFrame(
        {
            "patient": np.arange(1, n + 1),
            "name": [f"Name {k}" for k in range(n)],
            "drug": np.where(treated, "drug", "placebo"),
            "age": age.round(1),
            "sex": sex,
            "race": rng.integers(0, 3, n),
            "price": rng.uniform(50, 150, n).round(),
            "cd4": (treated * (2 + (sex == "f")) + age / 20 + rng.normal(0, 0.3, n)).round(2),
        }
    )


STUDY = table()


def write_patients(path: Path, *drop: str) -> None:
    STUDY.drop(columns=["cd4", *drop]).to_csv(path, index=False)


def run(*arguments: str, code: int = 0) -> str:
    """Run a command and return what it writes to stdout."""
    result = CliRunner().invoke(app, ["campaign", *arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def said(*arguments: str) -> str:
    """Run a command and return what it says to people."""
    result = CliRunner().invoke(app, ["campaign", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return " ".join(result.stderr.split())


def call_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["causalbald", *arguments])
    monkeypatch.setattr("warnings.formatwarning", lambda *_: "")  # main sets its own
    with pytest.raises(SystemExit) as end:
        main()
    assert isinstance(end.value.code, int)
    return end.value.code


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def measure(batch: str, results: str) -> None:
    """Fill in the outcomes of a batch, as a laboratory would."""
    form = pd.read_csv(batch)
    form["cd4"] = STUDY.set_index("patient")["cd4"].loc[form["patient"]].to_numpy()
    form.to_csv(results, index=False)


def finished_study(folder: Path) -> Path:
    """Run a campaign of two rounds in a folder, the second of them pending; tests work on a copy."""
    write_patients(folder / "patients.csv", "name")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run("new", "study.db", *NEW, "--cost", "price", "--budget", "5000", "--protected", "sex")
        run("ask", "study.db", "-n", "12", "-o", "batch.csv")
        measure("batch.csv", "results.csv")
        run("tell", "study.db", "results.csv")
        run("ask", "study.db", "-n", "3", "-o", "second.csv")
    return folder


def work_on_copy(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(finished, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"
