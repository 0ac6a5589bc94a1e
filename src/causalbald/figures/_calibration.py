"""Whether beliefs about effects hold: predicted against true effects, and how often intervals hold."""

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
# Intervals of all test units would be a solid block.
_MAX_BARS = 120
_CHUNK = 4096


@dataclass(frozen=True, eq=False)
class PredictedEffects:
    """A method's belief about the effects of N units whose truth is known.

    ``truth`` and ``effect`` are (N,); ``reach`` (10, N) is how far the interval of each level of ``LEVELS`` reaches to
    each side of the effect.
    """

    name: str
    truth: Array
    effect: Array
    reach: Array

    @classmethod
    def of(cls, name: str, model: CateEstimator, test: Split) -> PredictedEffects:
        """Return what a fitted model believes about the units of a test split."""
        parts = []
        for start in range(0, len(test), _CHUNK):
            belief = model.posterior(test.x[start : start + _CHUNK], joint=False)
            factors = np.array([belief.quantile(1 - level) for level in LEVELS])
            parts.append((belief.effect_mean, factors[:, None] * np.sqrt(belief.effect_variance)))
        effect, reach = zip(*parts, strict=True)
        return cls(name, test.effect, np.concatenate(effect), np.concatenate(reach, axis=1))

    @classmethod
    def pooled(cls, parts: Sequence[PredictedEffects]) -> PredictedEffects:
        """Return one method's beliefs in several trials as one: the units of all of them."""
        truth, effect = (np.concatenate([getattr(p, field) for p in parts]) for field in ("truth", "effect"))
        return cls(parts[0].name, truth, effect, np.concatenate([p.reach for p in parts], axis=1))

    @property
    def coverage(self) -> Array:
        """Share of units whose true effect lies in its interval, (10,), for each level."""
        result: Array = (np.abs(self.truth - self.effect) <= self.reach).mean(axis=1)
        return result


def calibration(methods: Sequence[PredictedEffects]) -> Figure:
    """Draw, for each method, predicted against true effects with 95 % intervals, and for all, how often intervals hold.

    Intervals are drawn for at most 120 units, evenly spaced in the order of their true effects, and in black with a
    cross where they miss the truth. The last panel has the share of all units whose interval holds the truth, against
    its level.

    Parameters
    ----------
    methods : sequence of Predicted
        At most eight.
    """
    if not 0 < len(methods) <= MAX_METHODS:
        raise InputError(f"{len(methods)} methods cannot be drawn: choose 1 to {MAX_METHODS}.")
    panels = len(methods) + 1
    columns = panels if panels <= 3 else ceil(sqrt(panels))
    lines = ceil(panels / columns)
    styles = looks(m.name for m in methods)
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
    order = np.argsort(method.truth)
    shown = order[np.linspace(0, len(order) - 1, min(len(order), _MAX_BARS)).astype(int)]
    truth, effect, reach = method.truth[shown], method.effect[shown], method.reach[-1, shown]
    missed = np.abs(truth - effect) > reach
    held: Any = {"fmt": ".", "markersize": 4, "linewidth": 0.8, "color": style.colour, "alpha": 0.5}
    axes.errorbar(truth[~missed], effect[~missed], reach[~missed], **held)
    bars: Any = {"fmt": "x", "markersize": 5, "linewidth": 1.0, "color": "black", "label": "95 % interval that misses"}
    axes.errorbar(truth[missed], effect[missed], reach[missed], **bars)
    axes.axline((0, 0), slope=1, color="black", linestyle=":", linewidth=1)
    hold = f"95 % intervals hold {100 * method.coverage[-1]:.0f} %"
    axes.set_title(f"{method.name}\n{hold} of {len(method.truth):,}", fontsize=10)


def _coverage(axes: Any, methods: Sequence[PredictedEffects], styles: dict[str, Look]) -> None:
    axes.plot((0, 1), (0, 1), color="black", linestyle=":", linewidth=1, label="as it should be")
    for method in methods:
        style = styles[method.name]
        shape: Any = {"color": style.colour, "marker": style.marker, "linestyle": style.line}
        axes.plot(LEVELS, method.coverage, label=method.name, **shape)
    axes.set(xlabel="level of the interval", ylabel="share of intervals that hold", xlim=(0, 1), ylim=(0, 1.02))
    axes.set_title("how often intervals\nhold the true effect", fontsize=10)


def _limits(methods: Sequence[PredictedEffects]) -> tuple[float, float]:
    """Return the range of true effects, with a margin."""
    truth = np.concatenate([m.truth for m in methods])
    margin = 0.05 * (np.ptp(truth) or 1.0)
    return float(truth.min() - margin), float(truth.max() + margin)
