"""Methods against one baseline, seed by seed: how much smaller are errors, and how sure is that?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from causalbald.errors import InputError
from causalbald.figures._convergence import common_seeds, count_seeds, panels_of
from causalbald.figures._style import house_style, looks, new_figure
from causalbald.metrics import areas, paired_interval


def paired(table: pd.DataFrame, *, baseline: str = "random", error: str = "pehe") -> Figure:
    """Draw each method's mean error over the label curve as a share of the baseline's.

    For each seed, the area under the method's curve is divided by the area under the baseline's. Dots are geometric
    means of these ratios over seeds, and bars are 95 % t-intervals of their logs. A method left of the line is better
    than the baseline. There is a panel for each data set, and for each model and track if the table has several. A
    panel uses the seeds that all its methods have, and the curves up to the number of labels that all its trials reach.
    The method with the smallest mean ratio over all panels is on top. One seed gives dots without bars.

    Parameters
    ----------
    table : DataFrame
        Columns ``dataset, acquisition, seed, labels`` and the error, as from ``run_trials`` or ``Store.table``.
    baseline : str
        The method that other methods are compared with.
    error : str
        Column whose area is taken; its values must not be negative, and areas must be positive.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If a panel has no trials of the baseline, a value is negative, or an area is 0; and as for :func:`convergence`.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.figures import paired
    >>> rows = [(name, seed, n, 1.0 + seed) for name in ("random", "mu-bald") for seed in (0, 1) for n in (10, 20)]
    >>> table = pd.DataFrame(rows, columns=["acquisition", "seed", "labels", "pehe"]).assign(dataset="synthetic")
    >>> paired(table).axes[0].get_title()
    'synthetic (2 seeds)'
    """
    groups = {title: _ratios(rows, baseline, error) for title, rows in panels_of(table, error).items()}
    means = pd.DataFrame({title: ratios.mean() for title, ratios in groups.items()})
    order = means.mean(axis=1).sort_values().index[::-1]
    styles = looks(order)
    with house_style():
        figure = new_figure(2.2 + 2.6 * len(groups), 1.2 + 0.27 * len(order))
        panels = figure.subplots(1, len(groups), squeeze=False, sharex=True, sharey=True)[0]
        for axes, (title, ratios) in zip(panels, groups.items(), strict=True):
            for place, name in enumerate(order):
                if name in ratios:
                    _draw(axes, place, ratios[name].to_numpy(dtype=float), styles[name])
            axes.axvline(1.0, color="black", linewidth=0.9)
            axes.set_title(f"{title} ({count_seeds(len(ratios))})")
        _scale(panels[0])
        panels[0].set_yticks(range(len(order)), order)
        figure.supxlabel(f"mean error over the way, as a share of that of {baseline}", fontsize=10)
    return figure


def _ratios(trials: pd.DataFrame, baseline: str, error: str) -> pd.DataFrame:
    """Return the logs of each method's areas over the baseline's: a row per common seed, a column per other method.

    The area is that under the curve of ``error`` against labels, up to the number of labels that all trials reach.
    Raises InputError if there are no trials of the baseline, a value is negative, or an area is 0.
    """
    by_method = {str(name): rows for name, rows in trials.groupby("acquisition", sort=False)}
    if baseline not in by_method:
        raise InputError(f"no trials of {baseline!r} to compare with: choose --baseline of {', '.join(by_method)}.")
    end = min(rows.groupby("seed")["labels"].max().min() for rows in by_method.values())
    curves = trials[trials["labels"] <= end]
    area = pd.DataFrame({name: areas(curves[curves["acquisition"] == name], error) for name in by_method})
    area = area.loc[common_seeds(by_method)]
    if (trials[error] < 0).any() or not (area > 0).all(axis=None):
        raise InputError(f"ratios need values above 0, but {error!r} has others: choose another --error.")
    logs = area.map(math.log)
    return logs.sub(logs[baseline], axis=0).drop(columns=baseline)


def _scale(axes: Any) -> None:
    """Make the x axis, which all panels share, logarithmic, with as many marks as there is room for."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    decades = math.log10(high / low)
    marks = (1, 1.5, 2, 3, 5, 7) if decades < 0.8 else (1, 2, 5) if decades < 1.4 else (1, 3)
    axes.xaxis.set_major_locator(LogLocator(subs=marks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw(axes: Any, place: int, ratios: Any, style: Any) -> None:
    """Draw the dot and the bar of one method at the height ``place``. ``ratios`` are logs of ratios, one per seed."""
    mean, lower, upper = np.exp(paired_interval(ratios))
    axes.plot([lower, upper], [place, place], color=style.colour, linewidth=1.6)
    axes.plot(mean, place, color=style.colour, marker=style.marker, linestyle="none", markersize=6)
