"""P(treated | image), by the deep models' encoder; on tables PropensityModel does better and is faster."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn import functional

from causalbald._covariate_names import fitted_names, remember, text_names
from causalbald._random import generator
from causalbald._typing import AnyArray, Array
from causalbald._validation import check_both_arms, check_inputs, check_int, check_number, check_treatment
from causalbald.models._deep import Scaling, check_architecture, check_schedule, find_device
from causalbald.models._nn.encoders import Architecture, feature_width, make_encoder
from causalbald.models._nn.layers import Dense
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels, MemberRows
from causalbald.models._nn.random_streams import RandomStreams
from causalbald.models._nn.training import adam, train
from causalbald.models._propensity import Calibration, check_clip, check_folds

_CHUNK = 64


class _Network(nn.Module):
    """M encoders with one score each: log odds of being treated, (M, n)."""

    def __init__(self, shape: tuple[int, ...], architecture: Architecture, streams: RandomStreams) -> None:
        super().__init__()
        self.encoder = make_encoder(shape, architecture, streams, activate_output=True)
        self.head = Dense(feature_width(self.encoder, shape, len(streams)), 1, streams)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.encoder(x))
        return scores[..., 0]


class PropensityNetwork(BaseEstimator):
    """Calibrated, cross-fitted and clipped propensity scores of images.

    One network per fold, trained on the other folds and stopped on a part of them that it does not train on.

    Parameters
    ----------
    folds : int
    clip : float
        Probabilities stay within [clip, 1 - clip].
    hidden, depth, dropout, spectral_norm, negative_slope
        As for :class:`TarnetEnsemble`.
    batch_size, learning_rate, epoch_steps, patience, max_epochs
        As for :class:`TarnetEnsemble`.
    device : str
    random_state : int

    Attributes
    ----------
    cross_fitted_ : (N,)
        P(treated | image) of the units given to ``fit``, each from a network that has not seen it.
    """

    def __init__(
        self,
        *,
        folds: int = 2,
        clip: float = 0.01,
        hidden: int = 100,
        depth: int = 2,
        dropout: float = 0.1,
        spectral_norm: float | None = 3.0,
        negative_slope: float = 0.0,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        epoch_steps: int = 25,
        patience: int = 4,
        max_epochs: int = 40,
        device: str = "auto",
        random_state: int = 0,
    ) -> None:
        self.folds = folds
        self.clip = clip
        self.hidden = hidden
        self.depth = depth
        self.dropout = dropout
        self.spectral_norm = spectral_norm
        self.negative_slope = negative_slope
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.epoch_steps = epoch_steps
        self.patience = patience
        self.max_epochs = max_epochs
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, T: ArrayLike) -> Self:
        """Learn from images X (N, C, H, W), or a table (N, D), and arms T (N,)."""
        x, names = check_inputs(X, images=True), text_names(X, "X")
        t = check_treatment(T, len(x), "T")
        check_both_arms(t, "units")
        check_clip(self.clip)
        folds = check_folds(self.folds, t)
        splits = list(StratifiedKFold(folds, shuffle=True, random_state=self.random_state).split(t, t))
        remember(self, names, x.shape[1:])
        self.shape_, self.scaling_ = x.shape[1:], Scaling.of(x, t.astype(float), binary=True)
        y = torch.as_tensor(t)
        labels = LabelTensors(self.scaling_.covariates(x), y, y.float())
        self._train(self._study(labels, [train for train, _ in splits]))
        scores = np.empty(len(t))
        for m, (_, left_out) in enumerate(splits):
            scores[left_out] = self._scores(x[left_out])[m]
        self.calibration_ = Calibration.of(scores, t, self.clip)
        self.cross_fitted_ = self.calibration_(scores)
        return self

    def predict(self, X: Any) -> Array:
        """Return P(treated | x) of new units, (N,): the mean over the folds' networks, calibrated and clipped."""
        check_is_fitted(self)
        x = check_inputs(X, images=True, shape=self.shape_, names=fitted_names(self))
        return self.calibration_.of_probability(expit(self._scores(x)).mean(0))

    def _study(self, labels: LabelTensors, members: list[AnyArray]) -> MemberLabels:
        """Each member stops on a fifth of its units, at most 1,000."""
        stop, fit = [], []
        for m, rows in enumerate(members):
            order = generator(self.random_state, "stop", m).permutation(rows)
            held = min(1000, max(1, len(rows) // 5))
            stop.append(order[:held])
            fit.append(order[held:])
        return MemberLabels(labels, MemberRows.of(fit, labels.y.device), labels, MemberRows.of(stop, labels.y.device))

    def _train(self, study: MemberLabels) -> None:
        members = len(study.train.lengths)
        streams = RandomStreams([int(generator(self.random_state, "fold", m).integers(2**62)) for m in range(members)])
        architecture = check_architecture(
            self.hidden, self.depth, self.negative_slope, self.dropout, self.spectral_norm
        )
        size = min(check_int(self.batch_size, "batch_size", low=1), len(study.labels))
        rate = check_number(self.learning_rate, "learning_rate", above=0.0)
        schedule = check_schedule(self.epoch_steps, self.patience, self.max_epochs)
        device = find_device(self.device)
        self.network_ = _Network(self.shape_, architecture, streams).to(device)

        def log_likelihood(labels: LabelTensors) -> Tensor:
            score = self.network_(labels.x.to(device))
            return -functional.binary_cross_entropy_with_logits(score, labels.y.to(device), reduction="none")

        def loss() -> Tensor:
            return -log_likelihood(study.batch(streams, size, repeat=True)).mean(1)

        decay = 0.5 * (1 - self.dropout) / len(study.labels)
        optimiser = adam(self.network_, self.network_, rate, decay=decay)
        held_out = study.held_out(lambda: log_likelihood, _CHUNK)
        train(self.network_, optimiser, loss, schedule, held_out, (study, streams))

    @torch.no_grad()
    def _scores(self, x: AnyArray) -> Array:
        """Return every network's log odds, (folds, N)."""
        device, members = find_device(self.device), self.network_.head.weight.shape[0]
        parts = torch.split(self.scaling_.covariates(x), _CHUNK)
        scores = [self.network_(part.to(device).expand(members, *part.shape)).cpu() for part in parts]
        return torch.cat(scores, 1).double().numpy()
