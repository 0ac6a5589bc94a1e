"""The hyper-parameters of Causal-BALD (Jesson et al., 2021, arXiv:2111.02275, appendix) by model and data set.

These numbers belong to the paper, yet they are here: they are the attribute ``presets`` of a model's class, which
should not depend on ``causalbald.paper``, a higher layer. A registry that ``paper`` fills, as it does for plans, would
take more code than these tables. Where a number is not the paper's, the class of the model states it.
"""

from __future__ import annotations

from typing import Any

# Columns of the paper's tables.
_ENSEMBLE = ("hidden", "dropout", "depth", "spectral_norm", "negative_slope")
_DUE = (
    "kernel",
    "inducing",
    "hidden",
    "dropout",
    "depth",
    "batch_size",
    "spectral_norm",
    "learning_rate",
    "negative_slope",
)


def _row(names: tuple[str, ...], *values: Any, **further: Any) -> dict[str, Any]:
    """Return a row of the paper's table as options: ``values`` under their ``names``, then ``further`` options.

    There must be as many values as names.
    """
    return {**dict(zip(names, values, strict=True)), **further}


PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "due": {
        "synthetic": _row(_DUE, "rbf", 20, 100, 0.2, 3, 200, 0.95, 0.001, 0.0),
        "ihdp": _row(_DUE, "matern32", 100, 200, 0.1, 3, 100, 0.95, 0.001, -1.0),
        "cmnist": _row(_DUE, "rbf", 100, 200, 0.05, 2, 64, 3.0, 0.001, -1.0, epoch_steps=25, max_epochs=20),
    },
    "ensemble": {
        "synthetic": _row(_ENSEMBLE, 100, 0.0, 4, 12.0, 0.0),
        "ihdp": _row(_ENSEMBLE, 400, 0.15, 3, 0.95, -1.0, patience=4),
        "cmnist": _row(_ENSEMBLE, 100, 0.1, 3, 24.0, 0.0, batch_size=64, epoch_steps=25, patience=10, max_epochs=48),
    },
}
