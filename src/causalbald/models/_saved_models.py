"""Fitted deep models on disk: one safetensors file with the tensors and a description in JSON, never pickle.

The keys of the description and the prefixes of tensors are a stored format: files of earlier versions must load.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

import causalbald
from causalbald._covariate_names import fitted_names
from causalbald._files import replacing
from causalbald.errors import InputError

if TYPE_CHECKING:
    from causalbald.models._deep import DeepEstimator

    Model = TypeVar("Model", bound=DeepEstimator[Any])

# Prefixes of the names of tensors: those of the network, and those that the model needs besides it.
_NETWORK, _EXTRA = "network.", "rest."


def save(model: DeepEstimator[Any], path: Path) -> None:
    """Write a fitted model to ``path``. An existing file is replaced, as a whole or not at all.

    The user's own encoder is saved by its weights, not by its code. Raises InputError if ``path`` is a folder, or its
    folder does not exist.
    """
    parameters = model.get_params(deep=False)
    has_encoder = parameters.pop("encoder") is not None
    scaling = {name: np.asarray(value).tolist() for name, value in asdict(model.scaling_).items()}
    description = {
        "model": type(model).__name__,
        "version": causalbald.__version__,
        "parameters": parameters,
        "own_encoder": has_encoder,
        "shape": list(model.shape_),
        "names": fitted_names(model),
        "binary": model.binary_,
        "steps": model.steps_,
        "members": len(model.steps_),
        "scaling": scaling,
    }
    tensors = {_NETWORK + name: value for name, value in model.network_.state_dict().items()}
    tensors |= {_EXTRA + name: value for name, value in model._extra_tensors().items()}
    state = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    text = json.dumps(description, default=lambda number: number.item())  # numbers of NumPy
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"cannot write {path}: give the name of a file in a folder that exists.")
    with replacing(path) as temporary:
        save_file(state, temporary, metadata={"causalbald": text})


def load(cls: type[Model], path: Path, encoder: nn.Module | None) -> Model:
    """Return the fitted model in a file that ``save`` wrote, with its network in evaluation mode.

    ``encoder`` is the user's own module, of which the model makes copies; None if the model was saved without one.
    Raises InputError if the file is missing or damaged, or holds a model of another class than ``cls``. Also raises it
    if ``encoder`` is missing or not needed, or if the model's device is not available.
    """
    description, tensors = _read(path)
    name, has_encoder = description["model"], description["own_encoder"]
    if name != cls.__name__:
        raise InputError(f"{path} holds a {name}, not a {cls.__name__}: use {name}.load.")
    if has_encoder != (encoder is not None):
        remedy = "give it as encoder=" if has_encoder else "omit encoder="
        raise InputError(f"{path} was saved {'with' if has_encoder else 'without'} a user's encoder: {remedy}.")
    model = cls(**description["parameters"], encoder=encoder)
    model._restore_description(description)
    model.network_ = model._build(model._streams("member", description["members"]))
    network = {name.removeprefix(_NETWORK): v for name, v in tensors.items() if name.startswith(_NETWORK)}
    model.network_.load_state_dict(network)
    model.network_.eval()
    model._restore_tensors({name.removeprefix(_EXTRA): v for name, v in tensors.items() if name.startswith(_EXTRA)})
    return model


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the description and the tensors in a file; InputError if it is missing, cut short or not ours."""
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            description = (file.metadata() or {}).get("causalbald")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file, or it was cut short ({error}).") from None
    if description is None:
        raise InputError(f"{path} is a safetensors file, but not one that causalbald wrote.")
    return json.loads(description), tensors
