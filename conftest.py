"""What tests and the examples in docstrings share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from causalbald.acquisition._registry import _REGISTRY as FUNCTIONS
from causalbald.datasets._base import _REGISTRY as DATASETS
from causalbald.models._registry import _REGISTRY as MODELS


@pytest.fixture(autouse=True)
def _names_of_examples_are_forgotten(request: pytest.FixtureRequest) -> Iterator[None]:
    """Take names that an example in a docstring registers off the registries again: other tests list all names."""
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    for registry in (FUNCTIONS, DATASETS, MODELS):
        registry.names()  # loads what installed packages add, once
    before = [dict(registry._items) for registry in (FUNCTIONS, DATASETS, MODELS)]
    yield
    FUNCTIONS._items, DATASETS._items, MODELS._items = before  # type: ignore[assignment]
