"""The campaign: the only stateful object. Everything that it knows is in its storage before a call returns."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from causalbald._choices import Better, OutcomeType
from causalbald.campaign import _exchange
from causalbald.campaign._batch_files import batch_table
from causalbald.campaign._events import Failure, Round, Withdrawal, draft, versions
from causalbald.campaign._opened import Place
from causalbald.campaign._questions import Questions
from causalbald.campaign._telling import TellSummary, newly_failed, newly_withdrawn, outcomes_of, units_of
from causalbald.campaign.storage import Draft, Event, open_storage
from causalbald.errors import InputError
from causalbald.tables import ArmValue

if TYPE_CHECKING:
    from causalbald.campaign._preparation import Preparation


class Campaign(Questions):
    """A study in progress: ask whom to measure, tell what was measured, and see what can be concluded.

    Opens a campaign that :meth:`create` has made. Several processes may use one campaign at the same time.

    Parameters
    ----------
    where : path, URL or Storage
        A file, or ``postgresql://user@host/database#name``.
    frames : "pandas", "polars" or "pyarrow"
        Kind of the tables that are returned, unless a call is given a table of another kind. A campaign that
        :meth:`create` has just made returns tables of the pool's kind.

    Raises
    ------
    StorageError
        If there is no campaign, it is damaged, or a newer release wrote it.
    InputError
        If ``where`` is no address of a campaign, or ``frames`` is something else.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import Campaign
    >>> from causalbald.campaign.storage import MemoryStorage
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> campaign = Campaign.create(MemoryStorage(), pool, id="patient", treatment="drug", outcome="cd4")
    >>> batch = campaign.ask(6)
    >>> sorted(batch["drug"])
    [0, 0, 0, 1, 1, 1]
    >>> campaign.tell({unit: 0.5 * unit for unit in batch["patient"][:4]})
    TellSummary(new=4, known=0, corrected=0, empty=0, pending=2)
    >>> campaign
    Campaign(units=40, measured=4, pending=2)
    """

    @classmethod
    def create(
        cls,
        where: Place,
        pool: Any,
        *,
        id: str,
        treatment: str,
        outcome: str,
        control: ArmValue | None = None,
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
        """Create a campaign from a table of everyone who might be measured, and write it to ``where``.

        Parameters
        ----------
        where : path, URL or Storage
            A new file, or ``postgresql://user@host/database#name``.
        pool : DataFrame, Arrow table, or path to a CSV, Parquet or Excel file
            A row per unit: id, treatment, and what was known before the treatment. Outcomes that it has already are
            taken over.
        id, treatment, outcome : str
            Columns. The treatment has any two values; the outcome's column need not exist yet.
        control : optional
            Which value of the treatment is the control; not needed for 0/1, no/yes and false/true.
        better : "higher" or "lower"
            Whether a higher outcome is better.
        worthwhile : float
            How much better the outcome must be for the treatment to be worth it, in the outcome's own unit.
        covariates : list, or mapping to "numeric" or "categorical", optional
            By default all columns without another use. A list names all covariates. A mapping sets the kind of the
            columns that it names, and the other columns remain covariates.
        exclude : collection of str
            Columns that are not covariates.
        cost : str, optional
            Column with the cost of measuring each unit, above 0; information is then bought per cost.
        budget : float, optional
            What may be spent in all: in the unit of ``cost``, or measurements.
        weight : str, optional
            Column: how much each unit's effect matters to targeted functions, ``default`` among them.
        protected : list of str
            Columns whose groups must not be overlooked: the report shows who was measured.
        outcome_type : "auto", "continuous" or "binary"
            With "binary" outcomes must be 0 or 1; "auto" takes outcomes as binary while all are 0 or 1.
        model, acquisition : str
            By name; ``auto`` mixes models by how well they predict outcomes that they have not seen.
        audit : float
            Share of each batch that is drawn at random, for honest checks.
        seed : int
            The same history and seed give the same next batch.

        Returns
        -------
        Campaign

        Raises
        ------
        InputError
            If the table, a column or an option cannot be used.
        CampaignExistsError
            If there is a campaign at ``where`` already, or any file of that name.
        """
        from causalbald.campaign._preparation import prepare  # heavy: it imports the models

        prepared = prepare(
            pool,
            id=id,
            treatment=treatment,
            outcome=outcome,
            control=control,
            better=better,
            worthwhile=worthwhile,
            covariates=covariates,
            exclude=exclude,
            cost=cost,
            budget=budget,
            weight=weight,
            protected=protected,
            outcome_type=outcome_type,
            model=model,
            acquisition=acquisition,
            audit=audit,
            seed=seed,
        )
        return cls.start(where, prepared)

    @classmethod
    def start(cls, where: Place, prepared: Preparation) -> Self:
        """Create a campaign from what :func:`prepare` returned and the user has looked at, and write it to ``where``.

        Parameters
        ----------
        where : path, URL or Storage
            As for :meth:`create`.
        prepared : Preparation
            From :func:`causalbald.campaign.prepare`.

        Returns
        -------
        Campaign

        Raises
        ------
        CampaignExistsError
            If there is a campaign at ``where`` already.
        """
        storage = open_storage(where, prepared.source)
        events = storage.create(prepared.parts(), prepared.drafts())
        return cls._just_created(storage, events, prepared.backend)

    def ask(self, n: int | None = None, *, budget: float | None = None, dry_run: bool = False) -> Any:
        """Choose whom to measure next, record it, and return a frame with a row per unit, most important first.

        Parameters
        ----------
        n : int, optional
            How many units; fewer are chosen if the money does not pay for more. By default 10, or as many as ``budget``
            pays, or all units if fewer are left.
        budget : float, optional
            What the batch may cost. The campaign's own budget is a limit in any case.
        dry_run : bool
            Choose, but record nothing.

        Returns
        -------
        frame
            Id, ``rank, round, <treatment>, by`` (score, covariates, spread or audit), ``why, score, effect, lower,
            upper, propensity, outside_support``, ``probability`` with which an audit was drawn, and the cost if the
            campaign has costs. Effect and interval are missing before a model can be fitted; only units chosen by score
            have a score. Intervals hold the unit's expected effect with 95 % probability, given the model.

        Raises
        ------
        InputError
            If ``n`` or ``budget`` is not above 0, fewer than ``n`` units are left, or the money pays for nobody.
        """
        from causalbald.campaign._asking import choose_picks, limits  # heavy: it imports the models

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
        """Record a batch and return it with the number that it got; None if nothing was recorded.

        Nothing is recorded if another process has taken one of the units, or the money, since the batch was chosen.
        """
        recorded: list[Round] = []

        def decide(new: list[Event]) -> list[Draft]:
            """Return the batch under the next number; nothing if, after ``new``, it is taken or cannot be paid."""
            state = self._advance(new)
            is_taken = not state.closed.isdisjoint(batch.ids)
            is_paid = self.settings.whole_budget.pays(state.spent + batch.price)
            recorded[:] = [replace(batch, number=len(state.rounds) + 1)] if is_paid and not is_taken else []
            return [draft(numbered) for numbered in recorded]

        self._append(decide)
        return recorded[0] if recorded else None

    def pending(self) -> Any:
        """Return the units that were asked for and have no outcome yet.

        Returns
        -------
        frame
            The rows that :meth:`ask` returned for these units, with the rank and round of the time.
        """
        state = self.state
        rounds = [
            replace(r, picks=tuple(pick for pick in r.picks if state.pending.get(pick.id) == r.number))
            for r in state.rounds
        ]
        return self._frame(batch_table(self.settings, self.pool.units, rounds))

    def tell(self, outcomes: Any, *, overwrite: bool = False) -> TellSummary:
        """Record measured outcomes, all or none of them. Never fits a model. Nothing is recorded if nothing is new.

        Parameters
        ----------
        outcomes : DataFrame, mapping, or path to a CSV, Parquet or Excel file
            With the id and the outcome; further columns are ignored, and so are rows without an outcome. Any subset of
            the pool, in any order, asked for or not. A mapping goes from id to outcome.
        overwrite : bool
            Replace outcomes that were told before with another value; the history keeps both.

        Returns
        -------
        TellSummary
            How many outcomes were new, known already, corrected, and left empty.

        Raises
        ------
        InputError
            If an id is unknown, repeated or withdrawn, an outcome is no number (or not 0 or 1 in a binary campaign), no
            row has an outcome, or an outcome differs from the one told before and ``overwrite`` is False.
        """
        told = outcomes_of(outcomes, self.settings, self.pool.units, self.state.rounds)
        summaries: list[TellSummary] = []

        def decide(new: list[Event]) -> list[Draft]:
            """Return the event of the outcomes that are new after ``new``, and note the counts."""
            summary, drafts = told.against(self._advance(new), self.settings, overwrite=overwrite)
            summaries.append(summary)
            return drafts

        self._append(decide)
        return summaries[0]

    def withdraw(self, units: Any, *, reason: str) -> int:
        """Record that units must never be asked for again. An outcome that is known stays in use.

        Parameters
        ----------
        units : list of ids, frame with the id column, or pathlib.Path of a file
            The units' ids. A text is one id.
        reason : str
            For the record.

        Returns
        -------
        int
            How many of the units were not withdrawn before.

        Raises
        ------
        InputError
            If an id is unknown or repeated, or the reason is empty.
        """
        return self._mark(Withdrawal, units, reason)

    def fail(self, units: Any, *, reason: str = "") -> int:
        """Record that pending units could not be measured; they may be asked for again, after all others.

        Parameters
        ----------
        units : list of ids, frame with the id column, or pathlib.Path of a file
            The units' ids. A text is one id.
        reason : str
            For the record; may be empty.

        Returns
        -------
        int
            How many of the units were pending. Units that have failed already are passed over.

        Raises
        ------
        InputError
            If an id is unknown or repeated, or a unit is neither pending nor failed.
        """
        return self._mark(Failure, units, reason)

    def _mark(self, event: type[Failure | Withdrawal], units: Any, reason: str) -> int:
        """Record that units failed or were withdrawn, and return for how many units this is new; 0 records nothing."""
        if not isinstance(reason, str) or (event is Withdrawal and not reason.strip()):
            raise InputError(f"give a reason in words, for the record, not {reason!r}: reason='moved away' (--reason).")
        ids = units_of(units, self.settings, self.pool.units, self.state.rounds)
        marked: list[str] = []

        def decide(new: list[Event]) -> list[Draft]:
            """Return the event of the units for which it is new after ``new``, and note these units."""
            state = self._advance(new)
            marked[:] = newly_withdrawn(ids, state) if event is Withdrawal else newly_failed(ids, state)
            return [draft(event(marked, reason))] if marked else []

        self._append(decide)
        return len(marked)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write everything, pool and events, as JSON Lines; :meth:`from_export` reads it into any storage.

        Parameters
        ----------
        path : path
            A new file, or an earlier export, which is replaced.

        Raises
        ------
        InputError
            If there is a file of this name that is no export.
        """
        _exchange.write(self.storage, self._state.start.rows, Path(path))

    @classmethod
    def from_export(cls, where: Place, path: str | os.PathLike[str]) -> Self:
        """Create a campaign from an export: the same history, and so the same next batch.

        Parameters
        ----------
        where : path, URL or Storage
            As for :meth:`create`.
        path : path
            What :meth:`export` wrote.

        Returns
        -------
        Campaign

        Raises
        ------
        InputError
            If the file is no export, or was cut short.
        StorageError
            If its events are not those of a campaign, or a part of the pool is missing.
        CampaignExistsError
            If there is a campaign at ``where`` already.
        """
        storage = open_storage(where, Path(path))
        return cls._just_created(storage, _exchange.read(storage, Path(path)))
