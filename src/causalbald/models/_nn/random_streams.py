"""One random stream per member: what a member draws does not depend on which other members are trained."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class RandomStreams:
    """Random numbers for M members. Every draw has a leading member axis, whose row m is from the stream of member m.

    Every draw moves the streams on. Draws are on the CPU.
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        self._generators_of_all = [torch.Generator().manual_seed(seed) for seed in seeds]
        self._generators = self._generators_of_all

    def __len__(self) -> int:
        return len(self._generators)

    def of_member(self, m: int) -> RandomStreams:
        """Return the stream of one member alone. It is shared, not copied: a draw from either moves both on."""
        alone = RandomStreams([])
        alone._generators_of_all = alone._generators = [self._generators_of_all[m]]
        return alone

    def select(self, members: Sequence[int]) -> None:
        """From now on draw for these members only, in this order. The streams of other members do not move.

        ``members`` count from 0 among all members, whatever was selected before.
        """
        self._generators = [self._generators_of_all[m] for m in members]

    def uniform(self, shape: Sequence[int], *, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Return uniform draws between ``low`` and ``high``, (M, *shape)."""
        draws = torch.stack([torch.rand(*shape, generator=g) for g in self._generators])
        return draws if (low, high) == (0.0, 1.0) else low + (high - low) * draws

    def normal(self, shape: Sequence[int]) -> Tensor:
        """Return standard normal draws, (M, *shape)."""
        return torch.stack([torch.randn(*shape, generator=g) for g in self._generators])

    def integers(self, high: Sequence[int], size: int) -> Tensor:
        """Return draws with repetition from range(high[m]), (M, size)."""
        draws = zip(high, self._generators, strict=True)
        return torch.stack([torch.randint(h, (size,), generator=g) for h, g in draws])

    def subsets(self, high: Sequence[int], size: int) -> Tensor:
        """Return draws without repetition from range(high[m]), (M, size). No ``high`` may be below ``size``."""
        draws = zip(high, self._generators, strict=True)
        return torch.stack([torch.randperm(h, generator=g)[:size] for h, g in draws])

    def seed(self, row: int) -> int:
        """Return a seed drawn from the stream that fills this row of other draws."""
        return int(torch.randint(2**62, (1,), generator=self._generators[row]))
