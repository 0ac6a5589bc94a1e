"""Before any money is spent: do the arms overlap, and in which covariates do they differ."""

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
_NEEDED = ("covariate", "difference", "flagged")


def draw_support(propensity: ArrayLike, treatment: ArrayLike, names: tuple[str, str] = ARM_NAMES) -> Figure:
    """Draw P(treated | x) as mirrored histograms on a scale of log odds, treated above and control below.

    Bars are shares of the arm, so that a small arm can be seen; the text says how many units there are and how many of
    them lie outside common support, which is grey. The last bins hold whatever lies beyond them.

    Parameters
    ----------
    propensity, treatment : (N,)
    names : (str, str)
        Of control and treated.
    """
    found = common_support(propensity, treatment)
    t, (low, high), edges = (
        found.treatment,
        found.band,
        _edges(found.band, propensity_clip(float(found.treatment.mean()))),
    )
    pi = np.clip(np.asarray(propensity, dtype=np.float64), edges[0], edges[-1])
    heights = [np.histogram(pi[t == arm], edges)[0] / found.arm_sizes[arm] for arm in (0, 1)]
    with house_style():
        figure = new_figure(7.0, 4.2)
        axes = figure.subplots()
        for left, right in ((edges[0], low), (high, edges[-1])):
            axes.axvspan(left, right, color="grey", alpha=0.18, linewidth=0, zorder=0)
        for arm, sign in ((0, -1), (1, 1)):
            _mirrored(axes, sign * heights[arm], edges, arm)
            outside = f"{found.outside_by_arm[arm]:,} outside {band_text(found.band)}"
            count = f"{plain(names[arm])}: {found.arm_sizes[arm]:,}\n{outside}"
            place: Any = {"transform": axes.transAxes, "ha": "right", "va": "top" if arm else "bottom"}
            axes.text(0.88, 0.97 if arm else 0.03, count, color=ARM_COLOURS[arm], fontweight="bold", **place)
        axes.axhline(0, color="black", linewidth=0.8)
        # As much room as two lines of text need, wherever the bars are.
        limit = 1.42 * max(h.max() for h in heights)
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


def _edges(band: tuple[float, float], clip: float) -> Array:
    """Return the edges of some ``BINS`` bins, about equal in log odds; no end of the band lies within one."""
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
