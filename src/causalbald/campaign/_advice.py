"""Should one go on? What the next batch would teach, what is settled, and what has changed. Advice, never a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from causalbald._money import Budget
from causalbald._threads import one_thread
from causalbald._words import amount
from causalbald.campaign._asking import choose_picks
from causalbald.campaign._belief import Belief
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._state import State
from causalbald.pools import batch_rule
from causalbald.selection import SequentialMarginals

# At or below these shares, another batch is unlikely to change what is done.
MAX_SMALL_GAIN = 0.02
MAX_SMALL_DRIFT = 0.02
MIN_MOSTLY_SETTLED = 0.9
DRIFT_ROUNDS = 3
"""Rounds over which the change of recommendations is followed."""
_NOBODY_LEFT = "stop: nobody is left to measure"
_BUDGET_SPENT = "stop: the budget is spent"


@dataclass(frozen=True)
class Advice:
    """What speaks for going on and what for stopping.

    None stands for a number that cannot be given yet. "consider stopping" needs a ``drift``, and so three batches with
    a model, since early beliefs tend to be too sure of themselves. In a campaign with weights, units count by their
    weights.

    Parameters
    ----------
    verdict : str
        Begins with "go on", "consider stopping" or "stop".
    reasons : tuple of str
        Sentences with the numbers below.
    expected_error : float, optional
        Root mean square of the standard deviations of the effects: the error to be expected if the model is right.
    after_pending : float, optional
        The expected error once pending outcomes are told. None if the campaign's model cannot foresee this, as an
        ensemble of networks cannot.
    after_next : float, optional
        The expected error once the outcomes of the next batch are told, too. None as for ``after_pending``.
    settled : float, optional
        Share of units for which it is settled, at 95 %, whether the treatment is worthwhile.
    drift : float, optional
        Share of units whose recommendation has changed over the last three batches.
    left : float, optional
        What is left of the budget, if there is one.
    size : int, optional
        How many measurements ``after_next`` is about: the number asked about, or fewer if units or money do not
        suffice.

    Examples
    --------
    >>> from causalbald.campaign import Advice
    >>> Advice("go on", ("there are too few outcomes yet for a model.",)).settled is None
    True
    """

    verdict: str
    reasons: tuple[str, ...]
    expected_error: float | None = None
    after_pending: float | None = None
    after_next: float | None = None
    settled: float | None = None
    drift: float | None = None
    left: float | None = None
    size: int | None = None


def advise(state: State, pool: CampaignPool, settings: CampaignSettings, size: int, belief: Belief | None) -> Advice:
    """Return advice on asking for more measurements. Nothing is recorded.

    Called by ``Campaign.advice`` and by the report.

    Parameters
    ----------
    state : State
        Where the campaign stands.
    pool : CampaignPool
        All units of the campaign.
    settings : CampaignSettings
        What the campaign is about.
    size : int
        Size of the next batch that the advice is about. If fewer units or less money are left, the batch is smaller.
    belief : Belief, optional
        None while an arm has too few outcomes for a model. The advice then has a verdict and the money that is left,
        and all other numbers are None.

    Returns
    -------
    Advice

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign, advise
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> columns = {"id": "patient", "treatment": "drug", "outcome": "cd4"}
    >>> campaign = Campaign.create(MemoryStorage(), pool, **columns)
    >>> advise(campaign.state, campaign.pool, campaign.settings, 5, None).reasons
    ('there are too few outcomes yet for a model.',)
    """
    left = settings.whole_budget.after(state.spent)
    open_units = pool.without(state.closed)
    is_broke = len(open_units) > 0 and not left.pays_each(pool.costs(open_units)).any()
    if belief is None:
        verdict = _BUDGET_SPENT if is_broke else "go on" if len(open_units) else _NOBODY_LEFT
        return Advice(verdict, ("there are too few outcomes yet for a model.",), left=left.limit)
    units, weights = belief.focus
    effects = belief.effects(pool.x[units])
    expected_error = float(np.sqrt(weights @ effects.sd**2))
    settled, drift = float(weights @ belief.settled(effects)), _drift(state, belief)
    # Five members of an ensemble cannot say what further outcomes would teach.
    errors = None
    if batch_rule(belief.model, pool) == "greedy":
        errors = _expected_errors(belief, state, min(size, len(open_units)), left)
    advice = Advice(
        _BUDGET_SPENT if is_broke else _verdict(errors, settled, drift, len(open_units)),
        (),
        expected_error,
        after_pending=errors.after_pending if errors else None,
        after_next=errors.after_next if errors else None,
        settled=settled,
        drift=drift,
        left=left.limit,
        size=errors.size if errors else None,
    )
    return replace(advice, reasons=tuple(_reasons(advice, errors, state, settings)))


@dataclass(frozen=True)
class _ExpectedErrors:
    """Expected error of the effects after the pending outcomes, and after a batch of ``size`` units in addition."""

    after_pending: float
    after_next: float
    size: int

    @property
    def gain(self) -> float:
        """Share of the error after pending outcomes that the batch would remove; 0 if there is no error."""
        return 1 - self.after_next / self.after_pending if self.after_pending > 0 else 0.0


def _reasons(advice: Advice, errors: _ExpectedErrors | None, state: State, settings: CampaignSettings) -> Iterator[str]:
    """Yield a sentence for each number of an advice that is not None. Called by ``advise``."""
    who = "people" if settings.weight is None else f"those who matter, by {settings.weight!r},"
    yield f"for {advice.settled:.0%} of {who} it is settled at 95 % whether the treatment is worthwhile."
    if errors is not None and errors.size:
        waiting = f", which it will be once {len(state.pending)} pending outcomes are told," if state.pending else ""
        yield (
            f"{errors.size} more measurements are expected to cut the error of effects from "
            f"{errors.after_pending:.3g}{waiting} to {errors.after_next:.3g} ({errors.gain:.0%})."
        )
    if advice.drift is not None:
        yield f"the recommendation has changed for {advice.drift:.0%} of {who} over the last {DRIFT_ROUNDS} batches."
    if advice.left is not None and settings.budget is not None:
        yield f"{amount(advice.left)} of the budget of {amount(settings.budget)} is left."


def _verdict(errors: _ExpectedErrors | None, settled: float, drift: float | None, n_open: int) -> str:
    """Return the verdict of a campaign that has money left and a belief. Called by ``advise``.

    Without open units the verdict is to stop. "consider stopping" needs a small ``drift``, and either a large share
    ``settled`` or a small gain of ``errors``. ``errors`` is None if the model cannot foresee its errors.
    """
    if n_open == 0:
        return _NOBODY_LEFT
    is_steady = drift is not None and drift <= MAX_SMALL_DRIFT
    if is_steady and settled >= MIN_MOSTLY_SETTLED:
        return "consider stopping: what to do is settled for nearly everyone, and no longer changes"
    if is_steady and errors is not None and errors.gain <= MAX_SMALL_GAIN:
        return "consider stopping: more measurements would teach little, and the recommendation no longer changes"
    return "go on"


@one_thread()
def _expected_errors(belief: Belief, state: State, size: int, left: Budget) -> _ExpectedErrors:
    """Return the expected errors after the pending outcomes and after the next batch. Called by ``advise``.

    Outcomes are not needed for it: the variance of a Gaussian belief after a measurement does not depend on the
    outcome. Beliefs about binary outcomes are linearised first. The next batch is the one that ``ask`` would choose
    now: at most ``size`` units, for which ``left`` pays. Errors are those of the units of ``belief.focus``.
    """
    pool = belief.pool
    pending = np.sort(pool.units.positions(state.pending))
    picks = choose_picks(state, pool, belief.settings, size, left, belief) if size else ()
    chosen = pool.units.positions(pick.id for pick in picks)
    focus, weights = belief.focus
    units = np.unique(np.concatenate([focus, pending, chosen]))
    after = SequentialMarginals(belief.model.posterior(pool.x[units]).linearised(), pool.arm[units])
    focus_rows = np.searchsorted(units, focus)
    errors: list[float] = []
    for group in (pending, chosen):
        for row in np.searchsorted(units, group):
            after.measure(int(row))
        errors.append(float(np.sqrt(weights @ after.belief.effect_variance[focus_rows])))
    return _ExpectedErrors(after_pending=errors[0], after_next=errors[1], size=len(chosen))


def _drift(state: State, belief: Belief) -> float | None:
    """Return the share of ``belief.sample`` whose recommendation has changed since the last batches were chosen.

    The present recommendations are compared with the recommendations recorded with the last ``DRIFT_ROUNDS`` batches
    that had a model. None if there were fewer such batches. Units count by their weights, unless all weights in the
    sample are 0.
    """
    earlier = [r.belief.policy for r in state.rounds if r.belief is not None][-DRIFT_ROUNDS:]
    if len(earlier) < DRIFT_ROUNDS:
        return None
    policy = belief.summary().policy
    has_changed = np.array([len(set(choices)) > 1 for choices in zip(policy, *earlier, strict=True)])
    weight = belief.pool.weight
    counts = np.ones(len(has_changed)) if weight is None else weight[belief.sample]
    return float(counts @ has_changed / counts.sum()) if counts.any() else float(has_changed.mean())
