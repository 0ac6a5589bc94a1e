"""An edited plugin makes new trials, and results of two versions are never mixed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from causalbald import _registry
from causalbald.acquisition import _registry as acquisitions
from causalbald.cli._app import app
from causalbald.datasets import _base as benchmarks
from causalbald.errors import InputError, PluginWarning
from causalbald.experiments import Store, TrialSpec, status_of
from causalbald.models import _registry as models

PLUGIN = """
import numpy as np
from causalbald import acquisition, datasets, models
from causalbald.acquisition import mu_bald

@acquisition.register("edited")
def edited(posterior, treatment):
    return SIGN * np.log(posterior.effect_variance)

acquisition.register("warm", temperature=2.0)(mu_bald)

@models.register("edited-gp")
class EditedProcess(models.GaussianProcess):
    pass

@datasets.register("edited-data")
def edited_data(seed=0):
    return datasets.synthetic(seed, pool=200, test=50, sigma=SIGN + 1.5)
"""
RESULTS = Path(__file__).parent.parent / "results"
Edit = Callable[[str | None], Path]


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Edit:
    """Write a plugin file and load it, as a new process would; None: a process that does not load it."""
    monkeypatch.setenv(_registry.PLUGINS_VARIABLE, "")
    registries: list[_registry.Registry[Any]] = [acquisitions._REGISTRY, models._REGISTRY, benchmarks._REGISTRY]
    for registry in registries:
        monkeypatch.setattr(registry, "_items", dict(registry._items))
        monkeypatch.setattr(registry, "_versions", dict(registry._versions))
    unloaded = [dict(registry._items) for registry in registries]

    def write(sign: str | None) -> Path:
        path = tmp_path / "my_plugin.py"
        for name in [name for name in sys.modules if name.startswith("causalbald_plugin_my_plugin")]:
            del sys.modules[name]
        for registry, items in zip(registries, unloaded, strict=True):
            registry._items = dict(items)
            registry._versions = {}
        if sign is not None:
            path.write_text(PLUGIN.replace("SIGN", sign))
        monkeypatch.setenv(_registry.PLUGINS_VARIABLE, "" if sign is None else str(path))
        return path

    return write


def spec(acquisition: str = "edited", seed: int = 0, model: str = "gp", dataset: str = "synthetic") -> TrialSpec:
    options = {"pool": 200, "test": 50} if dataset == "synthetic" else {}
    model_options = {"max_iter": 3} if model == "gp" else {}
    numbers = (10, 5, 2)
    return TrialSpec(
        dataset, acquisition, *numbers, seed, model=model, dataset_options=options, model_options=model_options
    )


def finish(folder: Path, *specs: TrialSpec) -> int:
    """Run the trials that are not done in this process, and return how many that were."""
    store = Store(folder).open()
    store.plan(specs)
    left = [trial for trial in specs if not store.is_done(trial)]
    for trial in left:
        store.finish(trial, trial.run())
    return len(left)


def final_errors(store: Store, acquisition: str = "edited") -> list[float]:
    table = store.table()
    return table.loc[(table["acquisition"] == acquisition) & (table["step"] == 2), "pehe"].tolist()


def test_stored_trials_without_plugins_keep_their_names() -> None:
    for folder in ("paper", "choice"):
        store = Store(RESULTS / folder)
        planned = store.planned()
        assert all(store.is_done(trial) == (trial.key in store._packed_keys) for trial in planned)
        assert store._packed_keys <= {trial.key for trial in planned}
    assert spec("random").plugins == {}
    assert spec("random").key == spec("random").settings_key == "ede36b7252be"


def test_only_what_is_in_the_plugin_depends_on_it(edit: Edit) -> None:
    edit("1.0")
    combinations: list[dict[str, Any]] = [
        {},
        {"acquisition": "warm"},
        {"acquisition": "random", "model": "edited-gp"},
        {"acquisition": "random", "dataset": "edited-data"},
        {"acquisition": "random"},
    ]
    before = [spec(**names) for names in combinations]
    edit("-1.0")
    after = [spec(**names) for names in combinations]
    changed = [one.key != other.key for one, other in zip(before, after, strict=True)]
    assert changed == [True, True, True, True, False]
    assert [list(trial.plugins) for trial in after] == [["acquisition"], ["acquisition"], ["model"], ["dataset"], []]
    propensities = [one.data_key != other.data_key for one, other in zip(before, after, strict=True)]
    assert propensities == [False, False, False, True, False]
    edit("1.0")
    assert [spec(**names).key for names in combinations] == [trial.key for trial in before]
    with pytest.raises(InputError, match=r"model 'edited-gp' is version .* was planned with version .* has changed"):
        after[2].load_model()
    with pytest.raises(InputError, match="dataset 'edited-data' is version"):
        after[3].load()
    with pytest.raises(InputError, match="acquisition 'edited' is version"):
        after[0].run()


def test_an_edited_plugin_is_run_again_and_its_results_are_not_mixed(edit: Edit, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    edit("1.0")
    assert finish(folder, spec("random"), spec()) == 2
    [first] = final_errors(Store(folder))
    edit("-1.0")
    with pytest.warns(PluginWarning, match="1 trials of another version are left out. Run them again"):
        assert set(Store(folder).table()["acquisition"]) == {"random"}
    told = CliRunner().invoke(app, ["status", str(folder)], catch_exceptions=False)
    assert "1 finished trials are of an older version of a plugin" in told.stderr
    [row] = json.loads(CliRunner().invoke(app, ["status", str(folder), "--json"]).stdout)
    assert (row["done"], row["left"]) == (1, 1)
    assert finish(folder, spec("random"), spec()) == 1
    with pytest.warns(PluginWarning, match="has changed"):
        [second] = final_errors(Store(folder))
    assert second != first
    fresh = tmp_path / "fresh"
    finish(fresh, spec())
    assert final_errors(Store(fresh)) == [second]
    records = [json.loads(path.read_text())["spec"] for path in (folder / "trials").glob("*.json")]
    versions = [record["plugins"]["acquisition"] for record in records if record["acquisition"] == "edited"]
    assert set(versions) == {spec().plugins["acquisition"], Store(folder).older()[0].plugins["acquisition"]}
    assert len(set(versions)) == 2

    edit(None)
    with pytest.raises(InputError, match=r"'edited' has trials of 2 versions: .*--plugin FILE"):
        Store(folder).table()
    assert Store(folder).current()[-1].plugins == Store(fresh).planned()[0].plugins, "asked for last"
    with pytest.warns(PluginWarning, match="not loaded: its trials are of version"):
        assert final_errors(Store(fresh)) == [second]
    result = CliRunner().invoke(
        app, ["table", str(folder), "--acquisition", "random", "--json"], catch_exceptions=False
    )
    assert len(json.loads(result.stdout)) == 1, "other methods can be read"

    edit("1.0")
    with pytest.warns(PluginWarning, match="has changed"):
        assert final_errors(Store(folder)) == [first]
    assert finish(folder, spec()) == 0
    edit(None)
    assert Store(folder).current()[-1].plugins != Store(fresh).planned()[0].plugins, "asked for last"


def test_packed_trials_keep_their_version(edit: Edit, tmp_path: Path) -> None:
    edit("1.0")
    finish(tmp_path, spec(), spec("random"))
    edit("-1.0")
    finish(tmp_path, spec())
    with pytest.warns(PluginWarning, match="has changed"):
        [second] = final_errors(Store(tmp_path))
    assert Store(tmp_path).pack() == 3
    with pytest.warns(PluginWarning, match="1 trials of another version are left out"):
        assert final_errors(Store(tmp_path)) == pytest.approx([second], rel=1e-4)
    assert len(Store(tmp_path).older()) == 1


def test_folders_with_different_versions_are_refused(edit: Edit, tmp_path: Path) -> None:
    one, two = tmp_path / "runs", tmp_path / "runs2"
    for folder, sign in ((one, "1.0"), (two, "-1.0")):
        edit(sign)
        finish(folder, spec())
    versions = [Store(folder).planned()[0].plugins["acquisition"] for folder in (one, two)]
    for loaded in ("1.0", "-1.0", None):
        edit(loaded)
        for folders in ([one, two], [two, one]):
            for command in (["table"], ["figure", "convergence", "-o", str(tmp_path / "curves.svg")]):
                with pytest.raises(InputError) as raised:
                    CliRunner().invoke(app, [*command, *map(str, folders)], catch_exceptions=False)
                for folder, version in zip((one, two), versions, strict=True):
                    assert f"1 of version {version} in {str(folder)!r}" in str(raised.value)


def test_trials_of_0_1_0_have_no_version(edit: Edit, tmp_path: Path) -> None:
    edit("1.0")
    finish(tmp_path, spec(), spec("random"))
    record = TrialSpec.from_json(spec().settings)
    assert (record.key, record.plugins) == (spec().settings_key, {})
    [path] = [path for path in (tmp_path / "trials").glob("*.json") if path.stem == spec().key]
    content = json.loads(path.read_text())
    del content["spec"]["plugins"]
    path.unlink()
    (tmp_path / "trials" / f"{record.key}.json").write_text(json.dumps(content))
    planned = json.loads((tmp_path / "planned.json").read_text())
    for line in planned:
        line.pop("plugins", None)
    (tmp_path / "planned.json").write_text(json.dumps(planned))
    with pytest.warns(PluginWarning, match="1 trials of another version are left out"):
        Store(tmp_path).table()
    assert len(Store(tmp_path).older()) == 1
    assert finish(tmp_path, spec()) == 1
    edit(None)
    with pytest.raises(InputError, match="1 of version unknown in"):
        Store(tmp_path).table()


def test_a_failure_of_an_older_version_is_no_longer_reported(edit: Edit, tmp_path: Path) -> None:
    edit("1.0")
    store = Store(tmp_path).open()
    store.plan([spec()])
    store.fail(spec(), "NameError")
    assert len(status_of(tmp_path).failed) == 1
    edit("-1.0")
    status = status_of(tmp_path)
    assert (status.failed, status.rows[0].left) == ([], 1)


def test_edit_and_run_again_as_a_user_does(tmp_path: Path) -> None:
    plugin, folder = tmp_path / "my_plugin.py", tmp_path / "runs"
    flags = ["--dataset", "edited-data", "--acquisition", "edited", "--warm-start", "10", "--batch-size", "5"]
    environment = {**os.environ, _registry.PLUGINS_VARIABLE: ""}

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "causalbald", "--plugin", str(plugin), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment)

    plugin.write_text(PLUGIN.replace("SIGN", "1.0"))
    call("run", *flags, "--steps", "1", "--out", str(folder), "--workers", "1")
    before = json.loads(call("table", str(folder), "--json").stdout)[0]["mean"]
    plugin.write_text(PLUGIN.replace("SIGN", "-1.0"))
    again = call("run", *flags, "--steps", "1", "--out", str(folder), "--workers", "1")
    assert "1 trials, 0 of them done already. 1 of the others are run again: a plugin has changed" in " ".join(
        again.stderr.split()
    )
    table = call("table", str(folder), "--json")
    assert "warning: dataset 'edited-data' has changed" in table.stderr
    assert json.loads(table.stdout)[0]["mean"] != before
