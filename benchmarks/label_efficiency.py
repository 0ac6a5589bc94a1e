"""How many labels methods and models need. Trials are kept in results/study, which `causalbald table` reads.

    python benchmarks/label_efficiency.py run --part default --seeds 0-9   # goes on where it stopped
    python benchmarks/label_efficiency.py compare                          # our default against the paper's method
    python benchmarks/label_efficiency.py rank                             # all methods with gp, over all data sets
    causalbald table results/study results/paper --model due --track paid  # trials that another study has are not run

Our default (model `auto`, acquisition `default`, every outcome paid for) is compared with the paper's method (`due`,
mu-rho-bald, softmax with temperature 0.25, stopped on free validation outcomes) on the seeds that both have. What we
recommend was chosen on seeds from 1000 up: `run --part choice --seeds 1000-1007`, kept in results/choice; for models
that give few draws, also on seeds 0 to 4. Part `images`, kept in results/images, needs the MNIST files, whose folder
the variable CAUSALBALD_DATA names.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from causalbald.experiments import Plan, Store, TrialSpec, run
from causalbald.experiments.plan import PAPER_ACQUISITIONS, parse_seeds
from causalbald.metrics import areas, labels_to_match, paired_interval

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
    found: list[TrialSpec] = []
    for plan in plans:
        for dataset in plan.datasets:
            part = replace(plan, datasets=(dataset,), seeds=parse_seeds(seeds))
            # With all 470 labels of IHDP every method is the same.
            found += (part.changed(steps=20) if dataset == "ihdp" else part).specs()
    return found


def chosen(folder: Path, dataset: str, model: str, track: str, acquisition: str) -> pd.DataFrame:
    table = Store(folder).table()
    names = {"dataset": dataset, "model": model, "track": track, "acquisition": acquisition}
    for column, name in names.items():
        table = table[table[column] == name]
    return table


def compare(folders: tuple[Path, ...]) -> pd.DataFrame:
    rows = []
    for dataset in DATASETS:
        ours = chosen(STUDY, dataset, "auto", "paid", "default")
        paper = pd.concat([chosen(folder, dataset, "due", "paper", "mu-rho-bald") for folder in folders])
        paper = paper.drop_duplicates(["seed", "labels"])
        seeds = sorted(set(ours["seed"]) & set(paper["seed"]))
        if not seeds:
            continue
        ours, paper = (t[t["seed"].isin(seeds)] for t in (ours, paper))
        last = int(min(ours["labels"].max(), paper["labels"].max()))
        ours, paper = (t[t["labels"] <= last].sort_values(["seed", "labels"]) for t in (ours, paper))
        needed = labels_to_match(ours, paper)
        half = ours[ours["labels"] == ours["labels"][ours["labels"] <= last / 2].max()].groupby("seed")["pehe"].mean()
        ends = [t[t["labels"] == last].set_index("seed")["pehe"] for t in (ours, paper)]
        below = [interval((error - ends[1]).to_numpy()) for error in (ends[0], half)]
        rows.append(
            {
                "data": dataset,
                "seeds": len(seeds),
                "labels": last,
                "error, paper's": f"{ends[1].mean():.3f}",
                "error, ours": f"{ends[0].mean():.3f}",
                "difference": below[0],
                "ours with half the labels": f"{half.mean():.3f}",
                "half - paper's": below[1],
                "needed": str(needed),
                "share": f"{needed.labels / last:.0%}",
            }
        )
    return pd.DataFrame(rows)


def interval(differences: np.ndarray, digits: int = 3) -> str:
    mean, lower, upper = paired_interval(differences)
    return f"{mean:.{digits}f} [{lower:.{digits}f}, {upper:.{digits}f}]"


def rank(best: str = "tau-vr, greedy") -> pd.DataFrame:
    """Return the share of random's area, and how much more than ``best``, as geometric means over data sets."""
    table = Store(STUDY).table().query("model == 'gp' and track == 'paid'")
    logs = {
        name: pd.DataFrame({data: np.log(areas(rows)) for data, rows in trials.groupby("dataset")})
        for name, trials in table.groupby("acquisition")
    }
    rows = []
    for name, log in logs.items():
        share = float(np.exp((log - logs["random"]).to_numpy().mean()))
        more = np.exp(paired_interval((log - logs[best]).mean(axis=1).to_numpy()))
        apart = "" if name == best else "{:+.1%} [{:+.1%}, {:+.1%}]".format(*(more - 1))
        rows.append({"acquisition": name, "seeds": len(log), "share": share, f"more than {best}": apart})
    ranked = pd.DataFrame(rows).sort_values("share", ignore_index=True)
    return ranked.assign(share=ranked["share"].map("{:.1%}".format))


def markdown(table: pd.DataFrame) -> str:
    lines = [list(table.columns), ["---"] * len(table.columns), *table.astype(str).to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "compare", "rank"))
    parser.add_argument("--original", action="store_true", help="compare with the paper's own training of `due`")
    parser.add_argument("--part", choices=tuple(PARTS), default="default")
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.command == "run":
        folder = FOLDERS.get(given.part, STUDY)
        elsewhere = Store(PAPER)
        planned = trials(PARTS[given.part], given.seeds)
        if given.part == "original":
            planned = [replace(spec, model_options=ORIGINAL) for spec in planned]
        left = [spec for spec in planned if not elsewhere.is_done(spec)]
        run(left, folder, workers=given.workers)
    else:
        folders = (FOLDERS["original"],) if given.original else (PAPER, STUDY)
        print(markdown(compare(folders) if given.command == "compare" else rank()))


if __name__ == "__main__":
    main()
