"""Error against labels, mean over seeds with shaded standard error."""

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
# Columns whose values do not mix in one panel, where a table has them.
_PANEL = ("dataset", "model", "track")
# An axis is logarithmic where the largest mean is that many times the smallest.
_LOG_FROM = 6.0
_TITLE = 40  # characters of a line that fit above a panel


def convergence(
    table: pd.DataFrame,
    *,
    error: str = "pehe",
    label: str = "error of estimated effects",
    rows: Mapping[str, Sequence[str]] | None = None,
) -> Figure:
    """Draw the label curves of trials, one line per acquisition function.

    There is a column of panels per data set, and per model and track where the table holds several. Within
    a panel all means are over the same seeds, those that every function shown there has; the title says how many.

    Parameters
    ----------
    table : DataFrame
        Columns ``dataset, acquisition, seed, labels`` and the error, as from ``run_trials`` or ``Store.table``.
    error : str
        Column to draw.
    label : str
        Name of the error on the axis.
    rows : mapping, optional
        Functions of each row of panels, by the row's name, as from :func:`paper_rows`; by default all are in one.
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
                axes.set_title(fill(f"{heading} ({count_seeds(seeds)})", _TITLE))
                _scale(axes)
            line[0].set_ylabel(label)
        for axes in panels[-1]:
            axes.set_xlabel("outcomes measured")
        shared_legend(figure, panels.ravel())
    return figure


def paper_rows(acquisitions: Iterable[str]) -> dict[str, list[str]]:
    """Return the two rows of the paper's figure: mu-rho-BALD against the baselines, and all that are no baselines.

    One row without a name where two make no sense: without mu-rho-BALD, with it alone in one of them, or with at most
    three functions.
    """
    names = list(dict.fromkeys(acquisitions))
    against = [a for a in names if a in (*BASELINES, PROPOSED)]
    among = [a for a in names if a not in BASELINES]
    if PROPOSED not in names or min(len(against), len(among)) < 2 or len(names) <= 3:
        return {"": names}
    others = "among BALDs" if all(a.partition(", ")[0].endswith("bald") for a in among) else "without baselines"
    return {"against baselines": against, others: among}


def panels_of(table: pd.DataFrame, *values: str) -> dict[str, pd.DataFrame]:
    """Return the rows of each panel by its title, after checking that they can be drawn.

    Parameters
    ----------
    table : DataFrame
        As for :func:`convergence`.
    values : str
        Columns that will be drawn.
    """
    missing = [c for c in ("dataset", "acquisition", "seed", "labels", *values) if c not in table]
    if missing or table.empty:
        raise InputError(f"the table has no rows or no column {missing[:1]}: pass trials as from run_trials.")
    keys = [c for c in _PANEL if c in table]
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
    """Draw means with shaded standard errors over the seeds that all functions have, and return how many seeds.

    Parameters
    ----------
    axes : matplotlib Axes
    trials : DataFrame
        Rows of one panel.
    value : str
        Column to draw against ``labels``.
    styles : mapping
        Look of each acquisition function.
    """
    by_method = {str(name): own for name, own in trials.groupby("acquisition", sort=False)}
    common = common_seeds(by_method)
    for name, own in by_method.items():
        wide = own.pivot(index="labels", columns="seed", values=value)[common].dropna()
        x, mean = wide.index.to_numpy(dtype=float), wide.mean(axis=1).to_numpy(dtype=float)
        style, every = styles[name], max(1, len(x) // 8)
        shape: Any = {"color": style.colour, "linestyle": style.line, "marker": style.marker, "markevery": every}
        axes.plot(x, mean, label=name, markersize=6, zorder=3 if name == PROPOSED else 2, **shape)
        if len(common) > 1:
            spread = wide.sem(axis=1).to_numpy(dtype=float)
            axes.fill_between(x, mean - spread, mean + spread, color=style.colour, alpha=0.18, linewidth=0)
    return len(common)


def common_seeds(by_method: Mapping[str, pd.DataFrame]) -> list[int]:
    """Return the seeds that all methods have, so that a comparison is paired."""
    seeds = {name: set(own["seed"]) for name, own in by_method.items()}
    common = set.intersection(*seeds.values()) if seeds else set()
    if seeds and not common:
        fewest = min(seeds, key=lambda name: len(seeds[name]))
        raise InputError(
            f"no seed is common to {', '.join(seeds)} ({fewest} has {sorted(seeds[fewest])[:5]}): run the same seeds "
            "for all of them, or leave some out."
        )
    return sorted(common)


def shared_legend(figure: Figure, panels: Iterable[Any], *, columns: int | None = None) -> None:
    """Name every line once, below all panels, where it hides nothing."""
    named = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    width = columns or max(1, int(figure.get_figwidth() / 1.5))
    lines = -(-len(named) // width)
    figure.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=-(-len(named) // lines), handlelength=3.4
    )


def count_seeds(seeds: int) -> str:
    """Return the number of seeds in words."""
    return "1 seed" if seeds == 1 else f"{seeds} seeds"


def _scale(axes: Any) -> None:
    """Let the data fill the axis, logarithmic where errors differ by factors."""
    means = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()] or [np.ones(1)])
    if len(means) and means.min() > 0 and means.max() / means.min() > _LOG_FROM:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
