"""Every public name has a docstring with its sections and an example."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

PACKAGES = (
    "acquisition", "campaign", "campaign.storage", "datasets", "diagnostics", "errors", "experiments", "figures",
    "metrics", "models", "paper", "pools", "report", "selection", "tables", "testing",
)  # fmt: skip


def public_names() -> list[str]:
    """Return the dotted name of every function and class that a package exports."""
    names = []
    for package in PACKAGES:
        module = importlib.import_module(f"causalbald.{package}")
        exported = getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")])
        for name in exported:
            item = getattr(module, name)
            if (inspect.isfunction(item) or inspect.isclass(item)) and item.__module__.startswith("causalbald"):
                names.append(f"{package}.{name}")
    return names


def item_of(name: str) -> Any:
    package, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(f"causalbald.{package}"), attribute)


@pytest.mark.parametrize("name", public_names())
def test_a_public_name_explains_itself(name: str) -> None:
    item = item_of(name)
    text = inspect.getdoc(item) or ""
    assert ">>> " in text, f"{name} has no example"
    if inspect.isclass(item):
        return
    signature = inspect.signature(item)
    if signature.parameters:
        assert "Parameters\n---" in text, f"{name} does not list its parameters"
    if signature.return_annotation not in (None, "None", inspect.Signature.empty):
        assert "Returns\n---" in text or "Yields\n---" in text, f"{name} does not say what it returns"
    for parameter in signature.parameters:
        assert parameter in text, f"{name} does not explain {parameter}"
