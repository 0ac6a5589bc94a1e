"""Whether beliefs about effects are right: predicted against true effects, and how often intervals hold the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from causalbald._typing import Array
from causalbald.datasets import Split
from causalbald.errors import InputError
from causalbald.figures._convergence import shared_legend
from causalbald.figures._style import Look, house_style, looks, new_figure
from causalbald.models import CateEstimator

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
MAX_METHODS = 8
_MAX_BARS = 120  # units per panel; intervals of all test units would be a solid block
_BLOCK_UNITS = 4096  # units whose beliefs are computed together


@dataclass(frozen=True, eq=False)
class PredictedEffects:
    """A method's belief about the effects of N units whose true effects are known.

    Parameters
    ----------
    name : str
        Name of the method.
    truth, effect : (N,)
        True and predicted effects.
    reach : (10, N)
        How far the interval of each unit reaches on either side of the predicted effect. There is a row for each of
        ``LEVELS``: 0.1 to 0.9, and 0.95.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.figures import PredictedEffects
    >>> PredictedEffects("mine", np.zeros(2), np.array([0.1, 2.0]), np.ones((10, 2))).coverage[-1]
    np.float64(0.5)
    """

    name: str
    truth: Array
    effect: Array
    reach: Array

    @classmethod
    def of(cls, name: str, model: CateEstimator, test: Split) -> PredictedEffects:
        """Return what a fitted model believes about the units of a test split.

        Parameters
        ----------
        name : str
            Name of the method.
        model : CateEstimator
            Fitted.
        test : Split
            At least one unit; the true effects are known.

        Returns
        -------
        PredictedEffects
        """
        parts = []
        for start in range(0, len(test), _BLOCK_UNITS):
            belief = model.posterior(test.x[start : start + _BLOCK_UNITS], joint=False)
            factors = np.array([belief.quantile(1 - level) for level in LEVELS])
            parts.append((belief.effect_mean, factors[:, None] * np.sqrt(belief.effect_variance)))
        effect, reach = zip(*parts, strict=True)
        return cls(name, test.effect, np.concatenate(effect), np.concatenate(reach, axis=1))

    @classmethod
    def pooled(cls, parts: Sequence[PredictedEffects]) -> PredictedEffects:
        """Return one method's beliefs in several trials as one belief about the units of all trials.

        Parameters
        ----------
        parts : sequence of PredictedEffects
            One for each trial of the method, at least one.

        Returns
        -------
        PredictedEffects
            With the name of the first part.
        """
        truth, effect = (np.concatenate([getattr(part, name) for part in parts]) for name in ("truth", "effect"))
        return cls(parts[0].name, truth, effect, np.concatenate([part.reach for part in parts], axis=1))

    @property
    def coverage(self) -> Array:
        """Share of units whose interval contains the true effect: (10,), a share for each of ``LEVELS``."""
        result: Array = (np.abs(self.truth - self.effect) <= self.reach).mean(axis=1)
        return result


def calibration(methods: Sequence[PredictedEffects]) -> Figure:
    """Draw predicted against true effects for each method, and how often intervals hold the truth for all methods.

    95 % intervals are drawn for at most 120 units, evenly spaced in the order of their true effects. An interval that
    misses the truth is black and has a cross. The last panel shows the share of all units whose interval holds the
    truth, against the level of the interval.

    Parameters
    ----------
    methods : sequence of PredictedEffects
        At most eight.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If there are no methods, or more than eight.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.figures import PredictedEffects, calibration
    >>> method = PredictedEffects("mine", np.arange(5.0), np.arange(5.0), np.ones((10, 5)))
    >>> len(calibration([method]).axes)
    2
    """
    if not 0 < len(methods) <= MAX_METHODS:
        raise InputError(f"{len(methods)} methods cannot be drawn: choose 1 to {MAX_METHODS}.")
    panels = len(methods) + 1
    columns = panels if panels <= 3 else ceil(sqrt(panels))
    lines = ceil(panels / columns)
    styles = looks(method.name for method in methods)
    with house_style():
        figure = new_figure(3.7 * columns, 3.7 * lines + 0.5)
        axes = figure.subplots(lines, columns, squeeze=False).ravel()
        low, high = _limits(methods)
        for panel, method in zip(axes, methods, strict=False):
            _scatter(panel, method, styles[method.name])
            panel.set(xlim=(low, high), ylim=(low - 0.3 * (high - low), high + 0.3 * (high - low)))
            panel.set(xlabel="true effect", ylabel="predicted effect")
        _coverage(axes[len(methods)], methods, styles)
        for unused in axes[panels:]:
            unused.remove()
        shared_legend(figure, axes[: len(methods) + 1])
    return figure


def _scatter(axes: Any, method: PredictedEffects, style: Look) -> None:
    """Draw predicted against true effects of one method, with 95 % intervals of at most ``_MAX_BARS`` units.

    Called by `calibration`, which describes the marks. The title has the share of all units whose interval holds.
    """
    order = np.argsort(method.truth)
    shown = order[np.linspace(0, len(order) - 1, min(len(order), _MAX_BARS)).astype(int)]
    truth, effect, reach = method.truth[shown], method.effect[shown], method.reach[-1, shown]
    missed = np.abs(truth - effect) > reach
    bars: Any = {"fmt": ".", "markersize": 4, "linewidth": 0.8, "color": style.colour, "alpha": 0.5}
    axes.errorbar(truth[~missed], effect[~missed], reach[~missed], **bars)
    crosses: Any = {"fmt": "x", "markersize": 5, "linewidth": 1.0, "color": "black"}
    axes.errorbar(truth[missed], effect[missed], reach[missed], label="95 % interval that misses", **crosses)
    axes.axline((0, 0), slope=1, color="black", linestyle=":", linewidth=1)
    share = f"95 % intervals hold {100 * method.coverage[-1]:.0f} %"
    axes.set_title(f"{method.name}\n{share} of {len(method.truth):,}", fontsize=10)


def _coverage(axes: Any, methods: Sequence[PredictedEffects], styles: dict[str, Look]) -> None:
    """Draw the share of intervals that hold the true effect against the level of the intervals, a line per method."""
    axes.plot((0, 1), (0, 1), color="black", linestyle=":", linewidth=1, label="as it should be")
    for method in methods:
        style = styles[method.name]
        shape: Any = {"color": style.colour, "marker": style.marker, "linestyle": style.line}
        axes.plot(LEVELS, method.coverage, label=method.name, **shape)
    axes.set(xlabel="level of the interval", ylabel="share of intervals that hold", xlim=(0, 1), ylim=(0, 1.02))
    axes.set_title("how often intervals\nhold the true effect", fontsize=10)


def _limits(methods: Sequence[PredictedEffects]) -> tuple[float, float]:
    """Return the smallest and the largest true effect of all methods, with a margin of 5 % of the range."""
    truth = np.concatenate([method.truth for method in methods])
    margin = 0.05 * (np.ptp(truth) or 1.0)
    return float(truth.min() - margin), float(truth.max() + margin)
