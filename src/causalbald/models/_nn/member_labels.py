"""Who trains on which labels, and who is stopped on which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from causalbald._typing import Positions
from causalbald.models._nn.random_streams import RandomStreams


@dataclass(frozen=True)
class LabelTensors:
    """Labels in standard units: x (n, ...), t (n,), y (n,)."""

    x: Tensor
    t: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Tensor) -> LabelTensors:
        """Return the labels at ``rows``, of any shape."""
        return LabelTensors(self.x[rows], self.t[rows], self.y[rows])


@dataclass(frozen=True)
class MemberRows:
    """Rows of labels for each member: index (M, r), and 1 where a row counts, 0 where it only fills up."""

    index: Tensor
    counts: Tensor

    @classmethod
    def of(cls, members: Sequence[Positions], device: torch.device) -> MemberRows:
        """Return the rows of each member, filled up to the length of the longest."""
        longest = max(len(rows) for rows in members)
        index = np.stack([np.resize(rows, longest) for rows in members])
        counts = np.stack([np.arange(longest) < len(rows) for rows in members])
        return cls(torch.as_tensor(index, device=device), torch.as_tensor(counts, dtype=torch.float32, device=device))

    def at_most(self, limit: int, rng: np.random.Generator) -> Positions:
        """Return ``columns`` with at most ``limit`` of each member's rows, at random; all if there are no more."""
        longest = self.index.shape[1]
        return np.arange(longest) if longest <= limit else np.sort(rng.permutation(min(self.lengths))[:limit])

    def of_member(self, m: int) -> MemberRows:
        """Return one member's rows, those that count."""
        return MemberRows(self.index[m : m + 1, : self.lengths[m]], self.counts[m : m + 1, : self.lengths[m]])

    def of_members(self, members: Sequence[int]) -> MemberRows:
        """Return the rows of some members."""
        return MemberRows(self.index[members], self.counts[members])

    def columns(self, columns: Positions) -> MemberRows:
        """Return the same places of every member's rows."""
        return MemberRows(self.index[:, columns], self.counts[:, columns])

    @cached_property
    def lengths(self) -> list[int]:
        """How many rows count, per member."""
        return [int(n) for n in self.counts.sum(1)]

    def mean(self, score: Tensor) -> Tensor:
        """Return the mean (M,) of scores (M, r) over the rows that count."""
        return (score * self.counts).sum(1) / self.counts.sum(1)


Score = Callable[[LabelTensors], Tensor]


@dataclass
class MemberLabels:
    """What a network is trained on, and what it is stopped on: rows per member of two sets of labels."""

    labels: LabelTensors
    train: MemberRows
    held: LabelTensors
    held_rows: MemberRows | None

    def __post_init__(self) -> None:
        self._all = self.train, self.held_rows

    @classmethod
    def of_all(cls, labels: LabelTensors, members: int) -> MemberLabels:
        """Return the study in which every member trains on all labels and nothing is held out."""
        rows = MemberRows.of([np.arange(len(labels))] * members, labels.y.device)
        return cls(labels, rows, labels, None)

    def of_member(self, m: int) -> MemberLabels:
        """Return the study of one member alone."""
        held = None if self.held_rows is None else self.held_rows.of_member(m)
        return MemberLabels(self.labels, self.train.of_member(m), self.held, held)

    def select(self, members: Sequence[int]) -> None:
        """From now on give rows of these members only."""
        train, held = self._all
        self.train, self.held_rows = train.of_members(members), None if held is None else held.of_members(members)

    def held_out(self, prepare: Callable[[], Score], chunk: int) -> Callable[[], Tensor] | None:
        """Return a function () -> (M,): the mean score of what each member holds out; None if nothing is.

        At each look ``prepare`` gives the score to use, a function of labels (M, v) -> (M, v); ``chunk`` labels
        of each member at a time are passed to it.
        """
        if self.held_rows is None:
            return None

        def mean_score() -> Tensor:
            assert self.held_rows is not None
            rows, score = self.held_rows, prepare()
            return rows.mean(torch.cat([score(self.held.take(part)) for part in torch.split(rows.index, chunk, 1)], 1))

        return mean_score

    def batch(self, streams: RandomStreams, size: int, *, repeat: bool) -> LabelTensors:
        """Return random training labels of each member, (M, size); without repetition at most what every one has."""
        lengths = self.train.lengths
        if repeat:
            drawn = streams.integers(lengths, size)
        else:
            drawn = streams.subsets(lengths, min(size, *self._all[0].lengths))
        return self.labels.take(self.train.index.gather(1, drawn.to(self.train.index.device)))
