"""Train all members of a network at once, and stop each where its own held-out score was best.

A member that has stopped leaves the batch: its rows of every parameter, and of the optimiser's memory, are dropped,
so that the others go on at the price of the others. Its best weights come back at the end.
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

# Whatever is below ``each.<m>`` belongs to member m; all else has a leading axis of members.
_OWNER = re.compile(r"(?:^|\.)each\.(\d+)\.")


@dataclass(frozen=True)
class Schedule:
    """How long to train: at most ``max_steps``; a look at held-out labels ``every`` so many steps; a member stops
    after ``patience`` looks that were no better than its best. The rate rises over the first ``warm_up`` steps.
    """

    max_steps: int
    every: int
    patience: int
    warm_up: int = 1


def adam(network: nn.Module, slow: nn.Module, rate: float, *, decay: float, gain: float = 1.0) -> torch.optim.Adam:
    """Return the optimiser: ``rate`` and weight decay for ``slow``, ``gain`` times the rate for all else."""
    inside = {id(p) for p in slow.parameters()}
    rest = [p for p in network.parameters() if id(p) not in inside]
    groups = [{"params": [*slow.parameters()], "lr": rate, "weight_decay": decay}, {"params": rest, "lr": gain * rate}]
    return torch.optim.Adam([g for g in groups if g["params"]], fused=True)


class PerMember(Protocol):
    """What holds something for each member, and can hand out that of some members only."""

    def select(self, members: Sequence[int]) -> None:
        """From now on hand out what belongs to ``members``, in this order."""


def train(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    loss: Callable[[], Tensor],
    schedule: Schedule,
    held_out: Callable[[], Tensor] | None = None,
    along: Sequence[PerMember] = (),
) -> list[int]:
    """Minimise each member's ``loss`` () -> (M,) and leave the network in evaluation mode.

    Parameters
    ----------
    held_out : callable, optional
        () -> (M,), larger is better. Each member gets back the weights with which it scored best. Without it,
        all members are trained for ``max_steps``.
    along : sequence
        What ``loss`` and ``held_out`` draw on that is kept per member; told who is left when a member stops.

    Returns
    -------
    list of int
        The step whose weights each member has now; empty without ``held_out``.
    """
    best = _Best(network, optimiser, schedule.patience, along)
    rates = [group["lr"] for group in optimiser.param_groups]
    for step in range(1, schedule.max_steps + 1):
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * min(1.0, step / schedule.warm_up)
        network.train()
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss().sum())
        optimiser.step()
        if held_out is not None and step % schedule.every == 0:
            network.eval()
            with torch.no_grad():
                best.look(step, held_out())
            if not best.left:
                break
    if best.steps:
        best.restore()
    network.eval()
    return best.steps


class _Best:
    """The weights with which each member scored best so far, and who is left."""

    def __init__(
        self, network: nn.Module, optimiser: torch.optim.Optimizer, patience: int, along: Sequence[PerMember]
    ) -> None:
        self._network, self._optimiser, self._patience = network, optimiser, patience
        self._along = [*along, *(m for m in network.modules() if isinstance(m, ModulePerMember))]
        self._weights = {name: value.clone() for name, value in network.state_dict().items()}
        self._score: list[float] = []
        self._since: list[int] = []
        self.steps: list[int] = []
        self.left: list[int] = []

    def look(self, step: int, score: Tensor) -> None:
        """Keep the weights of members that score better than ever before; let those go that have not for long."""
        if not self.steps:
            self.left = list(range(len(score)))
            self._score, self._since, self.steps = [-math.inf] * len(score), [0] * len(score), [0] * len(score)
        better = [m for m, value in zip(self.left, score.tolist(), strict=True) if value > self._score[m]]
        for m, value in zip(self.left, score.tolist(), strict=True):
            self._since[m] += 1
            if m in better:
                self._score[m], self._since[m], self.steps[m] = value, 0, step
        rows = [self.left.index(m) for m in better]
        for name, value in self._network.state_dict().items():
            owner = _owner(name)
            if owner is None:
                self._weights[name][better] = value[rows]
            elif owner in better:
                self._weights[name].copy_(value)
        left = [m for m in self.left if self._since[m] < self._patience]
        if left and left != self.left:
            self._go_on_with(left)
        self.left = left

    def _go_on_with(self, left: list[int]) -> None:
        rows = [self.left.index(m) for m in left]
        for name, value in [*self._network.named_parameters(), *self._network.named_buffers()]:
            if _owner(name) is None:
                memory = self._optimiser.state.get(value, {})
                memory.update({key: v[rows] for key, v in memory.items() if v.shape == value.shape})
                value.data = value.data[rows]
                value.grad = None
        self._select(left)

    def restore(self) -> None:
        """Give each member its best weights."""
        if not np.isfinite(self._score).all():
            raise TrainingError("training found no weights with a finite score: try a smaller learning_rate.")
        for name, value in [*self._network.named_parameters(), *self._network.named_buffers()]:
            if name in self._weights:  # not so a user's buffers that are not to be saved
                value.data = self._weights[name]
        self._select(range(len(self.steps)))

    def _select(self, members: Sequence[int]) -> None:
        for part in self._along:
            part.select(members)


def _owner(name: str) -> int | None:
    match = _OWNER.search(name)
    return None if match is None else int(match[1])
