"""What a benchmark looks like: who was treated, how they responded, and where the arms overlap."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from causalbald._typing import AnyArray, Array
from causalbald._validation import check_int
from causalbald.datasets import Benchmark, Split
from causalbald.diagnostics import EQUAL_ARMS, band_text, is_outside, support_band
from causalbald.errors import InputError
from causalbald.figures import ARM_COLOURS, ARM_NAMES, house_style, new_figure, shared_legend
from causalbald.models import PropensityModel
from causalbald.paper._bias import draw_densities

MAX_DOTS = 800  # units whose outcomes are drawn
MAX_COVARIATES = 30  # whose differences between the arms are drawn
_MARKERS = ("x", "o")  # of control and treated units


def draw_benchmark(benchmark: Benchmark) -> Figure:
    """Draw the pool of a benchmark with the figure for its covariates: for images, for one covariate or for many.

    Parameters
    ----------
    benchmark : Benchmark
        The data.

    Returns
    -------
    Figure
        The name of the benchmark is added to the first title.

    Raises
    ------
    InputError
        If the pool has images without a ``latent`` coordinate.

    Examples
    --------
    >>> from causalbald import datasets
    >>> from causalbald.paper import draw_benchmark
    >>> draw_benchmark(datasets.load("synthetic", 0, pool=60, test=20)).axes[0].get_title()
    'synthetic: 60 units, 26 treated'
    """
    x = benchmark.pool.x
    kind = "cmnist" if x.ndim == 4 else "observational" if x.shape[1] == 1 else "covariates"
    figure = KINDS[kind](benchmark)
    first = figure.axes[0]
    first.set_title(f"{benchmark.name}: {first.get_title()}")
    return figure


def observational(pool: Split) -> Figure:
    """Draw three panels along one covariate: density by arm, outcomes with both true responses, and the true effect.

    If the true propensity is known, the background is grey where the propensity is outside [0.1, 0.9]. The outcomes of
    at most 800 units are drawn.

    Parameters
    ----------
    pool : Split
        With one covariate, x (N, 1).

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If the pool has not exactly one covariate, or has images.

    Examples
    --------
    >>> from causalbald import datasets
    >>> from causalbald.paper import observational
    >>> len(observational(datasets.load("synthetic", 0, pool=60, test=20).pool).axes)
    3
    """
    if pool.x.ndim != 2 or pool.x.shape[1] != 1:
        raise InputError(f"this figure needs exactly one covariate, x (N, 1), but x has shape {pool.x.shape}.")
    x = pool.x[:, 0]
    edges = np.linspace(np.quantile(x, 0.001), np.quantile(x, 0.999), 41)
    with house_style():
        figure = new_figure(7.0, 7.0)
        top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(1, 2, 1.2))
        grid = _scene(pool, x, edges, top, middle)
        _shade(pool, x, grid, bottom)
        bottom.plot(grid, _along(grid, x, pool.effect), color="black", linestyle=":", label="true effect")
        bottom.axhline(0, color="grey", linewidth=0.8)
        bottom.set(xlabel="covariate x", ylabel="effect")
        shared_legend(figure, (middle, bottom), columns=3)
        figure.align_ylabels()
    return figure


def digits(split: Split, count: int = 20) -> Figure:
    """Draw three panels along the hidden coordinate of images: density by arm, outcomes with true responses, examples.

    If the true propensity is known, the background is grey where the propensity is outside [0.1, 0.9]. The outcomes of
    at most 800 units are drawn.

    Parameters
    ----------
    split : Split
        Images x (N, C, H, W) with their ``latent`` coordinate (N,).
    count : int
        Into how many equal steps the coordinate is cut, at least 2. For each arm and step, the image of the unit
        nearest to the middle of the step is drawn, or nothing if the arm has no unit within the step.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        If the split has no images or no latent coordinate, or ``count`` is below 2.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.datasets import Split
    >>> from causalbald.paper import digits
    >>> x, t, y = np.zeros((8, 1, 4, 4), dtype=np.float32), np.arange(8) % 2, np.zeros(8)
    >>> len(digits(Split(x, t, y, y, y, latent=np.linspace(0, 1, 8)), count=4).axes)
    3
    """
    count = check_int(count, "count", low=2)
    if split.x.ndim != 4 or split.latent is None:
        raise InputError("this figure needs images x (N, C, H, W) whose split has a `latent` coordinate, as in cmnist.")
    with house_style():
        strip = 2 * 8.2 / count
        figure = new_figure(9.0, 4.9 + strip)
        top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(1.1, 2.7, strip))
        edges = np.linspace(split.latent.min(), split.latent.max(), count + 1)
        _scene(split, split.latent, edges, top, middle)
        bottom.imshow(_mosaic(split, edges), cmap="gray_r", extent=(edges[0], edges[-1], 0, 2), aspect="auto")
        bottom.set(xlabel=r"hidden coordinate $\phi$", yticks=(0.5, 1.5), yticklabels=ARM_NAMES)
        bottom.grid(visible=False)
        for label, colour in zip(bottom.get_yticklabels(), ARM_COLOURS, strict=True):
            label.set_color(colour)
        shared_legend(figure, (middle,), columns=3)
        figure.align_ylabels((top, middle))
    return figure


def covariates(benchmark: Benchmark) -> Figure:
    """Draw how the arms of a benchmark's pool differ: in estimated propensity, and in each covariate.

    A covariate's standardised mean difference is the difference of the arms' means, divided by the root of the mean of
    the arms' variances. The 30 largest differences are drawn. Dashed lines are at ±0.1: arms with a larger difference
    are usually called unbalanced. Raises InputError if the pool has images.
    """
    pool = benchmark.pool
    if pool.x.ndim != 2:
        raise InputError(f"this figure needs covariates x (N, D), but x has shape {pool.x.shape}: use `digits`.")
    propensity = PropensityModel().fit(pool.x, pool.t).cross_fitted_
    difference = _standardised_differences(pool)
    names = benchmark.covariate_names or tuple(f"x{k}" for k in range(pool.x.shape[1]))
    shown = np.argsort(np.abs(difference))[-MAX_COVARIATES:]
    with house_style():
        figure = new_figure(9.6, max(3.6, 1.2 + 0.21 * len(shown)))
        left, right = figure.subplots(1, 2)
        draw_densities(left, propensity, pool.t, np.linspace(0, 1, 26))
        left.set(xlabel="estimated P(treated | x)", ylabel="share of pool", xlim=(0, 1), title=_counts(pool))
        left.legend()
        right.scatter(difference[shown], np.arange(len(shown)), color="black", s=22, zorder=3)
        right.axvline(0, color="grey", linewidth=0.8)
        for limit in (-0.1, 0.1):
            right.axvline(limit, color="grey", linestyle="--", linewidth=0.8)
        right.set(yticks=np.arange(len(shown)), yticklabels=[names[k] for k in shown], ylim=(-0.7, len(shown) - 0.3))
        omitted = "" if len(shown) == len(names) else f", largest {len(shown)} of {len(names)}"
        right.set(xlabel="standardised mean difference", title=f"treated minus control{omitted}")
    return figure


# Functions that draw a benchmark's pool, by the name of the figure.
KINDS: dict[str, Callable[[Benchmark], Figure]] = {
    "observational": lambda benchmark: observational(benchmark.pool),
    "cmnist": lambda benchmark: digits(benchmark.pool),
    "covariates": covariates,
}


def _scene(split: Split, coordinate: Array, edges: Array, top: Any, middle: Any) -> Array:
    """Draw densities into ``top`` and outcomes with the true responses into ``middle``, along a coordinate (N,).

    ``edges`` are those of the density's bars. At most ``MAX_DOTS`` outcomes are drawn, evenly spaced by position.
    Returns the coordinates (400,) at which the curves are drawn.
    """
    grid = np.linspace(edges[0], edges[-1], 400)
    for axes in (top, middle):
        _shade(split, coordinate, grid, axes)
    draw_densities(top, coordinate, split.t, edges)
    top.set(ylabel="share of units", title=_counts(split), xlim=(edges[0], edges[-1]))
    shown = np.linspace(0, len(split) - 1, min(len(split), MAX_DOTS)).astype(int)
    for arm, (mu, colour, name) in enumerate(zip((split.mu0, split.mu1), ARM_COLOURS, ARM_NAMES, strict=True)):
        rows = shown[split.t[shown] == arm]
        middle.scatter(coordinate[rows], split.y[rows], s=14, marker=_MARKERS[arm], color=colour, alpha=0.4, label=name)
        middle.plot(grid, _along(grid, coordinate, mu), color=colour, linewidth=2.2, label=f"true mean, {name}")
    middle.set_ylabel("outcome y")
    return grid


def _shade(split: Split, coordinate: Array, grid: Array, axes: Any) -> None:
    """Draw a grey background where the true propensity is outside [0.1, 0.9]; nothing if the propensity is unknown."""
    if split.propensity is None:
        return
    pi = _along(grid, coordinate, split.propensity)
    outside = is_outside(pi, EQUAL_ARMS)
    label = f"P(treated) outside {band_text(support_band(EQUAL_ARMS))}"
    where: dict[str, Any] = {"where": outside, "transform": axes.get_xaxis_transform(), "label": label}
    axes.fill_between(grid, 0, 1, color="grey", alpha=0.15, linewidth=0, **where)


def _along(grid: Array, coordinate: Array, values: Array) -> Array:
    """Return the units' ``values`` (N,), interpolated along their ``coordinate`` (N,) at the points of ``grid``."""
    order = np.argsort(coordinate)
    return np.interp(grid, coordinate[order], values[order])


def _mosaic(split: Split, edges: Array) -> AnyArray:
    """Return one picture (2 H, count W) of images: treated units above, controls below, a column per step.

    ``edges`` (count + 1,) are the ends of the steps along the latent coordinate. Each image is that of the arm's unit
    nearest to the middle of the step, its channels averaged. Without such a unit within the step, the place is empty.
    """
    assert split.latent is not None
    height, width = split.x.shape[2:]
    picture = np.full((2, len(edges) - 1, height, width), float(split.x.min()))
    for row, arm in enumerate((1, 0)):
        rows = np.flatnonzero(split.t == arm)
        for column, (low, high) in enumerate(pairwise(edges)):
            distance = np.abs(split.latent[rows] - (low + high) / 2)
            if len(rows) and distance.min() <= (high - low) / 2:
                picture[row, column] = split.x[rows[distance.argmin()]].mean(axis=0)
    return picture.transpose(0, 2, 1, 3).reshape(2 * height, -1)


def _standardised_differences(split: Split) -> Array:
    """Return the standardised mean difference (D,) of each covariate, treated minus control.

    A covariate that is constant within both arms is not scaled.
    """
    control, treated = split.x[split.t == 0], split.x[split.t == 1]
    scale = np.sqrt((control.var(axis=0) + treated.var(axis=0)) / 2)
    result: Array = (treated.mean(axis=0) - control.mean(axis=0)) / np.where(scale > 0, scale, 1)
    return result


def _counts(split: Split) -> str:
    """Return a title that says how many units there are, and how many of them are treated."""
    return f"{len(split):,} units, {int(split.t.sum()):,} treated"
