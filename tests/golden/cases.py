"""The campaigns of the golden files: who is in each, what happens in it, and what it is asked afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.golden.people import awkward, numbered, people

if TYPE_CHECKING:
    from tests.golden.make import Lab

LOOKS = ("status", "history", "pending", "columns")
"""Questions that need no model: asked of every campaign, as is the next batch."""


@dataclass(frozen=True)
class Case:
    """One campaign: its story, the questions that need its model, the groups of subgroups, and the size of a batch."""

    story: Callable[[Lab], None]
    questions: tuple[str, ...]
    by: str = "sex"
    n: int = 4
    tolerance: float = 1e-6
    """Of numbers that a model gave, on another machine than that which made the files."""


CASES: dict[str, Case] = {}


def case(
    *questions: str, by: str = "sex", tolerance: float = 1e-6
) -> Callable[[Callable[[Lab], None]], Callable[[Lab], None]]:
    """Add a story to the cases, with the questions that need its model."""

    def add(story: Callable[[Lab], None]) -> Callable[[Lab], None]:
        CASES[story.__name__.replace("_", "-")] = Case(story, questions, by, tolerance=tolerance)
        return story

    return add


@case("advice", "ate", "subgroups", "policy", "effects", "score", "predict", "report")
def continuous(lab: Lab) -> None:
    """Three rounds of the default, the last of them pending; missing values and categories."""
    lab.new(people(), exclude=["price", "matters"], protected=["sex", "site"])
    for size in (12, 8):
        lab.ask(size)
        lab.tell()
    lab.ask(4)


@case("advice", "ate", "subgroups", "policy", "report", by="site")
def binary(lab: Lab) -> None:
    """Outcomes of 0 and 1: effects are differences of risks."""
    lab.new(people(80, 1, binary=True), exclude=["price", "matters"], outcome_type="binary", worthwhile=0.05)
    lab.ask(24)
    lab.tell()
    lab.ask(6)
    lab.tell(3)


@case("advice", "policy", "report")
def money(lab: Lab) -> None:
    """People cost differently, and the budget is a limit."""
    lab.new(people(60, 2), exclude=["matters"], cost="price", budget=2400, model="gp", better="lower", worthwhile=0.25)
    lab.ask(14)
    lab.tell()
    lab.ask(30, budget=400)
    lab.tell(2)


@case()
def money_is_gone(lab: Lab) -> None:
    """Nobody who is left can be paid."""
    lab.new(people(40, 3), exclude=["matters"], cost="price", budget=500, model="gp")
    lab.ask(40)
    lab.tell(3)


@case("advice", "report")
def audits(lab: Lab) -> None:
    """A fifth of each batch is drawn at random."""
    lab.new(people(60, 4), exclude=["price", "matters"], audit=0.2, model="gp", seed=7, protected=["sex"])
    for size in (12, 10, 5):
        lab.ask(size)
        lab.tell()
    lab.ask(5)


@case("advice", "policy", "report")
def gone(lab: Lab) -> None:
    """People are withdrawn in every state, and measurements fail."""
    lab.new(people(40, 8), exclude=["price", "matters"], model="gp")
    first = lab.ask(14)
    lab.fail(first[:2], reason="did not come")
    lab.tell(8)
    lab.withdraw([first[-1]], reason='withdrew consent, "at once"')
    lab.withdraw([lab.told[0]], reason="measured before")
    lab.withdraw([lab.others()[0], first[0]], reason="moved away")
    lab.ask(6)
    lab.fail(lab.waiting[-2:])
    lab.tell(first=[first[1]])


@case()
def failed_and_asked_again(lab: Lab) -> None:
    """Nobody else is left, so that people are asked for again whose measurement has failed."""
    lab.new(people(40, 22), exclude=["price", "matters"], model="gp")
    first = lab.ask(18)
    lab.fail(first[:9], reason="did not come")
    lab.tell()
    lab.ask(len(lab.others()) + 3)
    lab.tell(6)


@case("advice")
def audits_and_money(lab: Lab) -> None:
    """Audits are paid from the same money as the rest of a batch, which is short."""
    lab.new(people(60, 23), exclude=["matters"], cost="price", budget=2600, audit=0.25, model="gp", protected=["sex"])
    lab.ask(14)
    lab.tell()
    lab.ask(8, budget=450)
    lab.tell()
    lab.ask(8, budget=450)


@case("score")
def softmax(lab: Lab) -> None:
    """Batches drawn by softmax from scores of single people; one has a mark that nobody else has."""
    lab.new(people(60, 9, rare=True), exclude=["price", "matters"], model="gp", acquisition="mu-rho-bald")
    for size in (12, 6):
        lab.ask(size)
        lab.tell()


@case("advice", "ate", "policy")
def weights(lab: Lab) -> None:
    """Only some people matter."""
    lab.new(people(60, 10), exclude=["price"], model="gp", acquisition="tau-vr", weight="matters")
    for size in (12, 6, 6, 6):
        lab.ask(size)
        lab.tell()


@case("score")
def regret(lab: Lab) -> None:
    """What is worthwhile decides whom to ask."""
    lab.new(people(60, 11), exclude=["price", "matters"], model="gp", acquisition="regret", worthwhile=1.5)
    lab.ask(14)
    lab.tell()


@case("policy")
def at_random(lab: Lab) -> None:
    """The rule that everything is compared with."""
    lab.new(people(60, 12), exclude=["price", "matters"], model="gp", acquisition="random", seed=3)
    for size in (12, 6):
        lab.ask(size)
        lab.tell()


@case()
def propensities(lab: Lab) -> None:
    """A score that takes the estimated propensity."""
    lab.new(people(60, 13), exclude=["price", "matters"], model="gp", acquisition="mu-pi-bald")
    lab.ask(12)
    lab.tell()


def _by_covariates(rival: str) -> Callable[[Lab], None]:
    def story(lab: Lab) -> None:
        lab.new(people(60, 14), exclude=["price", "matters"], model="gp", acquisition=rival)
        lab.ask(12)
        lab.tell()
        lab.ask(4)

    return story


# Rivals that choose whole batches by covariates.
CASES |= {f"rival-{rival}": Case(_by_covariates(rival), ()) for rival in ("qhte", "macal", "lcmd", "fccm")}


@case("ate", "effects")
def index(lab: Lab) -> None:
    """The model that learns one weighted sum of the covariates."""
    lab.new(people(60, 15), exclude=["price", "matters"], model="index")
    lab.ask(20)
    lab.tell()


@case("report", "policy")
def corrected(lab: Lab) -> None:
    """Batches told by halves, in any order, and outcomes that turn out to be others."""
    lab.new(people(60, 16), exclude=["price", "matters"], model="gp")
    lab.ask(16)
    lab.tell(9)
    lab.tell(3)
    lab.correct(lab.told[:2], 0.5)
    lab.ask(4)
    lab.tell(first=lab.others()[:2])


@case("subgroups", "predict", "report", by="clinic's <site>")
def awkward_texts(lab: Lab) -> None:
    """Ids, columns, arms and categories that need quotes and escapes; numbers that are categories."""
    lab.new(awkward(), model="gp", categorical=["grade"], protected=["clinic's <site>"])
    lab.ask(16)
    lab.tell(13)
    lab.fail(lab.waiting[:1], reason='=HYPERLINK("x")')


@case("advice", "effects", "subgroups", by="age")
def known_before(lab: Lab) -> None:
    """Outcomes that the table has already, numbers for ids, and only some columns as covariates."""
    lab.new(numbered(), covariate=["age", "weight", "sex"], model="gp", better="lower", worthwhile=0.5)
    lab.ask(5)
    lab.tell(4)


@case("advice", "ate", "report")
def before_a_model(lab: Lab) -> None:
    """A first batch is pending: there is no model yet, and questions that need one say so."""
    lab.new(people(40, 17), exclude=["price", "matters"])
    lab.ask(6)


@case("advice")
def everyone_is_asked(lab: Lab) -> None:
    """Nobody is left."""
    lab.new(people(40, 18), exclude=["price", "matters"], model="gp", acquisition="tau-bald")
    lab.ask(40)
    lab.tell(30)


@case("ate", tolerance=0.2)  # rounding decides how long networks train
def networks(lab: Lab) -> None:
    """An ensemble of networks, whose posterior is a few draws."""
    lab.new(people(40, 19), covariate=["age", "sex"], model="ensemble")
    lab.ask(16)
    lab.tell()
