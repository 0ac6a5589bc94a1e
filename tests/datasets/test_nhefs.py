"""The NHEFS table: counts and effects of the literature, baseline covariates only, and the commands."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from causalbald import datasets
from causalbald.cli._app import app
from causalbald.datasets import NHEFS_ID, NHEFS_OUTCOME, NHEFS_TREATMENT, follow_up, load_nhefs
from causalbald.errors import InputError


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["datasets", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stderr


def test_counts_are_those_of_the_book() -> None:
    people = load_nhefs(outcomes=True)
    assert len(people) == 1629
    assert people[NHEFS_ID].is_unique
    assert people[NHEFS_TREATMENT].value_counts().to_dict() == {"continued": 1201, "quit": 428}
    weighed = people.groupby(NHEFS_TREATMENT)[NHEFS_OUTCOME].agg(["count", "mean"])
    assert weighed["count"].to_dict() == {"continued": 1163, "quit": 403}
    assert weighed["mean"].tolist() == pytest.approx([1.9845, 4.5251], abs=0.001)


def test_regression_gives_the_effect_of_the_book() -> None:
    """Hernán and Robins, chapter 15: 3.5 kg (2.6 to 4.3), by a linear model with these covariates."""
    people = load_nhefs(outcomes=True).dropna(subset=NHEFS_OUTCOME)
    continuous = people[["age", "smokeintensity", "smokeyrs", "wt71"]].to_numpy(dtype=float)
    categories = pd.get_dummies(
        people[["sex", "race", "education", "exercise", "active"]], drop_first=True, dtype=float
    )
    quit_ = (people[NHEFS_TREATMENT] == "quit").to_numpy(dtype=float)
    design = np.column_stack([np.ones(len(people)), quit_, continuous, continuous**2, categories])
    design /= np.abs(design).max(axis=0)
    y = people[NHEFS_OUTCOME].to_numpy()
    coefficients = np.linalg.lstsq(design, y)[0]
    assert coefficients[1] == pytest.approx(3.46, abs=0.005)
    noise = ((y - design @ coefficients) ** 2).sum() / (len(y) - design.shape[1])
    error = np.sqrt(noise * np.linalg.inv(design.T @ design)[1, 1])
    assert (coefficients[1] - 1.96 * error, coefficients[1] + 1.96 * error) == pytest.approx((2.6, 4.3), abs=0.05)


def test_covariates_are_of_1971_and_what_is_unknown_is_missing() -> None:
    people = load_nhefs()
    assert NHEFS_OUTCOME not in people
    assert people.shape == (1629, 22)
    assert not [c for c in people.columns if "82" in c or c in ("sbp", "dbp", "death")]
    missing = people.isna().sum()
    assert missing[missing > 0].to_dict() == {
        "marital": 1,
        "income": 62,
        "cholesterol": 16,
        "alcohol": 5,
        "high_blood_pressure": 791,
        "diabetes": 791,
    }
    for column in people.select_dtypes(exclude="number").drop(columns=NHEFS_TREATMENT):
        assert not people[column].dropna().str.fullmatch(r"\d+").any(), f"{column} has codes instead of words"
    assert "nhefs" not in datasets.names(), "its effects are not known: it is no benchmark"


def test_every_call_gives_a_fresh_table() -> None:
    first = load_nhefs()
    first["age"] = 0
    assert load_nhefs()["age"].min() == 25


def test_the_readme_describes_every_column_and_the_licence() -> None:
    readme = (files("causalbald.datasets") / "data" / "README.md").read_text(encoding="utf-8")
    for column in load_nhefs(outcomes=True):
        assert f"`{column}`" in readme
    assert "Apache License" in readme


def test_follow_up_takes_ids_as_numbers_or_text_and_keeps_their_order() -> None:
    people = load_nhefs(outcomes=True)
    lost = people.loc[people[NHEFS_OUTCOME].isna(), NHEFS_ID].iloc[0]
    visits = follow_up([str(people[NHEFS_ID][5]), lost, 233])
    assert visits[NHEFS_ID].tolist() == [people[NHEFS_ID][5], lost, 233]
    np.testing.assert_array_equal(visits[NHEFS_OUTCOME], [people[NHEFS_OUTCOME][5], np.nan, -10.09])
    assert follow_up([]).empty
    with pytest.raises(InputError, match=r"2 of 3 ids in column 'seqn' are not in NHEFS, for example '1'"):
        follow_up([1, 233, None])
    with pytest.raises(InputError, match="'233' more than once"):
        follow_up([233, "233"])


def test_table_and_measure_stand_for_a_study(tmp_path: Path) -> None:
    people, batch, results, lost = (tmp_path / f"{name}.csv" for name in ("people", "batch", "results", "lost"))
    assert "1,629 people" in run("table", "nhefs", "-o", people)
    table = pd.read_csv(people)
    pd.testing.assert_frame_equal(table, load_nhefs())
    assert ".0," not in people.read_text()
    table[["smoking", NHEFS_ID]].iloc[::2].to_csv(batch, index=False)
    printed = run("measure", "nhefs", batch, "-o", results, "--failed", lost)
    truth = load_nhefs(outcomes=True).iloc[::2]
    measured, failed = pd.read_csv(results), pd.read_csv(lost)
    assert list(measured) == [NHEFS_ID, NHEFS_OUTCOME]
    assert list(failed) == [NHEFS_ID]
    assert measured[NHEFS_OUTCOME].tolist() == truth[NHEFS_OUTCOME].dropna().tolist()
    assert failed[NHEFS_ID].tolist() == truth.loc[truth[NHEFS_OUTCOME].isna(), NHEFS_ID].tolist()
    assert f"{len(measured)} of 815 measured" in printed
    assert f"{len(failed)} could not be measured" in printed
    run("table", "nhefs", "--outcomes", "-o", people)
    pd.testing.assert_frame_equal(pd.read_csv(people), load_nhefs(outcomes=True))


def test_mistakes_in_a_batch_are_named(tmp_path: Path) -> None:
    batch, out = tmp_path / "batch.csv", tmp_path / "results.csv"
    batch.write_text("id,when\n233,today\n")
    with pytest.raises(InputError, match="there is no column 'seqn'"):
        run("measure", "nhefs", batch, "-o", out)
    batch.write_text("seqn\n233\n3\n")
    with pytest.raises(InputError, match="1 of 2 ids in column 'seqn' are not in NHEFS, for example '3'"):
        run("measure", "nhefs", batch, "-o", out)
    with pytest.raises(InputError, match="no file"):
        run("measure", "nhefs", tmp_path / "none.csv", "-o", out)
    assert not out.exists()
    assert CliRunner().invoke(app, ["datasets", "table", "ihdp", "-o", str(out)]).exit_code == 2


@pytest.mark.parametrize("command", ["table", "measure"])
def test_help_has_an_example(command: str) -> None:
    shown = CliRunner().invoke(app, ["datasets", command, "--help"]).stdout
    assert f"Example: causalbald datasets {command} nhefs" in shown
