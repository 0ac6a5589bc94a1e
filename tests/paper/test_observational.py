"""Pictures of data sets: what is drawn, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from causalbald import datasets
from causalbald._typing import AnyArray
from causalbald.datasets import Benchmark
from causalbald.datasets._synthetic import response
from causalbald.errors import InputError
from causalbald.figures import ARM_NAMES
from causalbald.paper._observational import KINDS, covariates, digits, draw_benchmark, observational
from tests.helpers.digits import write_stand_in


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_stand_in(tmp_path_factory.mktemp("digits"))


def line(axes: Axes, label: str) -> tuple[AnyArray, AnyArray]:
    found = next(line for line in axes.get_lines() if line.get_label() == label)
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def legend(figure: Figure) -> set[str]:
    return {text.get_text() for text in figure.legends[0].get_texts()}


def test_observational_draws_density_outcomes_and_effect() -> None:
    pool = datasets.load("synthetic", 0, pool=3_000).pool
    figure = observational(pool)
    top, middle, bottom = figure.axes
    assert (top.get_ylabel(), middle.get_ylabel(), bottom.get_ylabel()) == ("share of units", "outcome y", "effect")
    assert bottom.get_xlabel() == "covariate x"
    assert top.get_title() == f"3,000 units, {pool.t.sum():,} treated"
    x, effect = line(bottom, "true effect")
    inner = np.abs(x) < 2
    np.testing.assert_allclose(effect[inner], (2 + 2 * x - 4 * np.sin(2 * x))[inner], atol=0.05)
    for arm in ("control", "treated"):
        x, mean = line(middle, f"true mean, {arm}")
        np.testing.assert_allclose(mean[inner], response(x, int(arm == "treated"))[inner], atol=0.05)
    dots = np.concatenate([np.asarray(c.get_offsets()) for c in middle.collections if c.get_label() in ARM_NAMES])
    assert len(dots) == 800
    assert set(map(tuple, dots)) <= set(zip(pool.x[:, 0], pool.y, strict=True))
    assert "P(treated) outside [0.1, 0.9]" in legend(figure)
    assert "P(treated) outside [0.1, 0.9]" not in legend(observational(replace(pool, propensity=None)))


def test_digits_are_drawn_by_arm_along_phi(stand_in: Path) -> None:
    pool = datasets.load("cmnist", 0, data_dir=str(stand_in)).pool
    assert pool.latent is not None
    top, middle, bottom = digits(pool, 5).axes
    assert (top.get_ylabel(), middle.get_ylabel()) == ("share of units", "outcome y")
    assert bottom.get_xlabel() == r"hidden coordinate $\phi$"
    assert [label.get_text() for label in bottom.get_yticklabels()] == ["control", "treated"]
    picture = np.asarray(bottom.get_images()[0].get_array())
    assert picture.shape == (2 * 28, 5 * 28)
    span = np.ptp(pool.latent) / 5
    centre = pool.latent.min() + 2.5 * span
    for row, arm in enumerate((1, 0)):
        nearest = min(np.flatnonzero(pool.t == arm), key=lambda i: abs(pool.latent[i] - centre))  # type: ignore[index]
        np.testing.assert_allclose(picture[28 * row :][:28, 56:84], pool.x[nearest, 0])
    treated_left = (pool.t == 1) & (pool.latent < pool.latent.min() + span)
    without = digits(pool.take(np.flatnonzero(~treated_left)), 5).axes[2].get_images()[0].get_array()
    assert np.ptp(np.asarray(without)[:28, :28]) == 0, "an arm without units in a step has no image there"
    assert np.ptp(np.asarray(without)[28:, :28]) > 0


def test_covariates_draws_propensity_and_differences() -> None:
    b = datasets.load("ihdp", 0)
    left, right = covariates(b).axes
    assert left.get_xlabel() == "estimated P(treated | x)"
    assert right.get_xlabel() == "standardised mean difference"
    names = [label.get_text() for label in right.get_yticklabels()]
    dots = np.asarray(right.collections[0].get_offsets())
    assert sorted(names) == sorted(b.covariate_names)
    k = b.covariate_names.index("momage")
    treated, control = (b.pool.x[b.pool.t == arm, k] for arm in (1, 0))
    expected = (treated.mean() - control.mean()) / np.sqrt((treated.var() + control.var()) / 2)
    assert dots[names.index("momage"), 0] == pytest.approx(expected)
    assert (np.diff(np.abs(dots[:, 0])) >= 0).all()
    assert sum(patch.get_label() in ARM_NAMES for patch in left.patches) == 2


def test_covariates_without_names_or_variation_and_too_many(rng: np.random.Generator) -> None:
    x, t = rng.normal(size=(80, 40)), np.arange(80) % 2
    x[:, 7] = 1.0
    b = Benchmark.from_arrays(x, t, x[:, 0], x[:, 0], x[:, 1], seed=0)
    right = covariates(b).axes[1]
    shown = [label.get_text() for label in right.get_yticklabels()]
    assert len(shown) == 30
    assert set(shown) <= {f"x{k}" for k in range(40)} - {"x7"}
    assert right.get_title() == "treated minus control, largest 30 of 40"


def test_draw_benchmark_picks_the_kind(stand_in: Path) -> None:
    b = {name: datasets.load(name, 0) for name in ("synthetic", "ihdp-cov")}
    b["cmnist"] = datasets.load("cmnist", 0, data_dir=str(stand_in))
    drawn = {name: draw_benchmark(benchmark) for name, benchmark in b.items()}
    assert {name: len(figure.axes) for name, figure in drawn.items()} == {"synthetic": 3, "ihdp-cov": 2, "cmnist": 3}
    for name, figure in drawn.items():
        assert figure.axes[0].get_title().startswith(f"{name}: ")
        figure.canvas.draw()
    assert drawn["cmnist"].axes[2].get_images()
    assert {"observational", "cmnist"} <= set(KINDS)


def test_pictures_of_the_wrong_data_say_what_they_need(stand_in: Path) -> None:
    images, table = datasets.load("cmnist", 0, data_dir=str(stand_in)), datasets.load("ihdp", 0)
    for split in (images.pool, table.pool):
        with pytest.raises(InputError, match=r"needs exactly one covariate, x \(N, 1\), but x has shape"):
            observational(split)
    for split in (table.pool, replace(images.pool, latent=None)):
        with pytest.raises(InputError, match=r"needs images .* `latent`"):
            digits(split)
    with pytest.raises(InputError, match="count must be an integer of at least 2"):
        digits(images.pool, 0)
    with pytest.raises(InputError, match=r"needs covariates .*: use `digits`"):
        covariates(images)
    with pytest.raises(InputError, match=r"needs images .* `latent`"):
        draw_benchmark(replace(images, pool=replace(images.pool, latent=None)))
