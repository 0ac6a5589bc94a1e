"""Which labels each member of a network trains on, and which labels decide when the member stops."""

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
    """Labels in standard units: covariates x (n, ...), arms t (n,) and outcomes y (n,)."""

    x: Tensor
    t: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Tensor) -> LabelTensors:
        """Return the labels at ``rows``. If ``rows`` is (M, v), then t and y are (M, v), and x is (M, v, ...)."""
        return LabelTensors(self.x[rows], self.t[rows], self.y[rows])


# Scores labels of M members, each (M, v): a score (M, v), larger is better.
LabelScore = Callable[[LabelTensors], Tensor]


@dataclass(frozen=True)
class MemberRows:
    """Rows of a set of labels for each of M members, padded to the same number.

    ``index`` (M, r) holds the rows, ``mask`` (M, r) is 1 for a row of the member and 0 for padding.
    """

    index: Tensor
    mask: Tensor

    @classmethod
    def padded(cls, rows_of_members: Sequence[Positions], device: torch.device) -> MemberRows:
        """Return the rows of each member, on ``device``.

        A member with fewer rows than the longest repeats its rows as padding. Every member needs at least one row.
        """
        longest = max(len(rows) for rows in rows_of_members)
        index = np.stack([np.resize(rows, longest) for rows in rows_of_members])
        mask = np.stack([np.arange(longest) < len(rows) for rows in rows_of_members])
        return cls(torch.as_tensor(index, device=device), torch.as_tensor(mask, dtype=torch.float32, device=device))

    def draw_columns(self, limit: int, rng: np.random.Generator) -> Positions:
        """Return sorted random columns of ``index``: all columns if no member has more than ``limit`` rows.

        Otherwise there are ``limit`` columns, or fewer if a member has fewer rows, and none is padding for any member.
        """
        # min(lengths) is the number of columns without padding.
        longest = self.index.shape[1]
        return np.arange(longest) if longest <= limit else np.sort(rng.permutation(min(self.lengths))[:limit])

    def of_member(self, m: int) -> MemberRows:
        """Return the rows of member m alone, with M = 1 and without padding."""
        return MemberRows(self.index[m : m + 1, : self.lengths[m]], self.mask[m : m + 1, : self.lengths[m]])

    def of_members(self, members: Sequence[int]) -> MemberRows:
        """Return the rows of these members, in this order, with their padding."""
        return MemberRows(self.index[members], self.mask[members])

    def take_columns(self, columns: Positions) -> MemberRows:
        """Return the same columns of the rows of every member."""
        return MemberRows(self.index[:, columns], self.mask[:, columns])

    @cached_property
    def lengths(self) -> list[int]:
        """Number of rows of each member, without padding."""
        return [int(n) for n in self.mask.sum(1)]

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean (M,) of values (M, r) over each member's rows, without padding."""
        return (values * self.mask).sum(1) / self.mask.sum(1)


@dataclass
class MemberLabels:
    """The labels on which each member trains, and the held-out labels that decide when the member stops.

    ``rows`` are each member's rows of ``labels``, and ``stop_rows`` its rows of ``stop_labels``. ``labels`` and
    ``stop_labels`` may be the same set, of which each member holds out a share. With ``stop_rows`` None, nothing is
    held out. :func:`training.train` calls ``select`` when members stop.
    """

    labels: LabelTensors
    rows: MemberRows
    stop_labels: LabelTensors
    stop_rows: MemberRows | None

    def __post_init__(self) -> None:
        self._rows_of_all = self.rows, self.stop_rows

    @classmethod
    def of_all(cls, labels: LabelTensors, members: int) -> MemberLabels:
        """Return a set in which every member trains on all labels, and nothing is held out."""
        rows = MemberRows.padded([np.arange(len(labels))] * members, labels.y.device)
        return cls(labels, rows, labels, None)

    def of_member(self, m: int) -> MemberLabels:
        """Return a new set with member m alone, counted among the members that are selected now."""
        stop_rows = None if self.stop_rows is None else self.stop_rows.of_member(m)
        return MemberLabels(self.labels, self.rows.of_member(m), self.stop_labels, stop_rows)

    def select(self, members: Sequence[int]) -> None:
        """From now on return labels of these members only, in this order. Changes ``rows`` and ``stop_rows``.

        ``members`` count from 0 among all members, whatever was selected before.
        """
        rows, stop_rows = self._rows_of_all
        self.rows, self.stop_rows = (
            rows.of_members(members),
            None if stop_rows is None else stop_rows.of_members(members),
        )

    def stop_score(self, prepare: Callable[[], LabelScore], chunk: int) -> Callable[[], Tensor] | None:
        """Return a function () -> (M,), the mean score of the labels that each member holds out.

        Returns None if nothing is held out. :func:`training.train` calls the returned function. Each call asks
        ``prepare`` for the score of the network at that time. At most ``chunk`` labels of each selected member at a
        time are passed to that score.
        """
        if self.stop_rows is None:
            return None

        def mean_score() -> Tensor:
            """Return the mean score (M,) of the labels that each member holds out."""
            assert self.stop_rows is not None
            rows, score = self.stop_rows, prepare()
            parts = torch.split(rows.index, chunk, 1)
            return rows.mean(torch.cat([score(self.stop_labels.take(part)) for part in parts], 1))

        return mean_score

    def batch(self, streams: RandomStreams, size: int, *, repeat: bool) -> LabelTensors:
        """Return random training labels of each member, (M, size).

        With ``repeat``, a label can occur more than once. Without it, the batch is at most as long as the shortest
        training set. The sets of members that have stopped count too: which members are left changes no batch.
        """
        lengths = self.rows.lengths
        if repeat:
            columns = streams.integers(lengths, size)
        else:
            columns = streams.subsets(lengths, min(size, *self._rows_of_all[0].lengths))
        return self.labels.take(self.rows.index.gather(1, columns.to(self.rows.index.device)))
