"""Ensemble of TARNets: a few networks of both potential outcomes, whose disagreement is the uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from causalbald._typing import AnyArray, Array
from causalbald._validation import check_int
from causalbald.models._base import LabelSet
from causalbald.models._deep import DeepEstimator
from causalbald.models._nn.heads import GaussianMixture, Head, Probit
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels
from causalbald.models._nn.random_streams import RandomStreams
from causalbald.models._nn.tarnet import Tarnet, TreatmentAsInput
from causalbald.models._presets import PRESETS
from causalbald.models._registry import register
from causalbald.posterior import Posterior


@register("ensemble")
@dataclass(kw_only=True, eq=False, repr=False)
class TarnetEnsemble(DeepEstimator[Tarnet | TreatmentAsInput]):
    """Ensemble of TARNets with Gaussian-mixture heads, all trained at once; takes tables and images.

    Each member stops where its held-out labels are most likely. These are the ``validation`` labels, if there are any,
    and otherwise a share of the labels on which the member does not train. The members' expected outcomes are draws of
    the belief; ``noise`` is the mean variance of the members' mixtures. Binary outcomes get a probit head. For a
    single covariate and no ``encoder``, the treatment is a second input of one network, as in the paper.

    The preset ``cmnist`` takes batches of 64 instead of the paper's 200 and scores held-out labels more often; ``ihdp``
    has a shorter patience.

    Parameters
    ----------
    members : int
        Number of networks.
    components : int
        Gaussians in the mixture of a head.
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
        Labels in a step, drawn with repetition.
    learning_rate : float
        Learning rate of Adam.
    epoch_steps : int
        Steps between two scores of the held-out labels.
    patience : int
        A member stops after so many scores that are no better than its best.
    max_epochs : int
        Largest number of scores.
    max_validation : int
        Largest number of held-out labels that are scored.
    encoder : torch.nn.Module, optional
        Your own encoder, from (n, ...) to features (n, F). Each member trains a copy of it, weights included.
    outcome : "auto", "continuous" or "binary"
        With ``auto``, outcomes that are all 0 or 1 are binary.
    device : str
        ``auto`` takes a GPU if there is one.
    random_state : int
        Seed of the weights, batches and held-out labels.

    Attributes
    ----------
    steps_ : list of int
        The step at which each member scored best.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.models import TarnetEnsemble
    >>> x = np.linspace(-1, 1, 40)[:, None]
    >>> t = np.arange(40) % 2
    >>> model = TarnetEnsemble(members=2, hidden=8, depth=1, max_epochs=3).fit(x[:, 0] + t, t, X=x)
    >>> model.posterior(x).mean.shape
    (40, 2)
    """

    components: int = 5
    members: int = 5
    batch_size: int = 200
    epoch_steps: int = 10
    patience: int = 10
    max_validation: int = 1000

    presets: ClassVar = PRESETS["ensemble"]

    def _fit(self, labels: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None:
        """Train the members, at least two; set ``network_`` and ``steps_``."""
        members = check_int(self.members, "members", low=2)
        member_labels = self._member_labels(*self._prepare(labels, pool, validation), members)
        self.network_, self.steps_ = self._train(member_labels, self._streams("member", members))

    def _train(
        self, member_labels: MemberLabels, streams: RandomStreams
    ) -> tuple[Tarnet | TreatmentAsInput, list[int]]:
        """Return a trained network, with a member for each stream, and the step at which each member scored best.

        ``member_labels`` must have as many members as ``streams``.
        """
        network, head = self._build(streams), self._head

        def log_likelihood(labels: LabelTensors) -> Tensor:
            """Return log p(y) (M, n) of labels of each member (M, n)."""
            return head.log_likelihood(network.under_arms(labels.x, labels.t), labels.y)

        return network, self._maximise_likelihood(network, log_likelihood, member_labels, streams, self._chunk)

    @property
    def _head(self) -> Head:
        """Distribution of an outcome given the network's raw outputs."""
        return Probit() if self.binary_ else GaussianMixture(check_int(self.components, "components", low=1))

    def _build(self, streams: RandomStreams) -> Tarnet | TreatmentAsInput:
        """Return an untrained network, with a member for each stream, on the model's device.

        For a single covariate without the user's encoder, it is the network with the treatment as input.
        """
        outputs = self._head.outputs
        network: Tarnet | TreatmentAsInput
        if self.shape_ == (1,) and self.encoder is None:
            network = TreatmentAsInput(1, self._architecture, streams, outputs)
        else:
            network = Tarnet(self.shape_, self._architecture, streams, outputs, self.encoder)
        return network.to(self._device())

    @torch.no_grad()
    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        """Return the belief about units x (N, ...), in the outcome's unit, with the members' means as draws.

        The belief is joint whatever ``joint`` is.
        """
        chunks = [self._moments(x[start : start + self._chunk]) for start in range(0, len(x), self._chunk)]
        mean, variance = (np.concatenate(values, axis=1) for values in zip(*chunks, strict=True))
        s = self.scaling_
        return Posterior.from_draws(
            mean * s.y_scale + s.y_mean, variance.mean(0) * s.y_scale**2, "probit" if self.binary_ else "identity"
        )

    def _moments(self, x: AnyArray) -> tuple[Array, Array]:
        """Return each member's mean and variance of the outcome under each of K arms, (M, n, K) each, for units x.

        Both are in standard units. For binary outcomes, they are those of the latent outcome.
        """
        z = self.scaling_.covariates(x).to(self._device())
        raw = self.network_(z.expand(len(self.steps_), *z.shape))
        mean, variance = (v.transpose(1, 2).double().cpu().numpy() for v in self._head.moments(raw))
        return mean, variance

    def _extra_tensors(self) -> dict[str, Tensor]:
        """Return no tensors: the network is all that a fitted ensemble needs."""
        return {}

    def _restore_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Do nothing: there are no further tensors."""
