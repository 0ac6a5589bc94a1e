"""Before any money is spent: do the arms overlap, and in which covariates do they differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike

from causalbald._typing import Array
from causalbald._validation import check_int
from causalbald.diagnostics.balance import UNBALANCED
from causalbald.diagnostics.support import OVERLAP, common_support, propensity_edges
from causalbald.errors import InputError
from causalbald.figures.style import ARM_COLOURS, ARM_NAMES, house_style, new_figure, plain

BINS = 40
_HATCHES = ("", "///")
_NEEDED = ("covariate", "difference", "flagged")


def draw_support(propensity: ArrayLike, treatment: ArrayLike, names: tuple[str, str] = ARM_NAMES) -> Figure:
    """Draw P(treated | x) as mirrored histograms, treated above and control below.

    Bars are shares of the arm, so that a small arm can be seen; the text says how many units there are and how many of
    them lie outside common support, P(treated | x) outside [0.1, 0.9], which is grey.

    Parameters
    ----------
    propensity, treatment : (N,)
    names : (str, str)
        Of control and treated.
    """
    found = common_support(propensity, treatment)
    pi, t, edges = np.asarray(propensity, dtype=np.float64), found.treatment, propensity_edges(BINS)
    heights = [np.histogram(pi[t == arm], edges)[0] / found.arm_sizes[arm] for arm in (0, 1)]
    with house_style():
        figure = new_figure(7.0, 4.2)
        axes = figure.subplots()
        for low, high in ((0, OVERLAP[0]), (OVERLAP[1], 1)):
            axes.axvspan(low, high, color="grey", alpha=0.18, linewidth=0, zorder=0)
        for arm, sign in ((0, -1), (1, 1)):
            _mirrored(axes, sign * heights[arm], edges, arm)
            count = f"{plain(names[arm])}: {found.arm_sizes[arm]:,}\n{found.outside_by_arm[arm]:,} outside [0.1, 0.9]"
            place: Any = {"transform": axes.transAxes, "ha": "right", "va": "top" if arm else "bottom"}
            axes.text(0.88, 0.97 if arm else 0.03, count, color=ARM_COLOURS[arm], fontweight="bold", **place)
        axes.axhline(0, color="black", linewidth=0.8)
        # As much room as two lines of text need, wherever the bars are.
        limit = 1.42 * max(h.max() for h in heights)
        axes.set(
            xlim=(0, 1), ylim=(-limit, limit), xlabel=f"P({plain(names[1])} | covariates)", ylabel="share of the arm"
        )
        axes.set_xticks(np.linspace(0, 1, 11))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * abs(share):g} %"))
    return figure


def draw_balance(table: pd.DataFrame, top: int = 20) -> Figure:
    """Draw the standardised differences of the arms, the ``top`` largest, as from ``diagnostics.balance_table``.

    Beyond ±0.1, dashed, dots are filled. A difference that is infinite is drawn as an arrow at the edge.

    Parameters
    ----------
    table : DataFrame
        Columns ``covariate, difference, flagged``.
    top : int
    """
    lacking = [c for c in _NEEDED if c not in table.columns]
    if lacking or table.empty:
        raise InputError(f"nothing to draw: the table needs rows, and columns {', '.join(_NEEDED)}.")
    order = np.argsort(-np.abs(table["difference"].to_numpy()), kind="stable")[: check_int(top, "top", low=1)]
    shown = table.iloc[order[::-1]]
    with house_style():
        figure = new_figure(7.0, 1.3 + 0.24 * len(shown))
        axes = figure.subplots()
        limit = _dots(axes, shown["difference"].to_numpy(dtype=np.float64), shown["flagged"].to_numpy(dtype=bool))
        for x, style in ((-UNBALANCED, "--"), (0, "-"), (UNBALANCED, "--")):
            axes.axvline(x, color="grey", linestyle=style, linewidth=0.9)
        axes.set(xlim=(-limit, limit), ylim=(-0.7, len(shown) - 0.3), yticks=np.arange(len(shown)))
        axes.set_yticklabels([plain(name) for name in shown["covariate"]])
        axes.set_xlabel("standardised difference, treated minus control", loc="right")
        few = "" if len(shown) == len(table) else f"; the largest {len(shown)} are shown"
        axes.set_title(
            f"{int(table['flagged'].sum())} of {len(table)} differ by more than {UNBALANCED}{few}",
            fontsize=10,
            loc="right",  # names on the left leave room for it
        )
    return figure


def _mirrored(axes: Any, heights: Array, edges: Array, arm: int) -> None:
    colour: Any = {"facecolor": to_rgba(ARM_COLOURS[arm], 0.45), "edgecolor": ARM_COLOURS[arm]}
    axes.bar(edges[:-1], heights, np.diff(edges), align="edge", hatch=_HATCHES[arm], linewidth=0.9, zorder=2, **colour)


def _dots(axes: Any, difference: Array, flagged: Any) -> float:
    """Draw the dots and return the limit of the axis."""
    finite = np.isfinite(difference)
    limit = max(0.2, 1.15 * np.abs(difference[finite]).max(initial=0))
    rows = np.arange(len(difference))
    for where, face in ((finite & flagged, "black"), (finite & ~flagged, "white")):
        axes.scatter(difference[where], rows[where], s=30, facecolor=face, edgecolor="black", zorder=3)
    for sign, marker in ((-1, "<"), (1, ">")):
        where = ~finite & (np.sign(difference) == sign)
        at = np.full(int(where.sum()), sign * 0.97 * limit)
        axes.scatter(at, rows[where], s=50, marker=marker, color="black", zorder=3)
    return float(limit)
