"""A small study with known effects, for tests of campaigns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from causalbald.campaign import Campaign
from causalbald.campaign.storage import MemoryStorage

OPTIONS: dict[str, Any] = {"id": "patient", "treatment": "drug", "control": "placebo", "outcome": "cd4"}


def people(n: int = 120, seed: int = 0) -> pd.DataFrame:
    """Return a pool with a hidden outcome in column ``truth_y`` and the true effect in ``truth_effect``."""
    rng = np.random.default_rng(seed)
    age, weight = rng.normal(50, 10, n), rng.normal(75, 12, n)
    sex = rng.choice(["f", "m"], n)
    treated = rng.random(n) < 1 / (1 + np.exp(-(age - 50) / 10))
    effect = 2 + 0.1 * (age - 50) + 1.0 * (sex == "f")
    y = 0.05 * weight + treated * effect + rng.normal(0, 0.3, n)
    return pd.DataFrame(
        {
            "patient": [f"p{k:03d}" for k in range(n)],
            "drug": np.where(treated, "drug", "placebo"),
            "age": age.round(1),
            "weight": np.where(rng.random(n) < 0.1, np.nan, weight.round(1)),
            "sex": sex,
            "truth_y": y.round(3),
            "truth_effect": effect,
        }
    )


def pool_of(study: pd.DataFrame) -> pd.DataFrame:
    """Return what the study's owner has before anything is measured."""
    return study.drop(columns=["truth_y", "truth_effect"])


def new_campaign(study: pd.DataFrame, where: Any = None, **options: Any) -> Campaign:
    """Return a campaign on the study, in memory unless told where."""
    return Campaign.create(where or MemoryStorage(), pool_of(study), **{**OPTIONS, **options})


def measured(study: pd.DataFrame, ids: Iterable[Any]) -> pd.DataFrame:
    """Return the outcomes of these people, as a laboratory would send them."""
    truth = study.set_index("patient")["truth_y"]
    return pd.DataFrame({"patient": list(ids), "cd4": [float(truth[i]) for i in ids]})


def run_rounds(campaign: Campaign, study: pd.DataFrame, rounds: int, size: int = 10) -> None:
    """Ask and tell a few times."""
    for _ in range(rounds):
        campaign.tell(measured(study, campaign.ask(size)["patient"]))


def running_campaign(study: pd.DataFrame) -> Campaign:
    """Return a campaign with three rounds told and five units pending."""
    campaign = new_campaign(study, protected=["sex"], audit=0.1)
    run_rounds(campaign, study, 3)
    campaign.ask(5)
    return campaign
