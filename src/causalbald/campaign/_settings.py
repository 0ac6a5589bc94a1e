"""What a campaign is about. Fixed when it is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from causalbald._money import Budget
from causalbald._text import check_texts
from causalbald._validation import check_choice, check_int, check_number
from causalbald.errors import InputError
from causalbald.tables import ArmValue

Better = Literal["higher", "lower"]
OutcomeType = Literal["auto", "continuous", "binary"]
# Columns of the tables that a campaign returns, beside the user's own id, treatment and cost.
OWN_COLUMNS = frozenset(
    [
        "rank",
        "round",
        "by",
        "why",
        "score",
        "effect",
        "sd",
        "lower",
        "upper",
        "propensity",
        "probability",
        "outside_support",
        "beats",
        "recommended",
        "probability_worthwhile",
        "settled",
    ]
)


@dataclass(frozen=True)
class CampaignSettings:
    """Columns by name, the two arms as the table writes them (control first), and what the study wants."""

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
        """Raise unless everything that needs no table is in order."""
        from causalbald import acquisition, models

        check_texts(self.as_json(), "the settings")
        check_choice(self.better, "better", ("higher", "lower"))
        check_choice(self.outcome_type, "outcome_type", ("auto", "continuous", "binary"))
        check_number(self.worthwhile, "worthwhile", low=0.0)
        check_number(self.audit, "audit", low=0.0)
        if self.audit > 1:
            raise InputError(f"audit is a share of each batch, from 0 to 1, got {self.audit!r}.")
        if self.budget is not None:
            check_number(self.budget, "budget", above=0.0)
        check_int(self.seed, "seed", low=0)
        if self.weight is not None and not acquisition.load(self.acquisition).needs_population:
            raise InputError(
                f"acquisition {self.acquisition!r} does not ask who matters: take 'default', or leave out the weight."
            )
        models.load(self.model)
        roles = [(role, getattr(self, role)) for role in ("id", "treatment", "outcome", "cost", "weight")]
        for k, (role, name) in enumerate(roles):
            for other, same in roles[:k]:
                if name is not None and name == same:
                    raise InputError(f"column {name!r} cannot be both the {other} and the {role}.")
            if name in OWN_COLUMNS and role != "outcome":
                raise InputError(f"the {role} cannot be called {name!r}, as a column of every batch is: rename it.")

    def as_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` needs."""
        return asdict(self) | {"arms": list(self.arms), "protected": list(self.protected)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> CampaignSettings:
        """Return the settings that were stored."""
        return cls(**{**found, "arms": tuple(found["arms"]), "protected": tuple(found["protected"])})
