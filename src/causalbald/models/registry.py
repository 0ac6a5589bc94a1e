"""Models by name."""

from __future__ import annotations

from typing import Any

from causalbald._registry import Registry
from causalbald.models.base import CateEstimator

_REGISTRY: Registry[type[CateEstimator]] = Registry("model", "models")
names, register, summary = _REGISTRY.names, _REGISTRY.register, _REGISTRY.summary


def make_model(name: str, **options: Any) -> CateEstimator:
    """Return a new, unfitted model; ``options`` are the parameters of its class."""
    _REGISTRY.check_options(name, options)
    return _REGISTRY[name](**options)
