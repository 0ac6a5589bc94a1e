"""Error against labels: means over seeds, with shaded standard errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from causalbald.errors import InputError
from causalbald.figures._style import Look, house_style, looks, new_figure
from causalbald.metrics import comparable_trials

BASELINES = ("random", "propensity", "type-s")
PROPOSED = "mu-rho-bald"
MAX_PANELS = 6
_PANEL_COLUMNS = ("dataset", "model", "track")  # columns of a table whose values get panels of their own
_LOG_RATIO = 6.0  # an axis is logarithmic if the largest mean is more than this many times the smallest
_TITLE_CHARACTERS = 40  # that fit above a panel in one line


def convergence(
    table: pd.DataFrame,
    *,
    error: str = "pehe",
    label: str = "error of estimated effects",
    rows: Mapping[str, Sequence[str]] | None = None,
) -> Figure:
    """Draw the label curves of trials, one line per acquisition function.

    There is a column of panels for each data set, and for each model and track if the table has several. All means
    within a panel are over the same seeds: the seeds that every function in the panel has. The title has their number.

    Parameters
    ----------
    table : DataFrame
        Columns ``dataset, acquisition, seed, labels`` and the error, as from ``run_trials`` or ``Store.table``.
    error : str
        Column to draw.
    label : str
        Name of the error on the axis.
    rows : mapping, optional
        The acquisition functions of each row of panels, by the name of the row, as from :func:`paper_rows`. Functions
        in no row are not drawn. By default, one row has all functions.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If the table lacks a column, has too many panels, or functions without a common seed.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.figures import convergence
    >>> table = pd.DataFrame({"acquisition": ["random", "random", "mu-bald", "mu-bald"], "labels": [10, 20, 10, 20]})
    >>> table = table.assign(dataset="synthetic", seed=0, pehe=[2.0, 1.5, 2.0, 1.0])
    >>> convergence(table).axes[0].get_title()
    'synthetic (1 seed)'
    """
    groups = panels_of(table, error)
    layout = {"": list(dict.fromkeys(table["acquisition"]))} if rows is None else rows
    styles = looks(table["acquisition"])
    with house_style():
        figure = new_figure(max(5.2, 4.6 * len(groups)), 3.6 * len(layout))
        panels = figure.subplots(len(layout), len(groups), squeeze=False, sharex="col")
        for line, (name, methods) in zip(panels, layout.items(), strict=True):
            for axes, (title, trials) in zip(line, groups.items(), strict=True):
                seeds = draw_curves(axes, trials[trials["acquisition"].isin(methods)], error, styles)
                heading = f"{title}, {name}" if name else title
                axes.set_title(fill(f"{heading} ({count_seeds(seeds)})", _TITLE_CHARACTERS))
                _scale(axes)
            line[0].set_ylabel(label)
        for axes in panels[-1]:
            axes.set_xlabel("outcomes measured")
        shared_legend(figure, panels.ravel())
    return figure


def paper_rows(acquisitions: Iterable[str]) -> dict[str, list[str]]:
    """Return the two rows of the paper's figure: mu-rho-BALD against the baselines, and all other functions.

    Parameters
    ----------
    acquisitions : iterable of str
        Names of acquisition functions, which may repeat.

    Returns
    -------
    dict of str to list of str
        The functions of each row by the row's name: "against baselines", and "among BALDs" or "without baselines". The
        baselines are random, propensity and type-s. mu-rho-BALD is in both rows. There is a single row, named "", if
        mu-rho-BALD is missing or would be alone in a row, or if there are at most three functions.

    Examples
    --------
    >>> from causalbald.figures import paper_rows
    >>> list(paper_rows(["random", "type-s", "mu-bald", "mu-rho-bald"]))
    ['against baselines', 'among BALDs']
    """
    names = list(dict.fromkeys(acquisitions))
    against_baselines = [name for name in names if name in (*BASELINES, PROPOSED)]
    no_baselines = [name for name in names if name not in BASELINES]
    if PROPOSED not in names or min(len(against_baselines), len(no_baselines)) < 2 or len(names) <= 3:
        return {"": names}
    are_balds = all(name.partition(", ")[0].endswith("bald") for name in no_baselines)
    return {"against baselines": against_baselines, "among BALDs" if are_balds else "without baselines": no_baselines}


def panels_of(table: pd.DataFrame, *values: str) -> dict[str, pd.DataFrame]:
    """Return the trials of each panel by the panel's title. Called by all figures of trials.

    ``values`` are the columns that will be drawn. Trials in which one of these values is missing at some fit are left
    out. There is a panel per data set, and per model and track if the table has several. Raises InputError if the table
    lacks a column or has no rows, if a trial occurs twice or none is complete, or if there are more than ``MAX_PANELS``
    panels.
    """
    missing = [c for c in ("dataset", "acquisition", "seed", "labels", *values) if c not in table]
    if missing or table.empty:
        raise InputError(f"the table has no rows or no column {missing[:1]}: pass trials as from run_trials.")
    keys = [c for c in _PANEL_COLUMNS if c in table]
    table = comparable_trials(table, [*keys, "acquisition", "seed"], values)
    named = [c for c in keys if c == "dataset" or table[c].nunique() > 1]
    groups = {", ".join(map(str, names)): rows for names, rows in table.groupby(named, sort=False)}
    if len(groups) > MAX_PANELS:
        raise InputError(
            f"{len(groups)} combinations of {', '.join(named)} are too many for one figure, at most {MAX_PANELS} can "
            "be read: choose some data sets, models or tracks."
        )
    return groups


def draw_curves(axes: Any, trials: pd.DataFrame, value: str, styles: Mapping[str, Look]) -> int:
    """Draw means with shaded standard errors over the seeds that all functions have, a line per function.

    A point is drawn for each number of labels at which all these seeds have a value. One seed has no standard error.

    Parameters
    ----------
    axes : matplotlib Axes
        Where to draw.
    trials : DataFrame
        The trials of one panel: columns ``acquisition, seed, labels`` and ``value``.
    value : str
        Column to draw against ``labels``.
    styles : mapping
        Look of each acquisition function, by its name.

    Returns
    -------
    int
        How many seeds all functions have in common.

    Raises
    ------
    InputError
        If the functions have no seed in common.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.figures import draw_curves, looks, new_figure
    >>> trials = pd.DataFrame({"acquisition": "random", "seed": [0, 1], "labels": 10, "pehe": [2.0, 1.0]})
    >>> draw_curves(new_figure(4, 3).subplots(), trials, "pehe", looks(["random"]))
    2
    """
    by_method = {str(name): rows for name, rows in trials.groupby("acquisition", sort=False)}
    common = common_seeds(by_method)
    for name, rows in by_method.items():
        wide = rows.pivot(index="labels", columns="seed", values=value)[common].dropna()
        x, mean = wide.index.to_numpy(dtype=float), wide.mean(axis=1).to_numpy(dtype=float)
        style, every = styles[name], max(1, len(x) // 8)
        shape: Any = {"color": style.colour, "linestyle": style.line, "marker": style.marker, "markevery": every}
        axes.plot(x, mean, label=name, markersize=6, zorder=3 if name == PROPOSED else 2, **shape)
        if len(common) > 1:
            spread = wide.sem(axis=1).to_numpy(dtype=float)
            axes.fill_between(x, mean - spread, mean + spread, color=style.colour, alpha=0.18, linewidth=0)
    return len(common)


def common_seeds(by_method: Mapping[str, pd.DataFrame]) -> list[int]:
    """Return the seeds that all methods have, so that comparisons over these seeds are paired.

    Parameters
    ----------
    by_method : mapping of str to DataFrame
        The trials of each method, with a column ``seed``.

    Returns
    -------
    list of int
        Sorted; empty if there are no methods.

    Raises
    ------
    InputError
        If the methods have no seed in common.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.figures import common_seeds
    >>> common_seeds({"a": pd.DataFrame({"seed": [0, 1, 2]}), "b": pd.DataFrame({"seed": [2, 1]})})
    [1, 2]
    """
    seeds = {name: set(trials["seed"]) for name, trials in by_method.items()}
    common = set.intersection(*seeds.values()) if seeds else set()
    if seeds and not common:
        fewest = min(seeds, key=lambda name: len(seeds[name]))
        raise InputError(
            f"no seed is common to {', '.join(seeds)} ({fewest} has {sorted(seeds[fewest])[:5]}): run the same seeds "
            "for all of them, or omit some."
        )
    return sorted(common)


def shared_legend(figure: Figure, panels: Iterable[Any], *, columns: int | None = None) -> None:
    """Add a legend below all panels that names every line once.

    Parameters
    ----------
    figure : Figure
        Where to draw.
    panels : iterable of matplotlib Axes
        Panels whose lines are named. Lines of the same name have one entry; at least one line must have a name.
    columns : int, optional
        How many entries a line of the legend has at most; by default as many as the figure has room for.

    Examples
    --------
    >>> from causalbald.figures import new_figure, shared_legend
    >>> figure = new_figure(4, 3)
    >>> _ = figure.subplots().plot([0, 1], [0, 1], label="mine")
    >>> shared_legend(figure, figure.axes)
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['mine']
    """
    named = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    width = columns or max(1, int(figure.get_figwidth() / 1.5))
    lines = -(-len(named) // width)
    figure.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=-(-len(named) // lines), handlelength=3.4
    )


def count_seeds(seeds: int) -> str:
    """Return "1 seed", "2 seeds" and so on, for titles."""
    return "1 seed" if seeds == 1 else f"{seeds} seeds"


def _scale(axes: Any) -> None:
    """Make the y axis logarithmic if the drawn means are positive and differ by more than a factor of ``_LOG_RATIO``.

    Called by `convergence`. Otherwise the axis is not changed.
    """
    means = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()] or [np.ones(1)])
    if len(means) and means.min() > 0 and means.max() / means.min() > _LOG_RATIO:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
