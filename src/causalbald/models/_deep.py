"""What the deep models share: scaling, held-out labels, networks' sizes, presets and devices."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from causalbald._covariate_names import remember
from causalbald._random import generator
from causalbald._scaling import channel_scale, column_scale, outcome_scale
from causalbald._threads import at_most
from causalbald._typing import AnyArray, Array
from causalbald._validation import check_choice, check_int, check_number
from causalbald.errors import InputError, UnknownNameError
from causalbald.models import _saved_models
from causalbald.models._base import CateEstimator, LabelSet, balanced_folds
from causalbald.models._nn.encoders import Architecture
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels, MemberRows
from causalbald.models._nn.random_streams import RandomStreams
from causalbald.models._nn.training import Schedule

Outcome = Literal["auto", "continuous", "binary"]
# No member holds out more than one label in so many.
_LARGEST_SHARE = 4
# Batches of a table are too small to be shared; those of images gain little beyond.
_IMAGE_THREADS = 8


@dataclass(frozen=True)
class Scaling:
    """Standard units: covariates by the pool (images: by channel), outcomes by the labels bought so far."""

    x_mean: Array
    x_scale: Array
    y_mean: float
    y_scale: float

    @classmethod
    def of(cls, pool: AnyArray, y: Array, *, binary: bool) -> Scaling:
        """Return the scaling that a pool and measured outcomes call for; binary outcomes stay as they are."""
        axes = (0,) if pool.ndim == 2 else (0, 2, 3)
        mean = pool.mean(axis=axes, keepdims=True, dtype=np.float64)[0]
        scale = column_scale(pool) if pool.ndim == 2 else channel_scale(pool)
        return cls(mean, scale, 0.0 if binary else float(y.mean()), 1.0 if binary else outcome_scale(y))

    def covariates(self, x: AnyArray) -> Tensor:
        """Return covariates (N, ...) in standard units, float32."""
        return torch.as_tensor((x - self.x_mean) / self.x_scale, dtype=torch.float32)

    def outcomes(self, y: Array) -> Tensor:
        """Return outcomes (N,) in standard units, float32."""
        return torch.as_tensor((y - self.y_mean) / self.y_scale, dtype=torch.float32)


class DeepEstimator(CateEstimator):
    """Base of models with networks. Parameters are explained by the subclasses."""

    accepts_images = True
    presets: ClassVar[dict[str, dict[str, Any]]]

    members: int | None
    hidden: int
    depth: int
    negative_slope: float
    dropout: float
    spectral_norm: float | None
    batch_size: int | None
    learning_rate: float
    max_epochs: int
    max_validation: int
    encoder: nn.Module | None
    outcome: Outcome
    device: str

    network_: nn.Module
    scaling_: Scaling
    shape_: tuple[int, ...]
    binary_: bool
    steps_: list[int]

    @classmethod
    def preset(cls, name: str, **options: Any) -> Self:
        """Return an estimator with the paper's hyper-parameters for one of its data sets.

        ``options`` are further parameters, e.g. ``random_state``, and win over the preset's.
        """
        if name not in cls.presets:
            raise UnknownNameError(f"no preset {name!r} of {cls.__name__}: choose one of {', '.join(cls.presets)}.")
        return cls(**{**cls.presets[name], **options})

    def _threads(self, x: AnyArray) -> AbstractContextManager[None]:
        return at_most(_IMAGE_THREADS if x.ndim == 4 else 1)

    @property
    def _architecture(self) -> Architecture:
        return check_architecture(self.hidden, self.depth, self.negative_slope, self.dropout, self.spectral_norm)

    @property
    def _of_images(self) -> bool:
        return len(self.shape_) > 1

    @property
    def _chunk(self) -> int:
        """Units to pass through a network at a time. Large activations would go back to the system after each layer."""
        return 64 if self._of_images else 4096

    def _streams(self, purpose: str, members: int) -> RandomStreams:
        return RandomStreams([int(generator(self.random_state, purpose, m).integers(2**62)) for m in range(members)])

    def _decay(self, labels: int) -> float:
        return 0.5 * (1 - self.dropout) / labels

    @abstractmethod
    def _build(self, streams: RandomStreams) -> nn.Module:
        """Return the untrained network of as many members as there are streams."""

    @abstractmethod
    def _tensors(self) -> dict[str, Tensor]:
        """Return what a fitted model needs beside its network."""

    @abstractmethod
    def _restore(self, tensors: dict[str, Tensor]) -> None:
        """Take over what ``_tensors`` gave; the network is already there."""

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a safetensors file. A ``due`` model's holds the labelled units themselves."""
        check_is_fitted(self)
        _saved_models.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, *, encoder: nn.Module | None = None) -> Self:
        """Read a model that ``save`` wrote; ``encoder`` must be given again if it was the user's own."""
        return _saved_models.load(cls, Path(path), encoder)

    def _is_binary(self, y: Array) -> bool:
        check_choice(self.outcome, "outcome", ("auto", "continuous", "binary"))
        only_two = bool(np.isin(y, (0.0, 1.0)).all())
        if self.outcome == "binary" and not only_two:
            raise InputError(f"outcome='binary', but Y has other values than 0 and 1: {y[~np.isin(y, (0, 1))][0]:g}.")
        return only_two and self.outcome != "continuous"

    def _device(self) -> torch.device:
        return find_device(self.device)

    def _prepare(
        self, data: LabelSet, pool: AnyArray, validation: LabelSet | None
    ) -> tuple[LabelTensors, LabelTensors | None]:
        """Fix the scaling and return bought labels, and free ones, in standard units on the device."""
        self.shape_ = data.x.shape[1:]
        self.binary_ = self._is_binary(data.y)
        self.scaling_ = Scaling.of(pool, data.y, binary=self.binary_)
        if validation is None:
            return self._labels(data), None
        if self.binary_ and not np.isin(validation.y, (0.0, 1.0)).all():
            raise InputError("validation Y has other values than 0 and 1, but Y is binary: give the same outcome.")
        return self._labels(data), self._labels(validation)

    def _describe(self, d: dict[str, Any]) -> None:
        """Take over what was fitted beside the tensors, as ``storage`` wrote it."""
        self.shape_, self.binary_, self.steps_ = tuple(d["shape"]), d["binary"], d["steps"]
        self._shape, self._fitted = self.shape_, True
        remember(self, d.get("names"), self.shape_)  # files of version 0.1.0 hold no names
        s = d["scaling"]
        self.scaling_ = Scaling(np.array(s["x_mean"]), np.array(s["x_scale"]), s["y_mean"], s["y_scale"])

    def _labels(self, data: LabelSet) -> LabelTensors:
        x, t, y = self.scaling_.covariates(data.x), torch.as_tensor(data.t), self.scaling_.outcomes(data.y)
        device = self._device()
        return LabelTensors(x.to(device), t.to(device), y.to(device))

    def _study(self, labels: LabelTensors, free: LabelTensors | None, members: int) -> MemberLabels:
        """Return who trains on what: members stop on ``free`` labels, or each on its own share of the bought ones."""
        rng, device = generator(self.random_state, "held-out"), labels.y.device
        limit = check_int(self.max_validation, "max_validation", low=1)
        everyone = np.arange(len(labels))
        if free is not None:
            looked_at = np.sort(rng.permutation(len(free))[:limit])
            return MemberLabels(
                labels, MemberRows.of([everyone] * members, device), free, MemberRows.of([looked_at] * members, device)
            )
        folds = max(members, _LARGEST_SHARE)
        if len(labels) < folds:
            raise InputError(
                f"{len(labels)} labels are too few to stop {members} networks on a share of them: measure at least "
                f"{folds}, give validation=, or use the model gp."
            )
        fold = balanced_folds(labels.t.cpu().numpy(), folds, rng)
        held = [np.flatnonzero(fold == m)[:limit] for m in range(members)]
        train = [np.flatnonzero(fold != m) for m in range(members)]
        return MemberLabels(labels, MemberRows.of(train, device), labels, MemberRows.of(held, device))


def check_architecture(
    hidden: int, depth: int, negative_slope: float, dropout: float, spectral_norm: float | None
) -> Architecture:
    """Return the size of a network if its parameters make sense."""
    return Architecture(
        hidden=check_int(hidden, "hidden", low=8),
        depth=check_int(depth, "depth", low=1),
        slope=check_number(negative_slope, "negative_slope"),
        dropout=check_number(dropout, "dropout", low=0.0, below=1.0),
        coefficient=None if spectral_norm is None else check_number(spectral_norm, "spectral_norm", above=0.0),
    )


def check_schedule(epoch_steps: int, patience: int, max_epochs: int) -> Schedule:
    """Return how long to train if the parameters make sense."""
    every = check_int(epoch_steps, "epoch_steps", low=1)
    epochs = check_int(max_epochs, "max_epochs", low=1)
    return Schedule(every * epochs, every, check_int(patience, "patience", low=1))


def find_device(name: str) -> torch.device:
    """Return a device by torch's name; ``auto`` is a GPU if there is one, else the CPU."""
    if not isinstance(name, str):
        raise InputError(f"device must be a name, 'auto' or one of torch's, got {name!r}.")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {name!r} is not available here ({error}). Use 'auto' or 'cpu'.") from None
