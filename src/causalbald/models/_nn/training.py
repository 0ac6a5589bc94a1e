"""Train all members of a network at once, and stop each member where its own held-out score was best.

A member that has stopped leaves the network: its rows of every parameter, and of the optimiser's state, are dropped.
The remaining members then cost no more than if they were trained alone. Each member gets its best weights back at the
end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from causalbald.errors import TrainingError
from causalbald.models._nn.encoders import ModulePerMember

# A parameter below ``each.<m>`` belongs to member m alone; every other parameter has a leading member axis.
_OWNER = re.compile(r"(?:^|\.)each\.(\d+)\.")


@dataclass(frozen=True)
class Schedule:
    """How long to train.

    Training ends after ``max_steps``. The held-out labels are scored after every ``every`` steps. A member stops after
    ``patience`` scores in a row that are no better than its best. The learning rate rises in equal parts over the first
    ``warm_up`` steps; 1 means the full rate from the first step.
    """

    max_steps: int
    every: int
    patience: int
    warm_up: int = 1


def adam(network: nn.Module, decayed: nn.Module, rate: float, *, decay: float, gain: float = 1.0) -> torch.optim.Adam:
    """Return an Adam optimiser for the parameters of ``network``.

    The parameters of its part ``decayed`` get the learning rate ``rate`` and the weight decay ``decay``. The remaining
    parameters get ``gain`` times the rate, and no weight decay. ``decayed`` may be the whole network.
    """
    decayed_ids = {id(p) for p in decayed.parameters()}
    undecayed = [p for p in network.parameters() if id(p) not in decayed_ids]
    groups = [
        {"params": [*decayed.parameters()], "lr": rate, "weight_decay": decay},
        {"params": undecayed, "lr": gain * rate},
    ]
    return torch.optim.Adam([group for group in groups if group["params"]], fused=True)


class PerMember(Protocol):
    """Something with a part for each member, such as random streams; it can return the parts of some members only."""

    def select(self, members: Sequence[int]) -> None:
        """From now on return the parts of these members only, in this order; they count among all members."""


def train(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    loss: Callable[[], Tensor],
    schedule: Schedule,
    stop_score: Callable[[], Tensor] | None = None,
    per_member: Sequence[PerMember] = (),
) -> list[int]:
    """Minimise each member's loss, and leave the network in evaluation mode.

    Parameters
    ----------
    network : torch.nn.Module
        M members; changed in place.
    optimiser : torch.optim.Optimizer
        Of the network's parameters.
    loss : callable
        () -> (M,), the loss of each member on a new batch.
    schedule : Schedule
        How long to train.
    stop_score : callable, optional
        () -> (M,), larger is better. Each member gets back the weights with which it scored best. By default, all
        members are trained for ``max_steps`` and keep their last weights.
    per_member : sequence
        Things with a part for each member that ``loss`` and ``stop_score`` use. When members stop, ``select`` is called
        with the remaining members, and at the end with all members. Encoders with a module per member are found in
        ``network``.

    Returns
    -------
    list of int
        The step at which each member had the weights that it has now; empty without ``stop_score``.

    Raises
    ------
    TrainingError
        If a member's best score is not finite.
    """
    best = _BestWeights(network, optimiser, schedule.patience, per_member)
    rates = [group["lr"] for group in optimiser.param_groups]
    for step in range(1, schedule.max_steps + 1):
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * min(1.0, step / schedule.warm_up)
        network.train()
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss().sum())
        optimiser.step()
        if stop_score is not None and step % schedule.every == 0:
            network.eval()
            with torch.no_grad():
                best.update(step, stop_score())
            if not best.members:
                break
    if best.steps:
        best.restore()
    network.eval()
    return best.steps


class _BestWeights:
    """The weights with which each member scored best so far, and the ``members`` that are still trained."""

    def __init__(
        self, network: nn.Module, optimiser: torch.optim.Optimizer, patience: int, per_member: Sequence[PerMember]
    ) -> None:
        """Start without scores and members. The first ``update`` says how many members there are."""
        self._network, self._optimiser, self._patience = network, optimiser, patience
        self._per_member = [*per_member, *(m for m in network.modules() if isinstance(m, ModulePerMember))]
        self._weights = {name: value.clone() for name, value in network.state_dict().items()}
        self._scores: list[float] = []
        self._looks_since_best: list[int] = []
        self.steps: list[int] = []
        self.members: list[int] = []

    def update(self, step: int, scores: Tensor) -> None:
        """Copy the weights of members that score better than before, and drop members that have stopped.

        A member stops after ``patience`` scores in a row that are no better than its best; NaN is never better. Its
        rows leave the network and the optimiser, except if no member is left. ``scores`` has one value for each of
        ``members``.
        """
        if not self.steps:
            n = len(scores)
            self.members, self.steps = list(range(n)), [0] * n
            self._scores, self._looks_since_best = [-math.inf] * n, [0] * n
        better = [m for m, value in zip(self.members, scores.tolist(), strict=True) if value > self._scores[m]]
        for m, value in zip(self.members, scores.tolist(), strict=True):
            self._looks_since_best[m] += 1
            if m in better:
                self._scores[m], self._looks_since_best[m], self.steps[m] = value, 0, step
        rows = [self.members.index(m) for m in better]
        for name, value in self._network.state_dict().items():
            owner = _owner(name)
            if owner is None:
                self._weights[name][better] = value[rows]
            elif owner in better:
                self._weights[name].copy_(value)
        remaining = [m for m in self.members if self._looks_since_best[m] < self._patience]
        if remaining and remaining != self.members:
            self._shrink_to(remaining)
        self.members = remaining

    def _shrink_to(self, remaining: list[int]) -> None:
        """Drop the rows of all other members, in place: from parameters, buffers and the optimiser's state.

        ``remaining`` must be part of ``members``, which the caller updates afterwards.
        """
        rows = [self.members.index(m) for m in remaining]
        for name, value in [*self._network.named_parameters(), *self._network.named_buffers()]:
            if _owner(name) is None:
                state = self._optimiser.state.get(value, {})
                state.update({key: v[rows] for key, v in state.items() if v.shape == value.shape})
                value.data = value.data[rows]
                value.grad = None
        self._select(remaining)

    def restore(self) -> None:
        """Bring back all members, each with its best weights; raise TrainingError if a best score is not finite."""
        if not np.isfinite(self._scores).all():
            raise TrainingError("training found no weights with a finite score: try a smaller learning_rate.")
        for name, value in [*self._network.named_parameters(), *self._network.named_buffers()]:
            if name in self._weights:  # state_dict leaves out a user's buffers that are not persistent
                value.data = self._weights[name]
        self._select(range(len(self.steps)))

    def _select(self, members: Sequence[int]) -> None:
        """Tell everything with a part for each member which members are trained."""
        for part in self._per_member:
            part.select(members)


def _owner(name: str) -> int | None:
    """Return the member to which a parameter of this name belongs; None if the parameter has a row per member."""
    match = _OWNER.search(name)
    return None if match is None else int(match[1])
