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
_MAX_UNITS = 2000  # effects of more units are not predicted along a latent coordinate: images take long
_CELLS = 40  # of equal width, along a latent coordinate


@dataclass(frozen=True)
class MeasuredSet:
    """The units that one method measured, and what the model learned from them.

    Parameters
    ----------
    name : str
        Name of the method.
    positions : (n,)
        Units of the pool that were measured. They are checked when they are drawn.
    model : CateEstimator
        Fitted on the outcomes of these units.

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

    The upper panel shows the density of the pool by arm, the middle one the density of the measured units by arm, and
    the lower one the true effect and the learned effect with a 95 % band.

    Parameters
    ----------
    pool : Split
        With one covariate, or with a ``latent`` coordinate. Along a latent coordinate, effects and ends of bands are
        means over the units in each of 40 cells. At most 2,000 units are used for these means.
    columns : sequence of MeasuredSet
        One to eight methods. Each has a column of panels.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If there are no columns or too many, the pool has neither one covariate nor a latent coordinate, or a position
        is repeated or not in the pool.

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
    """A pool along one coordinate: where its units are, and where effects are drawn.

    The coordinate is the only covariate, or the latent coordinate of images. Made by :meth:`of`.
    """

    pool: Split
    coordinate: Array  # of each unit, (N,)
    label: str  # of the coordinate's axis
    bins: Array  # edges of the bars of densities
    grid: Array  # coordinates (G,) at which effects are drawn
    truth: Array  # true effects at the grid, (G,)
    inputs: AnyArray  # covariates (M, ...) of the units for which the model predicts effects
    cell: Positions  # position on the grid of each of these units, (M,)

    @classmethod
    def of(cls, pool: Split) -> Scene:
        """Return the scene of a pool with one covariate or a latent coordinate; the covariate comes first.

        Raises InputError for any other pool.
        """
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
        """Return the scene along the only covariate, with 200 points between its quantiles 0.001 and 0.999.

        The model predicts effects at these points; true effects are interpolated between units.
        """
        x = pool.x[:, 0]
        grid = np.linspace(np.quantile(x, 0.001), np.quantile(x, 0.999), 200)
        order = np.argsort(x)
        truth = np.interp(grid, x[order], pool.effect[order])
        bins = np.linspace(grid[0], grid[-1], 26)
        return cls(pool, x, "covariate x", bins, grid, truth, grid[:, None], np.arange(len(grid)))

    @classmethod
    def _of_latent(cls, pool: Split, latent: Array) -> Scene:
        """Return the scene along a latent coordinate, cut into ``_CELLS`` cells; cells without units are left out.

        Effects are means over the units in each cell. If the pool has more than ``_MAX_UNITS`` units, only that many
        are used, evenly spaced in the order of the coordinate.
        """
        order = np.argsort(latent)
        rows = order[np.linspace(0, len(pool) - 1, min(len(pool), _MAX_UNITS)).astype(int)]
        edges = np.linspace(latent.min(), latent.max(), _CELLS + 1)
        cell = np.clip(np.digitize(latent[rows], edges) - 1, 0, _CELLS - 1)
        filled, cell = np.unique(cell, return_inverse=True)
        grid, truth = (edges[:-1] + np.diff(edges) / 2)[filled], _means(pool.effect[rows], cell)
        return cls(pool, latent, r"hidden coordinate $\phi$", edges[::2], grid, truth, pool.x[rows], cell)

    def band(self, model: CateEstimator) -> tuple[Array, Array]:
        """Return the lower and the upper ends (G,) of the 95 % band of the effect that a fitted model learned.

        At each point of the grid, the ends are means over the units of the point's cell.
        """
        low, high = model.effect_interval(self.inputs)
        return _means(low, self.cell), _means(high, self.cell)


def draw_columns(
    figure: Figure, scene: Scene, columns: Sequence[MeasuredSet], *, most_units: float | None = None
) -> None:
    """Draw three panels per method into ``figure``, one below the other, and a legend for all panels.

    The panels show the arms in the pool, the arms among the measured units, and the effects. With ``most_units``, the
    middle panels' y axis counts measured units, up to ``most_units``; by default it shows shares of the measured
    units. Raises InputError if a position is repeated or not in the pool. Called by :func:`bias`, and by ``evolution``
    for each frame.
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
    """Return the width in inches of a figure with so many columns of panels: the more columns, the narrower each is."""
    return 0.8 + columns * (4.2 if columns <= 2 else 3.0 if columns <= 4 else 2.3)


def draw_densities(axes: Any, x: Array, t: ArrayLike, bins: Array, *, weight: float | None = None) -> None:
    """Draw a histogram of the units of each arm, without a legend.

    ``x`` (N,) are the units' coordinates, ``t`` (N,) their arms and ``bins`` the edges of the bars. Each unit adds
    ``weight`` to its bar. By default a unit adds 1 / N: bars are then shares of the units of both arms together.
    """
    for arm, (colour, name) in enumerate(zip(ARM_COLOURS, ARM_NAMES, strict=True)):
        values = x[np.asarray(t) == arm]
        weights = np.full(len(values), 1 / len(x) if weight is None else weight)
        style = {"histtype": "stepfilled", "alpha": 0.35} if arm == 0 else {"histtype": "step", "linewidth": 1.6}
        axes.hist(values, bins=bins, weights=weights, color=colour, label=name, **style)


def _effect(axes: Any, scene: Scene, column: MeasuredSet) -> None:
    """Draw the learned effect with its 95 % band, and the true effect. The learned effect is the middle of the band."""
    low, high = scene.band(column.model)
    colour = look(column.name).colour
    axes.fill_between(scene.grid, low, high, color=colour, alpha=0.2, linewidth=0, label="95 % band")
    axes.plot(scene.grid, (low + high) / 2, color=colour, label="learned effect")
    axes.plot(scene.grid, scene.truth, color="black", linestyle=":", label="true effect")


def _legend(figure: Figure, top: Any, columns: Sequence[MeasuredSet]) -> None:
    """Draw one legend for all panels, below them. With several methods, grey stands for the colours of all methods.

    ``top`` is an upper panel: the names of the arms are taken from it.
    """
    colour = look(columns[0].name).colour if len(columns) == 1 else "dimgrey"
    arms, names = top.get_legend_handles_labels()
    truth = Line2D([], [], color="black", linestyle=":")
    learned = (Patch(color=colour, alpha=0.2, linewidth=0), Line2D([], [], color=colour))
    handles, labels = [*arms, truth, learned], [*names, "true effect", "learned effect, 95 % band"]
    figure.legend(handles, labels, loc="outside lower center", ncols=2 if figure.get_figwidth() < 6 else 4)


def _means(values: Array, cell: Positions) -> Array:
    """Return the mean of the values in each cell, (G,). ``cell`` has the cell of each value; no cell may be empty."""
    result: Array = np.bincount(cell, weights=values) / np.bincount(cell)
    return result
