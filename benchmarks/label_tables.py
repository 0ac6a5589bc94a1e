"""Print the tables and draw the picture of docs/label-efficiency.md from the trials of `label_efficiency.py`.

    python benchmarks/label_tables.py compare    # our default against three versions of the paper's method
    python benchmarks/label_tables.py needed     # labels to the paper's last error, by model and function
    python benchmarks/label_tables.py rank       # all methods with gp
    python benchmarks/label_tables.py models     # our default against other functions with the same model
    python benchmarks/label_tables.py draw FILE  # curves of our default and of the paper's method

Trials are paired by seed. Ratios of errors are geometric means with t-intervals of their logs, so that no seed with
large errors decides.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from label_efficiency import DATASETS, FOLDERS, PAPER, STUDY
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from causalbald.experiments import Store, parse_seeds
from causalbald.figures import draw_curves, house_style, looks, new_figure, shared_legend
from causalbald.metrics import LabelsNeeded, areas, labels_to_match, paired_interval

PAPERS = "mu-rho-bald"  # by softmax with temperature 0.25, with model `due`
THEIRS = {
    "free validation outcomes": ((PAPER, STUDY), "paper"),
    "every outcome paid for": ((PAPER, STUDY), "paid"),
    "the paper's training": ((FOLDERS["original"],), "paper"),
}
DRAWN = {
    "mu-rho-bald, the paper's method": ("due", "paper", "mu-rho-bald"),
    "default, ours": ("auto", "paid", "default"),
    "random, with our model": ("auto", "paid", "random"),
}
ON_ONE_MODEL = {
    "gp": ("tau-vr, greedy", ("mu-rho-bald", "mu-rho-bald, greedy", "random")),
    "auto": ("default", ("mu-rho-bald", "mu-rho-bald, greedy", "random")),
    "due": ("default", ("mu-rho-bald", "mu-rho-bald, greedy", "random")),
    "ensemble": ("tau-vr", ("mu-rho-bald", "random")),
}


def trials_of(folders: tuple[Path, ...], dataset: str, model: str, track: str, acquisition: str) -> pd.DataFrame:
    """Return the trials of one kind: all seeds of `gp`, the first twenty seeds of other models."""
    table = pd.concat([Store(folder).table() for folder in folders])
    names = {"dataset": dataset, "model": model, "track": track, "acquisition": acquisition}
    for column, name in names.items():
        table = table[table[column] == name]
    seeds = table["seed"] < (40 if model == "gp" else 20)
    return table[seeds].drop_duplicates(["seed", "labels"]).sort_values(["seed", "labels"])


def on_common_ground(*tables: pd.DataFrame) -> list[pd.DataFrame]:
    """Return trials on the seeds that all methods have, up to the number of labels that all methods reach."""
    seeds = set.intersection(*(set(table["seed"]) for table in tables))
    last = min(table["labels"].max() for table in tables)
    return [table[table["seed"].isin(seeds) & (table["labels"] <= last)] for table in tables]


def errors_at(trials: pd.DataFrame, labels: float) -> pd.Series:
    """Return each seed's error at the last fit with no more labels than that."""
    last = trials["labels"][trials["labels"] <= labels].max()
    errors: pd.Series = trials[trials["labels"] == last].set_index("seed")["pehe"]
    return errors


def compare(seeds: str) -> pd.DataFrame:
    """Return our default against three versions of the paper's method, by data set."""
    rows, compared_seeds = [], parse_seeds(seeds)
    for name, (folders, track) in THEIRS.items():
        for dataset in DATASETS:
            pair = (
                trials_of((STUDY,), dataset, "auto", "paid", "default"),
                trials_of(folders, dataset, "due", track, PAPERS),
            )
            ours, theirs = on_common_ground(*(trials[trials["seed"].isin(compared_seeds)] for trials in pair))
            if theirs.empty:
                continue
            last, needed = int(theirs["labels"].max()), labels_to_match(ours, theirs)
            end, half, target = errors_at(ours, last), errors_at(ours, last / 2), errors_at(theirs, last)
            rows.append(
                {
                    "the paper's method": name,
                    "data": dataset,
                    "seeds": len(target),
                    "labels": last,
                    "error": f"{target.mean():.3f}",
                    "ours": f"{end.mean():.3f}",
                    "ours - theirs": interval(end - target),
                    "ours with half - theirs": interval(half - target),
                    "labels we need": str(needed),
                    "share": share(needed, last),
                    "warm start": f"{ours['labels'].min() / last:.0%}",
                }
            )
    return pd.DataFrame(rows)


def needed() -> pd.DataFrame:
    """Return the labels until the final error of the paper's method, by model and function."""
    rows = []
    for dataset in DATASETS:
        theirs = trials_of((PAPER, STUDY), dataset, "due", "paper", PAPERS)
        last = int(trials_of((STUDY,), dataset, "auto", "paid", "default")["labels"].max())
        row = {"data": dataset, "the paper's method": f"{last}"}
        for model, name in (
            ("due", "default"),
            ("auto", "random"),
            ("auto", "mu-rho-bald"),
            ("auto", "mu-rho-bald, greedy"),
            ("auto", "default"),
        ):
            pair = on_common_ground(trials_of((STUDY, PAPER), dataset, model, "paid", name), theirs)
            row[f"{model}, {name}"] = str(labels_to_match(*pair))
        rows.append(row)
    return pd.DataFrame(rows)


def rank(best: str = "tau-vr, greedy") -> pd.DataFrame:
    """Return areas as shares of random's, and how much more than ``best``, as geometric means over data sets."""
    table = Store(STUDY).table().query("model == 'gp' and track == 'paid'")
    logs = {
        name: pd.DataFrame({data: np.log(areas(rows)) for data, rows in trials.groupby("dataset")})
        for name, trials in table.groupby("acquisition")
    }
    rows = []
    for name, log in logs.items():
        shares = np.exp((log - logs["random"]).mean()).map("{:.0%}".format)
        apart = "" if name == best else percent((log - logs[best]).mean(axis=1))
        over = float(np.exp((log - logs["random"]).to_numpy().mean()))
        rows.append({"acquisition": name, "all": over, f"more than {best}": apart, **shares[list(DATASETS)]})
    ranked = pd.DataFrame(rows).sort_values("all", ignore_index=True)
    return ranked.assign(all=ranked["all"].map("{:.1%}".format))


def models() -> pd.DataFrame:
    """Return how far our default is from other functions with the same model, over the curve and at its end."""
    rows = []
    for model, (ours, competitors) in ON_ONE_MODEL.items():
        for dataset in DATASETS:
            row: dict[str, object] = {"model": model, "data": dataset}
            for name in competitors:
                pair = on_common_ground(
                    *(trials_of((STUDY, PAPER), dataset, model, "paid", method) for method in (ours, name))
                )
                area = np.log(areas(pair[0])) - np.log(areas(pair[1]))
                end = [np.log(errors_at(trials, np.inf)) for trials in pair]
                row |= {"seeds": len(area), name: percent(area)}
                if name == "mu-rho-bald":
                    row |= {"ahead in": f"{(area < 0).sum()}", "at the end": percent(end[0] - end[1])}
            rows.append(row)
    return pd.DataFrame(rows).fillna("")


def draw(file: str) -> None:
    with house_style():
        figure = new_figure(9.2, 7.0)
        for axes, dataset in zip(figure.subplots(2, 2).ravel(), DATASETS, strict=True):
            kinds = [trials_of((PAPER, STUDY), dataset, *kind) for kind in DRAWN.values()]
            every = [t.assign(acquisition=n) for n, t in zip(DRAWN, on_common_ground(*kinds), strict=True)]
            seeds = draw_curves(axes, pd.concat(every), "pehe", looks(DRAWN))
            last = every[0]["labels"].max()
            axes.axhline(errors_at(every[0], last).mean(), color="0.3", linewidth=0.9)
            axes.axvline(last / 2, color="0.3", linewidth=0.9)
            axes.set(title=f"{dataset} ({seeds} seeds)", xlabel="outcomes measured", ylabel="error of effects")
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
        shared_legend(figure, figure.axes, columns=3)
        figure.savefig(file, metadata={"Date": None} if file.endswith(".svg") else None)


def interval(differences: pd.Series) -> str:
    return "{:.3f} [{:.3f}, {:.3f}]".format(*paired_interval(differences.to_numpy()))


def percent(logs: pd.Series) -> str:
    return "{:+.0%} [{:+.0%}, {:+.0%}]".format(*(np.exp(paired_interval(logs.to_numpy())) - 1))


def share(needed: LabelsNeeded, last: int) -> str:
    return "" if needed.censored else f"{needed.labels / last:.0%}"


def markdown(table: pd.DataFrame) -> str:
    lines = [list(table.columns), ["---"] * len(table.columns), *table.astype(str).to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    tables = {"needed": needed, "rank": rank, "models": models}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("compare", *tables, "draw"))
    parser.add_argument("file", nargs="?", default="docs/figures/ours.svg")
    parser.add_argument("--seeds", default="0-19", help="compare: only these")
    options = parser.parse_args()
    if options.what == "draw":
        draw(options.file)
    else:
        print(markdown(compare(options.seeds) if options.what == "compare" else tables[options.what]()))


if __name__ == "__main__":
    main()
