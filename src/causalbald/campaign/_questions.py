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
            ``units`` by state and arm, ``rounds``, ``asked`` (measurements asked for), ``spent, budget, left``,
            ``payable`` (units that can be asked for and paid, each alone) and ``events``.
        """
        from causalbald.campaign._status import status

        return status(self.state, self.pool, self.settings)

    def history(self) -> Any:
        """Return everything that was recorded.

        Returns
        -------
        frame
            A row per event and unit: ``number, time, what, id, value, detail``.
        """
        from causalbald.campaign._exchange import history

        return self._frame(history(self.storage.events(), self.pool.units))

    def score(self, units: Any = None) -> Any:
        """Return how important it would be to measure units now, best first.

        Parameters
        ----------
        units : list of ids, frame with the id column, or path, optional
            By default all units that can be measured.

        Returns
        -------
        frame
            Id, ``score``, ``beats`` (share of the units that can be measured with a lower score), ``effect, sd, lower,
            upper, outside_support``.

        Raises
        ------
        InputError
            If an arm has too few outcomes, an id is unknown, or nobody is left.
        """
        from causalbald.campaign import _conclusions

        ids = self._ids(units)
        return self._frame(_conclusions.scores(self._current_belief(), self._state, ids), units)

    def effects(self, units: Any = None, *, alpha: float = 0.05) -> Any:
        """Return each unit's expected effect (treated minus control), in the outcome's own unit, with an interval.

        Parameters
        ----------
        units : list of ids, frame with the id column, or path, optional
            By default all units of the pool.
        alpha : float
            Probability that an interval misses the unit's *expected* effect, given the model, each by itself. How a
            single outcome scatters around its expectation is not part of the interval.

        Returns
        -------
        frame
            Id, ``effect, sd, lower, upper, outside_support``.

        Raises
        ------
        InputError
            If an arm has too few outcomes, or an id is unknown.
        """
        from causalbald.campaign import _conclusions

        ids = self._ids(units)
        return self._frame(_conclusions.effects(self._current_belief(), ids, alpha), units)

    def ate(self, *, alpha: float = 0.05) -> AverageEffect:
        """Return the average effect over the pool, with an interval from the joint belief about everyone.

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
            A covariate or a protected column. Numbers are cut into fifths.
        alpha : float
            Probability that an interval misses, given the model, each by itself.

        Returns
        -------
        frame
            A row per group: the group, ``units, effect, sd, lower, upper``.

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
            Probability that an interval misses, given the model.

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
            A row per unit, with the campaign's covariates.
        alpha : float
            Probability that an interval misses, given the model, each by itself.

        Returns
        -------
        frame
            In the order of the table: the id if the table has the campaign's id column, ``effect, sd, lower, upper,
            recommended, outside_support``.

        Raises
        ------
        InputError
            If an arm has too few outcomes, or the table lacks a covariate.
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
        """
        from causalbald.campaign._advice import advise

        size = check_int(n, "n", low=1)
        return advise(self.state, self.pool, self.settings, size, self._possible_belief())
