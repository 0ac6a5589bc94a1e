"""TARNet: features shared between arms, then a branch and a head for each arm.

The architecture is that of Shalit, Johansson and Sontag (2017), Estimating individual treatment effect: generalization
bounds and algorithms, arXiv:1606.03976, with the residual branches of Causal-BALD (arXiv:2111.02275).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from causalbald.models._nn.encoders import Architecture, DenseEncoder, Preactivation, feature_width, make_encoder
from causalbald.models._nn.layers import Dense
from causalbald.models._nn.random_streams import RandomStreams

ARMS = 2


class Tarnet(nn.Module):
    """M TARNets: a residual branch of hidden / 2 units and a head per arm, over one shared encoder."""

    def __init__(
        self,
        shape: tuple[int, ...],
        architecture: Architecture,
        streams: RandomStreams,
        outputs: int,
        custom: nn.Module | None = None,
    ) -> None:
        """Make a TARNet for each stream, for units with covariates of this ``shape``.

        ``outputs`` is the number of raw outputs of the head of each arm. ``custom`` is the user's own encoder, if any.
        Raises InputError if ``custom`` is no module, or does not return features (n, F).
        """
        super().__init__()
        self.preactivate = Preactivation(architecture, streams)
        self.encoder = make_encoder(shape, architecture, streams, activate_output=False, custom=custom)
        width = feature_width(self.encoder, shape, len(streams))
        narrow, gain = max(1, architecture.hidden // 2), architecture.coefficient
        self.shortcut = Dense(width, narrow, streams, coefficient=gain, stack=(ARMS,))
        self.first = Dense(width, narrow, streams, coefficient=gain, stack=(ARMS,))
        self.second = Dense(narrow, narrow, streams, coefficient=gain, stack=(ARMS,))
        self.head = Dense(narrow, outputs, streams, stack=(ARMS,))

    def forward(self, x: Tensor) -> Tensor:
        """Return the heads' raw outputs (M, K, n, outputs) under each of K arms for covariates x (M, n, ...)."""
        # Features z are shared; each arm adds W_0 z + W_1 a(z), then W_2 a(·), then its head on a(·), a the activation.
        features = self.encoder(x)[:, None]
        branch = self.shortcut(self.preactivate.dropout(features)) + self.first(self.preactivate(features))
        branch = branch + self.second(self.preactivate(branch))
        raw: Tensor = self.head(self.preactivate(branch))
        return raw

    def under_arms(self, x: Tensor, t: Tensor) -> Tensor:
        """Return raw outputs (M, n, outputs) of covariates x (M, n, ...) under arms t (M, n)."""
        raw: Tensor = self(x)
        index = t[:, None, :, None].expand(-1, 1, -1, raw.shape[-1])
        return raw.gather(1, index)[:, 0]


class TreatmentAsInput(nn.Module):
    """M residual networks with one head each, whose inputs are the covariates x and the arm t.

    The paper uses them for a single covariate.
    """

    def __init__(self, inputs: int, architecture: Architecture, streams: RandomStreams, outputs: int) -> None:
        """Make a network for each stream, for ``inputs`` covariates; its head has ``outputs`` raw outputs."""
        super().__init__()
        self.preactivate = Preactivation(architecture, streams)
        self.encoder = DenseEncoder(inputs + 1, architecture, streams, activate_output=True)
        self.head = Dense(architecture.hidden, outputs, streams)

    def forward(self, x: Tensor) -> Tensor:
        """Return the head's raw outputs (M, K, n, outputs) under each of K arms for covariates x (M, n, inputs)."""
        arms = [torch.full(x.shape[:2], arm, device=x.device) for arm in range(ARMS)]
        return torch.stack([self.under_arms(x, t) for t in arms], 1)

    def under_arms(self, x: Tensor, t: Tensor) -> Tensor:
        """Return raw outputs (M, n, outputs) of covariates x (M, n, inputs) under arms t (M, n)."""
        features = self.encoder(torch.cat([x, t[..., None].to(x)], -1))
        raw: Tensor = self.head(self.preactivate.dropout(features))
        return raw
