"""Examples in README and docs run as they stand."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from causalbald.cli._app import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.name)
def test_python_examples_run_one_after_another(page: Path, tmp_path: Path) -> None:
    script = "\n".join(blocks(page, "python"))
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [p for p in PAGES if "<!-- end -->" in p.read_text()], ids=lambda p: p.name)
def test_tables_are_what_their_commands_print(page: Path) -> None:
    command = [sys.executable, "docs/fill_tables.py", str(page), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [*PAGES, ROOT / "results" / "README.md"], ids=lambda p: p.name)
def test_every_command_in_the_docs_exists(page: Path) -> None:
    """With all of its options, in blocks and inside sentences."""
    text = page.read_text().replace("\\\n", " ")
    shown = re.findall(r"^(?:\$ )?(causalbald [^#\n]+)", text, flags=re.MULTILINE)
    shown += re.findall(r"`(causalbald [a-z][^`…]+)`", text)
    for line in shown:
        words = [word.strip("[],") for word in shlex.split(line)[1:]]
        command: Any = get_command(app)
        while hasattr(command, "commands"):
            names = [word for word in words if word in command.commands or not re.match("-|.*[.A-Z]", word)]
            if not names and command.invoke_without_command:
                break
            assert names, f"{page.name}: {line}"
            assert names[0] in command.commands, f"{page.name}: {line}"
            command, words = command.commands[names[0]], words[words.index(names[0]) + 1 :]
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        unknown = [word for word in words if re.match("--?[a-z]", word) and word not in known]
        assert not unknown, f"{page.name}: {line}"
