"""Train all members of a network at once, and stop each where its own held-out score was best."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from causalbald.errors import TrainingError
from causalbald.models.nn.encoders import EachMember

_OWNER = re.compile(r"(?:^|\.)each\.(\d+)\.")


@dataclass(frozen=True)
class Schedule:
    """How long to train: at most ``max_steps``; a look at held-out labels ``every`` so many steps; a member stops
    after ``patience`` looks that were no better than its best.
    """

    max_steps: int
    every: int
    patience: int


def adam(network: nn.Module, slow: nn.Module, rate: float, *, decay: float, gain: float = 1.0) -> torch.optim.Adam:
    """Return the optimiser: ``rate`` and weight decay for ``slow``, ``gain`` times the rate for all else."""
    inside = {id(p) for p in slow.parameters()}
    rest = [p for p in network.parameters() if id(p) not in inside]
    groups = [{"params": [*slow.parameters()], "lr": rate, "weight_decay": decay}, {"params": rest, "lr": gain * rate}]
    return torch.optim.Adam([g for g in groups if g["params"]], foreach=True)


def train(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    loss: Callable[[], Tensor],
    schedule: Schedule,
    held_out: Callable[[], Tensor] | None = None,
) -> list[int]:
    """Minimise each member's ``loss`` () -> (M,) and leave the network in evaluation mode.

    Parameters
    ----------
    held_out : callable, optional
        () -> (M,), larger is better. Each member gets back the weights with which it scored best. Without it,
        all members are trained for ``max_steps``.

    Returns
    -------
    list of int
        The step whose weights each member has now; empty without ``held_out``.
    """
    best = _Best(network, schedule.patience)
    for step in range(1, schedule.max_steps + 1):
        network.train()
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss().sum())
        optimiser.step()
        if held_out is not None and step % schedule.every == 0:
            network.eval()
            with torch.no_grad():
                best.look(step, held_out())
            if best.finished.all():
                break
    if held_out is not None:
        best.restore()
    network.eval()
    return best.steps.tolist()


class _Best:
    """The weights with which each member scored best so far."""

    def __init__(self, network: nn.Module, patience: int) -> None:
        self._network, self._patience = network, patience
        self._weights = {name: value.clone() for name, value in network.state_dict().items()}
        self._score = torch.empty(0)
        self.steps = torch.empty(0, dtype=torch.long)
        self.finished = torch.empty(0, dtype=torch.bool)

    def look(self, step: int, score: Tensor) -> None:
        """Keep the weights of members that score better than ever before; finish those that have not for long."""
        score = score.cpu()
        if not len(self._score):
            self._score = torch.full_like(score, -torch.inf)
            self.steps, self._since = torch.zeros((2, len(score)), dtype=torch.long)
            self.finished = torch.zeros(len(score), dtype=torch.bool)
        better = (score > self._score) & ~self.finished
        self._score, self.steps = torch.where(better, score, self._score), torch.where(better, step, self.steps)
        self._since = torch.where(better, 0, self._since + 1)
        self.finished = self._since >= self._patience
        for name, value in self._network.state_dict().items():
            owner = _OWNER.search(name)
            rows = better if owner is None else better[int(owner[1])]
            self._weights[name][rows] = value[rows]
        _skip(self._network, self.finished)

    def restore(self) -> None:
        """Give each member its best weights."""
        if not torch.isfinite(self._score).all():
            raise TrainingError("training found no weights with a finite score: try a smaller learning_rate.")
        _skip(self._network, torch.zeros_like(self.finished))
        self._network.load_state_dict(self._weights)


def _skip(network: nn.Module, finished: Tensor) -> None:
    members = frozenset(finished.nonzero()[:, 0].tolist())
    for module in network.modules():
        if isinstance(module, EachMember):
            module.finished = members
