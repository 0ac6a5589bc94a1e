"""``causalbald campaign``, as a study's owner types it."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from causalbald.campaign import Campaign
from causalbald.cli import _campaign_simulate
from causalbald.cli._app import app
from causalbald.diagnostics import support_band
from causalbald.errors import InputError, StorageError
from tests.helpers.cli_campaigns import (
    EXAMPLES,
    NEW,
    ROLES,
    STUDY,
    call_main,
    finished_study,
    measure,
    rows,
    run,
    said,
    work_on_copy,
    write_patients,
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_study(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def folder(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return work_on_copy(finished, tmp_path, monkeypatch)


def test_what_the_help_says_works_from_the_first_command_to_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_patients(tmp_path / "patients.csv")

    def example(name: str, which: int = 0) -> str:
        return run(*shlex.split(EXAMPLES[name][which]))

    with pytest.raises(InputError, match=r"'name' \(free text or names"):
        example("new")
    example("new", 1)
    write_patients(tmp_path / "patients.csv", "name")
    example("new")
    example("ask")
    measure("batch.csv", "results.csv")
    results = pd.read_csv("results.csv")
    results[~results["patient"].isin([17, 23])].to_csv("results.csv", index=False)
    example("tell")
    left = json.loads(run("status", "study.db", "--json"))["units"]["available"]["all"]
    run("ask", "study.db", "-n", str(left), "-o", "rest.csv")
    example("pending")
    example("fail")
    pd.read_csv("batch.csv")[["patient"]].query("patient not in (17, 23)").head(2).to_csv("failed.csv", index=False)
    example("fail", 1)
    example("withdraw")
    STUDY.drop(columns="cd4").assign(patient=lambda t: t["patient"] + 1000).to_csv("others.csv", index=False)
    for name in ("advice", "effects", "ate", "subgroups", "policy", "predict", "score", "status", "history"):
        for which in range(len(EXAMPLES[name])):
            example(name, which)
    example("columns")
    example("export")
    example("import")
    assert run("history", "copy.db") == run("history", "study.db")
    assert len(pd.read_csv("effects.csv")) == len(pd.read_csv("whom-to-treat.csv")) == len(STUDY)
    assert pd.read_csv("predicted.csv")["patient"].tolist() == (STUDY["patient"] + 1000).tolist()


def test_every_command_has_a_help_with_an_example() -> None:
    assert set(EXAMPLES) >= {"new", "ask", "tell", "pending", "withdraw", "fail", "import", "report", "simulate"}
    for name in EXAMPLES:
        assert EXAMPLES[name], name
        assert "Example" in run(name, "--help")
    assert "Example" in run("--help")
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).stdout


def test_new_shows_what_it_found_before_it_creates_anything(folder: Path) -> None:
    STUDY.assign(followup_visit=1.0 * (STUDY["drug"] == "drug"), cd4=STUDY["cd4"].where(STUDY["patient"] < 4)).to_csv(
        "leaky.csv", index=False
    )
    options = ["--pool", "leaky.csv", *ROLES, "--exclude", "name", "--categorical", "race"]
    text = said("new", "other.db", *options, "--dry-run", "--picture", "overlap.svg")
    assert "60 people" in text
    assert "3 outcomes ('cd4') are known already" in text
    assert "3 categories: " in text
    assert "P(drug)" in text
    assert "outside" in text
    assert "standard deviations" in text
    assert "'followup_visit' determines the treatment" in text
    assert "was it measured before the treatment?" in text
    assert "Nothing was created." in text
    assert not Path("other.db").exists()
    assert Path("overlap.svg").read_text().lstrip().startswith("<?xml")


def test_new_as_json(folder: Path) -> None:
    shown = json.loads(
        run("new", "other.db", *NEW, "--numeric", "race", "--covariate", "age", "--better", "lower", "--json")
    )
    assert shown["units"] == 60
    assert [arm["arm"] for arm in shown["arms"]] == ["placebo", "drug"]
    assert sum(arm["units"] for arm in shown["arms"]) == 60
    assert {arm["outside_support"] for arm in shown["arms"]} <= set(range(61))
    assert shown["support_band"] == list(support_band(shown["arms"][1]["units"] / 60))
    assert [c["column"] for c in shown["columns"]] == ["age", "race"]
    assert [b["covariate"] for b in shown["balance"]] == ["age", "race"]
    assert 0.5 <= shown["auc"] <= 1
    assert shown["questions"] == []
    assert shown["settings"]["better"] == "lower"
    assert Campaign("other.db").settings.better == "lower"


def test_a_campaign_is_never_written_over(folder: Path) -> None:
    with pytest.raises(StorageError, match="there is a campaign already"):
        run("new", "study.db", *NEW)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_new_asks_people_and_only_people(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert call_main(monkeypatch, "campaign", "new", "asked.db", *NEW) == 1
    printed = capsys.readouterr().err
    assert "Create the campaign? [Y/n]" in printed
    assert "Nothing was created." in printed
    assert not Path("asked.db").exists()
    monkeypatch.setattr(sys, "stdin", Terminal("\n"))
    assert call_main(monkeypatch, "campaign", "new", "asked.db", *NEW) == 0
    assert len(Campaign("asked.db").pool) == 60
    capsys.readouterr()
    assert call_main(monkeypatch, "campaign", "new", "yes.db", *NEW, "--yes") == 0
    assert "Create the campaign?" not in capsys.readouterr().err


def test_a_batch_is_a_form_to_fill_in(folder: Path) -> None:
    form = pd.read_csv("second.csv")
    assert form.columns[0] == "patient"
    assert form.columns[-1] == "cd4"
    assert form["cd4"].isna().all()
    assert form["rank"].tolist() == [1, 2, 3]
    assert set(form["round"]) == {2}
    assert rows(run("pending", "study.db")) == rows(Path("second.csv").read_text())
    assert run("pending", "study.db", "-o", "again.parquet") == ""
    assert pd.read_parquet("again.parquet")["patient"].tolist() == form["patient"].tolist()
    picks = json.loads(run("pending", "study.db", "--json"))
    assert "cd4" not in picks[0]
    assert isinstance(picks[0]["patient"], int)
    assert picks[0]["probability"] is None


def test_a_form_that_was_filled_in_and_not_told_is_not_lost(folder: Path) -> None:
    measure("second.csv", "second.csv")
    with pytest.raises(InputError, match=r"'second\.csv' holds 3 outcomes that were not told"):
        run("ask", "study.db", "-n", "2", "-o", "second.csv")
    assert len(rows(run("pending", "study.db"))) == 3
    for command in (["history"], ["effects"], ["subgroups", "--by", "sex"]):
        with pytest.raises(InputError, match="outcomes that were not told"):
            run(command[0], "study.db", *command[1:], "-o", "second.csv")
    run("tell", "study.db", "second.csv")
    run("ask", "study.db", "-n", "2", "-o", "second.csv")
    assert len(pd.read_csv("second.csv")) == 2


def test_tables_that_are_not_ours_of_the_same_kind_are_not_replaced(folder: Path) -> None:
    """Whatever columns they have: our names are common words."""
    pool = pd.read_csv("patients.csv")
    pool.assign(score=1.0).to_csv("scored.csv", index=False)
    pool[["patient", "age"]].assign(note="tired").to_csv("notes.csv", index=False)
    pd.read_csv("batch.csv").assign(phone=1).to_csv("phones.csv", index=False)
    run("effects", "study.db", "-o", "effects.csv")
    names = ["patients.csv", "scored.csv", "notes.csv", "phones.csv", "effects.csv", "batch.csv"]
    before = {name: Path(name).read_bytes() for name in [*names, "study.db"]}
    for command in (
        ["ask"],
        ["pending"],
        ["history"],
        ["effects"],
        ["score"],
        ["policy"],
        ["subgroups", "--by", "sex"],
    ):
        for name in names:
            if (command[0], name) not in (("effects", "effects.csv"), ("ask", "batch.csv"), ("pending", "batch.csv")):
                with pytest.raises(InputError, match=f"'{name}' is a table, and not one of ours of the same kind"):
                    run(command[0], "study.db", *command[1:], "-o", name)
    with pytest.raises(InputError, match="is a table, and not one of ours"):
        run("simulate", *NEW, "-o", "patients.csv")
    assert {name: Path(name).read_bytes() for name in before} == before
    again = (["score"], ["policy"], ["subgroups", "--by", "sex"], ["predict", "patients.csv"], ["history"], ["effects"])
    for command in again:
        for _ in range(2):
            run(command[0], "study.db", *command[1:], "-o", f"{command[0]}.csv")
    run("pending", "study.db", "-o", "batch.csv")


def test_a_form_that_could_not_be_told_is_not_lost_either(folder: Path) -> None:
    form = pd.read_csv("second.csv", dtype=str)
    form.assign(cd4=["<0.5", "2.5", ""]).to_csv("second.csv", index=False)
    with pytest.raises(InputError, match=f"the row of '{form['patient'][0]}' has '<0.5'"):
        run("tell", "study.db", "second.csv")
    before = Path("second.csv").read_text()
    for command in (["ask", "-n", "2"], ["pending"]):
        with pytest.raises(InputError, match="holds 2 outcomes that were not told"):
            run(command[0], "study.db", *command[1:], "-o", "second.csv")
    Path("second.csv").write_text("patient,cd4\n1,12,5\n")
    with pytest.raises(InputError, match="may hold outcomes: choose another --output"):
        run("ask", "study.db", "-n", "2", "-o", "second.csv")
    Path("second.csv").write_text(before)
    assert len(rows(run("pending", "study.db"))) == 3


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_form_may_be_filled_in_with_decimal_commas(folder: Path, separator: str) -> None:
    form = pd.read_csv("second.csv", dtype=str).assign(cd4=["12,3", "7", ""])
    form.to_csv("second.csv", index=False, sep=separator)
    assert json.loads(run("tell", "study.db", "second.csv", "--json"))["new"] == 2
    told = [r["value"] for r in rows(run("history", "study.db"))[-2:]]
    assert told == ["12.3", "7.0"]


def test_a_form_in_excel_may_mix_text_and_numbers(folder: Path) -> None:
    form = pd.read_csv("second.csv").assign(cd4=pd.Series(["12,5", 7, 8.25], dtype=object))
    form.to_excel("second.xlsx", index=False)
    with pytest.raises(InputError, match=f"column 'cd4' must hold numbers, but .*'{form['patient'][0]}' has '12,5'"):
        run("tell", "study.db", "second.xlsx")
    form.assign(cd4=pd.Series(["12,5", 7, None], dtype=object)).to_excel("second.xlsx", index=False)
    assert json.loads(run("tell", "study.db", "second.xlsx", "--json"))["new"] == 2


def test_a_pool_in_excel_may_have_a_number_among_words(folder: Path) -> None:
    pool = pd.read_csv("patients.csv").astype({"sex": object})
    pool.loc[0, "sex"] = 7
    pool.to_excel("patients.xlsx", index=False)
    shown = json.loads(run("new", "other.db", "--pool", "patients.xlsx", *ROLES, "--json"))
    assert next(c["note"] for c in shown["columns"] if c["column"] == "sex").startswith("3 categories")


def test_a_batch_smaller_than_asked_for_says_why(folder: Path) -> None:
    run("new", "poor.db", *NEW, "--budget", "3")
    assert "The budget pays for 3 of the 5 people asked for." in said("ask", "poor.db", "-n", "5", "--dry-run")
    assert "The budget pays for 3 of the 5 people asked for. Round 1: 3 people" in said("ask", "poor.db", "-n", "5")
    assert "pays" not in said("ask", "study.db", "-n", "2")


def test_a_dry_run_changes_nothing(folder: Path) -> None:
    before = Path("study.db").read_bytes()
    would = json.loads(run("ask", "study.db", "-n", "4", "--dry-run", "--json"))
    assert "nothing is recorded" in said("ask", "study.db", "-n", "4", "--dry-run")
    assert Path("study.db").read_bytes() == before
    assert json.loads(run("ask", "study.db", "-n", "4", "--json")) == would


def test_money(folder: Path) -> None:
    batch = rows(run("ask", "study.db", "--budget", "200"))
    assert 0 < sum(float(r["price"]) for r in batch) <= 200
    standing = json.loads(run("status", "study.db", "--json"))
    assert standing["left"] == 5000 - standing["spent"]


@pytest.mark.parametrize(
    ("told", "options", "payable", "words"),
    [
        (59, [], 1, "Nobody is pending. Next: causalbald campaign ask rest.db"),
        (60, [], 0, "Nobody is pending or can be asked for. Next: causalbald campaign report rest.db"),
        (1, ["--cost", "price", "--budget", "99"], 0, "Nobody is pending or can be paid from what is left."),
        (1, ["--cost", "price", "--budget", "100"], 59, "Nobody is pending. Next: causalbald campaign ask rest.db"),
        (1, ["--budget", "0.5"], 0, "Nobody is pending or can be paid from what is left."),
        (1, ["--budget", "1"], 59, "Nobody is pending. Next: causalbald campaign ask rest.db"),
    ],
)
def test_status_sends_nobody_to_ask_where_nobody_can_be_asked_for(
    folder: Path, told: int, options: list[str], payable: int, words: str
) -> None:
    STUDY.assign(price=100.0, cd4=STUDY["cd4"].where(STUDY.index < told)).to_csv("priced.csv", index=False)
    run("new", "rest.db", "--pool", "priced.csv", *ROLES, "--exclude", "name", *options)
    assert json.loads(run("status", "rest.db", "--json"))["payable"] == payable
    assert words in said("status", "rest.db")


def test_telling(folder: Path) -> None:
    form = pd.read_csv("second.csv")
    form.loc[0, "cd4"] = 7.5
    form.to_csv("second.csv", index=False)
    assert json.loads(run("tell", "study.db", "second.csv", "--json")) == {
        "new": 1,
        "known": 0,
        "corrected": 0,
        "empty": 2,
        "pending": 2,
    }
    form.loc[0, "cd4"] = 8.5
    form.to_csv("second.csv", index=False)
    with pytest.raises(InputError, match="--overwrite"):
        run("tell", "study.db", "second.csv")
    assert said("tell", "study.db", "second.csv", "--overwrite") == (
        "0 new outcomes, 1 corrected, 2 left empty; 2 still pending."
    )
    last = rows(run("history", "study.db"))[-1]
    assert (last["what"], last["value"], last["detail"]) == ("told", "8.5", "instead of 7.5")
    form.to_excel("second.xlsx", index=False)
    assert json.loads(run("tell", "study.db", "second.xlsx", "--json"))["known"] == 1


def test_failing_and_withdrawing(folder: Path) -> None:
    first, second, third = (r["patient"] for r in rows(run("pending", "study.db")))
    assert json.loads(run("fail", "study.db", first, "--reason", "away", "--json")) == {"units": 1}
    Path("gone.csv").write_text(f"patient\n{second}\n")
    assert said("withdraw", "study.db", "--from", "gone.csv", "--reason", "moved").startswith("1 people withdrawn")
    Path("nobody.csv").write_text("patient\n")
    assert json.loads(run("fail", "study.db", "--from", "nobody.csv", "--json")) == {"units": 0}
    units = json.loads(run("status", "study.db", "--json"))["units"]
    assert {state: units[state]["all"] for state in ("pending", "failed", "withdrawn")} == {
        "pending": 1,
        "failed": 1,
        "withdrawn": 1,
    }
    run("withdraw", "study.db", third, "--from", "gone.csv", "--reason", "x", code=2)
    run("fail", "study.db", code=2)
    run("withdraw", "study.db", third, code=2)


def test_status_and_columns_as_csv_and_json(folder: Path) -> None:
    status = {r["people"]: r for r in rows(run("status", "study.db"))}
    assert status["measured"]["all"] == "12"
    assert int(status["all"]["drug"]) + int(status["all"]["placebo"]) == 60
    assert "Who is pending: causalbald campaign pending study.db" in said("status", "study.db")
    covariates = {r["column"]: r for r in rows(run("columns", "study.db"))}
    assert covariates["sex"]["kind"] == "categorical"
    assert json.loads(run("columns", "study.db", "--json"))[1]["levels"] == covariates["sex"]["categories"].split(", ")


def test_conclusions(folder: Path) -> None:
    effects = pd.read_csv(io.StringIO(run("effects", "study.db")))
    assert list(effects.columns) == ["patient", "effect", "sd", "lower", "upper", "outside_support"]
    wide = pd.read_csv(io.StringIO(run("effects", "study.db", "--alpha", "0.01")))
    assert (wide["upper"] > effects["upper"]).all()
    assert [r["patient"] for r in json.loads(run("effects", "study.db", "3", "1", "--json"))] == [3, 1]
    average = json.loads(run("ate", "study.db", "--json"))
    assert average["effect"] == pytest.approx(effects["effect"].mean())
    groups = rows(run("subgroups", "study.db", "--by", "sex"))
    assert sum(int(g["units"]) for g in groups) == 60
    policy = json.loads(run("policy", "study.db", "--json", "-o", "policy.parquet"))
    assert policy["treated"] == pytest.approx(np.mean([u["recommended"] == "drug" for u in policy["units"]]))
    assert len(pd.read_parquet("policy.parquet")) == 60
    assert "of people should get 'drug'" in said("policy", "study.db")
    scores = json.loads(run("score", "study.db", "--from", "second.csv", "--json"))
    assert [s["score"] for s in scores] == sorted((s["score"] for s in scores), reverse=True)
    predicted = rows(run("predict", "study.db", "patients.csv"))
    assert [float(p["effect"]) for p in predicted] == pytest.approx(effects["effect"].tolist())
    assert json.loads(run("advice", "study.db", "--json"))["settled"] >= 0
    assert run("advice", "study.db").splitlines()[1].startswith("- ")


def test_a_report(folder: Path) -> None:
    run("report", "study.db", "-o", "report.html")
    assert "<html" in Path("report.html").read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"'report.pdf': this is a page, choose a name that ends with \.html"):
        CliRunner().invoke(app, ["campaign", "report", "study.db", "-o", "report.pdf"], catch_exceptions=False)
    assert not Path("report.pdf").exists()


def test_a_simulation_before_anything_is_spent(folder: Path) -> None:
    short = [*shlex.split(EXAMPLES["simulate"][0]), "--seeds", "2"]
    summary = json.loads(run(*short, "--workers", "1", "-o", "fits.csv", "--json"))
    assert summary["paid"] == 50
    assert isinstance(summary["helps"], bool)
    fits = pd.read_csv("fits.csv")
    assert tuple(fits) == _campaign_simulate.FIT_COLUMNS
    assert fits.groupby(["acquisition", "seed"]).size().tolist() == [5] * 4
    cheaper = [*short, "--cost", "price", "--rounds", "1", "--categorical", "race", "--covariate", "age"]
    result = CliRunner().invoke(app, ["campaign", *cheaper], catch_exceptions=False)
    assert [r["chosen"] for r in rows(result.stdout)] == ["at random", "by 'default'"]
    assert "spent" in result.stdout
    assert "Outcomes were simulated" in result.stderr
