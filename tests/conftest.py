"""Shared fixtures."""

from __future__ import annotations

import numpy as np
import pytest
import torch

# One thread per test process: small matrices are faster, and two processes share the machine.
torch.set_num_threads(1)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20211206)
