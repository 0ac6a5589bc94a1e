"""Error against labels, mean over seeds with shaded standard error."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from causalbald.errors import InputError
from causalbald.figures.style import house_style, look, new_figure


def convergence(table: pd.DataFrame, *, error: str = "pehe", label: str = "error of estimated effects") -> Figure:
    """Draw the label curves of trials, one panel per data set and one line per acquisition function.

    Parameters
    ----------
    table : DataFrame
        Columns ``dataset, acquisition, seed, labels`` and the error, as from ``run_trials``.
    error : str
        Column to draw.
    label : str
        Name of the error on the axis.
    """
    missing = [c for c in ("dataset", "acquisition", "seed", "labels", error) if c not in table]
    if missing or table.empty:
        raise InputError(f"the table has no rows or no column {missing[:1]}: pass trials as from run_trials.")
    panels = list(dict.fromkeys(table["dataset"]))
    with house_style():
        figure = new_figure(5.2 * len(panels), 3.6)
        for axes, dataset in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
            rows = table[table["dataset"] == dataset]
            for acquisition, trials in rows.groupby("acquisition", sort=False):
                style = look(str(acquisition))
                curve = trials.groupby("labels")[error].agg(["mean", "sem"])
                x, mean = curve.index.to_numpy(dtype=float), curve["mean"].to_numpy()
                spread = curve["sem"].fillna(0.0).to_numpy()
                every = max(1, len(x) // 8)
                axes.plot(
                    x,
                    mean,
                    style.line,
                    color=style.colour,
                    marker=style.marker,
                    markevery=every,
                    label=str(acquisition),
                )
                axes.fill_between(x, mean - spread, mean + spread, color=style.colour, alpha=0.18, linewidth=0)
            axes.set(title=f"{dataset} ({rows['seed'].nunique()} seeds)", xlabel="outcomes measured", ylabel=label)
            axes.set_ylim(bottom=0)
            axes.legend()
    return figure
