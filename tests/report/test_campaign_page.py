"""The page of a campaign: what it says, that it says it of any data, and that its numbers are the campaign's."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from causalbald import figures, models
from causalbald._words import as_told, interval, moment, number, visible, whole_percent
from causalbald.campaign import Campaign
from causalbald.campaign.storage import MemoryStorage
from causalbald.errors import InputError
from causalbald.figures._style import plain
from causalbald.models import GaussianProcess
from causalbald.report import campaign_page, write_report
from causalbald.report._text import estimate, name

VOID = {"meta", "br", "line", "path", "use", "rect"}
SECTIONS = ["learned", "overlap", "measured", "audit", "progress", "asked", "settings"]


class Page(HTMLParser):
    """A page's text, sections, links and exact numbers; open tags must be closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.references: list[str] = []
        self.numbers: list[float] = []
        self.text = ""
        self.feed(source)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.append(str(value))
            if key in ("href", "xlink:href", "src"):
                self.references.append(str(value))
            if (tag, key) == ("data", "value"):
                self.numbers.append(float(str(value)))
            assert not key.startswith("on")
        self.text += " " if tag in ("br", "td", "th") else ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())

    def has(self, value: float) -> bool:
        return any(np.isclose(value, number, rtol=1e-6, atol=1e-12) for number in self.numbers)


def people(size: int = 120) -> tuple[pd.DataFrame, dict[str, float]]:
    rng = np.random.default_rng(0)
    age, dose = rng.normal(50, 10, size).round(1), rng.normal(size=size).round(2)
    group = np.where(rng.random(size) < 0.5, "a", "b")
    arm = rng.random(size) < 1 / (1 + np.exp(-dose))
    y = age / 10 + arm * np.where(group == "a", 3.0, -1.0) + 0.3 * rng.normal(size=size)
    ids = [f"p{k}" for k in range(size)]
    treatment = np.where(arm, "drug", "placebo")
    table = pd.DataFrame({"who": ids, "group": group, "age": age, "dose": dose, "given": treatment})
    return table, dict(zip(ids, y.round(3).tolist(), strict=True))


def create(table: pd.DataFrame, **options: Any) -> Campaign:
    roles = {"id": "who", "treatment": "given", "control": "placebo", "outcome": "y", "protected": ["group"]}
    return Campaign.create(MemoryStorage(), table, **(roles | options))


def tell(campaign: Campaign, outcomes: dict[str, float], units: Any) -> None:
    campaign.tell({unit: outcomes[unit] for unit in units})


@pytest.fixture(scope="module")
def running() -> Campaign:
    table, outcomes = people()
    campaign = create(table, audit=0.4, worthwhile=0.5, budget=100)
    for _ in range(3):
        tell(campaign, outcomes, campaign.ask(12)["who"])
    batch = campaign.ask(5)["who"].tolist()
    campaign.fail(batch[:1], reason="not at home")
    campaign.withdraw(batch[1:2], reason="moved away")
    campaign.tell({next(iter(campaign.state.outcomes)): 4.25}, overwrite=True)
    return campaign


@pytest.fixture(scope="module")
def page(running: Campaign) -> Page:
    return Page(campaign_page(running))


def test_the_page_has_all_sections_in_order_and_needs_no_network(page: Page) -> None:
    assert [i for i in page.ids if i in SECTIONS] == SECTIONS
    assert len({*page.ids}) == len(page.ids)
    assert all(reference.startswith("#") for reference in page.references)
    assert {reference[1:] for reference in page.references} <= {*page.ids}
    assert not page.tags & {"script", "link", "img", "iframe", "object"}


def test_numbers_are_those_of_the_campaign(running: Campaign, page: Page) -> None:
    average, policy = running.ate(), running.policy()
    for value in (average.effect, policy.gain, policy.gain_of_all, policy.treated, policy.settled):
        assert page.has(value)
    assert all(page.has(effect) for effect in running.subgroups("group")["effect"])
    shown = f"{number(average.effect, average.sd, sign=True)} ({interval(average.lower, average.upper, sign=True)})"
    assert f"average effect of drug against placebo on y is {shown}" in page.words
    assert f"{len(running.state.outcomes)} of 120 people has been measured" in page.words
    assert running.advice(5).verdict in page.words
    assert f"of {running.settings.budget:g}" in page.words


def test_what_was_done_is_on_the_page(running: Campaign, page: Page) -> None:
    assert "41 measurements were asked for in 4 rounds" in page.words
    assert "not at home" in page.words
    assert "moved away" in page.words
    assert "became 4.25" in page.words
    assert "drawn at random as an audit" in page.words
    asked = [unit for r in running.state.rounds for unit in r.ids]
    assert all(unit in page.words for unit in asked)
    assert "exploratory" in page.words
    assert "causal only if nothing unmeasured" in page.words
    assert "versions" in page.words
    assert "numpy" in page.words


def test_audits_are_predicted_without_their_outcomes(running: Campaign, page: Page) -> None:
    state, pool = running.state, running.pool
    audits = [u.id for r in state.rounds for u in r.picks if u.by == "audit" and u.id in state.outcomes]
    outcomes = {unit: y for unit, y in state.outcomes.items() if unit not in audits}
    assert len(audits) >= 10
    order = np.sort(pool.units.positions(outcomes))
    y = np.array([outcomes[unit] for unit in pool.units.at(order)])
    model = type(running.belief().model)(random_state=0)
    model.fit(y, pool.arm[order], X=pool.x[order], pool=pool.x)
    where = pool.units.positions(audits)
    belief = model.posterior(pool.x[where])
    predicted = belief.mean[np.arange(len(where)), pool.arm[where]]
    errors = np.array([state.outcomes[unit] for unit in audits]) - predicted
    assert page.has(float(errors.mean()))
    assert page.has(float(np.sqrt((errors**2).mean())))
    spread = np.sqrt(belief.variance + belief.noise)[np.arange(len(where)), pool.arm[where]]
    covered = int((np.abs(errors) < 1.959964 * spread).sum())
    assert f"{covered} of {len(audits)} = " in page.words


def test_the_same_campaign_gives_the_same_page(running: Campaign, tmp_path: Path) -> None:
    write_report(running, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == campaign_page(running)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(InputError, match="does not exist"):
        write_report(running, tmp_path / "nowhere" / "report.html")


def test_a_page_fits_once_for_the_audit_and_not_again(running: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[int] = []
    fit = GaussianProcess.fit

    def counted(self: GaussianProcess, Y: Any, *others: Any, **options: Any) -> GaussianProcess:
        fits.append(len(Y))
        return fit(self, Y, *others, **options)

    running.ate()
    monkeypatch.setattr(GaussianProcess, "fit", counted)
    campaign_page(running)
    assert len(fits) == 1
    assert fits[0] < len(running.state.outcomes)


def test_before_any_outcome_the_page_says_what_comes_next() -> None:
    table, _ = people(60)
    campaign = create(table, protected=[])
    page = Page(campaign_page(campaign))
    assert [i for i in page.ids if i in SECTIONS] == ["overlap", "asked", "settings"]
    assert "0 of 60 people have been measured. Nobody has been asked for yet." in page.words
    campaign.ask(4)
    page = Page(campaign_page(campaign))
    assert "4 measurements have been asked for." in page.words
    assert "before a model can say more" in page.words


def test_one_arm_alone_gives_no_effect_but_the_rest() -> None:
    table, outcomes = people(60)
    campaign = create(table, protected=[])
    tell(campaign, outcomes, table.loc[table["given"] == "placebo", "who"][:5])
    page = Page(campaign_page(campaign))
    assert [i for i in page.ids if i in SECTIONS] == ["overlap", "measured", "progress", "asked", "settings"]
    assert "An effect needs at least two outcomes from each arm, and drug has fewer." in page.words
    assert "No column was declared protected" in page.words
    assert "5 outcomes are known of people who were never asked for" in page.words


def test_a_group_that_is_left_out_is_flagged() -> None:
    table, outcomes = people(80)
    campaign = create(table)
    tell(campaign, outcomes, table.loc[table["group"] == "a", "who"][:25])
    page = Page(campaign_page(campaign))
    assert "b under-measured" in page.words
    assert "a under-measured" not in page.words
    assert "Measured less often than their share of all people: group b." in page.words
    assert "Nobody was drawn at random" in page.words
    balanced = create(table, worthwhile=100)
    tell(balanced, outcomes, table["who"][:40])
    page = Page(campaign_page(balanced))
    assert "under-measured" not in page.words
    assert "nobody’s expected effect is above 100: the recommendation is to treat nobody" in page.words


HOSTILE = [
    "<script>alert(1)</script>",
    "\"'&amp;",
    "$\\frac{1}{2}$ $",
    "🦄 線 ﷺ",
    "line\nbreak\t\x07",
    "\u202eשלום مرحبا",
    "--><b>",
]


def test_whatever_users_wrote_is_text() -> None:
    table, outcomes = people(70)
    ids = [f"{HOSTILE[k % len(HOSTILE)]}{k}" for k in range(len(table))]
    told = dict(zip(ids, outcomes.values(), strict=True))
    names = {"who": "<i>id</i>$", "group": f"{HOSTILE[0]}{'x' * 10_000}", "age": HOSTILE[2], "dose": HOSTILE[3]}
    table["who"], table["group"] = ids, [HOSTILE[0] if g == "a" else HOSTILE[6] for g in table["group"]]
    table["given"] = table["given"].replace({"drug": HOSTILE[2] + "d" * 10_000, "placebo": HOSTILE[0]})
    campaign = Campaign.create(
        MemoryStorage(),
        table.rename(columns=names | {"given": HOSTILE[5]}),
        id=names["who"],
        treatment=HOSTILE[5],
        control=HOSTILE[0],
        outcome=HOSTILE[4] + HOSTILE[3] + HOSTILE[2] + HOSTILE[0],
        protected=[names["group"]],
        audit=0.4,
    )
    for _ in range(3):
        campaign.tell({unit: told[unit] for unit in campaign.ask(10)[names["who"]]})
    batch = campaign.ask(3)[names["who"]].tolist()
    campaign.withdraw(batch[:2], reason=HOSTILE[0] + HOSTILE[4])
    source = campaign_page(campaign)
    page = Page(source)
    assert [i for i in page.ids if i in SECTIONS] == SECTIONS
    assert not page.tags & {"script", "i", "b"}
    assert "<script>alert(1)</script>" in page.text
    assert not [part for part in ("\x07", "x" * 400, "d" * 400) if part in source]
    assert "xxx…" in page.text
    assert "line␊break␉␇" in page.text


def test_binary_outcomes_costs_and_an_ensemble(monkeypatch: pytest.MonkeyPatch) -> None:
    load = models.load

    def small(name: str, **options: Any) -> Any:
        return load(name, members=3, hidden=10, max_epochs=3, **options)

    monkeypatch.setattr("causalbald.campaign._belief.models.load", small)
    table, outcomes = people(60)
    table["price"] = 2.5
    campaign = create(table, cost="price", model="ensemble", audit=0.5)
    campaign.tell({unit: float(outcomes[unit] > 6) for unit in campaign.ask(30)["who"]})
    campaign.ask(2)
    page = Page(campaign_page(campaign))
    assert "a difference of probabilities" in page.words
    assert page.has(campaign.ate().effect)
    assert "mean error, measured minus predicted" in page.words
    assert "outcomes within their 95 % interval" not in page.words
    assert "spent80" in page.words.replace(" ", "")
    assert "column price" in page.words


def test_rare_events_do_not_make_intervals_too_narrow() -> None:
    """No interval around a risk of 13 % holds those to whom it happens."""
    table, _ = people(160)
    happens = np.random.default_rng(0).random(160) < 0.13
    campaign = create(table, model="gp", audit=0.6, outcome_type="binary")
    told = dict(zip(table["who"], happens.astype(float), strict=True))
    campaign.tell({unit: told[unit] for unit in campaign.ask(120)["who"]})
    assert "too narrow" not in Page(campaign_page(campaign)).words


def test_long_campaigns_are_cut_with_a_note() -> None:
    table, outcomes = people(300)
    campaign = create(table, protected=[])
    tell(campaign, outcomes, table["who"][:20])
    batch = campaign.ask(250)["who"].tolist()
    campaign.withdraw(batch[:120], reason="closed")
    page = Page(campaign_page(campaign))
    assert "Shown are the last 200" in page.words
    assert "The last 100 of 120." in page.words
    assert page.text.count("closed") == 100


def test_numbers_get_the_digits_that_they_deserve() -> None:
    assert [number(v, s) for v, s in ((1.2345, 1.0), (1.2345, 0.5), (1.2345, 0.02), (12345.6, 300), (0.0, 1e-9))] == [
        "1.2",
        "1.2",
        "1.234",
        "12,350",
        "0",
    ]
    assert [number(v) for v in (0.0, 0.01234, -1234.5, 1e12, float("nan"), None)] == [
        "0",
        "0.0123",
        "−1,234",
        "1e+12",
        "–",
        "–",
    ]
    assert number(-0.01, 1.0) == "0.0"
    assert number(2.0, 1.0, sign=True) == "+2.0"
    assert [whole_percent(v) for v in (0.0, 0.001, 0.5, 0.999, 1.0, None)] == [
        "0 %",
        "under 1 %",
        "50 %",
        "over 99 %",
        "100 %",
        "–",
    ]
    assert [as_told(v) for v in (-0.0, -1.5, 0.1 + 0.2, None)] == ["0", "−1.5", "0.3", "–"]
    assert moment("2026-11-16T05:07:09+00:00") == "16 November 2026, 05:07 UTC"
    assert moment("<b>") == "<b>"


def test_user_text_is_cut_and_made_visible() -> None:
    assert visible("a\nb", 10) == "a␊b"
    assert visible("x" * 100, 10) == "x" * 9 + "…"
    assert name("<b>") == "<bdi>&lt;b&gt;</bdi>"
    assert plain("$a$ 線\n") == r"\$a\$ □□"
    assert "&lt;" not in estimate(type("A", (), {"effect": 1.0, "lower": 0.0, "upper": 2.0})())


def test_figures_of_a_campaign() -> None:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=1000)
    figure = figures.draw_effects(mean, mean - 1, mean + 1, np.abs(mean) > 1, threshold=0.5, sign=1, name="$y$")
    drawn = np.asarray(figure.axes[0].get_lines()[0].get_ydata(), dtype=float)
    assert len(drawn) == 300
    assert (np.diff(drawn) >= 0).all()
    assert {mean.min(), mean.max()} <= {*drawn}
    same = figures.draw_effects([1.0], [1.0], [1.0], [True], threshold=0, sign=-1, name="y")
    assert "not worthwhile: 100 %" in [t.get_text() for t in same.legends[0].get_texts()]
    columns = ["after", "expected_error", "ate", "ate_lower", "ate_upper", "settled"]
    table = pd.DataFrame([[k, 2 / (k + 1), 1.0, 0.0, 2.0, 0.1 * k] for k in range(4)], columns=columns)
    assert len(figures.draw_progress(table).axes) == 3
    with pytest.raises(InputError, match="settled"):
        figures.draw_progress(table.drop(columns="ate"))
    audit = figures.draw_audit(mean, mean - 1, mean + 1, mean, rng.integers(0, 2, size=1000))
    assert re.match("measured", audit.axes[0].get_ylabel())
