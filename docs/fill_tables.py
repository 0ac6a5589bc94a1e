"""Fill in the tables of a page with what their commands print; with --check only test whether the tables are current.

    python docs/fill_tables.py docs/reproduction.md

A table is between a comment <!-- causalbald table ... --> or <!-- python FILE ... --> and the line <!-- end -->.
The comment may have several lines.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from causalbald.cli._app import app

BLOCK = re.compile(r"(<!-- (causalbald|python) (.*?) -->\n).*?(<!-- end -->)", flags=re.DOTALL)


def filled(text: str) -> str:
    """Return the text of a page with the current output of every table's command."""

    def fill(match: re.Match[str]) -> str:
        words = shlex.split(match[3])
        if match[2] == "causalbald":
            table = CliRunner().invoke(app, [*words, "--markdown"], catch_exceptions=False).stdout
        else:
            table = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True).stdout
        return f"{match[1]}\n{table}\n{match[4]}"

    return BLOCK.sub(fill, text)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    text = page.read_text()
    new = filled(text)
    if "--check" in sys.argv:
        sys.exit(0 if new == text else f"The tables of {page} are not current: run python docs/fill_tables.py {page}")
    page.write_text(new)
