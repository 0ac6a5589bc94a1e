"""Invented people, from whom the golden files are made. Only `make` needs them: tests read what is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class People:
    """A table of people as its owner has it, and what measuring them would find, by id."""

    table: pd.DataFrame
    outcomes: dict[str, float]
    roles: dict[str, Any]
    """Options that name the columns: id, treatment, control, outcome."""


def people(n: int = 60, seed: int = 0, *, binary: bool = False, rare: bool = False) -> People:
    """Return patients with missing values, a category and prices; if ``rare``, with a mark that one of them has."""
    rng = np.random.default_rng(seed)
    age, weight, sex = rng.normal(50, 10, n), rng.normal(75, 12, n), rng.choice(["f", "m"], n)
    treated = rng.random(n) < 1 / (1 + np.exp(-(age - 50) / 8))
    site = rng.choice(["north", "south", "west"], n)
    y = 0.05 * weight + treated * (1.5 + 0.12 * (age - 50) + (sex == "f")) + rng.normal(0, 0.3, n)
    if binary:
        y = (rng.random(n) < 1 / (1 + np.exp(4.5 - y))).astype(float)
    table = pd.DataFrame(
        {
            "patient": [f"p{k:03d}" for k in range(n)],
            "drug": np.where(treated, "drug", "placebo"),
            "age": age.round(1),
            "weight": np.where(rng.random(n) < 0.15, np.nan, weight.round(1)),
            "sex": sex,
            "site": np.where(rng.random(n) < 0.1, "", site),
            "price": rng.uniform(50, 150, n).round(),
            "matters": (age > 50).astype(int) * rng.integers(1, 4, n),
        }
    )
    if rare:
        table["device"] = (np.arange(n) == n // 2).astype(int)
    outcomes = dict(zip(table["patient"], y.round(2).tolist(), strict=True))
    return People(table, outcomes, {"id": "patient", "treatment": "drug", "control": "placebo", "outcome": "cd4"})


def awkward() -> People:
    """Return people whose ids, columns and categories need quotes or escapes wherever they are written."""
    found = people(48, seed=5)
    odd = [
        "=1+1",
        "'quoted",
        "-5",
        "@home",
        'O\'Brien, "Al"',
        "Zoë ñ 名",
        "a<b>&c",
        "7%20x",
        "007",
        "+49",
        "semi;colon",
    ]
    odd += ["tab or  two spaces", "back\\slash", "{brace}", "[bold]rich[/]", ":smile:", "nil", "1e5"]
    ids = [*odd, *(f"#{k}" for k in range(len(found.table) - len(odd)))]
    renamed = {"patient": 'id "of" person', "drug": "arm, given", "age": "age (years)", "site": "clinic's <site>"}
    table = found.table.assign(patient=ids).drop(columns=["price", "matters"])
    table["site"] = table["site"].map({"north": 'Nord, "A"', "south": "Süd & <b>", "west": "=West"})
    table["grade"] = np.arange(len(table)) % 3
    table["drug"] = table["drug"].map({"drug": "=new; 50 %", "placebo": "old, usual"})
    outcomes = dict(zip(ids, found.outcomes.values(), strict=True))
    roles = {"id": 'id "of" person', "treatment": "arm, given", "control": "old, usual", "outcome": "CD4 [cells/µl]"}
    return People(table.rename(columns=renamed), outcomes, roles)


def numbered() -> People:
    """Return people with numbers for ids, a treatment of yes and no, and outcomes that some of them have already."""
    found = people(60, seed=6)
    table = found.table.assign(patient=np.arange(1001, 1061)).drop(columns=["price", "matters"])
    table["drug"] = np.where(table["drug"] == "drug", "yes", "no")
    outcomes = dict(zip(map(str, table["patient"]), found.outcomes.values(), strict=True))
    known = np.arange(len(table)) % 3 == 0
    table["cd4"] = [value if k else np.nan for value, k in zip(outcomes.values(), known, strict=True)]
    return People(table, outcomes, {"id": "patient", "treatment": "drug", "outcome": "cd4"})
