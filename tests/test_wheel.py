"""The built wheel, installed into an empty environment in an empty folder, runs the demo."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_wheel_runs_the_demo_in_an_empty_environment(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("causalbald-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "causalbald/datasets/data/ihdp.csv" in names
    assert "causalbald/datasets/data/README.md" in names
    assert "causalbald/py.typed" in names
    assert all(name.startswith("causalbald") for name in names)
    run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    work = tmp_path / "empty"
    work.mkdir()
    shown = run(tmp_path / "env" / "bin" / "causalbald", "demo", "--seeds", "1", "--steps", "3", cwd=work)
    assert "synthetic" in shown
    assert "ihdp" in shown
    assert (work / "causalbald-demo.html").stat().st_size > 50_000
