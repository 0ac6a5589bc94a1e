"""What a campaign has taught: effects of people, progress over rounds, and how predictions of audits turned out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import ArrayLike

from causalbald._typing import Array, Positions
from causalbald._validation import check_vector
from causalbald.errors import InputError
from causalbald.figures._style import ARM_COLOURS, ARM_NAMES, house_style, new_figure, plain

MAX_LINES = 300
"""How many people a figure shows one by one at most."""
WIDTH = 5.6
"""Width of the figures, in inches."""
N_BINS = 30
# Colours that colour-blind people can tell apart, also in grey.
_VERDICTS = (("worthwhile", "#009E73"), ("open", "#B4B4B4"), ("not worthwhile", "#AA4477"))
_PROGRESS = ("after", "expected_error", "ate", "ate_lower", "ate_upper", "settled")


def draw_effects(
    effect: ArrayLike, lower: ArrayLike, upper: ArrayLike, settled: ArrayLike, *, threshold: float, sign: int, name: str
) -> Figure:
    """Draw expected effects with intervals, sorted, next to a histogram of the expected effects.

    Colours show for whom the effect is worthwhile, not worthwhile or open. Of more than 300 people, 300 are drawn,
    evenly spaced among the sorted people. The histogram and the shares in the legend count everyone. A dashed line
    marks a threshold other than 0.

    Parameters
    ----------
    effect : (N,)
        Expected effects.
    lower, upper : (N,)
        Ends of their intervals.
    settled : (N,) bool
        Whether it is settled that the person's effect is worthwhile or not.
    threshold : float
        The effect beyond which the treatment is worthwhile.
    sign : 1 or -1
        1 if a higher effect is better, else -1.
    name : str
        Name of the outcome, cut to 26 characters.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If effects or ends of intervals are missing, or differ in number.

    Examples
    --------
    >>> from causalbald import figures
    >>> figure = figures.draw_effects(
    ...     [1.0, -1.0], [0.5, -2.0], [1.5, 0.1], [True, False], threshold=0.0, sign=1, name="cd4"
    ... )
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['worthwhile: 50 %', 'open: 50 %', 'not worthwhile: 0 %']
    """
    mean = check_vector(effect, "effect")
    low, high = check_vector(lower, "lower", len(mean)), check_vector(upper, "upper", len(mean))
    # 0: settled that the effect is worthwhile, 1: open, 2: settled that it is not.
    verdict = np.where(np.asarray(settled, dtype=bool), np.where(sign * (mean - threshold) > 0, 0, 2), 1)
    order = np.argsort(mean, kind="stable")
    rows = order[_evenly(len(order), MAX_LINES)]
    with house_style():
        figure = new_figure(WIDTH, 4.0)
        people, counts = figure.subplots(1, 2, sharey=True, width_ratios=(3.4, 1))
        _sorted_lines(people, mean[rows], low[rows], high[rows], verdict[rows])
        people.set_ylabel(f"effect on {plain(name, 26)}")
        _histogram(counts, mean, verdict)
        for axes in (people, counts):
            axes.axhline(0, color="black", linewidth=0.8)
            if threshold:
                axes.axhline(threshold, color="black", linewidth=1.0, linestyle="--")
        _verdict_legend(figure, verdict)
    return figure


def draw_progress(table: pd.DataFrame) -> Figure:
    """Draw the expected error of effects, the average effect with its interval, and the settled share, by round.

    Parameters
    ----------
    table : DataFrame
        A row per round. Columns ``after`` (number of the round), ``expected_error, ate, ate_lower, ate_upper``, and
        ``settled``, a share from 0 to 1.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If a column is missing, or there are no rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald import figures
    >>> table = pd.DataFrame({
    ...     "after": [0, 1], "expected_error": [2.0, 1.0], "ate": [1.0, 1.0], "ate_lower": [0.0, 0.5],
    ...     "ate_upper": [2.0, 1.5], "settled": [0.1, 0.4],
    ... })
    >>> len(figures.draw_progress(table).axes)
    3
    """
    missing = [c for c in _PROGRESS if c not in table.columns]
    if missing or table.empty:
        raise InputError(f"nothing to draw: the table needs rows, and columns {', '.join(_PROGRESS)}.")
    after = table["after"].to_numpy(dtype=np.float64)
    line: Any = {"color": "black", "marker": "o", "markersize": 4 if len(after) < 40 else 0, "linewidth": 1.2}
    with house_style():
        figure = new_figure(WIDTH, 4.8)
        error, average, settled = figure.subplots(3, 1, sharex=True)
        error.plot(after, table["expected_error"], **line)
        error.set_ylabel("expected error\nof effects")
        error.set_ylim(0, 1.15 * max(float(table["expected_error"].max()), 1e-12))
        ends = (table[c].to_numpy(dtype=np.float64) for c in ("ate_lower", "ate_upper"))
        average.vlines(after, *ends, color="#9A9A9A", linewidth=3 if len(after) < 40 else 1)
        average.plot(after, table["ate"], **line)
        average.axhline(0, color="black", linewidth=0.8)
        average.set_ylabel("average\neffect")
        settled.plot(after, 100 * table["settled"], **line)
        settled.set(ylabel="settled", ylim=(-4, 104), yticks=(0, 50, 100), xlabel="after round")
        settled.yaxis.set_major_formatter(PercentFormatter())
        margin = max(0.4, 0.03 * float(np.ptp(after)))
        settled.set_xlim(after.min() - margin, after.max() + margin)
        settled.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        figure.align_ylabels()
    return figure


def draw_audit(
    predicted: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    observed: ArrayLike,
    arm: ArrayLike,
    names: tuple[str, str] = ARM_NAMES,
) -> Figure:
    """Draw measured outcomes against predictions, with the intervals that should hold the outcomes.

    Of more than 300 people, 300 are drawn, evenly spaced in the given order. Each arm has its colour and marker.

    Parameters
    ----------
    predicted : (N,)
        Predicted outcomes.
    lower, upper : (N,)
        Ends of their intervals.
    observed : (N,)
        Measured outcomes.
    arm : (N,)
        0 for control, 1 for treated.
    names : (str, str)
        Names of control and treated.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If a prediction or an outcome is missing.

    Examples
    --------
    >>> from causalbald import figures
    >>> figure = figures.draw_audit([1.0, 2.0], [0.0, 1.0], [2.0, 3.0], [1.2, 1.9], [0, 1])
    >>> figure.axes[0].get_ylabel()
    'measured'
    """
    mean, y = check_vector(predicted, "predicted"), check_vector(observed, "observed")
    low, high, t = (np.asarray(v)[_evenly(len(y), MAX_LINES)] for v in (lower, upper, arm))
    mean, y = (v[_evenly(len(y), MAX_LINES)] for v in (mean, y))
    with house_style():
        figure = new_figure(WIDTH, 3.6)
        axes = figure.subplots()
        for k, marker in ((0, "o"), (1, "^")):
            in_arm = t == k
            axes.vlines(mean[in_arm], low[in_arm], high[in_arm], color=ARM_COLOURS[k], alpha=0.3, linewidth=2)
            axes.scatter(mean[in_arm], y[in_arm], s=24, marker=marker, color=ARM_COLOURS[k], label=plain(names[k], 24))
        ends = np.array([mean.min(), mean.max()])
        axes.plot(ends, ends, color="black", linewidth=0.8)
        axes.set(xlabel="predicted without the audits", ylabel="measured")
        figure.legend(loc="outside upper center", ncols=2)
    return figure


def _sorted_lines(axes: Any, mean: Array, low: Array, high: Array, verdict: Positions) -> None:
    """Draw each person's expected effect as a dot, and its interval as a line in the colour of the person's verdict.

    People are sorted. ``verdict`` has positions in ``_VERDICTS``. Called by `draw_effects`.
    """
    place = 100 * (np.arange(len(mean)) + 0.5) / len(mean)
    width = min(2.4, 0.7 * 72 * 3.5 / len(mean))
    for k, (_, colour) in enumerate(_VERDICTS):
        has_verdict = verdict == k
        axes.vlines(place[has_verdict], low[has_verdict], high[has_verdict], color=colour, linewidth=width)
    axes.plot(place, mean, ".", color="black", markersize=3 if len(mean) < 60 else 1.6)
    axes.set(xlim=(0, 100), xlabel="people, sorted")
    axes.xaxis.set_major_formatter(PercentFormatter())


def _histogram(axes: Any, mean: Array, verdict: Positions) -> None:
    """Draw a horizontal histogram of expected effects, stacked by verdict. Called by `draw_effects`."""
    # A belief that is the same for everyone still needs a bar.
    span = max(float(np.ptp(mean)), 1e-9 * max(1.0, float(np.abs(mean).max())))
    edges = np.linspace(mean.min() - 0.01 * span, mean.max() + 0.01 * span, N_BINS + 1)
    parts = [mean[verdict == k] for k in range(len(_VERDICTS))]
    colours = [colour for _, colour in _VERDICTS]
    axes.hist(parts, bins=edges, orientation="horizontal", stacked=True, color=colours)
    axes.set_xlabel("people")
    axes.xaxis.set_major_locator(MaxNLocator(2, integer=True, prune="lower"))
    axes.tick_params(axis="y", length=0)


def _verdict_legend(figure: Figure, verdict: Positions) -> None:
    """Add a legend with the share of people who have each verdict. Called by `draw_effects`."""
    share = np.bincount(verdict, minlength=len(_VERDICTS)) / len(verdict)
    handles = [
        Line2D([], [], color=colour, linewidth=5, label=f"{name}: {100 * share[k]:.0f} %")
        for k, (name, colour) in enumerate(_VERDICTS)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, handlelength=1.0, columnspacing=1.4)


def _evenly(size: int, most: int) -> Positions:
    """Return at most ``most`` of the positions 0 to ``size - 1``, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(np.intp))
