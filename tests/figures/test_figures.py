"""Figures of trials, and the command that draws them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import norm
from scipy.stats import t as student
from typer.testing import CliRunner

from causalbald import acquisition, datasets, figures, metrics, paper
from causalbald._typing import AnyArray, Array
from causalbald.cli._app import app
from causalbald.cli._figure_commands import KINDS
from causalbald.datasets import Benchmark, Split
from causalbald.errors import CausalBaldError, InputError
from causalbald.experiments import Store, TrialSpec, TrialState, refit
from causalbald.figures import LEVELS
from causalbald.models import CateEstimator, LabelSet
from causalbald.paper._bias import Scene
from causalbald.posterior import Posterior
from tests.helpers.digits import write_stand_in

PAPER = ("random", "propensity", "type-s", "tau-bald", "mu-bald", "rho-bald", "mu-pi-bald", "mu-rho-bald")
METHODS = ("random", "mu-bald", "mu-rho-bald")
STEPS = 2


class Fixed(CateEstimator):
    """A model that learns nothing, remembers what it was shown, and believes in a fixed effect of x."""

    accepts_images = True

    def __init__(self, sd: float = 1.0, *, random_state: int = 0) -> None:
        self.sd = sd
        self.random_state = random_state

    def _fit(self, data: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None:
        self.data_, self.pool_, self.validation_ = data, pool, validation

    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        effect = x.reshape(len(x), -1).mean(axis=1).astype(float)
        factor = np.zeros((len(x), 2, 1))
        factor[:, 1, 0] = self.sd
        return Posterior(np.stack([np.zeros(len(x)), effect], axis=1), factor, np.zeros(()), np.ones(2))


def split(x: AnyArray, rng: np.random.Generator, latent: Array | None = None) -> Split:
    n = len(x)
    t = np.arange(n) % 2
    mu1 = rng.normal(size=n)
    return Split(x, t, mu1 * t, np.zeros(n), mu1, None, latent)


def table(methods: tuple[str, ...] = PAPER, sets: tuple[str, ...] = ("one",), seeds: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = [(d, a, s, n) for d in sets for a in methods for s in range(seeds) for n in (10, 20, 30)]
    rows = pd.DataFrame(names, columns=["dataset", "acquisition", "seed", "labels"])
    return rows.assign(**{c: rng.uniform(0.5, 1, len(rows)) for c in ("pehe", "overlap_share", "treated_share")})


def drawn(axes: Any, name: str) -> Array:
    line = next(line for line in axes.get_lines() if line.get_label() == name)
    return np.asarray(line.get_ydata(), dtype=float)


def shaded(band: Any, x: float) -> tuple[float, float]:
    corners = band.get_paths()[0].vertices
    at = corners[np.isclose(corners[:, 0], x), 1]
    return float(at.min()), float(at.max())


def titles(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes]


def test_convergence_draws_means_and_shades_standard_errors() -> None:
    trials = table(("random", "mu-bald"))
    (axes,) = figures.convergence(trials).axes
    for k, name in enumerate(("random", "mu-bald")):
        own = trials[trials["acquisition"] == name].groupby("labels")["pehe"]
        mean, error = own.mean().to_numpy(), own.std(ddof=1).to_numpy() / np.sqrt(4)
        np.testing.assert_allclose(drawn(axes, name), mean)
        for x, low, high in zip((10, 20, 30), mean - error, mean + error, strict=True):
            np.testing.assert_allclose(shaded(axes.collections[k], x), (low, high))


def test_only_seeds_that_all_methods_of_a_panel_have_are_compared() -> None:
    trials = table(("random", "mu-bald"))
    lacks = trials[(trials["acquisition"] == "random") | (trials["seed"] != 2)]
    (axes,) = figures.convergence(lacks).axes
    assert axes.get_title() == "one (3 seeds)"
    common = trials[(trials["acquisition"] == "random") & (trials["seed"] != 2)]
    np.testing.assert_allclose(drawn(axes, "random"), common.groupby("labels")["pehe"].mean())
    (single,) = figures.convergence(trials[trials["seed"] == 0]).axes
    assert single.get_title() == "one (1 seed)"
    assert len(single.collections) == 0
    disjoint = trials[(trials["acquisition"] == "random") == (trials["seed"] < 2)]
    with pytest.raises(InputError, match=r"no seed is common to random, mu-bald .*run the same seeds"):
        figures.convergence(disjoint)


def test_trials_without_the_value_are_not_drawn() -> None:
    trials = table(sets=("one", "two"))
    trials.loc[(trials["dataset"] == "two") | (trials["seed"] == 0), "pehe"] = np.nan
    assert titles(figures.convergence(trials)) == ["one (3 seeds)"]


def test_rows_as_in_the_paper_and_panels_that_do_not_mix() -> None:
    assert figures.paper_rows(METHODS) == {"": list(METHODS)}
    assert figures.paper_rows(PAPER[:-1]) == {"": list(PAPER[:-1])}
    assert figures.paper_rows(PAPER[3:]) == {"": list(PAPER[3:])}
    rows = figures.paper_rows([*PAPER, "theirs"])
    assert rows["against baselines"] == ["random", "propensity", "type-s", "mu-rho-bald"]
    assert rows["without baselines"] == [*PAPER[3:], "theirs"]
    assert list(figures.paper_rows([*PAPER, "mu-rho-bald, greedy"])) == ["against baselines", "among BALDs"]
    trials = table(sets=("one", "two"))
    figure = figures.convergence(trials, rows=figures.paper_rows(PAPER))
    what = [f"{d}, {r} (4 seeds)" for r in ("against baselines", "among BALDs") for d in ("one", "two")]
    assert titles(figure) == what
    assert [len(axes.get_lines()) for axes in figure.axes] == [4, 4, 5, 5]
    models = pd.concat([trials.assign(model=m, track="paid") for m in ("gp", "due")])
    assert titles(figures.overlap(models))[0] == "one, gp (4 seeds)"
    with pytest.raises(InputError, match="settings differ"):
        figures.convergence(pd.concat([trials, trials]))
    with pytest.raises(InputError, match="at most 6"):
        figures.convergence(table(("random",), tuple("abcdefg")))


def test_the_axis_is_logarithmic_where_errors_differ_by_factors() -> None:
    trials = table(("random",))
    scales = [figures.convergence(trials.assign(pehe=trials["labels"] ** power)).axes[0] for power in (0.5, 3.0)]
    assert [axes.get_yscale() for axes in scales] == ["linear", "log"]


def test_looks_differ_in_colour_and_in_grey() -> None:
    modules = {name: acquisition.load(name).function.__module__ for name in acquisition.names()}
    # Not those that plugins have added, in this test run or in the user's installation.
    shipped = figures.looks(name for name, module in modules.items() if module.startswith("causalbald.acquisition."))
    assert {name: figures.look(name) for name in shipped} == shipped
    assert len({(look.marker, look.line) for look in shipped.values()}) == len(shipped)
    assert len({look.marker for look in shipped.values()}) == len(shipped)
    many = figures.looks([*shipped, *(f"theirs-{k}" for k in range(24))])
    assert len(set(many.values())) == len(shipped) + 24
    assert {name: many[name] for name in shipped} == shipped


def test_paired_draws_ratios_of_areas_seed_by_seed() -> None:
    trials = table(("random", "mu-bald", "tau-bald"))
    own = trials[trials["acquisition"] == "random"].assign(acquisition="mu-bald")
    factors = own["seed"].map(dict(enumerate((0.5, 0.5, 0.25, 1.0))))
    trials = pd.concat([trials[trials["acquisition"] != "mu-bald"], own.assign(pehe=own["pehe"] * factors)])
    trials = trials[(trials["acquisition"] != "tau-bald") | (trials["seed"] != 3)]
    (axes,) = figures.paired(trials).axes
    assert axes.get_title() == "one (3 seeds)"
    place = [tick.get_text() for tick in axes.get_yticklabels()].index("mu-bald")
    drawn_there = [line for line in axes.get_lines() if set(np.asarray(line.get_ydata())) == {place}]
    bar, dot = (np.asarray(line.get_xdata(), dtype=float) for line in drawn_there)
    logs = np.log([0.5, 0.5, 0.25])
    reach = student.ppf(0.975, 2) * logs.std(ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(dot, np.exp(logs.mean()))
    np.testing.assert_allclose(bar, np.exp([logs.mean() - reach, logs.mean() + reach]))
    with pytest.raises(InputError, match="values above 0, but 'pehe' has others"):
        figures.paired(trials.assign(pehe=trials["pehe"] - 0.6))
    assert titles(figures.paired(trials.assign(pehe=trials["pehe"] * (trials["labels"] < 30)))) == ["one (3 seeds)"]


def test_batch_rules_of_one_function_share_a_panel() -> None:
    trials = table(("random", "mu-bald", "mu-bald, greedy"))
    rule = np.where(trials["acquisition"] == "mu-bald, greedy", "greedy", "softmax")
    (axes,) = figures.convergence(trials.assign(batch=rule)).axes
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.get_lines()}) == 3


def test_overlap_draws_both_shares_and_where_random_ends() -> None:
    trials = table()
    top, bottom = figures.overlap(trials).axes
    for axes, value in ((top, "overlap_share"), (bottom, "treated_share")):
        own = trials[trials["acquisition"] == "tau-bald"].groupby("labels")[value].mean()
        np.testing.assert_allclose(drawn(axes, "tau-bald"), own)
        (reference,) = [line for line in axes.get_lines() if np.max(line.get_xdata()) == 1]
        assert np.asarray(reference.get_ydata(), dtype=float)[0] == drawn(axes, "random")[-1]
        assert reference.get_linestyle() == "--"
    with pytest.raises(InputError, match="treated_share"):
        figures.overlap(trials.drop(columns="treated_share"))


def test_bias_says_how_many_each_method_measured(rng: np.random.Generator) -> None:
    pool = split(rng.normal(size=(200, 1)), rng)
    model = Fixed().fit(pool.y, pool.t, X=pool.x)
    figure = paper.bias(pool, [paper.MeasuredSet(a, np.arange(n), model) for a, n in (("random", 30), ("mu-bald", 7))])
    assert titles(figure)[:2] == ["random\n30 measured", "mu-bald\n7 measured"]
    x = np.asarray(figure.axes[4].get_lines()[0].get_xdata(), dtype=float)
    np.testing.assert_allclose(drawn(figure.axes[4], "learned effect"), x)
    with pytest.raises(InputError, match="choose 1 to 8"):
        paper.bias(pool, [])
    wide = split(rng.normal(size=(20, 3)), rng)
    with pytest.raises(InputError, match="use synthetic or cmnist"):
        paper.bias(wide, [paper.MeasuredSet("random", [0], model)])


def test_bias_along_a_latent_coordinate_is_the_mean_in_cells(rng: np.random.Generator) -> None:
    latent = rng.uniform(-3, 3, 500)
    pool = split(rng.normal(size=(500, 1, 2, 2)), rng, latent)
    model = Fixed().fit(pool.y, pool.t, X=pool.x)
    bottom = paper.bias(pool, [paper.MeasuredSet("random", np.arange(30), model)]).axes[2]
    assert np.histogram(latent, Scene.of(pool).bins)[0].sum() == len(pool)
    assert "phi" in bottom.get_xlabel()
    edges = np.linspace(latent.min(), latent.max(), 41)
    inside = (latent >= edges[3]) & (latent < edges[4])
    np.testing.assert_allclose(drawn(bottom, "true effect")[3], pool.effect[inside].mean())
    np.testing.assert_allclose(drawn(bottom, "learned effect")[3], pool.x[inside].mean())
    low, high = shaded(bottom.collections[0], edges[3:5].mean())
    assert high - low == pytest.approx(2 * norm.ppf(0.975))


def test_refit_sees_what_the_trial_saw(rng: np.random.Generator) -> None:
    parts = [split(rng.normal(size=(n, 1)), rng) for n in (50, 20, 10)]
    template = Fixed()
    paid = refit(Benchmark("b", *parts), template, [3, 4, 8])
    free = refit(Benchmark("b", *parts), template, [3, 4, 8], free_validation=True)
    np.testing.assert_array_equal(paid.data_.y, parts[0].y[[3, 4, 8]])
    np.testing.assert_array_equal(paid.pool_, parts[0].x)
    assert paid.validation_ is None
    np.testing.assert_array_equal(free.validation_.y, parts[1].y)
    assert not hasattr(template, "data_")


def test_calibration_counts_intervals_that_hold(rng: np.random.Generator) -> None:
    test = split(rng.normal(size=(5000, 1)), rng)
    model = Fixed(sd=2.0).fit(test.y, test.t, X=test.x)
    found = figures.PredictedEffects.of("mu-bald", model, test)
    for level, share in zip(LEVELS, found.coverage, strict=True):
        low, high = model.effect_interval(test.x, alpha=1 - level)
        held = sum(a <= e <= b for a, e, b in zip(low, test.effect, high, strict=True))
        assert share == pytest.approx(held / 5000)
        assert share == pytest.approx(metrics.interval_coverage(low, high, test.effect))
    figure = figures.calibration([found])
    scatter, coverage = figure.axes
    np.testing.assert_array_equal(drawn(coverage, "mu-bald"), found.coverage)
    assert f"hold {100 * found.coverage[-1]:.0f} % of 5,000" in scatter.get_title()
    twice = figures.PredictedEffects.pooled(
        [found, figures.PredictedEffects("mu-bald", test.effect, test.effect, 0 * found.reach)]
    )
    np.testing.assert_allclose(twice.coverage, (found.coverage + 1) / 2)
    all_of_them = [figures.PredictedEffects(a, found.truth, found.effect, found.reach) for a in PAPER]
    assert len(figures.calibration(all_of_them).axes) == 9
    with pytest.raises(InputError, match="choose 1 to 8"):
        figures.calibration([])


def test_evolution_has_a_frame_per_step(rng: np.random.Generator, tmp_path: Path) -> None:
    pool = split(rng.normal(size=(60, 1)), rng)
    batches = [list(range(k, k + 5)) for k in range(0, 25, 5)]
    fits: list[list[int]] = []

    def fit(positions: Any) -> CateEstimator:
        fits.append(list(positions))
        return Fixed().fit(pool.y[positions], pool.t[positions], X=pool.x[positions])

    studies = [paper.StudyHistory(name, batches, fit) for name in ("random", "mu-bald")]
    done: list[tuple[int, int]] = []
    target = tmp_path / "growth.gif"
    frames = paper.evolution(target, pool, studies, every=3, progress=lambda *d: done.append(d))
    with Image.open(target) as picture:
        assert frames == getattr(picture, "n_frames", 1) == 3
    assert fits[::2] == [list(range(n)) for n in (5, 20, 25)]
    assert done == [(k, 6) for k in range(1, 7)]
    with pytest.raises(InputError, match=r"ends with \.gif"):
        paper.evolution(tmp_path / "growth.png", pool, studies)
    with pytest.raises(InputError, match="no labelled units in arm 1"):
        paper.evolution(tmp_path / "failed.gif", pool, [paper.StudyHistory("random", [[0], [1]], fit)])
    assert not (tmp_path / "failed.gif").exists()
    with pytest.raises(InputError, match="one or two"):
        paper.evolution(target, pool, [*studies, *studies])
    with pytest.raises(InputError, match="equally many steps"):
        paper.evolution(target, pool, [studies[0], paper.StudyHistory("random", batches[:2], fit)])


def specs(dataset: str = "synthetic", options: dict[str, Any] | None = None, seeds: int = 2) -> list[TrialSpec]:
    settings: dict[str, Any] = {"model_options": {"max_iter": 3}, "dataset_options": options or {}}
    return [TrialSpec(dataset, a, 10, 5, STEPS, seed, **settings) for seed in range(seeds) for a in METHODS]


def fill(folder: Path, wanted: list[TrialSpec]) -> Store:
    store = Store(folder).open()
    store.plan(wanted)
    for spec in wanted:
        store.finish(spec, spec.run())
    return store


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("run"), specs(options={"pool": 300, "validation": 50, "test": 100})).folder


def command(*arguments: Any) -> None:
    result = CliRunner().invoke(app, ["figure", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""


def test_each_figure_of_trials_by_command(folder: Path, tmp_path: Path) -> None:
    few = ("--acquisition", "mu-bald", "--acquisition", "random", "--seed", 1)
    for kind, suffix in (("convergence", "svg"), ("overlap", "pdf"), ("paired", "svg"), ("bias", "png")):
        target = tmp_path / f"{kind}.{suffix}"
        command(kind, folder, "-o", target, "--step", 1)
        assert target.stat().st_size > 5000
    command("evolution", folder, "-o", tmp_path / "growth.gif", *few)
    with Image.open(tmp_path / "growth.gif") as picture:
        assert getattr(picture, "n_frames", 1) == STEPS + 1
    command("calibration", folder, "-o", tmp_path / "two.png", *few, "--seed", 0)


def test_trials_of_several_folders_are_drawn_as_of_one(folder: Path, tmp_path: Path) -> None:
    wanted = specs(options={"pool": 300, "validation": 50, "test": 100})
    halves = [tmp_path / "first", tmp_path / "second"]
    for half in halves:
        store = Store(half).open()
        store.plan(wanted)  # both have planned what only one has done
        for spec in wanted:
            if (spec.acquisition == "random") == (half == halves[0]):
                store.finish(spec, _state(folder, spec))
    for kind in ("convergence", "bias"):
        command(kind, *halves, "-o", tmp_path / "two.png", "--seed", 1)
        command(kind, folder, "-o", tmp_path / "one.png", "--seed", 1)
        assert (tmp_path / "two.png").read_bytes() == (tmp_path / "one.png").read_bytes()


def _state(folder: Path, spec: TrialSpec) -> TrialState:
    [state] = [state for known, state in Store(folder).results() if known == spec]
    return state


def test_figures_of_data_sets_need_no_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAUSALBALD_DATA", raising=False)
    command("observational", "-o", tmp_path / "data.png", "--seed", 3)
    command("cmnist", "-o", tmp_path / "digits.png", "--data-dir", write_stand_in(tmp_path / "mnist"))
    monkeypatch.delenv("CAUSALBALD_DATA")
    assert all((tmp_path / name).stat().st_size > 5000 for name in ("data.png", "digits.png"))


def test_models_are_fitted_again_as_in_the_trial(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the model behind the picture must be the one in the table."""
    seen: list[float] = []
    test = datasets.load("synthetic", 1, pool=300, validation=50, test=100).test

    def spy(pool: Split, columns: list[paper.MeasuredSet]) -> Figure:
        seen.extend(metrics.sqrt_pehe(c.model.effect(test.x), test.effect) for c in columns)
        return Figure()

    monkeypatch.setattr(paper, "bias", spy)
    command("bias", folder, "-o", tmp_path / "bias.svg", "--seed", 1, "--step", 2)
    trials = Store(folder).table()
    rows = trials[(trials["seed"] == 1) & (trials["step"] == 2)].set_index("acquisition")
    np.testing.assert_allclose(seen, rows.loc[list(METHODS), "pehe"], rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pie", "-o", "a.svg"), r"unknown figure 'pie'. There are:\n  observational: .*\n(  .*\n){6}  overlap: "),
        (("bias", "-o", "a.svg"), "needs DIR: name a folder that `causalbald run --out`"),
        (("bias", "DIR", "-o", "a.gif"), "ends with .svg or .png or .pdf"),
        (("evolution", "DIR", "-o", "a.svg"), "ends with .gif"),
        (("overlap", "DIR", "-o", "/does/not/exist/a.svg"), "create it"),
        (("convergence", "DIR", "-o", "a.svg", "--error", "pe"), "choose --error of pehe, ate_error"),
        (
            ("paired", "DIR", "-o", "a.svg", "--baseline", "type-s"),
            "'type-s' to compare with: choose --baseline of random",
        ),
        (("convergence", "DIR", "-o", "a.svg", "--seed", "7"), "no trials with seed 7. There are: 0, 1"),
        (("evolution", "DIR", "-o", "a.gif"), "choose one or two by --acquisition, there are random, mu-bald"),
        (("bias", "DIR", "-o", "a.svg", "--step", "9"), "--step 9 is past the end: choose one of 0 to 2"),
        (("bias", "DIR", "-o", "a.svg", "--seed", "0", "--seed", "1"), "one seed, .* choose one by --seed"),
        (("observational", "-o", "a.svg", "--dataset", "ihdp"), "exactly one covariate"),
    ],
)
def test_mistakes_name_the_remedy(
    arguments: tuple[str, ...], message: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CausalBaldError) as error:
        command(*(str(folder) if a == "DIR" else a for a in arguments))
    assert re.search(message, str(error.value)), str(error.value)


def test_trials_that_cannot_be_drawn_together(tmp_path: Path) -> None:
    small = {"pool": 100, "validation": 20, "test": 20}
    both = [*specs(options=small, seeds=1)[:1], *specs("ihdp", seeds=1)[:1]]
    fill(tmp_path / "sets", both)
    with pytest.raises(InputError, match="there are synthetic, ihdp: choose one by --dataset"):
        command("bias", tmp_path / "sets", "-o", tmp_path / "a.svg")
    with pytest.raises(InputError, match="use synthetic or cmnist"):
        command("bias", tmp_path / "sets", "-o", tmp_path / "a.svg", "--dataset", "ihdp")
    random, mu, _ = specs(options=small, seeds=1)
    _, _, _, later, *_ = specs(options=small)
    store = fill(tmp_path / "seeds", [random, mu, later])
    with pytest.raises(InputError, match="not all acquisition functions have seed 1: leave some out"):
        command("calibration", store.folder, "-o", tmp_path / "a.svg", "--seed", 1, "--seed", 0)
    both_at_1 = ("--seed", 1, "--acquisition", "mu-bald", "--acquisition", "random")
    with pytest.raises(InputError, match="no trials of mu-bald are left: leave out --acquisition mu-bald"):
        command("overlap", store.folder, "-o", tmp_path / "a.svg", *both_at_1)
    store.folder.joinpath("planned.json").unlink()
    with pytest.raises(InputError, match=r"lacks (random|mu-bald), seed 0: run it again"):
        command("bias", store.folder, "-o", tmp_path / "a.svg")


def test_help_teaches_every_kind() -> None:
    result = CliRunner().invoke(app, ["figure", "--help"])
    for kind in KINDS:
        assert f"{kind}: " in result.output
        assert f"causalbald figure {kind} " in result.output
