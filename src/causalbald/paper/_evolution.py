"""How the sample grows and the effect is learned, step by step, as an animation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.animation import PillowWriter
from numpy.typing import ArrayLike

from causalbald._typing import Positions
from causalbald._validation import check_int, check_number, check_positions
from causalbald.datasets import Split
from causalbald.errors import InputError
from causalbald.figures import house_style, new_figure
from causalbald.models import CateEstimator
from causalbald.paper._bias import MeasuredSet, Scene, draw_columns, figure_width

MAX_STUDIES = 2
_LAST_FRAMES = 4  # for how many frames the last picture is shown


@dataclass(frozen=True)
class StudyHistory:
    """What one method measured step by step.

    Parameters
    ----------
    name : str
        Name of the method.
    acquired : sequence of positions
        The units that were newly measured before each fit, a list per step.
    fit : callable
        Called with the positions of all units measured so far; returns a model fitted on their outcomes.

    Examples
    --------
    >>> from causalbald.models import GaussianProcess
    >>> from causalbald.paper import StudyHistory
    >>> len(StudyHistory("random", [[3, 8], [5]], lambda positions: GaussianProcess()).acquired)
    2
    """

    name: str
    acquired: Sequence[ArrayLike]
    fit: Callable[[Positions], CateEstimator]


def evolution(
    path: str | Path,
    pool: Split,
    studies: Sequence[StudyHistory],
    *,
    every: int = 1,
    fps: float = 2.0,
    title: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write a GIF of the panels of :func:`causalbald.paper.bias`, a frame per step.

    The middle panels count measured units, and all axes stay the same, so that the viewer sees the numbers grow. The
    last frame is shown four times as long. If a fit fails, nothing is written.

    Parameters
    ----------
    path : path
        File to write, ending with ``.gif``. A file that exists is replaced.
    pool : Split
        As for :func:`causalbald.paper.bias`.
    studies : sequence of StudyHistory
        One or two methods, with equally many steps.
    every : int
        Draw the first step, then one in ``every``, and always the last.
    fps : float
        Frames per second.
    title : str
        Shown above all panels.
    progress : callable, optional
        Called with (fits done, fits in all) after each fit.

    Returns
    -------
    int
        How many steps are drawn.

    Raises
    ------
    InputError
        If the name does not end with ``.gif``; if there are no studies, more than two, or studies with different
        numbers of steps; if ``every`` is below 1 or ``fps`` is not above 0; or if :func:`causalbald.paper.bias` cannot
        draw the pool or the positions.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from causalbald import datasets
    >>> from causalbald.experiments import refit
    >>> from causalbald.models import GaussianProcess
    >>> from causalbald.paper import StudyHistory, evolution
    >>> benchmark = datasets.load("synthetic", 0, pool=60, test=20)
    >>> fit = lambda positions: refit(benchmark, GaussianProcess(max_iter=3), positions)
    >>> with TemporaryDirectory() as folder:
    ...     evolution(Path(folder) / "growth.gif", benchmark.pool, [StudyHistory("random", [range(20)], fit)])
    1
    """
    if Path(path).suffix != ".gif":
        raise InputError(f"an animation is a GIF: choose a name that ends with .gif, not {Path(path).name!r}.")
    steps = frames(studies, check_int(every, "every", low=1))
    writer = PillowWriter(fps=check_number(fps, "fps", above=0))  # type: ignore[arg-type]
    scene = Scene.of(pool)
    most_units = 1.05 * max(_tallest(scene, study) for study in studies)
    with house_style():
        figure = new_figure(figure_width(len(studies)), 6.6)
        writer.setup(figure, str(path), dpi=80)  # not `saving`, which writes what there is when a fit fails
        for columns in _fitted(studies, steps, progress):
            figure.clear()
            figure.suptitle(title)
            draw_columns(figure, scene, columns, most_units=most_units)
            writer.grab_frame()
        figure.set_layout_engine("none")  # a second layout differs by a hair, and only equal frames become one
        for _ in range(_LAST_FRAMES - 1):
            writer.grab_frame()
        writer.finish()
    return len(steps)


def _fitted(
    studies: Sequence[StudyHistory], steps: Sequence[int], progress: Callable[[int, int], None] | None
) -> Iterator[list[MeasuredSet]]:
    """Yield, for each step, a list of what each study has measured and learned by then. Called by :func:`evolution`.

    Models are fitted here, one after the other; ``progress`` is called after each.
    """
    done = 0
    for step in steps:
        columns = []
        for study in studies:
            positions = _measured(study, step)
            columns.append(MeasuredSet(study.name, positions, study.fit(positions)))
            done += 1
            if progress is not None:
                progress(done, len(steps) * len(studies))
        yield columns


def frames(studies: Sequence[StudyHistory], every: int) -> list[int]:
    """Return the steps to draw, counted from 0: the first, then one in ``every``, and always the last.

    Raises InputError unless there are one or two studies with equally many steps, at least one.
    """
    if not 0 < len(studies) <= MAX_STUDIES:
        raise InputError(f"{len(studies)} methods cannot be animated side by side: choose one or two.")
    lengths = {len(study.acquired) for study in studies}
    if len(lengths) > 1 or not max(lengths):
        raise InputError(f"studies must have equally many steps, at least one, but have {sorted(lengths)}.")
    last = lengths.pop() - 1
    return [*range(0, last, every), last]


def _measured(study: StudyHistory, step: int) -> Positions:
    """Return the positions of all units measured before the fit of a step, in the order of measuring."""
    return np.concatenate([np.asarray(batch, dtype=np.intp) for batch in study.acquired[: step + 1]])


def _tallest(scene: Scene, study: StudyHistory) -> float:
    """Return how many units the highest bar of the middle panel counts after the last step.

    Raises InputError if a position is repeated or not in the pool.
    """
    positions = check_positions(_measured(study, len(study.acquired) - 1), len(scene.pool), "positions")
    x, t = scene.coordinate[positions], scene.pool.t[positions]
    return float(max(np.histogram(x[t == arm], bins=scene.bins)[0].max() for arm in (0, 1)))
