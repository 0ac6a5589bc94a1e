"""How choosing shapes the sample: the pool, the measured units and the learned effect along one coordinate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from causalbald._typing import AnyArray, Array, Positions
from causalbald._validation import check_positions
from causalbald.datasets import Split
from causalbald.errors import InputError
from causalbald.figures import ARM_COLOURS, ARM_NAMES, house_style, look, new_figure
from causalbald.models import CateEstimator

MAX_COLUMNS = 8
_MAX_UNITS = 2000  # whose effects are predicted from images, which takes long
_CELLS = 40


@dataclass(frozen=True)
class MeasuredSet:
    """What one method measured.

    Parameters
    ----------
    name : str
        Name of the method.
    positions : (n,)
        Units of the pool that were measured.
    model : CateEstimator
        Fitted on their outcomes.

    Examples
    --------
    >>> from causalbald.models import GaussianProcess
    >>> from causalbald.paper import MeasuredSet
    >>> MeasuredSet("random", [3, 8], GaussianProcess()).name
    'random'
    """

    name: str
    positions: ArrayLike
    model: CateEstimator


def bias(pool: Split, columns: Sequence[MeasuredSet]) -> Figure:
    """Draw the paper's three panels for each method.

    They show the density of the pool by arm, the density of the measured units by arm, and the true and the learned
    effect with a 95 % band.

    Parameters
    ----------
    pool : Split
        With one covariate, or with a ``latent`` coordinate. Along a latent coordinate, effects and ends of bands are
        means over the units in each of 40 cells, at most 2,000 units in all.
    columns : sequence of MeasuredSet
        At most eight; each has a column of panels.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If there are no columns or too many, or the pool has neither one covariate nor a latent coordinate.

    Examples
    --------
    >>> from causalbald import datasets
    >>> from causalbald.experiments import refit
    >>> from causalbald.models import GaussianProcess
    >>> from causalbald.paper import MeasuredSet, bias
    >>> benchmark = datasets.load("synthetic", 0, pool=60, test=20)
    >>> model = refit(benchmark, GaussianProcess(max_iter=3), range(20))
    >>> len(bias(benchmark.pool, [MeasuredSet("random", range(20), model)]).axes)
    3
    """
    scene = Scene.of(pool)
    _check_columns(columns)
    with house_style():
        figure = new_figure(figure_width(len(columns)), 6.6)
        draw_columns(figure, scene, columns)
    return figure


@dataclass(frozen=True, eq=False)
class Scene:
    """A pool along one coordinate: where its units are, and where effects are drawn."""

    pool: Split
    coordinate: Array  # of each unit, (N,)
    label: str  # of the coordinate's axis
    bins: Array  # edges of the bars of densities
    grid: Array  # coordinates (G,) at which effects are drawn
    truth: Array  # true effects at the grid, (G,)
    inputs: AnyArray  # units (M, ...) for which the model predicts effects
    cell: Positions  # position on the grid of each of these units, (M,)

    @classmethod
    def of(cls, pool: Split) -> Scene:
        """Return the scene of a pool with one covariate or a latent coordinate; raise InputError for any other pool."""
        if pool.x.ndim == 2 and pool.x.shape[1] == 1:
            return cls._of_covariate(pool)
        if pool.latent is not None:
            return cls._of_latent(pool, pool.latent)
        raise InputError(
            f"this figure needs a pool with exactly one covariate or with a `latent` coordinate, but units have shape "
            f"{pool.x.shape[1:]}: use synthetic or cmnist, or draw `overlap` or `calibration`."
        )

    @classmethod
    def _of_covariate(cls, pool: Split) -> Scene:
        """Return the scene along the only covariate, at 200 points of which the model predicts the effects."""
        x = pool.x[:, 0]
        grid = np.linspace(np.quantile(x, 0.001), np.quantile(x, 0.999), 200)
        order = np.argsort(x)
        truth = np.interp(grid, x[order], pool.effect[order])
        bins = np.linspace(grid[0], grid[-1], 26)
        return cls(pool, x, "covariate x", bins, grid, truth, grid[:, None], np.arange(len(grid)))

    @classmethod
    def _of_latent(cls, pool: Split, latent: Array) -> Scene:
        """Return the scene along a latent coordinate: effects are means over the units in each filled cell."""
        order = np.argsort(latent)
        rows = order[np.linspace(0, len(pool) - 1, min(len(pool), _MAX_UNITS)).astype(int)]
        edges = np.linspace(latent.min(), latent.max(), _CELLS + 1)
        cell = np.clip(np.digitize(latent[rows], edges) - 1, 0, _CELLS - 1)
        filled, cell = np.unique(cell, return_inverse=True)
        grid, truth = (edges[:-1] + np.diff(edges) / 2)[filled], _means(pool.effect[rows], cell)
        return cls(pool, latent, r"hidden coordinate $\phi$", edges[::2], grid, truth, pool.x[rows], cell)

    def band(self, model: CateEstimator) -> tuple[Array, Array]:
        """Return the lower and upper ends (G,) of the learned effect's 95 % band on the grid."""
        low, high = model.effect_interval(self.inputs)
        return _means(low, self.cell), _means(high, self.cell)


def draw_columns(
    figure: Figure, scene: Scene, columns: Sequence[MeasuredSet], *, most_units: float | None = None
) -> None:
    """Draw three panels per method, one below the other: arms in the pool, arms among the measured units, effects.

    ``most_units`` is the upper end of the middle panels' y axis, which then counts measured units. If it is None, that
    axis shows shares of the measured units. Called by :func:`bias`, and by ``evolution`` for each frame.
    """
    panels = figure.subplots(3, len(columns), sharex=True, sharey="row", squeeze=False, height_ratios=(1, 1, 1.6))
    for (top, middle, bottom), column in zip(panels.T, columns, strict=True):
        positions = check_positions(np.asarray(column.positions), len(scene.pool), "positions")
        draw_densities(top, scene.coordinate, scene.pool.t, scene.bins)
        weight = None if most_units is None else 1.0
        draw_densities(middle, scene.coordinate[positions], scene.pool.t[positions], scene.bins, weight=weight)
        _effect(bottom, scene, column)
        top.set_title(f"{column.name}\n{len(positions)} measured", fontsize=10)
        bottom.set_xlabel(scene.label)
    rows = ("share of pool", "share of measured" if most_units is None else "measured", "effect")
    for axes, name in zip(panels[:, 0], rows, strict=True):
        axes.set_ylabel(name)
    if most_units is not None:
        panels[1, 0].set_ylim(0, most_units)
        panels[1, 0].yaxis.set_major_locator(MaxNLocator(4, integer=True))
    low, high = scene.truth.min(), scene.truth.max()
    panels[2, 0].set_ylim(low - 0.6 * (high - low), high + 0.6 * (high - low))
    figure.align_ylabels()
    _legend(figure, panels[0, 0], columns)


def _check_columns(columns: Sequence[MeasuredSet]) -> None:
    """Raise InputError unless there are one to ``MAX_COLUMNS`` methods."""
    if not 0 < len(columns) <= MAX_COLUMNS:
        raise InputError(f"{len(columns)} columns cannot be drawn: choose 1 to {MAX_COLUMNS} methods.")


def figure_width(columns: int) -> float:
    """Return a figure's width in inches: the more columns, the narrower each is."""
    return 0.8 + columns * (4.2 if columns <= 2 else 3.0 if columns <= 4 else 2.3)


def draw_densities(axes: Any, x: Array, t: ArrayLike, bins: Array, *, weight: float | None = None) -> None:
    """Draw a histogram of each arm. Bars are shares of all units, or units times ``weight``."""
    for arm, (colour, name) in enumerate(zip(ARM_COLOURS, ARM_NAMES, strict=True)):
        values = x[np.asarray(t) == arm]
        weights = np.full(len(values), 1 / len(x) if weight is None else weight)
        style = {"histtype": "stepfilled", "alpha": 0.35} if arm == 0 else {"histtype": "step", "linewidth": 1.6}
        axes.hist(values, bins=bins, weights=weights, color=colour, label=name, **style)


def _effect(axes: Any, scene: Scene, column: MeasuredSet) -> None:
    """Draw the learned effect with its 95 % band, and the true effect."""
    low, high = scene.band(column.model)
    colour = look(column.name).colour
    axes.fill_between(scene.grid, low, high, color=colour, alpha=0.2, linewidth=0, label="95 % band")
    axes.plot(scene.grid, (low + high) / 2, color=colour, label="learned effect")
    axes.plot(scene.grid, scene.truth, color="black", linestyle=":", label="true effect")


def _legend(figure: Figure, top: Any, columns: Sequence[MeasuredSet]) -> None:
    """Name everything once, below the panels. With several methods, grey stands for their colours."""
    colour = look(columns[0].name).colour if len(columns) == 1 else "dimgrey"
    arms, names = top.get_legend_handles_labels()
    truth = Line2D([], [], color="black", linestyle=":")
    learned = (Patch(color=colour, alpha=0.2, linewidth=0), Line2D([], [], color=colour))
    handles, labels = [*arms, truth, learned], [*names, "true effect", "learned effect, 95 % band"]
    figure.legend(handles, labels, loc="outside lower center", ncols=2 if figure.get_figwidth() < 6 else 4)


def _means(values: Array, cell: Positions) -> Array:
    """Return the mean of the values in each cell."""
    result: Array = np.bincount(cell, weights=values) / np.bincount(cell)
    return result
