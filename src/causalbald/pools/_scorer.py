"""Scores of a pool, a block of units at a time: here, on this machine's threads, or wherever a scorer is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, Self

import numpy as np

from causalbald import acquisition as acq
from causalbald._threads import in_threads, one_thread
from causalbald._typing import AnyArray, Array, Positions, Treatment
from causalbald.models import CateEstimator, CrossBeliefOf
from causalbald.posterior import Posterior


class Block(NamedTuple):
    """Some units: covariates x (n, D) or images, arms (n,) and, for functions that ask for it, P(treated | x) (n,).

    ``own`` (n,) is what each unit's own effect weighs, where it is not the same for all; see :class:`acq.Targets`.
    """

    x: AnyArray
    arm: Treatment
    propensity: Array | None = None
    own: Array | None = None


@dataclass(frozen=True)
class Scorer:
    """Scores blocks of a pool by a fitted model. A block need not know where in the pool it is.

    ``goal`` are the units that matter to a function that asks for targets. Where the model has a ``cross_belief`` with
    them, a block is scored by itself. Else they are put beside each block, and their own scores, to which their own residual
    belongs, are :meth:`of_goal`; so are those of a sample, from which each is left out as it is scored.
    ``propensity`` is P(treated | x) of blocks without.
    """

    model: CateEstimator
    function: acq.Acquisition
    goal: Block | None = None
    targets: acq.Targets | None = None  # positions in ``goal``
    cross_belief: CrossBeliefOf | None = None
    propensity: Callable[[AnyArray], Array] | None = None

    @classmethod
    def of(
        cls,
        model: CateEstimator,
        function: acq.Acquisition,
        targets: acq.Targets | None,
        take: Callable[[Positions], Block],
        propensity: Callable[[AnyArray], Array] | None = None,
    ) -> Self:
        """Return the scorer of a pool of which ``take`` returns units, with targets as positions in that pool."""
        if targets is None:
            return cls(model, function, propensity=propensity)
        goal = take(targets.positions)
        if isinstance(targets.own, np.ndarray):
            goal = goal._replace(own=targets.own[targets.positions])
            targets = replace(targets, own=goal.own)
        within = replace(targets, positions=np.arange(len(targets.positions)))
        cross_belief = model.cross_belief(goal.x) if function.linked else None
        if cross_belief is not None:
            within = replace(within, belief=model.posterior(goal.x, joint=False))
        return cls(model, function, goal, within, cross_belief, propensity)

    @property
    def by_itself(self) -> bool:
        """Whether the belief about the units of a block is enough to score it."""
        return self.goal is None or self.cross_belief is not None

    @property
    def goal_apart(self) -> bool:
        """Whether the scores of the units that matter are not those of their blocks but :meth:`of_goal`."""
        return not self.by_itself or (self.targets is not None and self.targets.own is not None)

    def __call__(self, block: Block, rng: np.random.Generator | None = None) -> Array:
        """Return the scores of a block, (n,)."""
        goal, targets, pi = self.goal, self.targets, self._propensity(block)
        if goal is None or targets is None or self.cross_belief is not None:
            belief, linked = self._alone(block)
            return self.function(belief, block.arm, propensity=pi, targets=linked, rng=rng)
        units, other = len(block.x), self._propensity(goal)
        belief = self.model.posterior(np.concatenate([block.x, goal.x]))
        arm = np.concatenate([block.arm, goal.arm])
        both = None if pi is None or other is None else np.concatenate([pi, other])
        own = targets.own if block.own is None or goal.own is None else np.concatenate([block.own, goal.own])
        beside = replace(targets, positions=units + targets.positions, own=own)
        return self.function(belief, arm, propensity=both, targets=beside, rng=rng)[:units]

    def of_goal(self, rng: np.random.Generator | None = None) -> Array:
        """Return the scores of the units that matter, from the joint belief about them unless they are a sample."""
        goal, targets = self.goal, self.targets
        assert goal is not None
        assert targets is not None
        pi = self._propensity(goal)
        if self.cross_belief is not None and targets.own is not None:
            belief, linked = self._alone(goal)
            itself = linked and replace(linked, place=linked.positions)
            return self.function(belief, goal.arm, propensity=pi, targets=itself, rng=rng)
        belief = self.model.posterior(goal.x)
        return self.function(belief, goal.arm, propensity=pi, targets=replace(targets, belief=None), rng=rng)

    def over(self, blocks: Iterable[Block], rng: np.random.Generator | None = None) -> Iterator[Array]:
        """Yield the scores of each block, in order; on several threads unless scores are drawn at random."""
        if "rng" in self.function.needs:
            yield from (self(block, rng) for block in blocks)
            return
        rest = iter(blocks)
        # The first by itself: what a model works out when it is first asked is then there for all threads.
        for block in islice(rest, 1):
            with one_thread():
                first = self(block)
            yield first
        yield from in_threads(self, rest)

    def _alone(self, block: Block) -> tuple[Posterior, acq.Targets | None]:
        """Return what is believed of each unit by itself, and the targets with what ties the units to them."""
        if self.function.blind:
            return Posterior.placeholder(len(block.x)), None
        if self.cross_belief is None or self.targets is None:
            return self.model.posterior(block.x, joint=False), None
        units = self.cross_belief(block.x)

        def covariance(rows: slice, arm: int | None) -> Array:
            return units.covariance(rows, block.arm[rows], arm)

        own = self.targets.own if block.own is None else block.own
        return units.belief, replace(self.targets, covariance=covariance, own=own)

    def _propensity(self, block: Block) -> Array | None:
        return self.propensity(block.x) if block.propensity is None and self.propensity else block.propensity
