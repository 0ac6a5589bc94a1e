"""A campaign with a pool of a million: seconds and peak memory of each command.

    python benchmarks/campaign_scale.py --folder FOLDER

The pool has 20 numeric and 5 categorical covariates with some missing values. It is written once to FOLDER, as CSV
and as Parquet. Rows of results/campaign/scale.csv with the same number of units are replaced.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

RESULT = Path(__file__).parent.parent / "results" / "campaign" / "scale.csv"
NUMERIC, CATEGORICAL, TOLD = 20, 5, 300


def make_pool(folder: Path, rows: int) -> None:
    """Write the pool and the outcomes of some of its units."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, NUMERIC))
    arm = rng.random(rows) < 1 / (1 + np.exp(-x[:, 0] - x[:, 1]))
    ids = pa.array([f"P{i:07d}" for i in range(rows)])
    columns: dict[str, pa.Array] = {"patient": ids, "drug": pa.array(np.where(arm, "drug", "placebo"))}
    for k in range(NUMERIC):
        missing = rng.random(rows) < 0.01 * (k % 4 == 0)
        columns[f"lab{k}"] = pa.array(x[:, k].round(4), mask=missing)
    for k in range(CATEGORICAL):
        levels = np.array([f"group {c}" for c in "abcdefgh"[: k + 3]])
        missing = rng.random(rows) < 0.01 * (k % 2)
        columns[f"category{k}"] = pa.array(levels[rng.integers(len(levels), size=rows)], mask=missing)
    table = pa.table(columns)
    csv.write_csv(table, folder / "pool.csv")
    pq.write_table(table, folder / "pool.parquet")
    told = np.sort(rng.choice(rows, size=TOLD, replace=False))
    y = x[told, 2] + arm[told] * (1 + np.sin(2 * x[told, 0])) + 0.5 * rng.normal(size=TOLD)
    csv.write_csv(pa.table({"patient": ids.take(pa.array(told)), "cd4": y}), folder / "results.csv")


def measure(command: list[str], log: Path) -> dict[str, float]:
    """Run a command and return its seconds, its seconds of processor time and its peak memory in GB."""
    started = perf_counter()
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{log.read_text()}")
    found = {"seconds": perf_counter() - started, "cpu_seconds": usage.ru_utime + usage.ru_stime}
    return {name: round(value, 2) for name, value in (found | {"peak_gb": usage.ru_maxrss / 2**20}).items()}


def commands(pool: Path, study: Path, results: Path) -> dict[str, list[str]]:
    columns = ["--id", "patient", "--treatment", "drug", "--control", "placebo", "--outcome", "cd4"]
    program = [sys.executable, "-m", "causalbald", "campaign"]
    return {
        "new": [*program, "new", str(study), "--pool", str(pool), *columns, "--yes"],
        "tell": [*program, "tell", str(study), str(results)],
        "ask": [*program, "ask", str(study), "-n", "10"],
        "status": [*program, "status", str(study)],
        "pending": [*program, "pending", str(study)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    a = parser.parse_args()
    folder = a.folder / str(a.rows)
    if not (folder / "results.csv").exists():
        folder.mkdir(parents=True, exist_ok=True)
        make_pool(folder, a.rows)
    found = []
    for kind in ("csv", "parquet"):
        study = folder / f"{kind}.db"
        study.unlink(missing_ok=True)
        for operation, command in commands(folder / f"pool.{kind}", study, folder / "results.csv").items():
            row = {"operation": operation, "rows": a.rows, **measure(command, folder / "log.txt")}
            found.append(row | {"format": kind})
            print(found[-1], flush=True)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    kept = pd.read_csv(RESULT).query("rows != @a.rows") if RESULT.exists() else None
    pd.concat([kept, pd.DataFrame(found)]).to_csv(RESULT, index=False)


if __name__ == "__main__":
    main()
