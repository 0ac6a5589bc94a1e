"""Run the trials that show how many labels methods and models need; `label_tables.py` prints their tables.

    python benchmarks/label_efficiency.py run --part default --seeds 0-19   # continues where it stopped

Results are in results/study, which `causalbald table` reads; trials in results/paper are not run again. Our default was
chosen on seeds from 1000 up (`run --part choice --seeds 1000-1007`, results/choice), and for models with few draws also
on seeds 0 to 4. Part `original` (results/original) is the paper's training of `due`. Part `images`
(results/images) needs the MNIST files; the variable CAUSALBALD_DATA names their folder.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from causalbald.experiments import PAPER_ACQUISITIONS, Plan, Store, TrialSpec, parse_seeds, run

RESULTS = Path(__file__).parent.parent / "results"
STUDY, PAPER = RESULTS / "study", RESULTS / "paper"
FOLDERS = {
    "choice": RESULTS / "choice",
    "choice-ensemble": RESULTS / "choice",
    "images": RESULTS / "images",
    "original": RESULTS / "original",
}
# The paper's own training of `due`: its variational bound, one network, a look every 100 steps.
ORIGINAL = {"inference": "minibatch", "members": 1, "epoch_steps": 100, "patience": 5}
DATASETS = ("synthetic", "synthetic-bimodal", "ihdp", "ihdp-cov")
TARGETED = ("tau-vr", "epig-tau", "epig-mu", "regret")
RIVALS = ("qhte", "macal", "lcmd", "fccm")
PARTS = {
    "choice": [Plan(DATASETS, ("auto",), ("mu-rho-bald", "tau-vr"), batch="greedy")],
    "default": [Plan(DATASETS, ("auto",), ("default", "random"))],
    "paper": [Plan(("synthetic-bimodal",), ("due",), ("mu-rho-bald",), ("paper",))],  # others: results/paper
    "gp": [
        Plan(DATASETS, ("gp",), (*PAPER_ACQUISITIONS, *RIVALS)),
        Plan(DATASETS, ("gp",), ("mu-bald", "mu-rho-bald", *TARGETED), batch="greedy"),
    ],
    "auto": [
        Plan(DATASETS, ("auto",), ("mu-rho-bald",)),
        Plan(DATASETS, ("auto",), ("mu-rho-bald",), batch="greedy"),
    ],
    "due": [
        Plan(DATASETS, ("due",), ("random", "mu-rho-bald", "default")),
        Plan(DATASETS, ("due",), ("mu-rho-bald",), batch="greedy"),
    ],
    "images": [Plan(("cmnist",), ("gp",), ("random", "mu-rho-bald", "default")).changed(steps=10)],
    "original": [Plan(("synthetic", "ihdp"), ("due",), ("mu-rho-bald",), ("paper",))],
    "ensemble": [Plan(DATASETS, ("ensemble",), ("random", "mu-rho-bald", "tau-vr"))],
    "choice-ensemble": [Plan(DATASETS, ("ensemble",), ("mu-rho-bald", "tau-vr"))],
}


def trials(plans: list[Plan], seeds: str) -> list[TrialSpec]:
    """Return the trials of some plans with these seeds; on IHDP with fewer steps than the paper has."""
    specs: list[TrialSpec] = []
    for plan in plans:
        for dataset in plan.datasets:
            part = replace(plan, datasets=(dataset,), seeds=parse_seeds(seeds))
            # With all 470 labels of IHDP, all methods are the same.
            specs += (part.changed(steps=20) if dataset == "ihdp" else part).specs()
    return specs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run",))
    parser.add_argument("--part", choices=tuple(PARTS), default="default")
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    paper, planned = Store(PAPER), trials(PARTS[options.part], options.seeds)
    if options.part == "original":
        planned = [replace(spec, model_options=ORIGINAL) for spec in planned]
    left = [spec for spec in planned if not paper.is_done(spec)]
    run(left, FOLDERS.get(options.part, STUDY), workers=options.workers)


if __name__ == "__main__":
    main()
