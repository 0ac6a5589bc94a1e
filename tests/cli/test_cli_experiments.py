"""The commands of experiments, as a user types them."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from causalbald._registry import PLUGINS_VARIABLE
from causalbald.cli._app import app
from causalbald.errors import CausalBaldError
from tests.helpers.digits import write_stand_in

SPEC = """
datasets = ["synthetic"]
acquisitions = ["random", "mu-rho-bald"]
[settings.synthetic]
batch_size = 5
steps = 2
options = { pool = 200, test = 50 }
[model_options.gp]
max_iter = 5
"""


TWO_MOONS = str(Path(__file__).parents[2] / "examples" / "my_dataset.py")


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout, " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    base = tmp_path_factory.mktemp("cli")
    (base / "spec.toml").write_text(SPEC)
    _, said = run("run", str(base / "spec.toml"), "--seeds", "0-1", "--out", str(base / "out"), "--workers", "1")
    assert "4 trials, 0 of them done already" in said
    assert "4 trials run, 0 failed" in said
    return str(base / "out")


def test_run_again_does_only_what_is_missing(folder: str) -> None:
    spec = str(Path(folder).parent / "spec.toml")
    _, said = run("run", spec, "--seeds", "0-1", "--out", folder, "--workers", "1")
    assert "4 trials, 4 of them done already" in said
    assert "0 trials run" in said
    listed, _ = run("run", spec, "--seeds", "0-2", "--acquisition", "random", "--out", folder, "--dry-run")
    assert [line.split(",")[-2:] for line in listed.splitlines()[1:]] == [["0", "True"], ["1", "True"], ["2", "False"]]


def test_a_failure_is_told_and_is_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC.replace("steps = 2", "steps = 50"))
    _, said = run("run", str(tmp_path / "spec.toml"), "--out", str(tmp_path), "--acquisition", "random", code=1)
    assert "failed: synthetic, gp, random, track paid, seed 0" in said
    assert "pool has 200 units" in said


def test_status(folder: str) -> None:
    [row] = json.loads(run("status", folder, "--json")[0])
    assert (row["done"], row["left"], row["minutes_left"]) == (4, 0, 0.0)


def test_table_in_all_formats(folder: str) -> None:
    rows = json.loads(run("table", folder, "--json")[0])
    assert [row["acquisition"] for row in rows] == ["random", "mu-rho-bald"]
    assert rows[1]["seeds"] == 2
    assert "seconds" not in rows[0]
    assert "seconds" in json.loads(run("table", folder, "--json", "--timings")[0])[0]
    csv = run("table", folder, "--csv")[0].splitlines()
    names = "dataset,model,track,acquisition,seeds,labels,mean,se,median,area,needed,needed_lower,needed_upper,wins"
    assert csv[0].startswith(names)
    assert len(csv) == 3
    markdown = run("table", folder, "--markdown", "--acquisition", "random")[0].splitlines()
    assert markdown[1].startswith("| --- |")
    assert len(markdown) == 3
    trials = run("table", folder, "--trials", "--csv")[0].splitlines()
    assert len(trials) == 1 + 2 * 2 * 3
    assert "seconds" not in trials[0]


def test_table_of_some_seeds(folder: str) -> None:
    one, all_seeds = (json.loads(run("table", folder, "--json", *some)[0]) for some in (["--seeds", "1"], []))
    assert [row["seeds"] for row in one] == [1, 1]
    assert one[0]["mean"] != all_seeds[0]["mean"]
    with pytest.raises(CausalBaldError, match="no trials with seeds 2-9"):
        CliRunner().invoke(app, ["table", folder, "--seeds", "2-9"], catch_exceptions=False)


def test_packed_results_read_the_same(folder: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    before = pd.read_csv(StringIO(run("table", str(copy), "--csv")[0]))
    assert "4 trials packed" in run("pack", str(copy))[1]
    after = pd.read_csv(StringIO(run("table", str(copy), "--csv")[0]))
    pd.testing.assert_frame_equal(after, before, rtol=0.01)  # packed numbers have five digits


def test_trials_of_several_folders_count_once(folder: str, tmp_path: Path) -> None:
    joint, second = tmp_path / "both", tmp_path / "other"
    shutil.copytree(folder, joint)
    spec = str(Path(folder).parent / "spec.toml")
    run("run", spec, "--seeds", "1-2", "--acquisition", "random", "--out", str(second), "--workers", "1")
    together = run("table", folder, str(second), "--csv")[0]
    run("run", spec, "--seeds", "0-2", "--acquisition", "random", "--out", str(joint), "--workers", "1")
    assert together == run("table", str(joint), "--csv")[0]
    assert [row["seeds"] for row in json.loads(run("table", folder, str(second), "--json")[0])] == [3, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "say what to run"),
        (["run", "x.toml", "--preset", "quick"], "not both"),
        (["run", "--preset", "quick", "--model", "due"], "no trials of due"),
        (["run", "--preset", "quick", "--seeds", "x"], "not of the form"),
        (["run", "--preset", "quick", "--seeds", "5-2"], "not of the form"),
        (["run", "--preset", "quick", "--data-dir", "nowhere"], "no folder"),
        (["table", "nowhere"], "no folder 'nowhere'"),
        (["table", ".", "nowhere"], "no folder 'nowhere'"),
        (["--plugin", TWO_MOONS, "run", "--dataset", "two-moons", "--steps", "1"], "give --warm-start, --batch-size"),
        (["status", "nowhere"], "nothing was planned"),
        (["datasets", "show", "synthetic", "-o", "picture.docx"], "ends with"),
        (["datasets", "show", "synthetic", "-o", "nowhere/x.png"], "does not exist"),
    ],
)
def test_mistakes(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CausalBaldError, match=message):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert not list(tmp_path.iterdir()), "nothing is written"


def test_a_data_set_of_ones_own_is_run_from_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLUGINS_VARIABLE, "")
    flags = ["--warm-start", "10", "--batch-size", "5", "--steps", "1", "--acquisition", "random"]
    listed, _ = run("--plugin", TWO_MOONS, "run", "--dataset", "two-moons", *flags, "--out", str(tmp_path), "--dry-run")
    assert listed.splitlines()[1].startswith("two-moons,gp,random")


def test_other_settings_need_another_folder(folder: str) -> None:
    spec, before = str(Path(folder).parent / "spec.toml"), run("status", folder)[0]
    with pytest.raises(CausalBaldError, match=r"seed 0 already, with other settings \(steps 2, now 3\)"):
        CliRunner().invoke(app, ["run", spec, "--steps", "3", "--out", folder], catch_exceptions=False)
    assert run("status", folder)[0] == before


def test_names_that_are_not_in_the_folder(folder: str) -> None:
    with pytest.raises(CausalBaldError, match=r"no trials of 'foo' to compare with\. There are trials of 'random'"):
        CliRunner().invoke(app, ["table", folder, "--baseline", "foo"], catch_exceptions=False)
    with pytest.raises(CausalBaldError, match=r"no trials with model 'due'\. There are: gp"):
        CliRunner().invoke(app, ["table", folder, "--model", "due"], catch_exceptions=False)


@pytest.mark.parametrize(("name", "suffix"), [("synthetic", "svg"), ("ihdp", "png"), ("cmnist", "png")])
def test_data_sets_are_drawn(name: str, suffix: str, tmp_path: Path) -> None:
    write_stand_in(tmp_path)
    picture = tmp_path / f"{name}.{suffix}"
    run("datasets", "show", name, "-o", str(picture), "--data-dir", str(tmp_path))
    assert picture.stat().st_size > 10_000


def test_workers_know_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLUGINS_VARIABLE, "")
    (tmp_path / "spec.toml").write_text(SPEC.replace('["random", "mu-rho-bald"]', '["by-position"]'))
    (tmp_path / "plugin.py").write_text(
        "import numpy as np\nfrom causalbald import acquisition\n\n\n"
        '@acquisition.register("by-position")\n'
        "def by_position(posterior, treatment):\n    return np.zeros(len(posterior))\n"
    )
    plugin, spec, out = (str(tmp_path / name) for name in ("plugin.py", "spec.toml", "out"))
    _, said = run("--plugin", plugin, "run", spec, "--out", out, "--workers", "1")
    assert "1 trials run, 0 failed" in said
