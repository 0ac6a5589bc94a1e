"""P(treated | image), with the encoder of the deep models; for tables, PropensityModel is better and faster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn import functional

from causalbald._covariate_names import fitted_names, remember, text_names
from causalbald._random import generator
from causalbald._typing import AnyArray, Array, Positions
from causalbald._validation import check_both_arms, check_inputs, check_treatment
from causalbald.models._deep import CHUNK_IMAGES, Scaling
from causalbald.models._network_parameters import NetworkParameters
from causalbald.models._nn.encoders import Architecture, feature_width, make_encoder
from causalbald.models._nn.layers import Dense
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels, MemberRows
from causalbald.models._nn.random_streams import RandomStreams
from causalbald.models._propensity import Calibration, check_clip, check_folds

# Largest number of units on which a network stops; it is at most a fifth of the units that it may see.
MAX_STOP_UNITS = 1000


class _Network(nn.Module):
    """M encoders, each with a head that returns one score per unit: its log odds of being treated."""

    def __init__(self, shape: tuple[int, ...], architecture: Architecture, streams: RandomStreams) -> None:
        """Make an encoder and a head for each stream, for units with covariates of this ``shape``."""
        super().__init__()
        self.encoder = make_encoder(shape, architecture, streams, activate_output=True)
        self.head = Dense(feature_width(self.encoder, shape, len(streams)), 1, streams)

    def forward(self, x: Tensor) -> Tensor:
        """Return log odds (M, n) of covariates x (M, n, ...)."""
        scores: Tensor = self.head(self.encoder(x))
        return scores[..., 0]


@dataclass(kw_only=True, eq=False, repr=False)
class PropensityNetwork(NetworkParameters, BaseEstimator):
    """Calibrated, cross-fitted and clipped propensity scores of images.

    There is one network per fold, which sees only the units of the other folds. A fifth of these units, at most 1,000,
    decide when its training stops. The network is trained on the remaining units.

    Parameters
    ----------
    folds : int
        Number of folds; fewer if an arm has fewer units.
    clip : float
        Probabilities stay within [clip, 1 - clip].
    hidden : int
        Units of a layer; for images, eight times the channels of the first stage.
    depth : int
        Layers of the encoder; for images, stages.
    negative_slope : float
        Slope of the leaky ReLU for negative inputs; 0 means ReLU, a negative number ELU.
    dropout : float
        Share of units that dropout removes while training.
    spectral_norm : float, optional
        Largest gain of a layer; None means no limit.
    batch_size : int
        Units in a step, drawn with repetition.
    learning_rate : float
        Learning rate of Adam.
    epoch_steps : int
        Steps between two scores of the held-out units.
    patience : int
        A network stops after so many scores that are no better than its best.
    max_epochs : int
        Largest number of scores.
    device : str
        ``auto`` takes a GPU if there is one.
    random_state : int
        Seed of the folds, weights and batches.

    Attributes
    ----------
    cross_fitted_ : (N,)
        P(treated | image) of the units passed to ``fit``, each from a network that has not seen the unit.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.models import PropensityNetwork
    >>> t = np.arange(20) % 2
    >>> images = np.random.default_rng(0).normal(size=(20, 1, 4, 4)) + t[:, None, None, None]
    >>> model = PropensityNetwork(hidden=8, depth=1, max_epochs=2, epoch_steps=5).fit(images, t)
    >>> model.cross_fitted_.shape
    (20,)
    """

    folds: int = 2
    clip: float = 0.01
    hidden: int = 100
    depth: int = 2
    negative_slope: float = 0.0
    spectral_norm: float | None = 3.0
    batch_size: int = 64
    epoch_steps: int = 25
    patience: int = 4
    max_epochs: int = 40

    def fit(self, X: Any, T: ArrayLike) -> Self:
        """Learn propensities from covariates and arms.

        Parameters
        ----------
        X : images (N, C, H, W), or an array or DataFrame (N, D)
            Covariates. Names of columns are remembered.
        T : (N,)
            Arm of each unit, 0 or 1; each arm needs two units.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        InputError
            If a parameter makes no sense, an arm has fewer than two units, or a value is missing.
        TrainingError
            If no weights have a finite score.

        Examples
        --------
        See the class.
        """
        x, names = check_inputs(X, images=True), text_names(X, "X")
        t = check_treatment(T, len(x), "T")
        check_both_arms(t, "units")
        check_clip(self.clip)
        folds = check_folds(self.folds, t)
        from sklearn.model_selection import StratifiedKFold  # heavy, see _propensity.py

        splits = list(StratifiedKFold(folds, shuffle=True, random_state=self.random_state).split(t, t))
        remember(self, names, x.shape[1:])
        self.shape_, self.scaling_ = x.shape[1:], Scaling.of(x, t.astype(float), binary=True)
        arm = torch.as_tensor(t)
        labels = LabelTensors(self.scaling_.covariates(x), arm, arm.float())
        self._train(self._member_labels(labels, [train for train, _ in splits]))
        scores = np.empty(len(t))
        for m, (_, left_out) in enumerate(splits):
            scores[left_out] = self._scores(x[left_out])[m]
        self.calibration_ = Calibration.of(scores, t, self.clip)
        self.cross_fitted_ = self.calibration_(scores)
        return self

    def predict(self, X: Any) -> Array:
        """Return P(treated | x) of new units: the mean over the folds' networks, calibrated, within [clip, 1 - clip].

        Parameters
        ----------
        X : like X of fit
            Covariates of N units.

        Returns
        -------
        (N,)
            Probabilities.

        Raises
        ------
        InputError
            If images have another shape, or columns other names, than those passed to ``fit``.
        sklearn.exceptions.NotFittedError
            If the model is not fitted.

        Examples
        --------
        >>> import numpy as np
        >>> from causalbald.models import PropensityNetwork
        >>> t = np.arange(20) % 2
        >>> images = np.random.default_rng(0).normal(size=(20, 1, 4, 4)) + t[:, None, None, None]
        >>> model = PropensityNetwork(hidden=8, depth=1, max_epochs=2, epoch_steps=5).fit(images, t)
        >>> model.predict(images[:3]).shape
        (3,)
        """
        check_is_fitted(self)
        x = check_inputs(X, images=True, shape=self.shape_, names=fitted_names(self))
        return self.calibration_.of_probability(expit(self._scores(x)).mean(0))

    def _member_labels(self, labels: LabelTensors, training_sets: list[Positions]) -> MemberLabels:
        """Return, for each fold, the units to train on and the units that decide when training stops.

        The latter are a fifth of the fold's training set, at least 1 and at most ``MAX_STOP_UNITS``, drawn by
        ``random_state``. The network does not train on them. Called by ``fit``.
        """
        rows, stop_rows = [], []
        for m, positions in enumerate(training_sets):
            order = generator(self.random_state, "stop", m).permutation(positions)
            n_stop = min(MAX_STOP_UNITS, max(1, len(positions) // 5))
            stop_rows.append(order[:n_stop])
            rows.append(order[n_stop:])
        device = labels.y.device
        return MemberLabels(labels, MemberRows.padded(rows, device), labels, MemberRows.padded(stop_rows, device))

    def _train(self, member_labels: MemberLabels) -> None:
        """Set ``network_``, with a trained member for each fold."""
        streams = self._streams("fold", len(member_labels.rows.lengths))
        device = self._device()
        self.network_ = _Network(self.shape_, self._architecture, streams).to(device)

        def log_likelihood(labels: LabelTensors) -> Tensor:
            """Return log P(arm) (M, n) of units of each network (M, n)."""
            scores = self.network_(labels.x.to(device))
            return -functional.binary_cross_entropy_with_logits(scores, labels.y.to(device), reduction="none")

        self._maximise_likelihood(self.network_, log_likelihood, member_labels, streams, CHUNK_IMAGES)

    @torch.no_grad()
    def _scores(self, x: AnyArray) -> Array:
        """Return the log odds (folds, N) of being treated for units x (N, ...), by the network of each fold.

        They are neither calibrated nor clipped.
        """
        device, members = self._device(), self.network_.head.weight.shape[0]
        chunks = torch.split(self.scaling_.covariates(x), CHUNK_IMAGES)
        scores = [self.network_(chunk.to(device).expand(members, *chunk.shape)).cpu() for chunk in chunks]
        return torch.cat(scores, 1).double().numpy()
