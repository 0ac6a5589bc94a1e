"""The demo: two simulated studies, random against mu-rho-BALD, as a table and a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from causalbald import datasets, figures, models, paper
from causalbald._version import __version__
from causalbald.experiments import TrialSpec, run_trials
from causalbald.metrics import LabelsNeeded, labels_to_match
from causalbald.report._page import figure_svg, render

METHODS = ("random", "mu-rho-bald")
PICTURED_SEED = 0
"""Seed of the trials that the page shows as a picture."""
STUDIES = {"synthetic": (10, 10, 15), "ihdp": (100, 10, 10)}
"""Warm start, batch size and steps of the studies."""


@dataclass(frozen=True)
class Demo:
    """Trials of the demo.

    Parameters
    ----------
    trials : DataFrame
        A row per fit, as :func:`causalbald.experiments.run_trial` returns them.
    acquired : dict
        The positions that each method measured in the trial that the page shows as a picture, by the method's name.
    seconds : float
        How long all trials took together, by the clock.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.report import Demo
    >>> curves = {"random": [3.0, 2.0], "mu-rho-bald": [2.0, 1.0]}
    >>> trials = pd.DataFrame(
    ...     [("synthetic", name, 0, labels, error) for name, errors in curves.items()
    ...      for labels, error in zip([10, 20], errors)],
    ...     columns=["dataset", "acquisition", "seed", "labels", "pehe"],
    ... )
    >>> [row] = Demo(trials, {}, 1.0).summary().to_dict("records")
    >>> row["study"], row["random"], str(row["chosen"]), row["saved"]
    ('synthetic', 20, '10', '50 %')
    """

    trials: pd.DataFrame
    acquired: dict[str, list[int]]
    seconds: float

    def summary(self) -> pd.DataFrame:
        """Return how many labels each method needs for the error that random has at the end.

        Returns
        -------
        DataFrame
            A row per study: ``study``, ``target`` (the error), ``random`` (labels at the end), ``chosen`` (labels that
            the other method needs, a :class:`causalbald.metrics.LabelsNeeded`), ``saved`` (share, in words).
        """
        rows = []
        for study, trials in self.trials.groupby("dataset", sort=False):
            baseline = trials[trials["acquisition"] == METHODS[0]]
            final = baseline["labels"].max()
            target = float(baseline.loc[baseline["labels"] == final, "pehe"].mean())
            chosen = labels_to_match(trials[trials["acquisition"] == METHODS[1]], baseline)
            rows.append(
                {
                    "study": str(study),
                    "target": target,
                    "random": int(final),
                    "chosen": chosen,
                    "saved": _saved(chosen, final),
                }
            )
        return pd.DataFrame(rows)


def run_demo(
    *, seeds: int = 4, steps: int | None = None, workers: int = 2, progress: Callable[[int, int], None] | None = None
) -> Demo:
    """Simulate two studies, each with random and with chosen measurements, and return their trials.

    Parameters
    ----------
    seeds : int
        How many pairs of simulations of each study.
    steps : int, optional
        How many batches each study has; by default the number in ``STUDIES``.
    workers : int
        How many processes work at a time; apart from ``seconds``, the result does not depend on it.
    progress : function, optional
        Called with the number of fits done and of all.

    Returns
    -------
    Demo

    Examples
    --------
    >>> from causalbald.report import run_demo
    >>> run_demo(seeds=1, workers=1).summary()  # doctest: +SKIP
    """
    started = perf_counter()
    specs = [
        TrialSpec(study, method, warm_start, batch_size, steps or all_steps, seed=seed)
        for study, (warm_start, batch_size, all_steps) in reversed(STUDIES.items())  # the slow study first
        for seed in range(seeds)
        for method in METHODS
    ]
    tables = run_trials(specs, workers=workers, progress=progress)
    acquired = {
        spec.acquisition: np.concatenate(table.attrs["acquired"]).tolist()
        for spec, table in zip(specs, tables, strict=True)
        if spec.dataset == "synthetic" and spec.seed == PICTURED_SEED
    }
    trials = pd.concat(tables, ignore_index=True)
    order = trials["dataset"].map({study: k for k, study in enumerate(STUDIES)})
    return Demo(trials.loc[order.sort_values(kind="stable").index], acquired, perf_counter() - started)


def demo_picture(acquired: dict[str, list[int]]) -> Figure:
    """Return a figure of the synthetic study: pool, measured people and learned effect, a column per method.

    ``acquired`` is that of :class:`Demo`. For each method, a model is fitted again on the positions that it measured.
    """
    pool = datasets.load("synthetic", PICTURED_SEED).pool
    columns = []
    for method, positions in acquired.items():
        data = pool.take(positions)
        model = models.load("gp", random_state=PICTURED_SEED).fit(data.y, data.t, X=data.x, pool=pool.x)
        columns.append(paper.MeasuredSet(method, np.asarray(positions), model))
    return paper.bias(pool, columns)


def demo_page(demo: Demo, command: str) -> str:
    """Return the demo as one HTML page.

    Parameters
    ----------
    demo : Demo
        What :func:`run_demo` returned.
    command : str
        The command that makes the page, which the page shows.

    Returns
    -------
    str
        HTML that needs neither network nor scripts.

    Examples
    --------
    >>> from causalbald.report import demo_page, run_demo
    >>> page = demo_page(run_demo(seeds=1, workers=1), "causalbald demo")  # doctest: +SKIP
    """
    return render(
        "demo.html",
        rows=demo.summary().to_dict("records"),
        seeds=demo.trials["seed"].nunique(),
        convergence=figure_svg(figures.convergence(demo.trials), "Error against outcomes measured, for both studies"),
        bias=figure_svg(demo_picture(demo.acquired), "Density of pool and of measured people by arm, and effects"),
        command=command,
        version=__version__,
        seconds=demo.seconds,
    )


def _saved(needed: LabelsNeeded, final: int) -> str:
    """Return in words which share of random's ``final`` labels was not needed, such as ``50 %``.

    The answer is ``none: not reached`` if the method did not reach random's error.
    """
    if needed.censored:
        return "none: not reached"
    share = 1 - needed.labels / final
    return f"{100 * share:.0f} %"
