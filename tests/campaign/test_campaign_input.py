"""Bad input: a clear error that names the column, an example and the remedy, and an unchanged file."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from causalbald.campaign import Campaign
from causalbald.campaign.storage import MemoryStorage
from causalbald.errors import CausalBaldError, InputError, OutcomeWarning
from tests.helpers.campaigns import OPTIONS, measured, new_campaign, people, pool_of

STUDY = people(40)
Change = Callable[[pd.DataFrame], pd.DataFrame]


def put(name: str, *values: Any) -> Change:
    """Return what replaces the first values of a column."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        column = frame[name].astype(object) if name in frame else pd.Series([None] * len(frame), dtype=object)
        column.iloc[: len(values)] = values
        return frame.assign(**{name: column.infer_objects()})

    return change


def every(name: str, make: Callable[[int], Any]) -> Change:
    return lambda frame: frame.assign(**{name: [make(k) for k in range(len(frame))]})


def without(name: str) -> Change:
    return lambda frame: frame.drop(columns=name)


def same(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


# What is wrong with the table or what is said of it; the message must name it and say what to do.
BAD_POOLS: dict[str, tuple[Change, dict[str, Any], str]] = {
    "id column missing": (without("patient"), {}, r"no column 'patient'.*Columns: 'drug', 'age'"),
    "id column misspelt": (same, {"id": "patiant"}, r"Did you mean 'patient'\?"),
    "treatment column missing": (same, {"treatment": "dose"}, "no column 'dose' for the treatment"),
    "cost column missing": (same, {"cost": "price"}, "no column 'price' for the cost"),
    "protected column missing": (same, {"protected": ["race"]}, "no column 'race'"),
    "excluded column missing": (same, {"exclude": ["race"]}, "no column 'race'"),
    "covariate missing": (same, {"covariates": ["height"]}, "no column 'height'"),
    "covariates as text": (same, {"covariates": "age"}, "must be a list"),
    "protected as text": (same, {"protected": "sex"}, r"protected must be a list of columns.*\['sex'\]"),
    "excluded as text": (same, {"exclude": "sex"}, "exclude must be a list"),
    "covariate is the treatment": (same, {"covariates": ["drug", "age"]}, "'drug' cannot be a covariate"),
    "kind unknown": (same, {"covariates": {"age": "ordinal"}}, "'numeric' or 'categorical'"),
    "text declared as a number": (same, {"covariates": {"sex": "numeric"}}, r"'sex' must hold numbers.*row 1"),
    "id repeated": (put("patient", "p001"), {}, "1 ids more than once, for example 'p001'"),
    "id empty": (put("patient", None, " "), {}, "2 rows without an id"),
    "id a decimal": (every("patient", lambda k: k + 0.5), {}, "whole numbers or text, not decimals"),
    "id a truth value": (every("patient", lambda k: k % 2 == 0), {}, "whole numbers or text"),
    "id too long": (put("patient", "x" * 10_000), {}, "an id of 10000 characters"),
    "treatment with three values": (put("drug", "both"), {}, r"must have two values, but has 3 \('both'"),
    "an arm empty": (every("drug", lambda _: "placebo"), {}, "an arm is empty"),
    "treatment missing": (put("drug", None), {}, r"missing in row 1 \(id 'p000'\): leave"),
    "treatment of dates": (
        every("drug", lambda k: pd.Timestamp("2020-01-01") + pd.Timedelta(days=k % 2)),
        {},
        "must hold text, numbers or yes/no",
    ),
    "treatment of lists": (every("drug", lambda k: [k % 2]), {}, "must hold text, numbers or yes/no, not list<"),
    "control not said": (same, {"control": None}, r"which of .* is the control\? Say control="),
    "control unknown": (same, {"control": "sugar"}, "control 'sugar' is not a value of treatment 'drug'"),
    "one unit in an arm": (every("drug", lambda k: "drug" if k == 3 else "placebo"), {}, "two units in each arm"),
    "decimal comma after numbers": (
        lambda f: f.assign(cd4=["1.0", "2.0", "3,5", *["4"] * (len(f) - 3)]),
        {},
        r"'cd4' must hold numbers, but row 3 \(id 'p002'\) has '3,5'",
    ),
    "outcome of text": (put("cd4", "high"), {}, r"'cd4' must hold numbers, but row 1 \(id 'p000'\) has 'high'"),
    "outcome infinite": (put("cd4", float("inf")), {}, r"'cd4' has an infinite value in row 1 \(id 'p000'\)"),
    "covariate infinite": (put("age", float("-inf")), {}, r"'age' has an infinite value in row 1 \(id 'p000'\)"),
    "covariate huge": (put("age", 1.7e308), {}, r"'age' has 1\.7e\+308 in row 1 \(id 'p000'\): .* stands for missing"),
    "cost of text": (every("price", lambda _: "much"), {"cost": "price"}, r"but row 1 \(id 'p000'\) has 'much'"),
    "text among numbers": (put("age", "old"), {}, "mixes kinds"),
    "dates": (every("born", lambda k: pd.Timestamp("1970-01-01") + pd.Timedelta(days=k)), {}, r"'born' \(dates"),
    "free text": (every("name", lambda k: f"Person number {k}"), {}, r"'name' \(free text.*exclude"),
    "no covariates": (same, {"exclude": ["age", "weight", "sex"]}, "no column is left as a covariate"),
    "only constants": (every("same", lambda _: 1), {"covariates": ["same"]}, "no column is left as a covariate"),
    "cost zero": (every("price", float), {"cost": "price"}, r"'price' is 0 in row 1 \(id 'p000'\): give everyone"),
    "cost missing": (put("price", 1.0, 2.0), {"cost": "price"}, r"missing in row 3 \(id 'p002'\) and 37 more"),
    "columns twice": (lambda f: pd.concat([f, f[["age"]]], axis=1), {}, "more than one column 'age'"),
    "two roles": (same, {"outcome": "drug"}, "'drug' cannot be both the treatment and the outcome"),
    "better unknown": (same, {"better": "more"}, "better must be one of"),
    "worthwhile negative": (same, {"worthwhile": -1}, "worthwhile must be at least 0"),
    "worthwhile of text": (same, {"worthwhile": "much"}, "worthwhile must be a number"),
    "audit above one": (same, {"audit": 1.5}, "audit is a share"),
    "weight that does not exist": (
        same,
        {"weight": "wieght"},
        "no column 'wieght' for the weight. Did you mean 'weight'",
    ),
    "weight that is missing": (
        same,
        {"weight": "weight"},
        r"'weight' is missing in row 12 \(id 'p011'\).* of at least 0",
    ),
    "negative weight": (
        put("age", -1.0),
        {"weight": "age"},
        r"weight 'age' is negative \(-1\) in row 1 \(id 'p000'\): give everyone",
    ),
    "weight of nobody": (lambda f: f.assign(age=0.0), {"weight": "age"}, "'age' is 0 for everyone"),
    "weight that is the id": (same, {"weight": "patient"}, "cannot be both the id and the weight"),
    "weight that is not asked for": (
        same,
        {"weight": "age", "acquisition": "mu-rho-bald"},
        "'mu-rho-bald' does not ask who matters: take 'default'",
    ),
    "budget zero": (same, {"budget": 0}, "budget must be above 0"),
    "seed negative": (same, {"seed": -1}, "seed must be an integer"),
    "model unknown": (same, {"model": "forest"}, "unknown model 'forest'"),
    "acquisition unknown": (same, {"acquisition": "mu-rho"}, "unknown acquisition 'mu-rho'"),
    "outcome in another case": (put("cd4", 7.0), {"outcome": "CD4"}, "no column 'CD4' for the outcome, but one 'cd4'"),
    "outcome type unknown": (same, {"outcome_type": "count"}, "outcome_type must be one of"),
    "empty table": (lambda f: f.iloc[:0], {}, "no rows"),
}


@pytest.mark.parametrize("case", BAD_POOLS)
def test_a_campaign_that_cannot_be_created_leaves_no_file(tmp_path: Path, case: str) -> None:
    change, options, said = BAD_POOLS[case]
    with pytest.raises(InputError, match=said) as error:
        Campaign.create(tmp_path / "study.db", change(pool_of(STUDY)), **{**OPTIONS, **options})
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


BAD_RESULTS: dict[str, tuple[Any, str]] = {
    "id column missing": (pd.DataFrame({"cd4": [1.0]}), "no column 'patient'"),
    "outcome column missing": (pd.DataFrame({"patient": ["p001"]}), "no column 'cd4'"),
    "id unknown": (pd.DataFrame({"patient": ["p001", "x"], "cd4": [1.0, 2.0]}), "1 of 2 ids are not in the pool.*'x'"),
    "id repeated": (pd.DataFrame({"patient": ["p001", "p001"], "cd4": [1.0, 2.0]}), "more than once.*'p001'"),
    "id missing": (pd.DataFrame({"patient": ["p001", None], "cd4": [1.0, 2.0]}), "without an id"),
    "outcome of text": (pd.DataFrame({"patient": ["p001"], "cd4": ["high"]}), "the row of 'p001' has 'high'"),
    "outcome infinite": (pd.DataFrame({"patient": ["p001"], "cd4": [np.inf]}), "infinite"),
    "outcome huge": (pd.DataFrame({"patient": ["p001"], "cd4": [-1e101]}), r"'cd4' has -1e\+101 in the row of 'p001'"),
    "nothing filled in": (pd.DataFrame({"patient": ["p001"], "cd4": [np.nan]}), "no outcome in column 'cd4'"),
    "no rows": (pd.DataFrame({"patient": pd.Series([], dtype=str), "cd4": pd.Series([], dtype=float)}), "no outcome"),
    "another value": (pd.DataFrame({"patient": ["p002", "p000"], "cd4": [1.0, 99.0]}), r"'p000'.*--overwrite"),
    "withdrawn": (pd.DataFrame({"patient": ["p039"], "cd4": [1.0]}), r"withdrawn.*moved away"),
    "mapping with text": ({"p002": 5.2, "p003": "<0.5"}, "the row of 'p003' has '<0.5'"),
    "mapping with nothing": ({}, "no outcomes given"),
    "mapping with missing values": ({"p002": pd.NA, "p003": None}, "no outcome in column 'cd4'"),
    "id as decimal": (pd.DataFrame({"patient": ["7.0"], "cd4": [1.0]}), "'7.0'"),
    "not a table": (7, "cannot read a int"),
    "no such file": ("results.csv", "no file"),
}


@pytest.fixture(scope="module")
def study_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.db"
    with new_campaign(STUDY, path) as campaign:
        campaign.tell(measured(STUDY, ["p000", "p001"]))
        campaign.withdraw("p039", reason="moved away")
        campaign.ask(3)
    return path


def unchanged(path: Path, call: Callable[[Campaign], Any], said: str) -> None:
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with Campaign(path) as campaign, pytest.raises(CausalBaldError, match=said) as error:
        call(campaign)
    assert "\n" not in str(error.value)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("case", BAD_RESULTS)
def test_results_that_cannot_be_told_change_nothing(study_file: Path, case: str) -> None:
    results, said = BAD_RESULTS[case]
    unchanged(study_file, lambda c: c.tell(results), said)


BAD_CALLS: dict[str, tuple[Callable[[Campaign], Any], str]] = {
    "ask for none": (lambda c: c.ask(0), "n must be an integer of at least 1"),
    "ask for half": (lambda c: c.ask(2.5), "n must be an integer"),  # type: ignore[arg-type]
    "ask for too many": (lambda c: c.ask(1000), "1000 units asked for, but only 34 can be measured"),
    "ask for nothing": (lambda c: c.ask(budget=-1), "budget must be above 0"),
    "ask for less than one costs": (lambda c: c.ask(budget=0.5), "can be paid"),
    "effects too early": (lambda c: c.effects(), r"at least 2 outcomes from each arm.*2 are known"),
    "average too early": (lambda c: c.ate(), "at least 2 outcomes from each arm"),
    "score of nobody": (lambda c: c.score([]), "at least 2 outcomes"),
    "effects of a stranger": (lambda c: c.effects(["x"]), "not in the pool"),
    "withdraw without a reason": (lambda c: c.withdraw("p003", reason=""), "give a reason in words"),
    "withdraw a stranger": (lambda c: c.withdraw("P003", reason="r"), "Did you mean 'p003'"),
    "withdraw twice": (lambda c: c.withdraw(["p003", "p003"], reason="r"), "given more than once"),
    "fail someone not asked for": (lambda c: c.fail("p038"), "'p038', which is available"),
    "export into nowhere": (lambda c: c.export("nowhere/at/all.jsonl"), "folder .* does not exist"),
    "advice on nothing": (lambda c: c.advice(0), "n must be an integer"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_calls_that_cannot_be_answered_change_nothing(study_file: Path, case: str) -> None:
    call, said = BAD_CALLS[case]
    unchanged(study_file, call, said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no exported campaign"),
        ('{"format": "other"}\n', "no exported campaign"),
        ("[1]\n", "no exported campaign"),
        ('{"format": "causalbald campaign", "version": 9, "events": 0}\n', "newer causalbald"),
        ("not json\n", "line 1"),
        ("SQLite format 3\0\x00\udcff", "line 1.*no exported campaign"),
    ],
)
def test_files_that_are_no_export(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "study.jsonl").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=said):
        Campaign.from_export(tmp_path / "study.db", tmp_path / "study.jsonl")
    assert [p.name for p in tmp_path.iterdir()] == ["study.jsonl"]


def test_an_export_replaces_nothing_but_an_export(study_file: Path, tmp_path: Path) -> None:
    unchanged(study_file, lambda c: c.export(study_file), r"study\.db' exists and is no exported campaign")
    (tmp_path / "notes.txt").write_text("weeks of work")
    (tmp_path / "folder").mkdir()
    unchanged(study_file, lambda c: c.export(tmp_path / "notes.txt"), "choose another name")
    unchanged(study_file, lambda c: c.export(tmp_path / "folder"), "choose another name")
    assert (tmp_path / "notes.txt").read_text() == "weeks of work"
    with Campaign(study_file) as campaign:
        campaign.export(tmp_path / "study.jsonl")
        first = (tmp_path / "study.jsonl").read_bytes()
        campaign.export(tmp_path / "study.jsonl")
    assert (tmp_path / "study.jsonl").read_bytes() == first


@pytest.mark.parametrize("keep", [0.2, 0.6, 0.95])
def test_an_export_cut_short_creates_nothing(tmp_path: Path, study_file: Path, keep: float) -> None:
    with Campaign(study_file) as campaign:
        campaign.export(tmp_path / "study.jsonl")
    text = (tmp_path / "study.jsonl").read_text()
    (tmp_path / "study.jsonl").write_text(text[: int(len(text) * keep)])
    with pytest.raises(CausalBaldError, match=r"cut short|line"):
        Campaign.from_export(tmp_path / "study.db", tmp_path / "study.jsonl")
    assert [p.name for p in tmp_path.iterdir()] == ["study.jsonl"]


def test_an_existing_campaign_is_not_overwritten(study_file: Path) -> None:
    unchanged(study_file, lambda _: new_campaign(STUDY, study_file), "already")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("50", r"'50'\. Did you mean '050'\? A spreadsheet drops leading zeros\. Ids are those of"),
        ("0", r"Did you mean '000'\?"),
        ("350", r"for example '350'\. Ids are those of column 'patient'"),
    ],
)
def test_an_id_of_digits_is_never_taken_for_one_that_looks_alike(told: str, said: str) -> None:
    study = people(160)
    campaign = new_campaign(study.assign(patient=[f"{k:03d}" for k in range(160)]))
    with pytest.raises(InputError, match=said):
        campaign.tell({told: 1.0})


STRANGE = [
    "<b>bold</b>",
    'quo"te',
    "apo'strophe",
    "line\nbreak",
    "=1+1",
    "🙂 emoji",
    "ünï",
    "a,b;c",
    "شخص",
    "$x$",
    " ",
]


@pytest.mark.parametrize("name", [*STRANGE[:-1], "x" * 10_000])
def test_strange_column_names_work(tmp_path: Path, name: str) -> None:
    table = pool_of(STUDY).rename(columns={"age": name})
    with Campaign.create(tmp_path / "study.db", table, **OPTIONS) as campaign:
        assert name in campaign.columns[0].name
        campaign.tell(measured(STUDY, STUDY["patient"][:20]))
        assert campaign.subgroups(name)["units"].sum() == len(STUDY)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text(min_size=1, max_size=12), min_size=12, max_size=12, unique=True))
def test_any_text_is_an_id_or_refused_with_a_reason(ids: list[str]) -> None:
    study = people(12, seed=3)
    table = pool_of(study).assign(patient=ids, drug=["drug", "placebo"] * 6)
    try:
        campaign = Campaign.create(MemoryStorage(), table, **OPTIONS)
    except CausalBaldError as error:
        assert "id" in str(error)  # noqa: PT017 - refused with a reason
        return
    batch = campaign.ask(4)
    assert set(batch["patient"]) <= set(ids)
    campaign.tell(dict.fromkeys(batch["patient"], 1.0))
    assert len(campaign.pending()) == 0


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(width=32), st.integers(-5, 5)),
            st.one_of(st.none(), st.sampled_from(STRANGE), st.text(max_size=4)),
            st.booleans(),
        ),
        min_size=4,
        max_size=30,
    )
)
def test_any_table_gives_a_campaign_or_a_reason(rows: list[tuple[Any, Any, bool]]) -> None:
    table = pd.DataFrame(rows, columns=["number", "word", "arm"]).assign(unit=range(len(rows)))
    try:
        campaign = Campaign.create(MemoryStorage(), table, id="unit", treatment="arm", outcome="y")
    except CausalBaldError as error:
        assert len(str(error)) > 20  # noqa: PT017 - a reason
        return
    size = min(6, len(rows))
    campaign.tell({int(u): float(u % 3) for u in campaign.ask(size)["unit"]})
    if len(rows) > size and len(set(table["arm"])) == 2:
        assert len(campaign.ask(1)) == 1


def test_an_outcome_that_is_neither_0_nor_1_where_all_were_is_pointed_out() -> None:
    campaign = new_campaign(people())
    ids = [f"p{k:03d}" for k in range(12)]
    campaign.tell({i: float(k % 2) for k, i in enumerate(ids[:10])})
    with pytest.warns(OutcomeWarning, match=r"'cd4' is 11 for 'p010', where all 10 outcomes so far are 0 or 1"):
        campaign.tell({ids[10]: 11.0})
    campaign.tell({ids[11]: 3.0})  # said once
    other = new_campaign(people(), outcome_type="continuous")
    other.tell({i: float(k % 2) for k, i in enumerate(ids[:10])})
    other.tell({ids[10]: 11.0})


@pytest.mark.parametrize("value", [0, 1])
def test_another_outcome_of_0_or_1_is_no_news(value: int) -> None:
    campaign = new_campaign(STUDY)
    campaign.tell({f"p{k:03d}": k % 2 for k in range(10)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert campaign.tell({"p010": value}).new == 1
