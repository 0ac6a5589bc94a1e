"""Random against mu-rho-BALD on synthetic seeds on which nothing was tuned. Writes results/gp/fresh_seeds.csv.

python benchmarks/fresh_seeds.py
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from causalbald.experiments import TrialSpec, run_trials
from causalbald.report._demo import METHODS, STUDIES

RESULT = Path(__file__).parent.parent / "results" / "gp" / "fresh_seeds.csv"


def main() -> None:
    specs = [TrialSpec("synthetic", m, *STUDIES["synthetic"], seed=s) for m in METHODS for s in range(2000, 2016)]
    last = pd.concat([t.tail(1) for t in run_trials(specs, workers=2)], ignore_index=True)
    columns = ["acquisition", "seed", "labels", "pehe", "coverage95"]
    last[columns].round(4).to_csv(RESULT, index=False)
    print(last.groupby("acquisition", sort=False)[["pehe", "coverage95"]].agg(["mean", "median", "sem"]).round(3))
    wide = last.pivot(index="seed", columns="acquisition", values="pehe")
    print("mu-rho-bald better in", int((wide["mu-rho-bald"] < wide["random"]).sum()), "of", len(wide), "seeds")


if __name__ == "__main__":
    main()
