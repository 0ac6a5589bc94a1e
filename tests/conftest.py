"""Shared fixtures."""

from __future__ import annotations

import numpy as np
import pytest
import torch

# No examples are in it, and importing it registers a model.
collect_ignore = ["stress.py"]

# One thread per test process: small matrices are faster, and two processes share the machine.
torch.set_num_threads(1)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20211206)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest tests first, so that no process is left waiting for one at the end."""
    longest = ("test_wheel", "test_docs", "test_report", "test_experiments")
    items.sort(key=lambda item: next((k for k, name in enumerate(longest) if name in item.nodeid), len(longest)))
