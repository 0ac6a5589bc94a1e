"""Models by name."""

from __future__ import annotations

from typing import Any

from causalbald._registry import Registry
from causalbald.errors import InputError
from causalbald.models._base import CateEstimator

_REGISTRY: Registry[type[CateEstimator]] = Registry("model", "models")
names, register, summary = _REGISTRY.names, _REGISTRY.register, _REGISTRY.summary
version, check_options = _REGISTRY.version, _REGISTRY.check_options


def load(name: str, preset: str | None = None, **options: Any) -> CateEstimator:
    """Return a new, unfitted model.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    preset : str, optional
        One of :func:`presets`: the paper's hyper-parameters for its data set "synthetic", "ihdp" or "cmnist". By
        default the model's own hyper-parameters.
    **options
        Parameters of the model's class. They override those of the preset.

    Returns
    -------
    CateEstimator
        The model, not fitted.

    Raises
    ------
    UnknownNameError
        If no model has that name.
    InputError
        If the model has no such option or preset.

    Examples
    --------
    >>> from causalbald import models
    >>> models.load("gp", sites=100)
    GaussianProcess(sites=100)
    """
    _REGISTRY.check_options(name, options)
    if preset is None:
        return _REGISTRY[name](**options)
    if preset not in presets(name):
        raise InputError(f"model {name!r} has no preset {preset!r}. Known: {', '.join(presets(name)) or 'none'}.")
    return _REGISTRY[name](**{**presets(name)[preset], **options})


def presets(name: str) -> dict[str, dict[str, Any]]:
    """Return the presets of a model.

    Parameters
    ----------
    name : str
        One of :func:`names`.

    Returns
    -------
    dict
        Hyper-parameters by name of the paper's data set; empty for models that the paper does not have.

    Raises
    ------
    UnknownNameError
        If no model has that name.

    Examples
    --------
    >>> from causalbald import models
    >>> sorted(models.presets("ensemble"))
    ['cmnist', 'ihdp', 'synthetic']
    >>> models.presets("gp")
    {}
    """
    return getattr(_REGISTRY[name], "presets", {})
