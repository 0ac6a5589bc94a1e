"""How far a trial has come."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pandas as pd


@dataclass
class TrialState:
    """How far a trial has come.

    :func:`run_trial` appends to both lists in place, so that a trial that was stopped can continue.

    Parameters
    ----------
    rows : list of dict
        A dict for each finished fit, with the columns that :func:`run_trial` describes.
    acquired : list of list of int
        The pool positions measured before each fit, a list per fit. There may be one list more than rows: the batch for
        the next fit.

    Examples
    --------
    >>> from causalbald.experiments import TrialState
    >>> state = TrialState([{"step": 0, "pehe": 1.5}], [[3, 8], [5]])
    >>> state.table().attrs["acquired"]
    [[3, 8]]
    >>> TrialState.from_json(state.to_json()) == state
    True
    """

    rows: list[dict[str, float]] = field(default_factory=list)
    acquired: list[list[int]] = field(default_factory=list)

    def table(self) -> pd.DataFrame:
        """Return the rows as a table: a row per finished fit.

        Returns
        -------
        DataFrame
            ``attrs["acquired"]`` holds the positions measured before each fit, a list per row. Without rows, the table
            has no columns.
        """
        table = pd.DataFrame(self.rows)
        table.attrs["acquired"] = self.acquired[: len(self.rows)]
        return table

    def to_json(self) -> dict[str, Any]:
        """Return the state as a dict that can be written as JSON.

        Returns
        -------
        dict
            With the keys ``rows``, in which None stands for NaN, and ``acquired``, the list of this state itself.
        """
        rows = [{name: None if math.isnan(value) else value for name, value in row.items()} for row in self.rows]
        return {"rows": rows, "acquired": self.acquired}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> TrialState:
        """Return the state that :meth:`to_json` wrote; None becomes NaN again.

        Parameters
        ----------
        record : dict
            Needs the keys ``rows`` and ``acquired``. Other keys are ignored.

        Returns
        -------
        TrialState
        """
        rows = [{name: math.nan if value is None else value for name, value in row.items()} for row in record["rows"]]
        return cls(rows, record["acquired"])
