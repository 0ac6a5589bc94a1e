"""What the deep models share: scaling, held-out labels, presets and files."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, get_args

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from causalbald._choices import OutcomeType
from causalbald._covariate_names import remember
from causalbald._random import generator
from causalbald._scaling import channel_scale, column_scale, outcome_scale
from causalbald._threads import at_most
from causalbald._typing import AnyArray, Array
from causalbald._validation import check_choice, check_int
from causalbald.errors import InputError, UnknownNameError
from causalbald.models import _saved_models
from causalbald.models._base import CateEstimator, LabelSet, balanced_folds
from causalbald.models._network_parameters import NetworkParameters
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels, MemberRows
from causalbald.models._nn.random_streams import RandomStreams

Network = TypeVar("Network", bound=nn.Module)
# A member holds out at most 1 / MIN_FOLDS of its labels.
MIN_FOLDS = 4
# Batches of a table are too small to be shared between threads; those of images gain little from more.
MAX_IMAGE_THREADS = 8
# Units that pass through a network together. The memory of larger activations would be returned to the system, and
# requested again, after each layer.
CHUNK_IMAGES, CHUNK_ROWS = 64, 4096


@dataclass(frozen=True)
class Scaling:
    """Mean and scale by which values are turned into standard units: (value - mean) / scale.

    Covariates have a mean and a scale per column or, for images, per channel; both come from the pool. Those of the
    outcome come from the labels.
    """

    x_mean: Array
    x_scale: Array
    y_mean: float
    y_scale: float

    @classmethod
    def of(cls, pool: AnyArray, y: Array, *, binary: bool) -> Scaling:
        """Return the scaling for the covariates of a ``pool`` and for measured outcomes y (n,).

        Binary outcomes have mean 0 and scale 1: they are not changed.
        """
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


@dataclass(kw_only=True, eq=False, repr=False)
class DeepEstimator(NetworkParameters, CateEstimator, Generic[Network]):
    """Base of the models of effects with networks; subclasses document the parameters.

    A subclass implements ``_fit`` and ``_posterior`` of CateEstimator, and ``_build``, ``_extra_tensors`` and
    ``_restore_tensors`` for files.
    """

    members: int | None = None
    max_validation: int = 500
    encoder: nn.Module | None = None
    outcome: OutcomeType = "auto"

    accepts_images: ClassVar[bool] = True
    presets: ClassVar[dict[str, dict[str, Any]]]

    network_: Network = field(init=False)
    scaling_: Scaling = field(init=False)
    shape_: tuple[int, ...] = field(init=False)
    binary_: bool = field(init=False)
    steps_: list[int] = field(init=False)

    @classmethod
    def preset(cls, name: str, **options: Any) -> Self:
        """Return an unfitted model with the paper's hyper-parameters for one of its data sets.

        Parameters
        ----------
        name : str
            "synthetic", "ihdp" or "cmnist".
        **options
            Further parameters, such as ``random_state``. They override the preset's.

        Returns
        -------
        model
            A new model of this class.

        Raises
        ------
        UnknownNameError
            If there is no such preset.

        Examples
        --------
        >>> from causalbald.models import DeepKernelGP
        >>> model = DeepKernelGP.preset("ihdp", members=2)
        >>> model.kernel, model.inducing, model.members
        ('matern32', 100, 2)
        """
        if name not in cls.presets:
            raise UnknownNameError(f"no preset {name!r} of {cls.__name__}: choose one of {', '.join(cls.presets)}.")
        return cls(**{**cls.presets[name], **options})

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a safetensors file. The file of a ``due`` model contains the labels themselves.

        Parameters
        ----------
        path : str or Path
            A file in a folder that exists. The file is written as a whole or not at all.

        Raises
        ------
        InputError
            If the path is a folder, or its folder does not exist.
        sklearn.exceptions.NotFittedError
            If the model is not fitted.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from causalbald.models import TarnetEnsemble
        >>> x = np.linspace(-1, 1, 12)[:, None]
        >>> t = np.arange(12) % 2
        >>> model = TarnetEnsemble(members=2, hidden=8, depth=1, max_epochs=1).fit(x[:, 0] + t, t, X=x)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.safetensors")
        ...     again = TarnetEnsemble.load(f"{folder}/model.safetensors")
        >>> bool((again.effect(x) == model.effect(x)).all())
        True
        """
        check_is_fitted(self)
        _saved_models.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, *, encoder: nn.Module | None = None) -> Self:
        """Return the fitted model in a file that :meth:`save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.
        encoder : torch.nn.Module, optional
            The encoder that was passed to the model, if one was. The file has its weights but not its code. The loaded
            model works on copies of ``encoder``.

        Returns
        -------
        model
            The fitted model.

        Raises
        ------
        InputError
            If there is no such file, the file is no saved model or that of another class, ``encoder`` is missing or not
            needed, or the model's device is not available here.

        Examples
        --------
        See :meth:`save`.
        """
        return _saved_models.load(cls, Path(path), encoder)

    @abstractmethod
    def _build(self, streams: RandomStreams) -> Network:
        """Return the untrained network, with a member for each stream, on the model's device."""

    @abstractmethod
    def _extra_tensors(self) -> dict[str, Tensor]:
        """Return the tensors that a fitted model needs besides its network; ``save`` stores them under their names."""

    @abstractmethod
    def _restore_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take over tensors that ``_extra_tensors`` returned, by name. ``load`` calls this once ``network_`` is set."""

    def _restore_description(self, d: dict[str, Any]) -> None:
        """Set the fitted attributes that are no tensors, from the description that ``_saved_models.save`` wrote.

        Afterwards the model counts as fitted. Called by ``_saved_models.load``.
        """
        self.shape_, self.binary_, self.steps_ = tuple(d["shape"]), d["binary"], d["steps"]
        self._shape, self._fitted = self.shape_, True
        remember(self, d.get("names"), self.shape_)  # files of version 0.1.0 have no names
        s = d["scaling"]
        self.scaling_ = Scaling(np.array(s["x_mean"]), np.array(s["x_scale"]), s["y_mean"], s["y_scale"])

    def _threads(self, x: AnyArray) -> AbstractContextManager[None]:
        """Return a context that limits torch's threads in a fit to one or, for images, ``MAX_IMAGE_THREADS``."""
        return at_most(MAX_IMAGE_THREADS if x.ndim == 4 else 1)

    @property
    def _of_images(self) -> bool:
        """Whether covariates are images."""
        return len(self.shape_) > 1

    @property
    def _chunk(self) -> int:
        """Number of units that pass through the network together: fewer for images than for tables."""
        return CHUNK_IMAGES if self._of_images else CHUNK_ROWS

    def _is_binary(self, y: Array) -> bool:
        """Return whether outcomes are modelled as binary: with ``outcome`` "auto", whether all are 0 or 1.

        Raises InputError if ``outcome`` is unknown, or is "binary" for outcomes with another value than 0 and 1.
        """
        check_choice(self.outcome, "outcome", get_args(OutcomeType))
        is_other = ~np.isin(y, (0.0, 1.0))
        if self.outcome == "binary" and is_other.any():
            raise InputError(f"outcome='binary', but Y has other values than 0 and 1: {y[is_other][0]:g}.")
        return not is_other.any() and self.outcome != "continuous"

    def _prepare(
        self, labels: LabelSet, pool: AnyArray, validation: LabelSet | None
    ) -> tuple[LabelTensors, LabelTensors | None]:
        """Return labels and validation labels in standard units, on the model's device. Called first by ``_fit``.

        Sets ``shape_``, ``binary_`` and ``scaling_``. Raises InputError if outcomes do not suit
        ``outcome``, or if only the validation outcomes are not binary.
        """
        self.shape_ = labels.x.shape[1:]
        self.binary_ = self._is_binary(labels.y)
        self.scaling_ = Scaling.of(pool, labels.y, binary=self.binary_)
        if validation is None:
            return self._label_tensors(labels), None
        if self.binary_ and not np.isin(validation.y, (0.0, 1.0)).all():
            raise InputError("validation Y has other values than 0 and 1, but Y is binary: give the same outcome.")
        return self._label_tensors(labels), self._label_tensors(validation)

    def _label_tensors(self, labels: LabelSet) -> LabelTensors:
        """Return labels in standard units on the model's device."""
        x, t, y = self.scaling_.covariates(labels.x), torch.as_tensor(labels.t), self.scaling_.outcomes(labels.y)
        device = self._device()
        return LabelTensors(x.to(device), t.to(device), y.to(device))

    def _member_labels(self, labels: LabelTensors, validation: LabelTensors | None, members: int) -> MemberLabels:
        """Return which labels each member trains on, and which labels decide when it stops.

        With validation labels, each member trains on all labels. The same validation labels, at most
        ``max_validation`` at random, decide for all members.

        Without validation labels, labels are divided into one share per member, but at least ``MIN_FOLDS``. Each member
        holds out its own share, of which at most ``max_validation`` labels decide. Raises InputError if there are
        fewer labels than shares.
        """
        rng, device = generator(self.random_state, "held-out"), labels.y.device
        limit = check_int(self.max_validation, "max_validation", low=1)
        if validation is not None:
            everyone = [np.arange(len(labels))] * members
            stop_rows = [np.sort(rng.permutation(len(validation))[:limit])] * members
            return MemberLabels(
                labels, MemberRows.padded(everyone, device), validation, MemberRows.padded(stop_rows, device)
            )
        folds = max(members, MIN_FOLDS)
        if len(labels) < folds:
            raise InputError(
                f"{len(labels)} labels are too few to stop {members} networks on a share of them: measure at least "
                f"{folds}, give validation=, or use the model gp."
            )
        fold = balanced_folds(labels.t.cpu().numpy(), folds, rng)
        stop_rows = [np.flatnonzero(fold == m)[:limit] for m in range(members)]
        rows = [np.flatnonzero(fold != m) for m in range(members)]
        return MemberLabels(labels, MemberRows.padded(rows, device), labels, MemberRows.padded(stop_rows, device))
