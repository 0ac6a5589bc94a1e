"""Ten of what `make stress` does two hundred times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_nothing_that_returned_is_lost_or_doubled() -> None:
    command = [sys.executable, "-m", "tests.stress", "--kills", "10", "--outcomes", "80"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all there, once") == 4
