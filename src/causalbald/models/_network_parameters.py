"""Parameters that all models with networks share, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from causalbald._random import generator
from causalbald._validation import check_int, check_number
from causalbald.errors import InputError
from causalbald.models._nn.encoders import Architecture
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels
from causalbald.models._nn.random_streams import RandomStreams
from causalbald.models._nn.training import Schedule, adam, train


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkParameters:
    """Size, regularisation and training of networks; subclasses document the parameters and change some defaults.

    Models are dataclasses without ``eq`` and ``repr``, which scikit-learn's BaseEstimator provides. Parameters are
    checked when a model is fitted, as scikit-learn demands.
    """

    hidden: int = 200
    depth: int = 3
    negative_slope: float = -1.0
    dropout: float = 0.1
    spectral_norm: float | None = 0.95
    batch_size: int | None = 64
    learning_rate: float = 1e-3
    epoch_steps: int | None = None
    patience: int | None = None
    max_epochs: int = 500
    device: str = "auto"
    random_state: int = 0

    @property
    def _architecture(self) -> Architecture:
        """Size and regularisation of the network; raises InputError if a parameter makes no sense."""
        return Architecture(
            hidden=check_int(self.hidden, "hidden", low=8),
            depth=check_int(self.depth, "depth", low=1),
            slope=check_number(self.negative_slope, "negative_slope"),
            dropout=check_number(self.dropout, "dropout", low=0.0, below=1.0),
            coefficient=(
                None if self.spectral_norm is None else check_number(self.spectral_norm, "spectral_norm", above=0.0)
            ),
        )

    @property
    def _schedule(self) -> Schedule:
        """How long to train; raises InputError if a parameter makes no sense, or is None as in this class."""
        return make_schedule(self.epoch_steps, self.patience, self.max_epochs)

    @property
    def _rate(self) -> float:
        """The learning rate; raises InputError if it is not above 0."""
        return check_number(self.learning_rate, "learning_rate", above=0.0)

    def _decay(self, n_labels: int) -> float:
        """Return the weight decay of a network that is trained on ``n_labels`` labels; more labels, less decay."""
        # p l² / (2 N τ) of Gal and Ghahramani (2016), Dropout as a Bayesian Approximation, arXiv:1506.02142, with the
        # probability p that a unit survives, N labels, and prior and noise such that l² = τ.
        return 0.5 * (1 - self.dropout) / n_labels

    def _streams(self, purpose: str, members: int) -> RandomStreams:
        """Return a random stream per member. The streams follow from ``random_state`` and ``purpose``, any text.

        Member m has the same stream for any number of ``members``.
        """
        return RandomStreams([int(generator(self.random_state, purpose, m).integers(2**62)) for m in range(members)])

    def _device(self) -> torch.device:
        """Return torch's device for ``device``; "auto" is a GPU of CUDA if there is one, else the CPU.

        Raises InputError if torch cannot use the device here.
        """
        name = self.device
        if not isinstance(name, str):
            raise InputError(f"device must be a name, 'auto' or one of torch's, got {name!r}.")
        if name == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            return torch.empty(0, device=name).device
        except (RuntimeError, AssertionError) as error:
            raise InputError(f"device {name!r} is not available here ({error}). Use 'auto' or 'cpu'.") from None

    def _maximise_likelihood(
        self,
        network: nn.Module,
        log_likelihood: Callable[[LabelTensors], Tensor],
        member_labels: MemberLabels,
        streams: RandomStreams,
        chunk: int,
    ) -> list[int]:
        """Train ``network`` in place, and return the step at which each member's held-out labels were most likely.

        ``log_likelihood`` takes labels of each member, (M, n), and returns log p(y) (M, n). The loss is minus its mean
        over a random batch with repetition, of ``batch_size`` labels or of as many as there are. Held-out labels are
        scored ``chunk`` at a time. Raises TrainingError if no weights have a finite score.
        """
        n_labels = len(member_labels.labels)
        size = min(check_int(self.batch_size, "batch_size", low=1), n_labels)

        def loss() -> Tensor:
            """Return the loss (M,) of each member on a new batch."""
            return -log_likelihood(member_labels.batch(streams, size, repeat=True)).mean(1)

        optimiser = adam(network, network, self._rate, decay=self._decay(n_labels))
        stop_score = member_labels.stop_score(lambda: log_likelihood, chunk)
        return train(network, optimiser, loss, self._schedule, stop_score, (member_labels, streams))


def make_schedule(epoch_steps: Any, patience: Any, max_epochs: Any) -> Schedule:
    """Return a schedule of at most ``max_epochs`` epochs, each of ``epoch_steps`` steps, without warm-up.

    Raises InputError if an argument is not an integer of at least 1.
    """
    every = check_int(epoch_steps, "epoch_steps", low=1)
    epochs = check_int(max_epochs, "max_epochs", low=1)
    return Schedule(every * epochs, every, check_int(patience, "patience", low=1))
