"""How choosing shapes the sample: pool, what was acquired, and what was learned (one covariate)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from causalbald._typing import Array
from causalbald._validation import check_positions
from causalbald.datasets import Split
from causalbald.errors import InputError
from causalbald.figures.style import ARM_COLOURS, ARM_NAMES, house_style, look, new_figure
from causalbald.models import CateEstimator


@dataclass(frozen=True)
class Acquired:
    """What one method measured: its name, the pool positions, and the model fitted on their outcomes."""

    name: str
    positions: ArrayLike
    model: CateEstimator


def bias(pool: Split, columns: Sequence[Acquired]) -> Figure:
    """Draw the paper's three panels for each method: density of the pool by arm, density of what was
    acquired by arm, and the true and the learned effect with a 95 % band.

    Parameters
    ----------
    pool : Split
        With one covariate.
    columns : sequence of Acquired
        One column of panels each.
    """
    if pool.x.shape[1] != 1 or not columns:
        raise InputError("this figure needs a pool with exactly one covariate, and at least one method.")
    x = pool.x[:, 0]
    grid = np.linspace(np.quantile(x, 0.001), np.quantile(x, 0.999), 200)
    bins = np.linspace(grid[0], grid[-1], 26)
    order = np.argsort(x)
    truth = np.interp(grid, x[order], pool.effect[order])
    with house_style():
        figure = new_figure(4.6 * len(columns), 6.2)
        panels = figure.subplots(3, len(columns), sharex=True, sharey="row", squeeze=False, height_ratios=(1, 1, 1.6))
        for k, column in enumerate(columns):
            positions = check_positions(np.asarray(column.positions), len(pool), "positions")
            top, middle, bottom = panels[:, k]
            _densities(top, x, pool.t, bins)
            _densities(middle, x[positions], pool.t[positions], bins)
            _effect(bottom, grid, truth, column)
            top.set_title(column.name)
            bottom.set_xlabel("covariate x")
        for axes, name in zip(panels[:, 0], ("pool", f"{len(positions)} measured", "effect"), strict=True):
            axes.set_ylabel(name)
        panels[0, 0].legend(loc="upper left")
        panels[2, 0].legend(loc="upper left")
        low, high = truth.min(), truth.max()
        panels[2, 0].set_ylim(low - 0.6 * (high - low), high + 0.6 * (high - low))
    return figure


def _densities(axes: Any, x: Array, t: ArrayLike, bins: Array) -> None:
    for arm, (colour, name) in enumerate(zip(ARM_COLOURS, ARM_NAMES, strict=True)):
        values = x[np.asarray(t) == arm]
        weights = np.full(len(values), 1 / len(x))
        style = {"histtype": "stepfilled", "alpha": 0.35} if arm == 0 else {"histtype": "step", "linewidth": 1.6}
        axes.hist(values, bins=bins, weights=weights, color=colour, label=name, **style)


def _effect(axes: Any, grid: Array, truth: Array, column: Acquired) -> None:
    low, high = column.model.effect_interval(grid[:, None])
    colour = look(column.name).colour
    axes.fill_between(grid, low, high, color=colour, alpha=0.2, linewidth=0, label="95 % band")
    axes.plot(grid, (low + high) / 2, color=colour, label="learned effect")
    axes.plot(grid, truth, color="black", linestyle=":", label="true effect")
