"""Draw the figure of the README: the synthetic study, 160 measurements, seed 0 of the demo.

python docs/make_figures.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from causalbald import datasets, figures
from causalbald.experiments import TrialSpec, run_trials
from causalbald.figures.style import house_style
from causalbald.models import make_model
from causalbald.report.demo import METHODS, STUDIES

SEED = 0


def main() -> None:
    pool = datasets.load("synthetic", SEED).pool
    specs = [TrialSpec("synthetic", method, *STUDIES["synthetic"], seed=SEED) for method in METHODS]
    columns = []
    for spec, table in zip(specs, run_trials(specs, workers=2), strict=True):
        rows = np.concatenate(table.attrs["acquired"])
        data = pool.take(rows)
        model = make_model("gp", random_state=SEED).fit(data.y, data.t, X=data.x, pool=pool.x)
        columns.append(figures.Acquired(spec.acquisition, rows, model))
    with house_style():
        figures.bias(pool, columns).savefig(Path(__file__).parent / "demo.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
