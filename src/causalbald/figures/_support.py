"""Before any money is spent: do the arms overlap, and in which covariates do they differ?"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from causalbald._typing import Array
from causalbald._validation import check_int
from causalbald.diagnostics import UNBALANCED, band_text, common_support, propensity_clip
from causalbald.errors import InputError
from causalbald.figures._style import ARM_COLOURS, ARM_NAMES, house_style, new_figure, plain

BINS = 40
_TICKS = (0.25, 0.5, 0.75)
_HATCHES = ("", "///")
_COLUMNS = ("covariate", "difference", "flagged")


def draw_support(propensity: ArrayLike, treatment: ArrayLike, names: tuple[str, str] = ARM_NAMES) -> Figure:
    """Draw P(treated | x) as mirrored histograms on a scale of log odds, treated above and control below.

    Bars are shares of an arm, which makes a small arm visible. The text has the number of units of each arm, and how
    many of these are outside common support. The region outside common support is grey. Propensities beyond the axis
    are counted in its first or last bin.

    Parameters
    ----------
    propensity : (N,)
        P(treated given x) of each unit.
    treatment : (N,)
        The arm, 0 or 1, of each unit.
    names : (str, str)
        Names of control and treated.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If a propensity is no probability, or an arm has no units.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.figures import draw_support
    >>> draw_support(np.linspace(0.1, 0.9, 20), np.arange(20) % 2).axes[0].get_ylabel()
    'share of the arm'
    """
    support = common_support(propensity, treatment)
    t, (low, high) = support.treatment, support.band
    edges = _edges(support.band, propensity_clip(float(t.mean())))
    pi = np.clip(np.asarray(propensity, dtype=np.float64), edges[0], edges[-1])
    heights = [np.histogram(pi[t == arm], edges)[0] / support.arm_sizes[arm] for arm in (0, 1)]
    with house_style():
        figure = new_figure(7.0, 4.2)
        axes = figure.subplots()
        for left, right in ((edges[0], low), (high, edges[-1])):
            axes.axvspan(left, right, color="grey", alpha=0.18, linewidth=0, zorder=0)
        for arm, sign in ((0, -1), (1, 1)):
            _mirrored(axes, sign * heights[arm], edges, arm)
            outside = f"{support.outside_by_arm[arm]:,} outside {band_text(support.band)}"
            count = f"{plain(names[arm])}: {support.arm_sizes[arm]:,}\n{outside}"
            place: Any = {"transform": axes.transAxes, "ha": "right", "va": "top" if arm else "bottom"}
            axes.text(0.88, 0.97 if arm else 0.03, count, color=ARM_COLOURS[arm], fontweight="bold", **place)
        axes.axhline(0, color="black", linewidth=0.8)
        limit = 1.42 * max(h.max() for h in heights)  # leaves room for two lines of text, wherever the bars are
        axes.set_xscale("logit")
        axes.set(ylim=(-limit, limit), xlabel=f"P({plain(names[1])} | covariates)", ylabel="share of the arm")
        axes.set_xlim(edges[0], edges[-1])
        decades = 10.0 ** -np.arange(1, 10)
        ticks = [p for p in (*decades, *_TICKS, *(1 - decades)) if edges[0] <= p <= edges[-1]]
        axes.set_xticks(ticks, [f"{p:.9f}".rstrip("0") for p in ticks])
        axes.set_xticks([], minor=True)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * abs(share):g} %"))
    return figure


def draw_balance(table: pd.DataFrame, top: int = 20) -> Figure:
    """Draw the largest standardised differences between the arms.

    Dots of covariates that the table flags are filled, other dots are empty, and the title counts the flagged
    covariates. Dashed lines are at ±0.1, beyond which `balance_table` flags. An infinite difference is an arrow at the
    edge.

    Parameters
    ----------
    table : DataFrame
        A row per covariate. Columns ``covariate``, ``difference`` and ``flagged`` (True or False), as from
        :func:`causalbald.diagnostics.balance_table`.
    top : int
        How many covariates are drawn at most: those with the largest absolute differences, the largest on top.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If the table has no rows or lacks a column, or ``top`` is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.diagnostics import balance_table
    >>> from causalbald.figures import draw_balance
    >>> x, t = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
    >>> draw_balance(balance_table(x, t)).axes[0].get_title(loc="right")
    '2 of 2 differ by more than 0.1'
    """
    missing = [column for column in _COLUMNS if column not in table.columns]
    if missing or table.empty:
        raise InputError(f"nothing to draw: the table needs rows, and columns {', '.join(_COLUMNS)}.")
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
        omitted = "" if len(shown) == len(table) else f"; the largest {len(shown)} are shown"
        axes.set_title(
            f"{int(table['flagged'].sum())} of {len(table)} differ by more than {UNBALANCED}{omitted}",
            fontsize=10,
            loc="right",  # names on the left leave room for it
        )
    return figure


def _edges(band: tuple[float, float], clip: float) -> Array:
    """Return the edges of about ``BINS`` bins from ``clip`` to 1 - ``clip``, about equally wide in log odds.

    Both ends of ``band``, which is common support, are edges, so that no bin lies on both sides of an end.
    """
    low, high = band
    ends = logit(np.array([clip, low, high, 1 - clip]))
    width = (ends[-1] - ends[0]) / BINS
    pieces = [np.linspace(a, b, max(1, round((b - a) / width)) + 1)[1:] for a, b in pairwise(ends)]
    edges: Array = expit(np.concatenate([ends[:1], *pieces]))
    edges[np.abs(edges - low).argmin()] = low
    # Bins hold their left edge, but the band's right end itself is inside.
    edges[np.abs(edges - high).argmin()] = np.nextafter(high, 1)
    return edges


def _mirrored(axes: Any, heights: Array, edges: Array, arm: int) -> None:
    """Draw the bars of one arm, in its colour. The caller gives negative heights for the control arm."""
    colour: Any = {"facecolor": to_rgba(ARM_COLOURS[arm], 0.45), "edgecolor": ARM_COLOURS[arm]}
    axes.bar(edges[:-1], heights, np.diff(edges), align="edge", hatch=_HATCHES[arm], linewidth=0.9, zorder=2, **colour)


def _dots(axes: Any, difference: Array, flagged: Any) -> float:
    """Draw a dot for each difference (n,), or an arrow if the difference is infinite, from below.

    Dots where ``flagged`` (n,) is true are black, others white. Returns the end of the x axis, which goes from minus
    this value to this value.
    """
    finite = np.isfinite(difference)
    limit = max(0.2, 1.15 * np.abs(difference[finite]).max(initial=0))
    rows = np.arange(len(difference))
    for where, face in ((finite & flagged, "black"), (finite & ~flagged, "white")):
        axes.scatter(difference[where], rows[where], s=30, facecolor=face, edgecolor="black", zorder=3)
    for sign, marker in ((-1, "<"), (1, ">")):
        where = ~finite & (np.sign(difference) == sign)
        edge = np.full(int(where.sum()), sign * 0.97 * limit)
        axes.scatter(edge, rows[where], s=50, marker=marker, color="black", zorder=3)
    return float(limit)
