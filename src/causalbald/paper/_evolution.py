"""How the sample grows and the effect is learned, step by step, as an animated picture."""

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
from causalbald.paper._bias import MeasuredSet, Scene, _width, draw_columns

MAX_STUDIES = 2
# How many times longer than the others the last frame is shown.
_LAST = 4


@dataclass(frozen=True)
class StudyHistory:
    """What one method measured step by step, and how to fit the model on the outcomes of some positions.

    ``acquired`` holds the positions measured before each fit, a list per step.
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
    """Write a GIF of the panels of :func:`causalbald.paper.bias` after each step, and return how many frames.

    The middle panels count measured units, so that one sees them pile up; axes stay as they are.

    Parameters
    ----------
    path : path
        File to write, ending with ``.gif``.
    pool : Split
        As for :func:`causalbald.paper.bias`.
    studies : sequence of Study
        One or two, of equally many steps.
    every : int
        Only each so-manyth step, and the last.
    fps : float
        Frames per second.
    title : str
        Shown above all panels.
    progress : callable, optional
        Called with (fits done, fits in all).
    """
    if Path(path).suffix != ".gif":
        raise InputError(f"an animation is a GIF: choose a name that ends with .gif, not {Path(path).name!r}.")
    steps = frames(studies, check_int(every, "every", low=1))
    writer = PillowWriter(fps=check_number(fps, "fps", above=0))  # type: ignore[arg-type]
    scene = Scene.of(pool)
    most = 1.05 * max(_tallest(scene, study) for study in studies)
    with house_style():
        figure = new_figure(_width(len(studies)), 6.6)
        writer.setup(figure, str(path), dpi=80)  # not `saving`, which writes what there is when a fit fails
        for columns in _fitted(studies, steps, progress):
            figure.clear()
            figure.suptitle(title)
            draw_columns(figure, scene, columns, most=most)
            writer.grab_frame()
        figure.set_layout_engine("none")  # a second layout differs by a hair, and only equal frames become one
        for _ in range(_LAST - 1):
            writer.grab_frame()
        writer.finish()
    return len(steps)


def _fitted(
    studies: Sequence[StudyHistory], steps: Sequence[int], progress: Callable[[int, int], None] | None
) -> Iterator[list[MeasuredSet]]:
    """Yield what all studies have measured and learned after each step."""
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
    """Return the steps that are drawn: each so-manyth from the first on, and the last."""
    if not 0 < len(studies) <= MAX_STUDIES:
        raise InputError(f"{len(studies)} methods cannot be animated side by side: choose one or two.")
    lengths = {len(study.acquired) for study in studies}
    if len(lengths) > 1 or not max(lengths):
        raise InputError(f"studies must have equally many steps, at least one, but have {sorted(lengths)}.")
    last = lengths.pop() - 1
    return [*range(0, last, every), last]


def _measured(study: StudyHistory, step: int) -> Positions:
    return np.concatenate([np.asarray(batch, dtype=np.intp) for batch in study.acquired[: step + 1]])


def _tallest(scene: Scene, study: StudyHistory) -> float:
    """Return the largest count of units in a bar at the end."""
    positions = check_positions(_measured(study, len(study.acquired) - 1), len(scene.pool), "positions")
    at, arm = scene.at[positions], scene.pool.t[positions]
    return float(max(np.histogram(at[arm == a], bins=scene.bins)[0].max() for a in (0, 1)))
