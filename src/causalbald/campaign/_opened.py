"""A campaign that is open: its storage, what its events add up to, and the model fitted last."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import pyarrow as pa

from causalbald._validation import check_choice
from causalbald.campaign._outcome_counts import lacking_arm, too_few_outcomes
from causalbald.campaign._pool import CampaignPool
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign._state import State
from causalbald.campaign._telling import units_of
from causalbald.campaign.storage import Decide, Event, Storage, open_storage
from causalbald.tables import Column, as_frame, read_table

if TYPE_CHECKING:
    from causalbald.campaign._belief import Belief

Place = str | os.PathLike[str] | Storage
Frames = Literal["pandas", "polars", "pyarrow"]


class OpenCampaign:
    """Base of :class:`Campaign`, which documents the parameters: storage, settings, pool, state and belief."""

    def __init__(self, where: Place, *, frames: Frames = "pandas") -> None:
        check_choice(frames, "frames", get_args(Frames))
        storage = open_storage(where)
        self._begin(storage, storage.events(), frames)

    @classmethod
    def _just_created(cls, storage: Storage, events: Iterable[Event], backend: Any = "pandas") -> Self:
        """Return a campaign whose first ``events`` have just been recorded in ``storage``, without reading them again.

        ``backend`` is the kind of the frames that the campaign returns; None is pandas.
        """
        campaign = cls.__new__(cls)
        campaign._begin(storage, events, backend)
        return campaign

    def _begin(self, storage: Storage, events: Iterable[Event], backend: Any) -> None:
        """Set all attributes, from all events of the campaign. Called instead of code in ``__init__``.

        ``backend`` is the kind of the frames that the campaign returns; None is pandas.
        """
        self.storage = storage
        self._backend = backend
        self._belief: tuple[int, Belief] | None = None
        self._state = State().apply(events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = self._state
        return f"Campaign(units={len(self.pool)}, measured={len(state.outcomes)}, pending={len(state.pending)})"

    def close(self) -> None:
        """Close files and connections. Leaving a ``with`` block does the same."""
        self.storage.close()

    @cached_property
    def settings(self) -> CampaignSettings:
        """What the campaign is about."""
        return self._state.start.settings

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The covariates, and how each becomes numbers."""
        return self._state.start.columns

    @cached_property
    def pool(self) -> CampaignPool:
        """All units that might be measured."""
        return CampaignPool(self.storage, self._state.start)

    @property
    def state(self) -> State:
        """Where the campaign stands now: events that other processes have recorded are read first.

        It is the same object each time, changed in place.
        """
        self._refresh()
        return self._state

    def belief(self) -> Belief:
        """Return the model fitted on the outcomes that this object has seen, and what follows from it.

        Events that other processes have recorded since the last call are not read; :attr:`state` reads them. The model
        is fitted anew only if an outcome has changed since the last fit.

        Returns
        -------
        Belief

        Raises
        ------
        InputError
            If an arm has too few outcomes.
        """
        belief = self._possible_belief()
        if belief is None:
            raise too_few_outcomes(self._state, self.pool, self.settings)
        return belief

    def _possible_belief(self) -> Belief | None:
        """Return the same as :meth:`belief`, but None if an arm has too few outcomes for a model.

        The belief is kept until an outcome changes.
        """
        if self._belief is None or self._belief[0] != self._state.told:
            if lacking_arm(self._state, self.pool) is not None:
                return None
            from causalbald.campaign._belief import Belief  # heavy: it imports the models

            self._belief = (self._state.told, Belief.after(self._state, self.pool, self.settings))
        return self._belief[1]

    def _current_belief(self) -> Belief:
        """Return the belief given everything that has been told, also by other processes.

        Raises InputError if an arm has too few outcomes.
        """
        self._refresh()
        return self.belief()

    def _refresh(self) -> None:
        """Read the events that other processes have recorded, and bring the state up to date."""
        self._advance(self.storage.events(after=self._state.number))

    def _append(self, decide: Decide) -> None:
        """Record the events that ``decide`` returns, and bring the state up to date.

        ``decide`` is described at ``Storage.append``.
        """
        self._advance(self.storage.append(self._state.number, decide))

    def _advance(self, events: Iterable[Event]) -> State:
        """Bring the state up to date with ``events`` and return it; events that it has already are skipped."""
        return self._state.apply(event for event in events if event.number > self._state.number)

    def _ids(self, units: Any) -> list[str] | None:
        """Return the ids of the units that a user gave, checked as in ``units_of``; None for None."""
        return None if units is None else units_of(units, self.settings, self.pool.units, self._state.rounds)

    def _frame(self, table: pa.Table, like: Any = None) -> Any:
        """Return a table as a frame of the kind of ``like``, or of the user's kind if ``like`` is no frame."""
        backend = read_table(like).backend if hasattr(like, "columns") else self._backend
        return as_frame(table, backend)
