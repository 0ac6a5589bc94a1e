"""One round after a fit: from a pool and a model to the batch to be measured next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from causalbald import acquisition as acq
from causalbald._choices import BatchRule
from causalbald._money import Budget, costs_of
from causalbald._threads import one_thread
from causalbald._typing import Array, Positions
from causalbald._validation import check_choice, check_number, check_positions
from causalbald.models import CateEstimator
from causalbald.pools._pool import Pool, all_units, for_model
from causalbald.pools._population import population_for, positions_within
from causalbald.pools._scoring import Propensity, Scorer, check_scores, score_pool
from causalbald.selection import check_relates_units, select, select_greedy

SHORTLIST_UNITS = 4096
SHORTLIST_PER_PICK = 10  # units on the shortlist for each unit of a large batch


@dataclass(frozen=True)
class _Offer:
    """Which units a batch may hold, how many of them, and what the batch may cost."""

    size: int
    available: Positions  # sorted; the budget pays for each of these units alone
    pending: Positions
    closed: Positions  # units that may not be chosen, whatever they cost
    cost: Array | None  # (N,)
    budget: Budget

    @classmethod
    def of(cls, pool: Pool, size: int, available: ArrayLike, pending: ArrayLike, budget: float | None) -> _Offer:
        """Return a checked offer; raise InputError if positions are repeated or out of range.

        Pending units and units that cost more than the budget are not available. The offer's size is smaller than
        ``size`` if only costs leave too few units. If too few units were available at any cost, the size is kept, and
        choosing will raise InputError.
        """
        units = len(pool)
        waiting = check_positions(pending, units, "pending")
        open_units = np.setdiff1d(check_positions(available, units, "available"), waiting)
        money = Budget(budget)
        paid = open_units[money.pays_each(costs_of(open_units, pool.cost))]
        size = len(paid) if len(paid) < size <= len(open_units) else size
        return cls(size, paid, waiting, np.setdiff1d(np.arange(units), open_units), pool.cost, money)

    def offered(self, scores: Array, *, per_cost: bool) -> Array:
        """Return a copy of scores (N,) in which units that are not available have -inf.

        With ``per_cost``, the log of each unit's cost is subtracted: importance is divided by cost.
        """
        offered = np.full(len(scores), -np.inf)
        price = self.cost if per_cost else None
        offered[self.available] = (scores if price is None else scores - np.log(price))[self.available]
        return offered

    def drawn(self, scores: Array, temperature: float, rng: np.random.Generator) -> Positions:
        """Return units drawn by softmax in the order of choice, ``size`` of them unless the budget ends before.

        A unit that costs more than what is left of the budget is passed over. Raises InputError if too few scores are
        finite.
        """
        if self.budget.limit is None:
            return select(scores, self.size, temperature=temperature, rng=rng)
        size = max(self.size, int(np.isfinite(scores).sum()))
        order = select(scores, size, temperature=temperature, rng=rng)
        return self.paid(order)[: self.size]

    def paid(self, chosen: Positions) -> Positions:
        """Return the chosen units that the budget pays for, first come, first served. Other units are passed over."""
        return chosen[self.budget.pays_in_order(costs_of(chosen, self.cost))]


def choose_batch(
    model: CateEstimator,
    pool: Pool,
    acquisition: acq.AcquisitionLike,
    size: int,
    *,
    available: ArrayLike,
    rng: np.random.Generator,
    batch: BatchRule | None = None,
    temperature: float | None = None,
    pending: ArrayLike = (),
    measured: ArrayLike | None = None,
    population: acq.TargetPopulation | None = None,
    propensity: Propensity | None = None,
    budget: float | None = None,
    scores: ArrayLike | None = None,
    shortlist: int | None = None,
    picked: Callable[[int, int], None] | None = None,
) -> Positions:
    """Return the next ``size`` units of a pool to measure, given a fitted model.

    Parameters
    ----------
    model : CateEstimator
        Fitted on what has been measured so far.
    pool : Pool
        For example ``MemoryPool(X, treatment)``. If it has costs, importance is divided by cost, unless the function
        was registered with ``per_cost=False``, as ``random`` was.
    acquisition : str or callable
        A score function or a batch function. A batch function has its own rule, without temperature or scores.
    size : int
        How many units to choose.
    available : positions
        Units that may be chosen; pending units among them are not.
    rng : numpy.random.Generator
        Source of randomness.
    batch : "softmax", "greedy" or "auto", optional
        "softmax" draws all units at once by score. "greedy" takes one unit after another, and conditions the belief
        after each. For "auto" see :func:`batch_rule`. By default the acquisition function's own rule.
    temperature : float, optional
        Of the softmax; by default the acquisition function's own, and 0 for greedy.
    pending : positions
        Units chosen earlier whose outcome is still to come. They are never chosen; greedy batches take them into
        account.
    measured : positions, optional
        Units with outcomes; only batch functions use them, and treat pending units as measured too. By default all
        units that are not available.
    population : TargetPopulation, optional
        Whose effects matter, as positions in the pool; by default :func:`pool_population`.
    propensity : function, optional
        Returns P(treated given x) from covariates, for pools that hold no propensities.
    budget : float, optional
        What the batch may cost; no limit by default. The batch is smaller if the budget does not suffice.
    scores : (N,), optional
        What :func:`score_pool` returned for this model and acquisition function; by default computed if needed. Units
        with -inf are not drawn, and do not enter a shortlist.
    shortlist : int, optional
        A greedy batch is chosen among so many units, by default 4,096, or ten times ``size`` if that is more, because
        conditioning needs covariances between units. Half of them have the highest scores, half are drawn by softmax
        from the remaining units.
    picked : function, optional
        Called after each pick of a greedy batch with the number of units picked so far and of all.

    Returns
    -------
    positions (size,)
        In the order of choice; fewer if the budget ends before.

    Raises
    ------
    InputError
        If fewer than ``size`` units are available, an argument does not fit the pool, or the model cannot give what the
        rule needs.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.models import GaussianProcess
    >>> from causalbald.pools import MemoryPool, choose_batch
    >>> x, t = np.linspace(0, 1, 20)[:, None], np.arange(20) % 2
    >>> model = GaussianProcess(max_iter=3).fit(x[:8, 0], t[:8], X=x[:8], pool=x)
    >>> rng = np.random.default_rng(0)
    >>> batch = choose_batch(model, MemoryPool(x, t), "default", 3, available=range(8, 20), rng=rng)
    >>> len(batch), bool((batch >= 8).all())
    (3, True)
    """
    function, units = acq.load(acquisition), for_model(pool, model)
    if temperature is not None:
        check_number(temperature, "temperature", low=0.0)
    checked_scores = None if scores is None else check_scores(scores, len(units))
    offer = _Offer.of(units, size, available, pending, budget)
    if isinstance(function, acq.BatchFunction):
        return _covariate_batch(function, units, offer, measured, rng)
    if offer.size == 0:
        return np.empty(0, dtype=np.intp)

    def offered_scores() -> Array:
        """Return the given or computed scores (N,), divided by cost, with -inf for units that are not available."""
        values = checked_scores
        if values is None:
            values = score_pool(model, units, function, population=population, propensity=propensity, rng=rng)
        return offer.offered(check_scores(values, len(units)), per_cost=function.per_cost)

    if batch_rule(model, units, batch or function.batch) == "softmax":
        return offer.drawn(offered_scores(), function.temperature if temperature is None else temperature, rng)
    limit = max(SHORTLIST_UNITS if shortlist is None else shortlist, SHORTLIST_PER_PICK * offer.size)
    candidates = _shortlist(offered_scores, offer.available, limit, function.temperature, rng)
    goal = population_for(function, population, len(units))
    rows, goal = _with_targets(np.concatenate([candidates, offer.pending]), goal)
    block = units.take(rows)
    with one_thread():  # sums of several threads would decide between twins
        chosen = select_greedy(
            model.posterior(block.x),
            block.arm,
            function,
            offer.size,
            pending=np.flatnonzero(np.isin(rows, offer.pending)),
            excluded=np.flatnonzero(~np.isin(rows, candidates)),
            propensity=Scorer(model, function, propensity=propensity).propensity_of(block),
            population=goal,
            cost=None if offer.cost is None else offer.cost[rows],
            budget=budget,
            temperature=temperature or 0.0,
            rng=rng,
            picked=picked,
        )
    return rows[chosen]


def _covariate_batch(
    function: acq.BatchFunction, pool: Pool, offer: _Offer, measured: ArrayLike | None, rng: np.random.Generator
) -> Positions:
    """Return the batch that a batch function chooses, without the units that the budget does not pay for.

    The function sees the covariates of all units. The units that it treats as measured are all that may not be chosen,
    or ``measured`` and the pending units if ``measured`` is given.
    """
    everyone = all_units(pool)
    taken = offer.closed
    if measured is not None:
        taken = np.union1d(check_positions(measured, len(pool), "measured"), offer.pending)
    chosen = function.choose(everyone.x, everyone.arm, offer.size, measured=taken, available=offer.available, rng=rng)
    return offer.paid(chosen)


def _with_targets(
    rows: Positions, population: acq.TargetPopulation | None
) -> tuple[Positions, acq.TargetPopulation | None]:
    """Return ``rows`` with all targets appended that were missing, and the population as places in these rows.

    Without a population, returns ``rows`` and None.
    """
    if population is None:
        return rows, None
    joint = np.concatenate([rows, np.setdiff1d(population.positions, rows)])
    weights = population.unit_weight
    return joint, replace(
        population,
        positions=positions_within(joint, population),
        unit_weight=weights[joint] if isinstance(weights, np.ndarray) else weights,
    )


def batch_rule(model: CateEstimator, pool: Pool, rule: BatchRule = "auto") -> BatchRule:
    """Return "softmax" or "greedy": ``rule`` itself, or for "auto" greedy if the model can say how units covary.

    A model cannot say how units covary if its belief comes from fewer than 100 draws.

    Parameters
    ----------
    model : CateEstimator
        Fitted.
    pool : Pool
        Unless the rule is "softmax", the model gives its belief about the first unit.
    rule : "softmax", "greedy" or "auto"
        The rule that was asked for.

    Returns
    -------
    "softmax" or "greedy"

    Raises
    ------
    InputError
        If ``rule`` is "greedy" and the model cannot say how units covary, or if there is no such rule.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.models import GaussianProcess
    >>> from causalbald.pools import MemoryPool, batch_rule
    >>> x, t = np.linspace(0, 1, 12)[:, None], np.arange(12) % 2
    >>> model = GaussianProcess(max_iter=3).fit(x[:, 0], t, X=x)
    >>> batch_rule(model, MemoryPool(x, t))
    'greedy'
    """
    if check_choice(rule, "batch", ("softmax", "greedy", "auto")) == "softmax":
        return "softmax"
    belief = model.posterior(for_model(pool, model).take([0]).x)
    if rule == "greedy":
        check_relates_units(belief)
    return "greedy" if belief.relates_units else "softmax"


def _shortlist(
    offered_scores: Callable[[], Array],
    available: Positions,
    limit: int,
    temperature: float,
    rng: np.random.Generator,
) -> Positions:
    """Return sorted positions of ``limit`` promising units, or all available units if they are no more than ``limit``.

    Half of the units have the highest scores; the others are drawn by softmax with ``temperature``. ``offered_scores``
    returns scores (N,) that are -inf for units that are not available. It is called only if needed, and the array that
    it returns is changed.
    """
    if len(available) <= limit:
        return available
    scores = offered_scores()
    finite = np.flatnonzero(np.isfinite(scores))
    if len(finite) <= limit:
        return finite
    best = select(scores, limit // 2, temperature=0.0, rng=rng)
    scores[best] = -np.inf
    return np.sort(np.concatenate([best, select(scores, limit - len(best), temperature=temperature, rng=rng)]))
