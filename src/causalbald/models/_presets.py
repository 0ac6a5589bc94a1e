"""The hyper-parameters of Causal-BALD (Jesson et al., 2021, arXiv:2111.02275, appendix) by model and data set.

These numbers belong to the paper, yet they are here: they are the attribute ``presets`` of a model's class, which
should not depend on ``causalbald.paper``, a higher layer. A registry that ``paper`` fills, as it does for plans, would
take more code than these tables. Where a number is not the paper's, the class of the model states it.
"""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "due": {
        "synthetic": {
            "kernel": "rbf",
            "inducing": 20,
            "hidden": 100,
            "dropout": 0.2,
            "depth": 3,
            "batch_size": 200,
            "spectral_norm": 0.95,
            "learning_rate": 0.001,
            "negative_slope": 0.0,
        },
        "ihdp": {
            "kernel": "matern32",
            "inducing": 100,
            "hidden": 200,
            "dropout": 0.1,
            "depth": 3,
            "batch_size": 100,
            "spectral_norm": 0.95,
            "learning_rate": 0.001,
            "negative_slope": -1.0,
        },
        "cmnist": {
            "kernel": "rbf",
            "inducing": 100,
            "hidden": 200,
            "dropout": 0.05,
            "depth": 2,
            "batch_size": 64,
            "spectral_norm": 3.0,
            "learning_rate": 0.001,
            "negative_slope": -1.0,
            "epoch_steps": 25,
            "max_epochs": 20,
        },
    },
    "ensemble": {
        "synthetic": {"hidden": 100, "dropout": 0.0, "depth": 4, "spectral_norm": 12.0, "negative_slope": 0.0},
        "ihdp": {
            "hidden": 400,
            "dropout": 0.15,
            "depth": 3,
            "spectral_norm": 0.95,
            "negative_slope": -1.0,
            "patience": 4,
        },
        "cmnist": {
            "hidden": 100,
            "dropout": 0.1,
            "depth": 3,
            "spectral_norm": 24.0,
            "negative_slope": 0.0,
            "batch_size": 64,
            "epoch_steps": 25,
            "patience": 10,
            "max_epochs": 48,
        },
    },
}
