"""Fitted deep models on disk: one safetensors file, tensors and a description in JSON, never pickle."""

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

    Model = TypeVar("Model", bound=DeepEstimator)

_NETWORK, _REST = "network.", "rest."


def save(model: DeepEstimator, path: Path) -> None:
    """Write a fitted model; the file appears whole or not at all."""
    parameters = model.get_params(deep=False)
    own_encoder = parameters.pop("encoder") is not None
    scaling = {name: np.asarray(value).tolist() for name, value in asdict(model.scaling_).items()}
    description = {
        "model": type(model).__name__,
        "version": causalbald.__version__,
        "parameters": parameters,
        "own_encoder": own_encoder,
        "shape": list(model.shape_),
        "names": fitted_names(model),
        "binary": model.binary_,
        "steps": model.steps_,
        "members": len(model.steps_),
        "scaling": scaling,
    }
    named = {_NETWORK + name: value for name, value in model.network_.state_dict().items()}
    named |= {_REST + name: value for name, value in model._tensors().items()}
    state = {name: value.detach().cpu().contiguous().clone() for name, value in named.items()}
    text = json.dumps(description, default=lambda number: number.item())
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"cannot write {path}: give the name of a file in a folder that exists.")
    with replacing(path) as beside:
        save_file(state, beside, metadata={"causalbald": text})


def load(cls: type[Model], path: Path, encoder: nn.Module | None) -> Model:
    """Return the model in a file that ``save`` wrote."""
    d, tensors = _read(path)
    if d["model"] != cls.__name__:
        raise InputError(f"{path} holds a {d['model']}, not a {cls.__name__}: use {d['model']}.load.")
    if d["own_encoder"] != (encoder is not None):
        remedy = "give it as encoder=" if d["own_encoder"] else "leave encoder= away"
        raise InputError(
            f"{path} was saved {'with' if d['own_encoder'] else 'without'} an encoder of its own: {remedy}."
        )
    model = cls(**d["parameters"], encoder=encoder)
    model._describe(d)
    model.network_ = model._build(model._streams("member", d["members"]))
    network = {name.removeprefix(_NETWORK): v for name, v in tensors.items() if name.startswith(_NETWORK)}
    model.network_.load_state_dict(network)
    model.network_.eval()
    model._restore({name.removeprefix(_REST): v for name, v in tensors.items() if name.startswith(_REST)})
    return model


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            description = (file.metadata() or {}).get("causalbald")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise InputError(f"{path} is no safetensors file, or was cut short ({error}).") from None
    if description is None:
        raise InputError(f"{path} is a safetensors file, but not one that causalbald wrote.")
    return json.loads(description), tensors
