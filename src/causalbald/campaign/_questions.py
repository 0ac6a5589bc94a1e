"""What a campaign can be asked: effects, scores, averages, whom to treat, whether to go on. Nothing is recorded.

``status`` and ``history`` need no model. The other methods fit it if an outcome has changed since the last fit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from causalbald._validation import check_int
from causalbald.campaign._opened import OpenCampaign
from causalbald.tables import as_frame, read_table

if TYPE_CHECKING:
    from causalbald.campaign._advice import Advice
    from causalbald.campaign._conclusions import Policy
    from causalbald.campaign._effects import AverageEffect

# Imports inside the methods are heavy: they import the models.


class Questions(OpenCampaign):
    """The methods of :class:`Campaign` that answer questions."""

    def status(self) -> dict[str, Any]:
        """Return where the campaign stands, in counts. Needs no model.

        Returns
        -------
        dict
            ``units`` by state and arm, ``rounds``, ``asked`` (measurements asked for), ``spent``, ``budget, left``
            (None without a budget), ``payable`` (units that can be asked for and paid, each alone) and ``events``.
            Failed units are counted as available, too.
        """
        from causalbald.campaign._status import status

        return status(self.state, self.pool, self.settings)

    def history(self) -> Any:
        """Return everything that was recorded.

        Returns
        -------
        frame
            A row per event and unit: ``number, time, what, id, value, detail``. ``value`` is an outcome or a score. The
            event that created the campaign has one row, without an id.
        """
        from causalbald.campaign._exchange import history

        return self._frame(history(self.storage.events(), self.pool.units))

    def score(self, units: Any = None) -> Any:
        """Return how important it would be to measure units now, best first.

        Parameters
        ----------
        units : list of ids, frame with the id column, or pathlib.Path of a file, optional
            By default all units that can be measured. A text is one id.

        Returns
        -------
        frame
            Id, ``score``, ``beats`` (share of the units with a lower score, among units that can be measured),
            ``effect, sd, lower, upper, outside_support``. The frame is of the kind of ``units`` if that is a frame.

        Raises
        ------
        InputError
            If an arm has too few outcomes, an id is unknown or repeated, ``units`` is empty, or nobody is left and
            ``units`` is not given.
        """
        from causalbald.campaign import _conclusions

        ids = self._ids(units)
        return self._frame(_conclusions.scores(self._current_belief(), self._state, ids), units)

    def effects(self, units: Any = None, *, alpha: float = 0.05) -> Any:
        """Return each unit's expected effect (treated minus control), in the outcome's own unit, with an interval.

        Parameters
        ----------
        units : list of ids, frame with the id column, or pathlib.Path of a file, optional
            By default all units of the pool. A text is one id.
        alpha : float
            Probability that the interval of one unit misses the unit's *expected* effect, given the model. Intervals
            are not widened for the number of units. How a single outcome scatters around its expectation is not part
            of the interval.

        Returns
        -------
        frame
            Id, ``effect, sd, lower, upper, outside_support``, in the order of ``units`` or of the pool. The frame is of
            the kind of ``units`` if that is a frame.

        Raises
        ------
        InputError
            If an arm has too few outcomes, an id is unknown or repeated, or ``units`` is empty.
        """
        from causalbald.campaign import _conclusions

        ids = self._ids(units)
        return self._frame(_conclusions.effects(self._current_belief(), ids, alpha), units)

    def ate(self, *, alpha: float = 0.05) -> AverageEffect:
        """Return the average effect over the pool, with an interval from the joint belief about everyone.

        Units count alike, also in a campaign with weights.

        Parameters
        ----------
        alpha : float
            Probability that the interval misses, given the model.

        Returns
        -------
        AverageEffect

        Raises
        ------
        InputError
            If an arm has too few outcomes.
        """
        from causalbald.campaign import _conclusions

        return _conclusions.average(self._current_belief(), alpha)

    def subgroups(self, by: str, *, alpha: float = 0.05) -> Any:
        """Return the average effect of each group of a column.

        Parameters
        ----------
        by : str
            A covariate or a protected column. Numbers with more than five values are cut into fifths.
        alpha : float
            Probability that the interval of one group misses, given the model. Intervals are not widened for the number
            of groups.

        Returns
        -------
        frame
            A row per group: the group, ``units, effect, sd, lower, upper``. ``units`` is the size of the group.

        Raises
        ------
        InputError
            If an arm has too few outcomes, or the campaign has no such column.
        """
        from causalbald.campaign import _conclusions

        return self._frame(_conclusions.subgroups(self._current_belief(), by, alpha))

    def policy(self, *, alpha: float = 0.05) -> Policy:
        """Return whom to treat, given ``better`` and ``worthwhile``, what that gains, and how sure it is.

        Parameters
        ----------
        alpha : float
            Probability that an interval misses, given the model. ``settled`` is always at 95 %.

        Returns
        -------
        Policy

        Raises
        ------
        InputError
            If an arm has too few outcomes.
        """
        from causalbald.campaign import _conclusions

        policy = _conclusions.policy(self._current_belief(), alpha)
        return replace(policy, units=self._frame(policy.units))

    def predict(self, table: Any, *, alpha: float = 0.05) -> Any:
        """Return the expected effects of units in another table, with this campaign's covariates.

        Parameters
        ----------
        table : DataFrame, Arrow table, or path to a CSV, Parquet or Excel file
            A row per unit, with the campaign's covariates. The units need not be in the pool.
        alpha : float
            Probability that the interval of one unit misses, given the model. Intervals are not widened for the number
            of units.

        Returns
        -------
        frame
            In the order of the table: the id if the table has the campaign's id column, ``effect, sd, lower, upper,
            recommended, outside_support``. The frame is of the kind of ``table`` if that is a frame.

        Raises
        ------
        InputError
            If an arm has too few outcomes, or the table lacks a covariate or has a cell that cannot be used.
        """
        from causalbald.campaign import _conclusions

        source = read_table(table, text=[self.settings.id])
        effects = _conclusions.predict(self._current_belief(), source, self.columns, alpha)
        return as_frame(effects, source.backend or self._backend)

    def advice(self, n: int = 10) -> Advice:
        """Return whether to go on: what more measurements would teach, what is settled, what has changed.

        Parameters
        ----------
        n : int
            Size of the next batch that the advice is about.

        Returns
        -------
        Advice
            As long as an arm has too few outcomes for a model, most of its numbers are None.

        Raises
        ------
        InputError
            If ``n`` is below 1.
        """
        from causalbald.campaign._advice import advise

        size = check_int(n, "n", low=1)
        return advise(self.state, self.pool, self.settings, size, self._possible_belief())
