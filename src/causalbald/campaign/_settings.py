"""What a campaign is about. The settings are fixed when the campaign is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

from causalbald._choices import Better, OutcomeType
from causalbald._money import Budget
from causalbald._text import check_texts
from causalbald._validation import check_choice, check_int, check_number
from causalbald.errors import InputError
from causalbald.tables import ArmValue

RETURNED_COLUMNS = frozenset(
    (
        *("rank", "round", "by", "why", "score", "effect", "sd", "lower", "upper", "propensity", "probability"),
        *("outside_support", "beats", "recommended", "probability_worthwhile", "settled"),
    )
)
"""Columns of the tables that a campaign returns, besides the user's id, treatment and cost."""


@dataclass(frozen=True)
class CampaignSettings:
    """Columns by name, the two arms as the table writes them, and what the study wants.

    Nothing is checked before :meth:`check` is called.

    Parameters
    ----------
    id, treatment, outcome : str
        Columns of the pool.
    arms : (value, value)
        Both values of the treatment, control first.
    better : "higher" or "lower"
        Whether a higher outcome is better.
    worthwhile : float
        How much better the outcome must be for the treatment to be worth it. At least 0.
    cost : str, optional
        Column with the cost of measuring each unit.
    budget : float, optional
        What may be spent in all: in the unit of ``cost``, or measurements.
    weight : str, optional
        Column: how much each unit's effect matters.
    protected : tuple of str
        Columns whose groups must not be overlooked.
    outcome_type : "auto", "continuous" or "binary"
    model, acquisition : str
        By name.
    audit : float
        Share of each batch that is drawn at random.
    seed : int

    Examples
    --------
    >>> from causalbald.campaign import CampaignSettings
    >>> settings = CampaignSettings("patient", "drug", "cd4", arms=("placebo", "drug"), better="lower", budget=20)
    >>> settings.arm_names, settings.sign
    (('placebo', 'drug'), -1)
    >>> settings.whole_budget.after(18.0)
    Budget(limit=2.0)
    """

    id: str
    treatment: str
    outcome: str
    arms: tuple[ArmValue, ArmValue]
    better: Better = "higher"
    worthwhile: float = 0.0
    cost: str | None = None
    budget: float | None = None
    weight: str | None = None
    protected: tuple[str, ...] = ()
    outcome_type: OutcomeType = "auto"
    model: str = "auto"
    acquisition: str = "default"
    audit: float = 0.0
    seed: int = 0

    @property
    def sign(self) -> int:
        """1 if a higher outcome is better, else -1."""
        return 1 if self.better == "higher" else -1

    @property
    def whole_budget(self) -> Budget:
        """What may be spent in all rounds together."""
        return Budget(self.budget)

    @property
    def arm_names(self) -> tuple[str, str]:
        """Both arms as text, control first."""
        return str(self.arms[0]), str(self.arms[1])

    def check(self) -> None:
        """Check everything that can be checked without the table; raise InputError at the first mistake.

        Called by :func:`prepare`. Imports the models.
        """
        from causalbald import acquisition, models  # heavy: `status` must not import the models

        check_texts(self.as_json(), "the settings")
        check_choice(self.better, "better", get_args(Better))
        check_choice(self.outcome_type, "outcome_type", get_args(OutcomeType))
        check_number(self.worthwhile, "worthwhile", low=0.0)
        check_number(self.audit, "audit", low=0.0)
        if self.audit > 1:
            raise InputError(f"audit is a share of each batch, from 0 to 1, got {self.audit!r}.")
        if self.budget is not None:
            check_number(self.budget, "budget", above=0.0)
        check_int(self.seed, "seed", low=0)
        function = acquisition.load(self.acquisition)
        if self.weight is not None and not function.needs_population:
            raise InputError(
                f"acquisition {self.acquisition!r} does not ask who matters: take 'default', or leave out the weight."
            )
        models.load(self.model)
        self._check_roles()

    def _check_roles(self) -> None:
        """Raise InputError if a column has two roles, or a name in ``RETURNED_COLUMNS``.

        The outcome may have such a name. Called by :meth:`check`.
        """
        role_of: dict[str, str] = {}
        for role in ("id", "treatment", "outcome", "cost", "weight"):
            column = getattr(self, role)
            if column in role_of:
                raise InputError(f"column {column!r} cannot be both the {role_of[column]} and the {role}.")
            if column in RETURNED_COLUMNS and role != "outcome":
                raise InputError(f"the {role} cannot be called {column!r}, as a column of every batch is: rename it.")
            if column is not None:
                role_of[column] = role

    def as_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` needs, as plain JSON."""
        return asdict(self) | {"arms": list(self.arms), "protected": list(self.protected)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> CampaignSettings:
        """Return the settings that :meth:`as_json` returned. Nothing is checked."""
        return cls(**{**body, "arms": tuple(body["arms"]), "protected": tuple(body["protected"])})
