"""Models by name."""

from __future__ import annotations

from typing import Any

from causalbald._registry import Registry
from causalbald.errors import InputError
from causalbald.models._base import CateEstimator

_REGISTRY: Registry[type[CateEstimator]] = Registry("model", "models")
names, register, summary = _REGISTRY.names, _REGISTRY.register, _REGISTRY.summary
version = _REGISTRY.version


def load(name: str, preset: str | None = None, **options: Any) -> CateEstimator:
    """Return a new, unfitted model.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    preset : str, optional
        The paper's hyper-parameters for one of its data sets: "synthetic", "ihdp" or "cmnist".
    **options
        Parameters of the model's class; they win over the preset's.
    """
    _REGISTRY.check_options(name, options)
    if preset is None:
        return _REGISTRY[name](**options)
    if preset not in presets(name):
        raise InputError(f"model {name!r} has no preset {preset!r}. Known: {', '.join(presets(name)) or 'none'}.")
    return _REGISTRY[name](**{**presets(name)[preset], **options})


def presets(name: str) -> dict[str, dict[str, Any]]:
    """Return a model's presets: data set and hyper-parameters."""
    return getattr(_REGISTRY[name], "presets", {})
