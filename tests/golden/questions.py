"""What is asked of a golden file, in words of :mod:`tests.golden.commands`."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from tests.golden import commands
from tests.golden.cases import LOOKS, Case
from tests.golden.commands import call

STUDY = "study.db"


def of_campaign(case: Case) -> dict[str, Any]:
    """Return the answers of the campaign in the current folder."""
    answers = {name: call(name, STUDY, json=True) for name in LOOKS}
    answers["ask"] = call("ask", STUDY, n=case.n, dry_run=True, json=True)
    options: dict[str, dict[str, Any]] = {
        "subgroups": {"by": case.by},
        "advice": {"n": case.n},
        "effects": {"alpha": 0.1},
    }
    for name in case.questions:
        if name == "report":
            answers |= commands.report(STUDY)
        else:
            others = ["others.csv"] if name == "predict" else []
            answers[name] = call(name, STUDY, *others, json=True, **options.get(name, {}))
    return answers


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of an exported campaign."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def cells(path: Path) -> list[list[str | float]]:
    """Return the rows of a CSV file; cells with a decimal point are numbers."""
    with path.open(newline="", encoding="utf-8") as file:
        return [[float(c) if re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", c) else c for c in row] for row in csv.reader(file)]


def timeless(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a campaign's lines with its pool as tables, and without what depends on when and where it was run."""
    found = []
    for record in records:
        if "parquet" in record:
            table = pq.read_table(io.BytesIO(base64.b64decode(record["parquet"])))
            types = {field.name: str(field.type) for field in table.schema}
            found.append({"part": record["part"], "types": types, "table": table.to_pydict()})
        elif "body" in record:
            body = {k: v for k, v in record["body"].items() if k != "versions"}
            found.append({"number": record["number"], "kind": record["kind"], "body": body})
        else:
            found.append(record)
    return found


PLAN = "plan.toml"


def of_experiment() -> dict[str, Any]:
    """Return the answers of the finished runs in the current folder, before and after packing them."""
    answers = {
        "status": _untimed(call("run status", "finished", json=True)),
        "table": call("table", "finished", json=True),
        "table of errors at 12 labels": call("table", "finished", error="ate_error", labels=12, json=True),
        "table with a target": call("table", "finished", target=1.5, json=True),
        "every fit": call("table", "finished", trials=True, json=True),
        "what is left": call("run", PLAN, out="finished", dry_run=True),
    }
    shutil.copytree("finished", "packed")
    call("pack", "packed")
    return answers | {
        "packed": {path.name: cells(path) for path in sorted(Path("packed/tables").rglob("*.csv"))},
        "table of packed": call("table", "packed", json=True),
        "what is left of packed": call("run", PLAN, out="packed", dry_run=True),
    }


def _untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if "hour" not in k and "second" not in k} for row in rows]


def of_half_a_run() -> dict[str, Any]:
    """Go on with the run in the current folder that was cut off, and return its trials."""
    call("run", PLAN, out="half", workers=1)
    return trials(Path("half"))


def trials(folder: Path) -> dict[str, Any]:
    """Return the finished trials in a folder, without the seconds that they took."""
    found = {}
    for path in sorted((folder / "trials").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        found[path.stem] = {"rows": _untimed(record["rows"]), "acquired": record["acquired"]}
    return found


ROLES = {"id": "patient", "treatment": "drug", "control": "placebo", "outcome": "cd4"}
POOLS: dict[str, dict[str, Any]] = {
    "greedy": {"n": 5},
    "one of two files": {"n": 5, "model": "index", "acquisition": "epig-mu", "covariate": ["age", "sex"]},
    "softmax": {"n": 5, "acquisition": "mu-rho-bald", "seed": 4, "exclude": ["price"]},
    "highest scores": {"n": 5, "acquisition": "tau-bald", "batch": "softmax", "temperature": 0},
    "weights": {"n": 4, "weight": "matters", "acquisition": "tau-vr", "exclude": ["price"]},
}


# All functions that score single people of a pool on disk.
_FUNCTIONS = (
    *("random", "propensity", "tau-bald", "mu-bald", "mu-info", "rho-bald", "mu-pi-bald", "mu-rho-bald", "type-s"),
    *("tau-vr", "epig-tau", "epig-mu", "regret", "default"),
)


def of_pools() -> dict[str, Any]:
    """Return batches and scores from the pools on disk in the current folder."""
    answers: dict[str, Any] = {}
    for name, options in POOLS.items():
        pool = "folder" if name == "one of two files" else "pool.parquet"
        answers[name] = call("choose", pool, measured=["measured.csv"], **ROLES, **options, json=True)
    for name in ("greedy", "softmax"):
        options = {k: v for k, v in POOLS[name].items() if k != "n"}
        told = call(
            "score pool", "folder", measured=["measured.csv"], output="s.parquet", **ROLES, **options, json=True
        )
        answers[f"scores, {name}"] = {"told": told, "table": pq.read_table("s.parquet").to_pydict()}
    for name in _FUNCTIONS:
        told = {"acquisition": name, "output": "s.parquet", "covariate": ["age", "weight", "sex"]}
        found = call("score pool", "pool.parquet", measured=["measured.csv"], **ROLES, **told, json=True)
        answers[f"scores by {name}"] = found if "error" in found else pq.read_table("s.parquet")["score"].to_pylist()
    return answers


def of_models() -> dict[str, Any]:
    """Return what the stored deep models in the current folder believe of the stored people."""
    rows = pd.read_csv("rows.csv")
    found = {}
    for path in sorted(Path().glob("*.safetensors")):
        found[path.stem] = commands.beliefs(commands.load(path.stem.partition("-")[0], path), rows)
    return found


def of_lists() -> dict[str, Any]:
    """Return the names of models and acquisition functions, from a new process: other tests register their own."""
    return {"models": [row["name"] for row in _listed("models")], "acquisitions": _listed("acquisitions")}


def _listed(command: str) -> Any:
    """Return what a command lists as JSON, without plugins."""
    environment = {name: value for name, value in os.environ.items() if name != "CAUSALBALD_PLUGINS"}
    arguments = [sys.executable, "-m", "causalbald", command, "--json"]
    return json.loads(subprocess.run(arguments, capture_output=True, check=True, env=environment).stdout)
