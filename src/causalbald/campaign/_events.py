"""What happened in a campaign, in order. Events are the record; everything else is derived from them.

A storage keeps an event as a kind and JSON. The classes of this file are what the JSON means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Literal, Self

from causalbald._version import __version__
from causalbald.campaign._settings import CampaignSettings
from causalbald.campaign.storage._base import Draft, Event
from causalbald.errors import StorageError
from causalbald.tables import Column

Reason = Literal["score", "covariates", "spread", "audit"]
"""How a unit was chosen: by its score, by covariates, to spread the first batch over covariates, or at random."""


class _Record:
    """Base of dataclasses that are stored as a JSON object with the names of their fields."""

    def to_json(self) -> dict[str, Any]:
        """Return what is stored, as plain JSON. Fields that are None are left out."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Return the object that was stored as ``body``. Fields that were left out get their defaults.

        Raises
        ------
        StorageError
            If a field is missing, or unknown because a newer release wrote it.
        """
        return cls(**_checked_fields(cls, body))


@dataclass(frozen=True)
class Pick(_Record):
    """One unit of a round, and why it was chosen.

    Parameters
    ----------
    id : str
        The unit's id, as text.
    by : "score", "covariates", "spread" or "audit"
        How the unit was chosen: by its score, by a batch function from covariates, to spread the first batch over the
        covariates, or drawn at random.
    arm : int
        0 for control, 1 for treated.
    why : str
        The reason in words and numbers, for people.
    propensity : float
        Estimated P(treated | x).
    outside_support : bool
        Whether the other arm has hardly any units like this one.
    cost : float, optional
        Cost of the measurement; None if the campaign has no costs.
    probability : float, optional
        Probability with which an audit was drawn; None for other picks, and for audits if not all could be paid.
    score : float, optional
        The unit's score before the batch, if it was chosen by score.
    effect, lower, upper : float, optional
        Expected effect and ends of its 95 % interval, if there was a model.
    rank : int
        Place in the round, from 1 for the most important unit.

    Examples
    --------
    >>> from causalbald.campaign import Pick
    >>> pick = Pick("p7", "audit", arm=1, why="drawn at random", propensity=0.5, outside_support=False, rank=1)
    >>> pick.price
    1.0
    >>> Pick.from_json(pick.to_json()) == pick
    True
    """

    id: str
    by: Reason
    arm: int
    why: str
    propensity: float
    outside_support: bool
    cost: float | None = None
    probability: float | None = None
    score: float | None = None
    effect: float | None = None
    lower: float | None = None
    upper: float | None = None
    rank: int = 0

    @property
    def price(self) -> float:
        """What measuring the unit costs: its own cost, or 1."""
        return 1.0 if self.cost is None else self.cost


@dataclass(frozen=True)
class BeliefSummary(_Record):
    """What was believed at one moment, in a few numbers about a fixed sample of the pool.

    Parameters
    ----------
    labels : int
        Outcomes that the model had learned from.
    expected_error : float
        Root mean square of the standard deviations of the effects.
    ate, ate_lower, ate_upper : float
        Average effect of the sample, and the ends of its 95 % interval.
    settled : float
        Share of units for which it is settled whether the treatment is worthwhile.
    treated : float
        Share of units that the policy treats.
    policy : str
        For each unit of the sample "1" if the policy treats it, else "0".

    Examples
    --------
    >>> from causalbald.campaign import BeliefSummary
    >>> summary = BeliefSummary(20, 0.8, 1.2, 0.7, 1.7, settled=0.5, treated=0.75, policy="1101")
    >>> summary.to_json()["policy"]
    '1101'
    """

    labels: int
    expected_error: float
    ate: float
    ate_lower: float
    ate_upper: float
    settled: float
    treated: float
    policy: str


@dataclass(frozen=True)
class Round:
    """A batch of a campaign, and what was believed when it was chosen. The event of kind "asked".

    Parameters
    ----------
    number : int
        Number of the round, from 1.
    seen : int
        Number of the last event that had been recorded when the batch was chosen.
    picks : tuple of Pick
        The units asked for, most important first.
    belief : BeliefSummary, optional
        None before a model could be fitted.
    versions : mapping
        Versions of the packages that chose the batch.

    Examples
    --------
    >>> from causalbald.campaign import Pick, Round
    >>> pick = Pick("p7", "audit", arm=1, why="drawn at random", propensity=0.5, outside_support=False, rank=1)
    >>> batch = Round(number=1, seen=1, picks=(pick,))
    >>> batch.ids, batch.price
    (['p7'], 1.0)
    >>> Round.from_json(batch.to_json()) == batch
    True
    """

    kind: ClassVar[str] = "asked"
    number: int
    seen: int
    picks: tuple[Pick, ...]
    belief: BeliefSummary | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        """Ids of the units asked for, in the order of their ranks."""
        return [pick.id for pick in self.picks]

    @property
    def price(self) -> float:
        """What the batch costs: the sum of the prices of its picks."""
        return sum(pick.price for pick in self.picks)

    def to_json(self) -> dict[str, Any]:
        """Return what is stored, as plain JSON. ``number`` is stored as "round", and ``picks`` as "units"."""
        return {
            "round": self.number,
            "seen": self.seen,
            "units": [pick.to_json() for pick in self.picks],
            "belief": None if self.belief is None else self.belief.to_json(),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Round:
        """Return the round that was stored; raises StorageError if a field is missing or unknown."""
        stored_names = {"round": "number", "units": "picks"}
        values = _checked_fields(cls, {stored_names.get(name, name): value for name, value in body.items()})
        belief = values.pop("belief", None)
        picks = tuple(map(Pick.from_json, values.pop("picks")))
        return cls(picks=picks, belief=None if belief is None else BeliefSummary.from_json(belief), **values)


@dataclass(frozen=True)
class Creation:
    """What a campaign is about, recorded when it was created. The event of kind "created".

    Parameters
    ----------
    settings : CampaignSettings
    columns : tuple of Column
        The covariates, and how each becomes numbers.
    rows : int
        Units in the pool.
    text_ids : bool
        Whether the ids were text in the user's table, even if they look like numbers.
    questions : list of str
        What the user should answer before spending money.
    versions : mapping
        Versions of the packages that created the campaign.

    Examples
    --------
    >>> from causalbald.campaign import CampaignSettings, Creation
    >>> settings = CampaignSettings("patient", "drug", "cd4", arms=("placebo", "drug"))
    >>> creation = Creation(settings, columns=(), rows=120)
    >>> Creation.from_json(creation.to_json()) == creation
    True
    """

    kind: ClassVar[str] = "created"
    settings: CampaignSettings
    columns: tuple[Column, ...]
    rows: int
    text_ids: bool = False
    questions: list[str] = field(default_factory=list)
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what is stored, as plain JSON."""
        columns = [column.as_json() for column in self.columns]
        return vars(self) | {"settings": self.settings.as_json(), "columns": columns, "versions": dict(self.versions)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Creation:
        """Return what was stored; raises StorageError if a field is missing or unknown."""
        values = _checked_fields(cls, body)
        settings = CampaignSettings.from_json(_checked_fields(CampaignSettings, values.pop("settings")))
        return cls(settings=settings, columns=tuple(map(Column.from_json, values.pop("columns"))), **values)


@dataclass(frozen=True)
class Measurements(_Record):
    """Outcomes that were told. The event of kind "told".

    Parameters
    ----------
    outcomes : dict
        From id to outcome: new outcomes, and corrected outcomes.
    source : "told" or "pool"
        Whether they were told, or came with the pool.
    before : dict, optional
        The outcomes that were replaced, by id.

    Examples
    --------
    >>> from causalbald.campaign import Measurements
    >>> Measurements({"p7": 1.5}, source="told").to_json()
    {'outcomes': {'p7': 1.5}, 'source': 'told'}
    """

    kind: ClassVar[str] = "told"
    outcomes: dict[str, float]
    source: str
    before: dict[str, float] | None = None


@dataclass(frozen=True)
class Failure(_Record):
    """Measurements that failed: the units may be asked for again. The event of kind "failed".

    Parameters
    ----------
    units : list of str
        Ids.
    reason : str
        In the user's words, may be empty.

    Examples
    --------
    >>> from causalbald.campaign import Failure
    >>> Failure(["p7"], "did not come").to_json()
    {'units': ['p7'], 'reason': 'did not come'}
    """

    kind: ClassVar[str] = "failed"
    units: list[str]
    reason: str


@dataclass(frozen=True)
class Withdrawal(_Record):
    """Units that must never be asked for again. The event of kind "withdrawn".

    Parameters
    ----------
    units : list of str
        Ids.
    reason : str
        In the user's words.

    Examples
    --------
    >>> from causalbald.campaign import Withdrawal
    >>> Withdrawal(["p7"], "withdrew consent").reason
    'withdrew consent'
    """

    kind: ClassVar[str] = "withdrawn"
    units: list[str]
    reason: str


Happening = Creation | Round | Measurements | Failure | Withdrawal
_CLASSES: dict[str, type[Happening]] = {c.kind: c for c in (Creation, Round, Measurements, Failure, Withdrawal)}


def happening(event: Event) -> Happening:
    """Return what an event of a campaign means.

    Parameters
    ----------
    event : Event
        From a storage.

    Returns
    -------
    Creation, Round, Measurements, Failure or Withdrawal

    Raises
    ------
    StorageError
        If the kind of the event or one of its fields is unknown, as in a campaign of a newer release, or a field is
        missing.

    Examples
    --------
    >>> from causalbald.campaign import Event, happening
    >>> happening(Event(2, "2026-01-01T12:00:00", "failed", {"units": ["p7"], "reason": "did not come"}))
    Failure(units=['p7'], reason='did not come')
    """
    if event.kind not in _CLASSES:
        raise StorageError(f"unknown event {event.kind!r}: this campaign needs a newer causalbald.")
    return _CLASSES[event.kind].from_json(event.body)


def draft(content: Happening) -> Draft:
    """Return the content of an event in the form in which a storage records it. Nothing is recorded yet."""
    return Draft(content.kind, content.to_json())


def versions() -> dict[str, str]:
    """Return the versions of packages on which a batch depends, to be recorded with it."""
    from importlib.metadata import version

    return {"causalbald": __version__} | {name: version(name) for name in ("numpy", "scikit-learn", "scipy", "torch")}


def _checked_fields(cls: type[Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of ``body`` whose names are fields of ``cls``, none of them unknown.

    Raises StorageError if a name is no field, or a field without a default is missing.
    """
    required = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(cls)}
    unknown = [name for name in body if name not in required]
    if unknown:
        raise StorageError(f"unknown field {unknown[0]!r} of a {cls.__name__}: this campaign needs a newer causalbald.")
    missing = [name for name, is_required in required.items() if is_required and name not in body]
    if missing:
        raise StorageError(f"a {cls.__name__} lacks its field {missing[0]!r}: restore the campaign from a copy.")
    return dict(body)
