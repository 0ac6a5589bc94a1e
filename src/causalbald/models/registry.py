"""Models by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from causalbald._registry import Registry
from causalbald.errors import InputError
from causalbald.models.base import CateEstimator

C = TypeVar("C", bound=type[CateEstimator])
_REGISTRY: Registry[type[CateEstimator]] = Registry("model", "models")


def register(name: str) -> Callable[[C], C]:
    """Give an estimator class a name."""

    def decorate(estimator: C) -> C:
        _REGISTRY.add(name, estimator)
        return estimator

    return decorate


def names() -> list[str]:
    """Return the names of all models."""
    return _REGISTRY.names()


def summary(name: str) -> str:
    """Return the first line of a model's description."""
    return (inspect.getdoc(_REGISTRY[name]) or "").partition("\n")[0]


def make_model(name: str, **params: Any) -> CateEstimator:
    """Return a new, unfitted model; ``params`` are those of its class."""
    estimator = _REGISTRY[name]
    known = list(inspect.signature(estimator).parameters)
    unknown = [p for p in params if p not in known]
    if unknown:
        raise InputError(f"model {name!r} has no parameter {unknown[0]!r}. Known: {', '.join(known)}.")
    return estimator(**params)
