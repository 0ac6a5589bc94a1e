"""Where methods spend their budget: inside overlap or outside, and on which arm."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from causalbald.figures._convergence import count_seeds, draw_curves, panels_of, shared_legend
from causalbald.figures._style import house_style, look, looks, new_figure

REFERENCE = "random"
_ROWS = {
    "overlap_share": "share of measured units\nwith P(treated | x) in [0.1, 0.9]",
    "treated_share": "share of measured units\nthat are treated",
}


def overlap(table: pd.DataFrame) -> Figure:
    """Draw the share of measured units inside overlap, and the share of treated units, against labels.

    Inside overlap means a P(treated given x) from 0.1 to 0.9. Lines are means over the seeds that all functions in a
    panel have, with shaded standard errors. If ``random`` is among the functions, a thin dashed line marks the share at
    which it ends.

    Parameters
    ----------
    table : DataFrame
        Columns ``dataset, acquisition, seed, labels, overlap_share, treated_share``, as from ``run_trials`` or
        ``Store.table``.

    Returns
    -------
    Figure

    Raises
    ------
    InputError
        As for :func:`convergence`.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.figures import overlap
    >>> table = pd.DataFrame({"acquisition": "random", "seed": [0, 1], "labels": 10, "dataset": "synthetic"})
    >>> len(overlap(table.assign(overlap_share=0.7, treated_share=0.4)).axes)
    2
    """
    groups = panels_of(table, *_ROWS)
    styles = looks(table["acquisition"])
    with house_style():
        figure = new_figure(max(5.6, 4.6 * len(groups)), 7.2)
        panels = figure.subplots(len(_ROWS), len(groups), squeeze=False, sharex="col", sharey="row")
        for column, (title, trials) in enumerate(groups.items()):
            for axes, value in zip(panels[:, column], _ROWS, strict=True):
                seeds = draw_curves(axes, trials, value, styles)
                for line in axes.get_lines():
                    if line.get_label() == REFERENCE:
                        axes.axhline(line.get_ydata()[-1], color=look(REFERENCE).colour, linestyle="--", linewidth=0.9)
            panels[0, column].set_title(f"{title} ({count_seeds(seeds)})")
            panels[-1, column].set_xlabel("outcomes measured")
        for axes, name in zip(panels[:, 0], _ROWS.values(), strict=True):
            axes.set_ylabel(name)
        figure.align_ylabels()
        shared_legend(figure, panels.ravel())
    return figure
