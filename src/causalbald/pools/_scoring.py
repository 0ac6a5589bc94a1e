"""Scores of a pool, a block of units at a time: on this machine's threads, or wherever a scorer is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from causalbald import acquisition as acq
from causalbald._threads import CHUNK_UNITS, in_threads, one_thread
from causalbald._typing import AnyArray, Array, Positions
from causalbald.errors import InputError
from causalbald.models import CateEstimator, CrossBeliefOf
from causalbald.pools._pool import Block, Pool, for_model
from causalbald.pools._population import population_for
from causalbald.posterior import Posterior

Propensity = Callable[[AnyArray], Array]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Scorer:
    """Scores blocks of a pool by a fitted model. A block need not know where in the pool it is.

    There are three ways to score a block; the scorer takes the first one that is enough:

    1. From each unit's belief alone, if the function needs no target population.
    2. From each unit's belief and its cross-covariances with the targets, if the model has a ``cross_belief``.
    3. From the joint belief about the block's units and the targets.

    A block does not know which of its units are targets. So in way 3, and in way 2 if the targets are a sample, the
    scores of the targets must be taken from :meth:`target_scores` instead of from their blocks.

    Parameters
    ----------
    model : CateEstimator
        Fitted.
    function : ScoreFunction
        The acquisition function that scores.
    targets : Block, optional
        The units of the target population.
    population : TargetPopulation, optional
        The weights of the targets; its positions are positions in ``targets``.
    cross_belief : function, optional
        Returns, from covariates, the belief about units and their covariances with the targets.
    target_posterior : Posterior, optional
        The belief about each target, on the outcome's own scale; for ``cross_belief``.
    propensity : function, optional
        Returns P(treated given x) from covariates, for blocks that hold none.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald import acquisition
    >>> from causalbald.models import GaussianProcess
    >>> from causalbald.pools import MemoryPool, Scorer
    >>> x, t = np.linspace(0, 1, 12)[:, None], np.arange(12) % 2
    >>> model = GaussianProcess(max_iter=3).fit(x[:, 0], t, X=x)
    >>> pool = MemoryPool(x, t)
    >>> scorer = Scorer.of(model, acquisition.load_score_function("mu-bald"), pool, None)
    >>> scorer(pool.take([3, 4])).shape
    (2,)
    """

    model: CateEstimator
    function: acq.ScoreFunction
    targets: Block | None = None
    population: acq.TargetPopulation | None = None
    cross_belief: CrossBeliefOf | None = None
    target_posterior: Posterior | None = None
    propensity: Propensity | None = None

    @classmethod
    def of(
        cls,
        model: CateEstimator,
        function: acq.ScoreFunction,
        pool: Pool,
        population: acq.TargetPopulation | None,
        propensity: Propensity | None = None,
    ) -> Self:
        """Return the scorer of a pool, with a target population as positions in that pool.

        ``population`` is None for functions that need none; ``propensity`` is for pools that hold none. Reads the
        targets from the pool, and asks the fitted model for its belief about them.
        """
        if population is None:
            return cls(model, function, propensity=propensity)
        targets, length = pool.take(population.positions), len(population.positions)
        if isinstance(population.unit_weight, np.ndarray):
            targets = targets._replace(unit_weight=population.unit_weight[population.positions])
            population = replace(population, unit_weight=targets.unit_weight)
        within = replace(population, positions=np.arange(length))
        cross_belief = model.cross_belief(targets.x) if "population" not in function.needs else None
        posterior = None if cross_belief is None else model.posterior(targets.x, joint=False).linearised()
        return cls(model, function, targets, within, cross_belief, posterior, propensity)

    @property
    def scores_targets_separately(self) -> bool:
        """Whether the scores of the targets must come from :meth:`target_scores` and not from their blocks."""
        if self.population is None:
            return False
        return self.cross_belief is None or self.population.unit_weight is not None

    def __call__(self, block: Block, rng: np.random.Generator | None = None) -> Array:
        """Return the scores of a block, (n,). ``rng`` is needed by functions that draw at random.

        The scores of targets in the block are right only if :attr:`scores_targets_separately` is false.
        """
        targets, population, pi = self.targets, self.population, self.propensity_of(block)
        if targets is None or population is None:
            has_belief = "posterior" in self.function.needs
            belief = self.model.posterior(block.x, joint=False) if has_belief else None
            return self.function(belief, block.arm, propensity=pi, rng=rng)
        if self.cross_belief is not None:
            return self._score_across(block, np.full(len(block.x), -1), rng)
        units, target_pi = len(block.x), self.propensity_of(targets)
        belief = self.model.posterior(np.concatenate([block.x, targets.x]))
        arm = np.concatenate([block.arm, targets.arm])
        joint_pi = None if pi is None or target_pi is None else np.concatenate([pi, target_pi])
        unit_weight = population.unit_weight
        if block.unit_weight is not None and targets.unit_weight is not None:
            unit_weight = np.concatenate([block.unit_weight, targets.unit_weight])
        joint = replace(population, positions=units + population.positions, unit_weight=unit_weight)
        return self.function(belief, arm, propensity=joint_pi, population=joint, rng=rng)[:units]

    def target_scores(self, rng: np.random.Generator | None = None) -> Array:
        """Return the scores (J,) of the targets, which there must be.

        The scores come from cross-covariances if the targets are a sample and the model has these covariances, and from
        the joint belief about the targets otherwise.
        """
        targets, population = self.targets, self.population
        assert targets is not None
        assert population is not None
        if self.cross_belief is not None and population.unit_weight is not None:
            return self._score_across(targets, population.positions, rng)
        belief, pi = self.model.posterior(targets.x), self.propensity_of(targets)
        return self.function(belief, targets.arm, propensity=pi, population=population, rng=rng)

    def over(self, blocks: Iterable[Block], rng: np.random.Generator | None = None) -> Iterator[Array]:
        """Yield the scores of each block, in order; on several threads unless the function takes ``rng``."""
        if "rng" in self.function.needs:
            yield from (self(block, rng) for block in blocks)
            return
        remaining = iter(blocks)
        # The first block alone: what a model computes when it is first asked is then ready for all threads.
        for block in islice(remaining, 1):
            with one_thread():
                first = self(block)
            yield first
        yield from in_threads(self, remaining)

    def _score_across(self, block: Block, places: Positions, rng: np.random.Generator | None) -> Array:
        """Return the scores (n,) of a block by cross-covariances.

        ``places`` (n,) is the place of each unit of the block among the targets, -1 for other or unknown units.
        """
        assert self.cross_belief is not None
        assert self.population is not None
        assert self.target_posterior is not None
        units = self.cross_belief(block.x)

        def covariance(rows: slice, arm: int | None) -> Array:
            """Return the covariances of the block's units ``rows`` with the targets; see TargetBelief."""
            return units.covariance(rows, block.arm[rows], arm)

        population = self.population
        if block.unit_weight is not None:
            population = replace(population, unit_weight=block.unit_weight)
        targets = acq.TargetBelief(population, self.target_posterior, covariance, places)
        pi = self.propensity_of(block)
        return self.function(units.belief, block.arm, propensity=pi, targets=targets, rng=rng)

    def propensity_of(self, block: Block) -> Array | None:
        """Return P(treated given x) of a block's units: the block's own values, or else those of ``propensity``.

        None if neither is given.
        """
        return self.propensity(block.x) if block.propensity is None and self.propensity else block.propensity


def block_units(scorer: Scorer) -> int:
    """Return how many units to score at a time.

    Without a target population, it is the usual size. With cross-covariances blocks are smaller, because each block
    needs an array as wide as there are targets. With joint beliefs blocks are larger, because each block needs a new
    joint belief with all targets.
    """
    if scorer.population is None:
        return CHUNK_UNITS
    return max(1, CHUNK_UNITS // 2) if scorer.cross_belief is not None else 4 * CHUNK_UNITS


# Takes a scorer and a number of units per block; returns the scores of a pool, in order and in parts.
Backend = Callable[[Scorer, int], Iterable[Array]]


def score_pool(
    model: CateEstimator,
    pool: Pool,
    acquisition: acq.AcquisitionLike,
    *,
    population: acq.TargetPopulation | None = None,
    propensity: Propensity | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
    backend: Backend | None = None,
) -> Array:
    """Return the score of every unit of a pool, (N,), a block of units at a time.

    Parameters
    ----------
    model : CateEstimator
        Fitted on what has been measured so far.
    pool : Pool
        For example ``MemoryPool(X, treatment)``.
    acquisition : str or callable
        A score function.
    population : TargetPopulation, optional
        Whose effects matter, as positions in the pool; by default :func:`pool_population`.
    propensity : function, optional
        Returns P(treated given x) from covariates, for pools that hold no propensities.
    rng : numpy.random.Generator, optional
        Needed by functions that draw at random.
    progress : function, optional
        Called after each block with the number of units scored so far and the number of all units.
    backend : function, optional
        Called with a :class:`Scorer` and the number of units per block; returns the scores of the pool in order, in
        parts. By default blocks are scored on the threads of this machine.

    Returns
    -------
    scores (N,)

    Raises
    ------
    InputError
        If the function is a batch function, which has no scores; if it needs a propensity or ``rng`` that is missing;
        or if ``population`` or the covariates do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.models import GaussianProcess
    >>> from causalbald.pools import MemoryPool, score_pool
    >>> x, t = np.linspace(0, 1, 12)[:, None], np.arange(12) % 2
    >>> model = GaussianProcess(max_iter=3).fit(x[:, 0], t, X=x)
    >>> score_pool(model, MemoryPool(x, t), "mu-rho-bald").shape
    (12,)
    """
    function, units = acq.load_score_function(acquisition), for_model(pool, model)
    population = population_for(function, population, len(units))
    scorer, scores, done = Scorer.of(model, function, units, population, propensity), np.empty(len(units)), 0
    if population is None or len(population.positions) < len(units):
        size = block_units(scorer)
        blocks = _weighted(units.blocks(size), population)
        for part in scorer.over(blocks, rng) if backend is None else backend(scorer, size):
            scores[done : done + len(part)] = part
            done += len(part)
            if progress is not None:
                progress(done, len(scores))
    if population is not None and (done == 0 or scorer.scores_targets_separately):
        with one_thread():
            scores[population.positions] = scorer.target_scores(rng)
    if progress is not None and done == 0:
        progress(len(scores), len(scores))
    return scores


def _weighted(blocks: Iterable[Block], population: acq.TargetPopulation | None) -> Iterator[Block]:
    """Yield the blocks of a pool, with the weights of their units if ``population`` has a weight for each unit.

    Otherwise blocks are yielded as they are. Called by `score_pool`.
    """
    weights, start = None if population is None else population.unit_weight, 0
    for block in blocks:
        if isinstance(weights, np.ndarray):
            block = block._replace(unit_weight=weights[start : start + len(block.x)])
            start += len(block.x)
        yield block


def check_scores(scores: ArrayLike, units: int) -> Array:
    """Return scores as floats (N,); raise InputError unless there is one per unit and none is NaN or +inf."""
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (units,):
        raise InputError(f"scores have shape {values.shape} for {units} units: one for each, in order.")
    if np.isnan(values).any() or np.isposinf(values).any():
        raise InputError("scores contain NaN or +inf: use -inf for units that must not be chosen.")
    return values
