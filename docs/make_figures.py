"""Draw the figure of the README: the demo's synthetic study with 160 measurements.

python docs/make_figures.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from causalbald.experiments import TrialSpec, run_trials
from causalbald.figures import house_style
from causalbald.report._demo import METHODS, PICTURED_SEED, STUDIES, demo_picture


def main() -> None:
    """Run the demo's trials and write ``docs/demo.svg``."""
    specs = [TrialSpec("synthetic", method, *STUDIES["synthetic"], seed=PICTURED_SEED) for method in METHODS]
    tables = run_trials(specs, workers=2)
    acquired = {s.acquisition: np.concatenate(t.attrs["acquired"]).tolist() for s, t in zip(specs, tables, strict=True)}
    with house_style():
        demo_picture(acquired).savefig(Path(__file__).parent / "demo.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
