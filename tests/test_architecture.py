"""The drawing of the layers shows what the import contract enforces."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def contract_layers() -> list[list[str]]:
    """Return the layers of the import contract, top first, siblings sorted."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return [sorted(re.findall(r"\w+", layer)) for layer in layers]


def drawn_layers() -> list[list[str]]:
    """Return the layers of the drawing in the architecture page, top first, siblings sorted."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawing = re.search(r"<!-- layers -->\n+```\n(.*?)```", page, re.DOTALL)
    assert drawing is not None
    return [sorted(re.findall(r"\w+", line)) for line in drawing[1].splitlines() if line.strip()]


def test_the_drawing_shows_the_contract() -> None:
    assert drawn_layers() == contract_layers()


def test_every_package_has_a_layer() -> None:
    source = ROOT / "src" / "causalbald"
    modules = {p.stem for p in source.glob("*.py")} | {p.parent.name for p in source.glob("*/__init__.py")}
    assert modules - {"__init__", "__main__"} == {name for layer in contract_layers() for name in layer}
