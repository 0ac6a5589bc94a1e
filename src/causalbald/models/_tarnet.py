"""Ensemble of TARNets: a few networks of both potential outcomes, whose disagreement is the uncertainty."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from causalbald._typing import AnyArray, Array
from causalbald._validation import check_int, check_number
from causalbald.models._base import LabelSet
from causalbald.models._deep import DeepEstimator, Outcome, check_schedule
from causalbald.models._nn.heads import GaussianMixture, Head, Probit
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels
from causalbald.models._nn.random_streams import RandomStreams
from causalbald.models._nn.tarnet import Tarnet, TreatmentAsInput
from causalbald.models._nn.training import adam, train
from causalbald.models._registry import register
from causalbald.posterior import Posterior


@register("ensemble")
class TarnetEnsemble(DeepEstimator):
    """Ensemble of TARNets with Gaussian-mixture heads, trained at once; takes tables and images.

    Each member stops where its held-out labels are most likely: those of ``validation``, if given, else a share of
    the bought ones that this member does not train on. The members' expected outcomes are the posterior draws;
    ``noise`` is the variance of the mixtures. Binary outcomes get a probit head. With one covariate the treatment
    is a second input of a single network, as in the paper. The preset ``cmnist`` takes batches of 64, not of the
    original's 200, and looks more often whether to stop; ``ihdp`` waits for a better look less long.

    Parameters
    ----------
    members : int
        Number of networks.
    components : int
        Gaussians in a head's mixture.
    hidden, depth : int
        Units of a layer (images: eight times the channels of the first stage) and layers (stages) of the encoder.
    negative_slope : float
        Of the leaky ReLU; 0 is ReLU, a negative number stands for ELU.
    dropout : float
    spectral_norm : float, optional
        Largest gain of a layer; None for no limit.
    batch_size : int
        Labels in a step, drawn with repetition.
    learning_rate : float
    epoch_steps, patience, max_epochs : int
        Steps between looks at held-out labels, looks without a better one after which a member stops, and the limit.
    max_validation : int
        Held-out labels looked at.
    encoder : torch.nn.Module, optional
        Your own, from (n, ...) to features (n, F); each member trains a copy that starts from the weights given.
    outcome : "auto", "continuous" or "binary"
        ``auto`` takes outcomes that are all 0 or 1 as binary.
    device : str
        ``auto`` takes a GPU if there is one.
    random_state : int
    """

    network_: Tarnet | TreatmentAsInput
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "synthetic": {"hidden": 100, "dropout": 0.0, "depth": 4, "spectral_norm": 12.0, "negative_slope": 0.0},
        "ihdp": {
            "hidden": 400,
            "dropout": 0.15,
            "depth": 3,
            "spectral_norm": 0.95,
            "negative_slope": -1.0,
            "patience": 4,
        },
        "cmnist": {
            "hidden": 100,
            "dropout": 0.1,
            "depth": 3,
            "spectral_norm": 24.0,
            "negative_slope": 0.0,
            "batch_size": 64,
            "epoch_steps": 25,
            "patience": 10,
            "max_epochs": 48,
        },
    }

    def __init__(
        self,
        *,
        members: int = 5,
        components: int = 5,
        hidden: int = 200,
        depth: int = 3,
        negative_slope: float = -1.0,
        dropout: float = 0.1,
        spectral_norm: float | None = 0.95,
        batch_size: int = 200,
        learning_rate: float = 1e-3,
        epoch_steps: int = 10,
        patience: int = 10,
        max_epochs: int = 500,
        max_validation: int = 1000,
        encoder: nn.Module | None = None,
        outcome: Outcome = "auto",
        device: str = "auto",
        random_state: int = 0,
    ) -> None:
        self.members = members
        self.components = components
        self.hidden = hidden
        self.depth = depth
        self.negative_slope = negative_slope
        self.dropout = dropout
        self.spectral_norm = spectral_norm
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.epoch_steps = epoch_steps
        self.patience = patience
        self.max_epochs = max_epochs
        self.max_validation = max_validation
        self.encoder = encoder
        self.outcome = outcome
        self.device = device
        self.random_state = random_state

    def _fit(self, data: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None:
        members = check_int(self.members, "members", low=2)
        labels, free = self._prepare(data, pool, validation)
        study = self._study(labels, free, members)
        self.network_, self.steps_ = self._train(study, self._streams("member", members))

    def _train(self, study: MemberLabels, streams: RandomStreams) -> tuple[Tarnet | TreatmentAsInput, list[int]]:
        rate = check_number(self.learning_rate, "learning_rate", above=0.0)
        size = min(check_int(self.batch_size, "batch_size", low=1), len(study.labels))
        network, head = self._build(streams), self._head

        def log_likelihood(labels: LabelTensors) -> Tensor:
            return head.log_likelihood(network.own_arm(labels.x, labels.t), labels.y)

        def loss() -> Tensor:
            return -log_likelihood(study.batch(streams, size, repeat=True)).mean(1)

        optimiser = adam(network, network, rate, decay=self._decay(len(study.labels)))
        held_out = study.held_out(lambda: log_likelihood, self._chunk)
        schedule = check_schedule(self.epoch_steps, self.patience, self.max_epochs)
        return network, train(network, optimiser, loss, schedule, held_out, (study, streams))

    @property
    def _head(self) -> Head:
        return Probit() if self.binary_ else GaussianMixture(check_int(self.components, "components", low=1))

    def _build(self, streams: RandomStreams) -> Tarnet | TreatmentAsInput:
        outputs = self._head.outputs
        network: Tarnet | TreatmentAsInput
        if self.shape_ == (1,) and self.encoder is None:
            network = TreatmentAsInput(1, self._architecture, streams, outputs)
        else:
            network = Tarnet(self.shape_, self._architecture, streams, outputs, self.encoder)
        return network.to(self._device())

    @torch.no_grad()
    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        parts = [self._moments(x[start : start + self._chunk]) for start in range(0, len(x), self._chunk)]
        mean, variance = (np.concatenate(values, axis=1) for values in zip(*parts, strict=True))
        s = self.scaling_
        return Posterior.from_draws(
            mean * s.y_scale + s.y_mean, variance.mean(0) * s.y_scale**2, "probit" if self.binary_ else "identity"
        )

    def _moments(self, x: AnyArray) -> tuple[Array, Array]:
        """Return each member's mean and variance of the outcome, (M, n, K)."""
        z = self.scaling_.covariates(x).to(self._device())
        raw = self.network_(z.expand(len(self.steps_), *z.shape))
        mean, variance = (v.transpose(1, 2).double().cpu().numpy() for v in self._head.moments(raw))
        return mean, variance

    def _tensors(self) -> dict[str, Tensor]:
        return {}

    def _restore(self, tensors: dict[str, Tensor]) -> None: ...
