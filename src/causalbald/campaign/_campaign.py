"""The campaign: the only stateful object. Everything it knows is in its storage before a call returns."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import pyarrow as pa

from causalbald._validation import check_choice, check_int
from causalbald.campaign import _exchange
from causalbald.campaign._batch_files import batch_table
from causalbald.campaign._events import Failure, Round, Withdrawal, draft, versions
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._settings import Better, CampaignSettings, OutcomeType
from causalbald.campaign._state import State
from causalbald.campaign._telling import TellSummary, newly_failed, newly_withdrawn, outcomes_of, units_of
from causalbald.campaign.storage import Decide, Draft, Event, Storage, open_storage
from causalbald.errors import InputError
from causalbald.tables._arms import Value
from causalbald.tables._columns import Column
from causalbald.tables._reading import as_frame, read_table

if TYPE_CHECKING:
    from causalbald.campaign._advice import Advice
    from causalbald.campaign._belief import Belief
    from causalbald.campaign._conclusions import Policy
    from causalbald.campaign._effects import AverageEffect
    from causalbald.campaign._preparation import Preparation
    from causalbald.campaign._simulation import Simulation

Place = str | os.PathLike[str] | Storage
Frames = Literal["pandas", "polars", "pyarrow"]


class Campaign:
    """A study in progress: ask whom to measure, tell what was measured, and see what can be concluded.

    Opens what :meth:`create` has made. Several processes may use one campaign at the same time.

    Parameters
    ----------
    where : path, URL or Storage
        A file, or ``postgresql://user@host/database#name``.
    frames : "pandas", "polars" or "pyarrow"
        Kind of the tables that are returned, unless a call is given a table of another kind.
    """

    def __init__(self, where: Place, *, frames: Frames = "pandas") -> None:
        self.storage = open_storage(where)
        check_choice(frames, "frames", get_args(Frames))
        self._backend: Any = frames
        self._state = State()
        self._belief: tuple[int, Belief] | None = None
        self._refresh()

    @classmethod
    def create(
        cls,
        where: Place,
        pool: Any,
        *,
        id: str,
        treatment: str,
        outcome: str,
        control: Value | None = None,
        better: Better = "higher",
        worthwhile: float = 0.0,
        covariates: Sequence[str] | Mapping[str, str] | None = None,
        exclude: Collection[str] = (),
        cost: str | None = None,
        budget: float | None = None,
        weight: str | None = None,
        protected: Sequence[str] = (),
        outcome_type: OutcomeType = "auto",
        model: str = "auto",
        acquisition: str = "default",
        audit: float = 0.0,
        seed: int = 0,
    ) -> Self:
        """Create a campaign from a table of everyone who might be measured.

        Parameters
        ----------
        where : path, URL or Storage
            A new file, or ``postgresql://user@host/database#name``.
        pool : DataFrame, Arrow table, or path to a CSV, Parquet or Excel file
            A row per person: id, treatment, and what was known before the treatment. Outcomes that it has already
            are taken over.
        id, treatment, outcome : str
            Columns. The treatment has any two values; the outcome's column need not exist yet.
        control : optional
            Which value of the treatment is the control; found by itself for 0/1, no/yes and false/true.
        better : "higher" or "lower"
            Whether a higher outcome is better.
        worthwhile : float
            How much better the outcome must be for the treatment to be worth it, in the outcome's own unit.
        covariates : list, or mapping to "numeric" or "categorical", optional
            All other columns by default. A mapping overrides the kind of the columns it names and keeps the others.
        exclude : collection of str
            Columns to leave out.
        cost : str, optional
            Column with the cost of measuring each person, above 0; information is then bought per cost.
        budget : float, optional
            What may be spent in all: in the unit of ``cost``, or measurements.
        weight : str, optional
            Column: how much each person's effect matters to targeted functions, ``default`` among them.
        protected : list of str
            Columns whose groups must not be overlooked: the report shows who was measured.
        outcome_type : "auto", "continuous" or "binary"
        model, acquisition : str
            By name; ``auto`` mixes Gaussian processes by how well they predict outcomes they have not seen.
        audit : float
            Share of each batch that is drawn at random, for honest checks.
        seed : int
            Same history and seed, same next batch.
        """
        from causalbald.campaign._preparation import prepare

        options = {k: v for k, v in locals().items() if k not in ("cls", "where", "pool", "prepare")}
        return cls.start(where, prepare(pool, **options))

    @classmethod
    def start(cls, where: Place, prepared: Preparation) -> Self:
        """Create a campaign that was prepared, and perhaps looked at, before."""
        storage = open_storage(where, prepared.source)
        storage.create(prepared.parts(), prepared.drafts())
        campaign = cls(storage)
        campaign._backend = prepared.backend
        return campaign

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        s = self._state
        return f"Campaign(units={len(self.pool)}, measured={len(s.outcomes)}, pending={len(s.pending)})"

    def close(self) -> None:
        """Let go of files and connections."""
        self.storage.close()

    @cached_property
    def settings(self) -> CampaignSettings:
        """What the campaign is about."""
        return self._state.start.settings

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The covariates and how they are encoded."""
        return self._state.start.columns

    @cached_property
    def pool(self) -> CampaignPool:
        """Everyone who might be measured."""
        return CampaignPool(self.storage, self._state.start)

    @property
    def state(self) -> State:
        """Where the campaign stands now, also after what other processes have recorded."""
        self._refresh()
        return self._state

    def ask(self, n: int | None = None, *, budget: float | None = None, dry_run: bool = False) -> Any:
        """Choose whom to measure next, record it, and return a frame with a row per person, most important first.

        Parameters
        ----------
        n : int, optional
            How many people at most; by default 10, or as many as ``budget`` pays.
        budget : float, optional
            What the batch may cost. The campaign's own budget is a limit in any case.
        dry_run : bool
            Choose, but record nothing.

        Returns
        -------
        frame
            Id, ``rank, round, <treatment>, by`` (score, covariates, spread or audit), ``why, score, effect, lower,
            upper, propensity, outside_support``, ``probability`` of having been drawn for audits, ``cost`` if there is
            one. Score, effect and interval are missing before a model can be fitted. Intervals hold the person's
            expected effect with 95 % probability, given the model.
        """
        from causalbald.campaign._asking import choose_picks, limits

        while True:
            state = self.state
            size, money = limits(state, self.pool, self.settings, n, budget)
            belief = self._possible_belief()
            picks = choose_picks(state, self.pool, self.settings, size, money, belief)
            if not picks:
                raise InputError("nobody who is left can be paid from this budget: raise it or stop here.")
            summary = None if belief is None else belief.summary()
            batch = Round(len(state.rounds) + 1, state.number, picks, summary, versions())
            if recorded := batch if dry_run else self._record(batch):
                return self._frame(batch_table(self.settings, self.pool.units, [recorded]))

    def _record(self, batch: Round) -> Round | None:
        """Record a batch; return it with the number that it got, or None if nothing was recorded.

        Nothing is recorded if another process has taken one of the units, or the money, since the batch was chosen.
        """
        recorded: list[Round] = []

        def decide(new: list[Event]) -> list[Draft]:
            state = self._advance(new)
            is_taken = not state.closed.isdisjoint(batch.ids)
            is_paid = self.settings.whole_budget.pays(state.spent + batch.price)
            recorded[:] = [replace(batch, number=len(state.rounds) + 1)] if is_paid and not is_taken else []
            return [draft(numbered) for numbered in recorded]

        self._append(decide)
        return recorded[0] if recorded else None

    def pending(self) -> Any:
        """Return the units asked for whose outcome is still to come, as :meth:`ask` returned them."""
        state = self.state
        rounds = [
            replace(r, picks=tuple(pick for pick in r.picks if state.pending.get(pick.id) == r.number))
            for r in state.rounds
        ]
        return self._frame(batch_table(self.settings, self.pool.units, rounds))

    def tell(self, outcomes: Any, *, overwrite: bool = False) -> TellSummary:
        """Record measured outcomes, all or nothing. Never fits a model.

        Parameters
        ----------
        outcomes : DataFrame, mapping, or path to a CSV, Parquet or Excel file
            With the id and the outcome; further columns are ignored, and so are rows without an outcome. Any subset of
            the pool, in any order, asked for or not. A mapping goes from id to outcome.
        overwrite : bool
            Permit other values than those told before; the history keeps both.

        Returns
        -------
        Told
            How many outcomes were new, known already, corrected, and left empty.
        """
        read = outcomes_of(outcomes, self.settings, self.pool.units, self.state.rounds)
        told: list[TellSummary] = []

        def decide(new: list[Event]) -> list[Draft]:
            result, drafts = read.against(self._advance(new), self.settings, overwrite=overwrite)
            told.append(result)
            return drafts

        self._append(decide)
        return told[0]

    def withdraw(self, units: Any, *, reason: str) -> int:
        """Record that units must never be asked for, or not any more; return how many are new to that.

        An outcome that is known already stays in use.
        """
        return self._mark(Withdrawal, units, reason)

    def fail(self, units: Any, *, reason: str = "") -> int:
        """Record that pending units could not be measured; they may be asked for again, after all others.

        Returns how many.
        """
        return self._mark(Failure, units, reason)

    def _mark(self, kind: type[Failure | Withdrawal], units: Any, reason: str) -> int:
        """Record that units failed or were withdrawn, and return how many of them are new to that."""
        if not isinstance(reason, str) or (kind is Withdrawal and not reason.strip()):
            raise InputError(f"give a reason in words, for the record, not {reason!r}: reason='moved away' (--reason).")
        ids = units_of(units, self.settings, self.pool.units, self.state.rounds)
        marked: list[str] = []

        def decide(new: list[Event]) -> list[Draft]:
            state = self._advance(new)
            marked[:] = newly_withdrawn(ids, state) if kind is Withdrawal else newly_failed(ids, state)
            return [draft(kind(marked, reason))] if marked else []

        self._append(decide)
        return len(marked)

    def score(self, units: Any = None) -> Any:
        """Return how important it would be to measure units now (all that can be measured by default), best first."""
        from causalbald.campaign import _conclusions

        ids = self._ids(units)
        return self._frame(_conclusions.scores(self._now(), self._state, ids), units)

    def effects(self, units: Any = None, *, alpha: float = 0.05) -> Any:
        """Return each unit's expected effect (treated minus control), in the outcome's own unit, with an interval.

        The interval holds the unit's *expected* effect with probability 1 - alpha, given the model, each by itself;
        how an individual outcome scatters around its expectation is not part of it.
        """
        from causalbald.campaign import _conclusions

        ids = self._ids(units)
        return self._frame(_conclusions.effects(self._now(), ids, alpha), units)

    def ate(self, *, alpha: float = 0.05) -> AverageEffect:
        """Return the average effect over the pool, with an interval from the joint belief about everyone."""
        from causalbald.campaign import _conclusions

        return _conclusions.average(self._now(), alpha)

    def subgroups(self, by: str, *, alpha: float = 0.05) -> Any:
        """Return the average effect of each group of a column; numbers are cut into fifths."""
        from causalbald.campaign import _conclusions

        return self._frame(_conclusions.subgroups(self._now(), by, alpha))

    def policy(self, *, alpha: float = 0.05) -> Policy:
        """Return whom to treat, given ``better`` and ``worthwhile``, what that gains, and how sure it is."""
        from causalbald.campaign import _conclusions

        found = _conclusions.policy(self._now(), alpha)
        return replace(found, units=self._frame(found.units))

    def predict(self, table: Any, *, alpha: float = 0.05) -> Any:
        """Return the expected effects of people in another table, with this campaign's covariates.

        Columns are those of the table's own id, if it has the campaign's id column, and those of :meth:`effects`.
        """
        from causalbald.campaign import _conclusions

        found = read_table(table, text=[self.settings.id])
        effects = _conclusions.predict(self._now(), found, self.columns, alpha)
        return as_frame(effects, found.backend or self._backend)

    def advice(self, n: int = 10) -> Advice:
        """Say whether to go on: what the next ``n`` measurements would teach, what is settled, what has changed."""
        from causalbald.campaign._advice import advise

        size = check_int(n, "n", low=1)
        return advise(self.state, self.pool, self.settings, size, self._possible_belief())

    def status(self) -> dict[str, Any]:
        """Return counts by state and arm, rounds, and money; needs no model."""
        from causalbald.campaign._status import status

        return status(self.state, self.pool, self.settings)

    def simulate(pool: Any, **options: Any) -> Simulation:
        """Say what choosing would save on a table, before money is spent; see :func:`~.simulate.simulate`."""
        from causalbald.campaign._simulation import simulate

        return simulate(pool, **options)

    def history(self) -> Any:
        """Return all events, a row per unit: number, time, what, id, value, detail."""
        return self._frame(_exchange.history(self.storage.events(), self.pool.units))

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write everything, pool and events, as JSON Lines; :meth:`from_export` reads it into any storage."""
        _exchange.write(self.storage, self._state.start.rows, Path(path))

    @classmethod
    def from_export(cls, where: Place, path: str | os.PathLike[str]) -> Self:
        """Create a campaign from what :meth:`export` wrote, with the same history and so the same next batch."""
        storage = open_storage(where, Path(path))
        _exchange.read(storage, Path(path))
        return cls(storage)

    def _now(self) -> Belief:
        """Return the belief given everything that has been told, also by other processes."""
        self._refresh()
        return self.belief()

    def _ids(self, units: Any) -> list[str] | None:
        return None if units is None else units_of(units, self.settings, self.pool.units, self._state.rounds)

    def _refresh(self) -> None:
        self._advance(self.storage.events(after=self._state.number))

    def _append(self, decide: Decide) -> None:
        self._advance(self.storage.append(self._state.number, decide))

    def _advance(self, events: Iterable[Event]) -> State:
        """Take events into account that are not yet; a storage may show some twice."""
        return self._state.apply(e for e in events if e.number > self._state.number)

    def belief(self) -> Belief:
        """Return the model fitted on the outcomes that the last call has seen, and what follows from it.

        Fitted anew only if an outcome has changed. Raises InputError if an arm has too few outcomes.
        """
        from causalbald.campaign._belief import too_few_outcomes

        belief = self._possible_belief()
        if belief is None:
            raise too_few_outcomes(self._state, self.pool, self.settings)
        return belief

    def _possible_belief(self) -> Belief | None:
        """Return what :meth:`belief` does, or None if an arm has too few outcomes for a model."""
        from causalbald.campaign._belief import Belief, lacking_arm

        if self._belief is None or self._belief[0] != self._state.told:
            if lacking_arm(self._state, self.pool) is not None:
                return None
            self._belief = (self._state.told, Belief.after(self._state, self.pool, self.settings))
        return self._belief[1]

    def _frame(self, table: pa.Table, like: Any = None) -> Any:
        backend = read_table(like).backend if hasattr(like, "columns") else self._backend
        return as_frame(table, backend)
