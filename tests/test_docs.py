"""Examples in README and docs run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_cli import COMMANDS

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


def test_every_command_in_the_docs_exists() -> None:
    for page in PAGES:
        for block in [*blocks(page, "console"), *blocks(page, "shell")]:
            for command in re.findall(r"^(?:\$ )?causalbald (?:--plugin \S+ )?([a-z]+)", block, flags=re.MULTILINE):
                assert command in COMMANDS, f"{page.name}: causalbald {command}"
