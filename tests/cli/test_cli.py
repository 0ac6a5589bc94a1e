"""The command line, as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from causalbald import acquisition, testing
from causalbald._registry import PLUGINS_VARIABLE
from causalbald.cli._app import app, main
from causalbald.cli._output import print_records
from causalbald.errors import InputError

EXAMPLES = Path(__file__).parents[2] / "examples"
COMMANDS = [
    "demo",
    "trial",
    "acquisitions",
    "models",
    "datasets",
    "run",
    "status",
    "table",
    "figure",
    "pack",
    "tune",
    "campaign",
    "choose",
    "score",
]
SHORT = ["--warm-start", "10", "--batch-size", "5", "--steps", "1"]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def shell(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "causalbald", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLUGINS_VARIABLE, "")


def test_help_teaches_and_does_not_import_torch() -> None:
    code = (
        "import sys; sys.argv = ['causalbald', '--help']\n"
        "from causalbald.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'pandas', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for command in COMMANDS:
        assert command in result.stdout
        assert "Example" in run(command, "--help")


def test_lists() -> None:
    names = {row["name"] for row in json.loads(run("acquisitions", "--json"))}
    assert names >= {"mu-rho-bald", "type-s"}
    assert {row["name"] for row in json.loads(run("datasets", "--json"))} >= {"ihdp", "synthetic"}
    assert [row["name"] for row in json.loads(run("models", "--json"))] == ["auto", "due", "gp", "index", "ensemble"]
    assert run("models").splitlines()[0] == "name,what"
    assert run("--version").startswith("causalbald ")


def test_trial_prints_a_table_or_json_and_writes_csv(tmp_path: Path) -> None:
    target = tmp_path / "trial.csv"
    rows = json.loads(run("trial", *SHORT, "--json", "-o", str(target)))
    assert [row["labels"] for row in rows] == [10, 15]
    assert [len(row["acquired"]) for row in rows] == [10, 5]
    assert pd.read_csv(target)["pehe"].tolist() == pytest.approx([row["pehe"] for row in rows])
    assert run("trial", *SHORT).splitlines()[0].split(",")[:3] == ["step", "labels", "pehe"]


def test_json_has_no_numbers_that_json_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    print_records([{"wins": float("nan"), "needed": float("inf"), "seeds": 3}], as_json=True)
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == [
        {"wins": None, "needed": None, "seeds": 3}
    ]


@pytest.mark.parametrize(
    ("text", "said"), [("import numpy\nx = nothing\n", "line 2: NameError"), ("def f(:\n", "line 1: Syn")]
)
def test_mistakes_in_a_plugin_are_said_to_be_there(text: str, said: str, tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(text)
    with pytest.raises(InputError, match=f"mine.py', {said}.*Correct the file"):
        CliRunner().invoke(app, ["--plugin", str(plugin), "acquisitions"], catch_exceptions=False)


def test_mistakes_are_one_line_with_the_remedy(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["causalbald", "trial", "--acquisition", "mu-rho"])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "unknown acquisition 'mu-rho'. Did you mean 'mu-rho-bald'?" in printed.err
    assert "Traceback" not in printed.err
    assert CliRunner().invoke(app, ["trial", "--stepz", "3"]).exit_code == 2
    missing = shell("demo", "-o", "/does/not/exist/page.html")
    assert missing.returncode == 1
    assert "create it" in missing.stderr


def test_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from causalbald.cli import _output

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    _output.print_records([{"name": "a", "value": 1.23456}], as_json=False, title="things")
    printed = capsys.readouterr().out
    assert "things" in printed
    assert "1.23" in printed


def test_one_file_adds_an_acquisition_function_everywhere() -> None:
    """Must appear in the list, in a trial, and pass the conformance suite."""
    plugin = str(EXAMPLES / "my_acquisition.py")
    listed = shell("--plugin", plugin, "acquisitions", "--json")
    assert "sign-bald" in {row["name"] for row in json.loads(listed.stdout)}
    trial = shell("--plugin", plugin, "trial", "--acquisition", "sign-bald", *SHORT, "--json")
    assert [row["labels"] for row in json.loads(trial.stdout)] == [10, 15]
    conformance = "from causalbald import acquisition, testing; testing.check_acquisition('sign-bald')"
    checked = subprocess.run(
        [sys.executable, "-c", conformance], env={**os.environ, PLUGINS_VARIABLE: plugin}, check=False
    )
    assert checked.returncode == 0
    assert "sign-bald" not in acquisition.names()


def test_an_installed_package_adds_an_acquisition_function(tmp_path: Path) -> None:
    """A distribution as pip lays it out: a module, and metadata with an entry point."""
    (tmp_path / "theirs.py").write_text((EXAMPLES / "my_acquisition.py").read_text())
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[causalbald.acquisition]\nsign-bald = theirs\n")
    listed = shell("acquisitions", "--json", PYTHONPATH=str(tmp_path))
    assert "sign-bald" in {row["name"] for row in json.loads(listed.stdout)}


def test_one_file_adds_a_data_set() -> None:
    plugin = str(EXAMPLES / "my_dataset.py")
    trial = shell("--plugin", plugin, "trial", "--dataset", "two-moons", *SHORT, "--json")
    assert trial.returncode == 0, trial.stderr
    code = "from causalbald import testing; testing.check_dataset('two-moons')"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, PLUGINS_VARIABLE: plugin}, check=True)


def test_plugins_of_the_same_name_in_two_folders_are_both_loaded(tmp_path: Path) -> None:
    source = (EXAMPLES / "my_acquisition.py").read_text()
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(source.replace("sign-bald", f"sign-{folder}"))
    plugins = [argument for folder in ("one", "two") for argument in ("--plugin", str(tmp_path / folder / "mine.py"))]
    names = {row["name"] for row in json.loads(shell(*plugins, "acquisitions", "--json").stdout)}
    assert {"sign-one", "sign-two"} <= names


def test_a_plugin_that_fails_is_named() -> None:
    result = shell("--plugin", "/does/not/exist.py", "acquisitions")
    assert result.returncode == 1
    assert "plugin file '/does/not/exist.py' does not exist" in result.stderr


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda posterior, treatment: posterior.effect_mean - posterior.effect_mean.mean(), "its own unit alone"),
        (lambda posterior, treatment: posterior.effect_mean * float("inf"), "finite|invalid"),
    ],
)
def test_the_conformance_suite_catches_mistakes(score: Any, message: str) -> None:
    score.__doc__ = "A mistake."
    with pytest.raises((AssertionError, RuntimeWarning), match=message):
        testing.check_acquisition(score)
