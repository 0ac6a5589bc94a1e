"""Campaigns in a shell: strange names, terminals, mistakes, interrupts, speed of the start."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from causalbald.campaign import Campaign
from causalbald.cli import _app as program_module
from causalbald.cli import _output
from causalbald.errors import InputError, StorageError
from causalbald.tables import _reading
from tests.helpers.cli_campaigns import NEW, ROLES, STUDY, call_main, finished_study, run, work_on_copy, write_patients

NAMES = ["=1+1", '<b>&"bold"</b>', "two\nlines", "😀", "[red]x[/red]", ":smile:", "o'hara", "\x1b[31mred"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_study(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def folder(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return work_on_copy(finished, tmp_path, monkeypatch)


def test_strange_ids_and_columns_come_back_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    who, arm, outcome = "+id <i>", "=arm", '@y, "quoted"\n😀'
    strange = STUDY[["patient", "drug", "age", "sex"]].rename(columns={"patient": who, "drug": arm})
    strange[who] = [*NAMES, *(f"p{k}" for k in range(60 - len(NAMES)))]
    strange.to_csv("pool.csv", index=False)
    run(
        "new",
        "s.db",
        "--pool",
        "pool.csv",
        "--id",
        who,
        "--treatment",
        arm,
        "--control",
        "placebo",
        "--outcome",
        outcome,
    )
    batch = run("ask", "s.db", "-n", "60", "-o", "batch.csv")
    assert batch == ""
    header, *cells = csv.reader(io.StringIO(Path("batch.csv").read_text(), newline=""))
    assert (header[0], header[3], header[-1]) == (f"'{who}", f"'{arm}", f"'{outcome}")
    assert not [c for row in cells for c in row if c[:1] in ("=", "+", "@") or (c[:1] == "-" and not float(c))]
    Path("told.csv").write_text(Path("batch.csv").read_text().replace(",False,\n", ",False,1.5\n"))
    assert json.loads(run("tell", "s.db", "told.csv", "--json"))["new"] >= 50
    assert run("effects", "s.db", *NAMES).count("'=1+1") == 1
    assert [r[who] for r in json.loads(run("effects", "s.db", *NAMES, "--json"))] == NAMES


def test_an_outcome_may_be_called_like_our_own_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_patients(tmp_path / "patients.csv", "name")
    run("new", "s.db", *NEW[:-1], "score")
    run("ask", "s.db", "-o", "batch.csv")
    form = pd.read_csv("batch.csv")
    assert form.columns[-1] == "score"
    form.assign(score=1.0).to_csv("batch.csv", index=False)
    assert json.loads(run("tell", "s.db", "batch.csv", "--json"))["new"] == 10
    STUDY.rename(columns={"patient": "rank"}).drop(columns=["name", "cd4"]).to_csv("patients.csv", index=False)
    with pytest.raises(InputError, match="the id cannot be called 'rank'"):
        run("new", "t.db", *(w.replace("patient", "rank") if w == "patient" else w for w in NEW))


def test_a_terminal_gets_a_table_with_nothing_in_it_that_acts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow as pa

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    names = pa.table({"id": NAMES, "value": [float(k) * 1000 for k in range(len(NAMES))], "ok": [True] * len(NAMES)})
    _output.print_table(names, as_json=False, rows=7)
    printed = capsys.readouterr()
    for text in ("=1+1", "<b>", "two\\nlines", "😀", "[red]x[/red]", ":smile:", "o'hara", "5,000", "yes"):
        assert text in printed.out
    assert "x1b" not in printed.out
    assert "The first 7 of 8 rows" in printed.err
    _output.print_table(names, as_json=False, rows=1, last=True)
    assert "\\x1b[31mred" in capsys.readouterr().out
    _output.draw_table([{"a": None, "b": float("nan"), "c": "x" * 1000}], Console(file=sys.stdout, width=300))
    assert "x" * 199 + "…" in capsys.readouterr().out


def test_quick_commands_do_not_wait_for_heavy_imports(folder: Path) -> None:
    # Ours are compiled anew where bytecode is not kept, so that times say little here; what is imported says more.
    for arguments in (["tell", "study.db", "results.csv"], ["status", "study.db"], ["pending", "study.db"]):
        code = (
            f"import sys; sys.argv = ['causalbald', 'campaign', *{arguments!r}]\n"
            "from causalbald.cli import main\n"
            "try: main()\n"
            "except SystemExit as end: assert not end.code, end.code\n"
            "heavy = {'torch', 'sklearn', 'scipy', 'matplotlib', 'pandas'} & set(sys.modules)\n"
            "sys.exit(f'imported {heavy}' if heavy else 0)"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr


def test_a_batch_file_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, paths = _reading._read_file, []

    def counted(path: Path, *options: Any) -> Any:
        paths.append(path)
        return read(path, *options)

    monkeypatch.setattr(_reading, "_read_file", counted)
    run("pending", "study.db", "-o", "second.csv")
    assert paths == [Path("second.csv")]


def test_ask_and_report_import_only_what_they_use() -> None:
    code = (
        "import sys, causalbald.campaign._asking\n"
        "from causalbald._threads import one_thread\n"
        "with one_thread(): pass\n"
        "unused = {'matplotlib', 'sklearn', 'torch'} & set(sys.modules)\n"
        "from causalbald.report import write_report\n"
        "unused |= {'causalbald.experiments', 'causalbald.paper'} & set(sys.modules)\n"
        "sys.exit(f'imported {unused}' if unused else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["status", "nowhere.db"], "there is no file 'nowhere.db': check the name"),
        (["tell", "study.db", "nowhere.csv"], "there is no file 'nowhere.csv'"),
        (["ask", "study.db", "-n", "1000"], "ask for fewer"),
        (["ask", "study.db", "-o", "nowhere/batch.csv"], "create it"),
        (["ask", "study.db", "-o", "."], "is a folder: choose another name, or one in it"),
        (["effects", "study.db", "-o", "effects.doc"], "ends with .csv or .parquet"),
        (["effects", "study.db", "404"], "not in the pool"),
        (["effects", "study.db", "--alpha", "2"], "between 0 and 1"),
        (["subgroups", "study.db", "--by", "shoe"], "no column 'shoe'"),
        (["import", "copy.db", "patients.csv"], "patients.csv"),
        (["export", "study.db", "-o", "nowhere/x.jsonl"], "does not exist"),
        (["new", "x.db", *NEW, "--categorical", "race", "--numeric", "race"], "both --categorical and --numeric"),
        (["new", "x.db", "--pool", "patients.csv", *ROLES[:-1], "age", "--exclude", "shoe"], "no column 'shoe'"),
        (["new", "x.db", *NEW, "--acquisition", "mu-roh-bald"], "Did you mean 'mu-rho-bald'?"),
        (["new", "x.db", *NEW, "--covariate", "agee", "--numeric", "race"], "Did you mean 'age'?"),
        (["simulate", *NEW, "--rounds", "100"], "plan fewer rounds"),
    ],
)
def test_mistakes_are_one_line_with_the_remedy(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    remedy: str,
) -> None:
    before = Path("study.db").read_bytes()
    assert call_main(monkeypatch, "campaign", *arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert remedy in printed.err
    assert Path("study.db").read_bytes() == before


def test_an_export_gives_the_same_next_batch_elsewhere(folder: Path) -> None:
    run("export", "study.db", "-o", "export.jsonl")
    run("import", "copy.db", "export.jsonl")
    assert run("ask", "copy.db", "-n", "4") == run("ask", "study.db", "-n", "4")
    with pytest.raises(StorageError, match="exists already"):
        run("import", "copy.db", "export.jsonl")


def test_a_wrong_option_is_wrong_usage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call_main(monkeypatch, "campaign", "ask", "study.db", "--people", "3") == 2
    assert call_main(monkeypatch, "campaign", "new", "x.db", *NEW, "--better", "faster") == 2


def test_a_bug_says_so_and_debug_shows_where(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("first line\nsecond line")

    monkeypatch.setattr(Campaign, "status", broken)
    assert call_main(monkeypatch, "campaign", "status", "study.db") == 1
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "this is a bug in causalbald (ZeroDivisionError: first line)" in printed
    assert "causalbald --debug campaign status study.db" in printed
    for study, kind in (("study.db", "ZeroDivisionError: first line\nsecond line"), ("nowhere.db", "StorageError: ")):
        assert call_main(monkeypatch, "--debug", "campaign", "status", study) == 1
        printed = capsys.readouterr().err
        assert "Traceback (most recent call last)" in printed
        assert kind in printed


def test_a_plugin_that_fails_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """from causalbald import acquisition

@acquisition.register("breaks")
def breaks(posterior, treatment):
    \"\"\"Fails.\"\"\"
    raise ValueError("boom")
"""
    Path("breaks.py").write_text(text)
    monkeypatch.setenv("CAUSALBALD_PLUGINS", "")
    options = "--dataset", "synthetic", "--model", "gp", "--acquisition", "breaks", "--steps", "1"
    assert call_main(monkeypatch, "--plugin", "breaks.py", "trial", *options) == 1
    printed = capsys.readouterr().err
    assert "the plugin failed (ValueError: boom) at" in printed
    assert "breaks.py, line 6, in breaks" in printed
    assert "this is a bug" not in printed


def test_files_that_cannot_be_written_are_no_bug(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("causalbald.tables._writing.write_csv", full)
    assert call_main(monkeypatch, "campaign", "pending", "study.db", "-o", "new.csv") == 1
    assert "cannot write 'new.csv' (No space left on device)" in capsys.readouterr().err
    assert program_module._explanation(PermissionError(13, "Permission denied", "x")).startswith(
        "'x': Permission denied."
    )


def test_an_interrupt_ends_with_130_and_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Campaign, "ask", interrupted)
    assert call_main(monkeypatch, "campaign", "ask", "study.db") == 130
    assert capsys.readouterr().err == "Stopped.\n"


def test_shells_can_complete_names() -> None:
    line = {"COMP_WORDS": "causalbald campaign new x.db --acquisition mu-rho", "COMP_CWORD": "5"}
    environment = {**os.environ, **line, "_CAUSALBALD_COMPLETE": "complete_bash"}
    program = Path(sys.executable).with_name("causalbald")
    result = subprocess.run([program], capture_output=True, text=True, env=environment, check=True)
    assert result.stdout.split() == ["mu-rho-bald"]
