"""Plans: from TOML, presets and flags to trials, with mistakes found before the first fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from causalbald.errors import InputError
from causalbald.experiments import (
    PAPER_ACQUISITIONS,
    BenchmarkSettings,
    Plan,
    TrialSpec,
    parse_seeds,
    preset,
    preset_names,
    read_plan,
)
from causalbald.experiments._plan import _PRESETS
from causalbald.experiments._plan_file import plan_of

# The paper's table of settings, and numbers of seeds for due and ensemble.
PAPER: dict[str, dict[str, Any]] = {
    "paper-synthetic": {"synthetic": (10, 10, 31), "seeds": {"due": 40, "ensemble": 20}},
    "paper-ihdp": {"ihdp": (100, 10, 38), "seeds": {"due": 200, "ensemble": 50}},
    "paper-cmnist": {"cmnist": (250, 50, 56), "seeds": {"due": 10, "ensemble": 5}},
}


@pytest.mark.parametrize("name", PAPER)
def test_presets_carry_the_papers_settings(name: str) -> None:
    specs = [spec for plan in preset(name) for spec in plan.specs()]
    dataset = next(iter(PAPER[name]))
    on_dataset = [spec for spec in specs if spec.dataset == dataset]
    assert {(s.warm_start, s.batch_size, s.steps + 1) for s in on_dataset} == {PAPER[name][dataset]}
    assert {s.preset for s in specs} == {dataset}
    assert {s.acquisition for s in specs} == set(PAPER_ACQUISITIONS)
    assert len(PAPER_ACQUISITIONS) == 8
    for model, seeds in PAPER[name]["seeds"].items():
        assert {s.seed for s in on_dataset if s.model == model} == set(range(seeds))
    assert len({s.key for s in specs}) == len(specs)


def test_quick_is_small() -> None:
    specs = [spec for plan in preset("quick") for spec in plan.specs()]
    assert sum(spec.steps + 1 for spec in specs) < 150
    assert all(_PRESETS.summary(name) for name in preset_names())


def test_every_entry_of_a_file_arrives(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(
        """
        datasets = ["synthetic", "ihdp"]
        models = ["gp", "due"]
        acquisitions = "random"
        tracks = ["paid", "paper"]
        seeds = "3,7-8"
        temperature = 0.5
        batch = "greedy"
        [settings.synthetic]
        steps = 4
        options = { pool = 500 }
        [model_options.due]
        members = 2
        """
    )
    specs = read_plan(path).specs()
    assert len(specs) == 2 * 2 * 1 * 2 * 3
    first = specs[0]
    assert (first.dataset, first.seed, first.warm_start, first.steps) == ("synthetic", 3, 10, 4)
    assert first.dataset_options == {"pool": 500}
    assert (first.temperature, first.batch, first.preset) == (0.5, "greedy", None)
    due = [s for s in specs if s.model == "due" and s.dataset == "ihdp"]
    assert {(s.preset, s.steps, s.model_options["members"]) for s in due} == {("ihdp", 37, 2)}


def test_only_a_part_and_other_settings() -> None:
    plan = Plan(("synthetic", "ihdp"), ("gp", "due"), tracks=("paid", "paper"))
    part = plan.only(datasets=("ihdp",), tracks=("paper",))
    assert part == replace(plan, datasets=("ihdp",), tracks=("paper",))
    assert plan.only(models=("ensemble",)) is None
    changed = plan.changed(steps=3, warm_start=None, batch_size=7)
    assert changed.settings_of("ihdp") == BenchmarkSettings(100, 7, 3)
    assert changed.settings_of("synthetic") == BenchmarkSettings(10, 7, 3)


@pytest.mark.parametrize(
    ("text", "seeds"), [("0-3", (0, 1, 2, 3)), ("5", (5,)), ("1,4-5", (1, 4, 5)), (2, (0, 1)), ([9, 2], (9, 2))]
)
def test_seeds(text: Any, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


def test_what_is_given_of_a_trial_is_enough_to_make_it_again() -> None:
    for spec in (TrialSpec("", "random", 0, 0, 0, -1), TrialSpec("ihdp", "tau-vr", 2, 1, 0, 3, track="paper")):
        assert TrialSpec(**spec.arguments()) == spec
        assert "preset" not in spec.arguments()


def test_a_trial_has_the_batch_rule_of_its_function_unless_told() -> None:
    default = TrialSpec("synthetic", "default", 10, 10, 1, 0)
    assert (default.batch, default.method) == ("auto", "default")
    assert default == plan_of({**GOOD, "acquisitions": ["default"], "settings": {"synthetic": {"steps": 1}}}).specs()[0]
    changed = replace(default, batch="softmax")
    assert changed.method == "default, softmax"
    for spec in (default, changed):
        assert TrialSpec(**spec.arguments()) == spec


@pytest.mark.parametrize("seeds", ["", "a-b", "0-", "5-2", "1-2-3", "1.5", 0, True, 2.0, [-1], None])
def test_bad_seeds(seeds: Any) -> None:
    with pytest.raises(InputError, match="seed"):
        parse_seeds(seeds)


GOOD: dict[str, Any] = {"datasets": ["synthetic"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": ["ihdp"]}, r"unknown entry 'dataset'\. Known: datasets"),
        ({"datasets": ["sinthetic"]}, "Did you mean 'synthetic'"),
        ({"datasets": [1]}, "datasets in the plan must be a list of names"),
        ({"models": ["gpp"]}, "unknown model 'gpp'"),
        ({"acquisitions": []}, "names no acquisitions"),
        ({"acquisitions": ["random", "random"]}, "'random' twice"),
        ({"acquisitions": ["mu"]}, "unknown acquisition 'mu'"),
        ({"tracks": ["free"]}, "track"),
        ({"batch": "all"}, "batch"),
        ({"settings": {"synthetic": {"step": 3}}}, r"settings\.synthetic in the plan: unknown entry 'step'"),
        ({"settings": {"synthetic": {"options": {"size": 3}}}}, "no option 'size'"),
        ({"settings": {"synthetic": {"batch_size": "ten"}}}, "batch_size of synthetic must be an integer"),
        ({"temperature": -3.0}, "temperature must be at least 0"),
        ({"datasets": ["own"], "settings": {"own": {"steps": 3}}}, r"settings\.own lacks 'warm_start'"),
        ({"settings": {"synthetc": {"steps": 3}}}, "settings in the plan: unknown entry 'synthetc'. Known: synthetic"),
        ({"settings": 5}, r"settings in the plan must be a table, \[settings\.NAME\], got 5"),
        ({"settings": {"synthetic": 5}}, r"settings\.synthetic in the plan must be a table"),
        ({"settings": {"synthetic": {"options": 7}}}, r"settings\.synthetic\.options in the plan must be a table"),
        ({"model_options": {"gpp": {}}}, "model_options in the plan: unknown entry 'gpp'. Known: gp"),
        ({"model_options": 3}, "model_options in the plan must be a table"),
        ({"model_options": {"gp": {"depth": 3}}}, "no option 'depth'"),
    ],
)
def test_mistakes_are_found_before_the_first_fit(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of({**GOOD, **change}).specs()


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file.*quick"):
        read_plan(tmp_path / "none.toml")
    path = tmp_path / "bad.toml"
    path.write_text("datasets = [")
    with pytest.raises(InputError, match=r"bad\.toml is not valid TOML"):
        read_plan(path)
    path.write_text("seeds = 3")
    with pytest.raises(InputError, match="names no datasets"):
        read_plan(path)
    with pytest.raises(InputError, match=r"unknown preset 'fast'\. Known: quick"):
        preset("fast")


def test_a_data_set_of_ones_own_needs_settings() -> None:
    with pytest.raises(InputError, match=r"no settings for data set 'mine': give --warm-start.* \[settings\.mine\]"):
        Plan(("mine",)).changed(steps=3)
    assert Plan(("mine",)).changed(warm_start=4, batch_size=2, steps=3).settings == {"mine": BenchmarkSettings(4, 2, 3)}
