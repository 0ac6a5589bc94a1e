"""How time and memory grow with the pool, the labels and the covariates, compared with the machine's limits.

    python benchmarks/scale.py --folder FOLDER                        run what is missing in results/scale
    python benchmarks/scale.py --folder FOLDER --only pool gp --again   run some rows again
    python benchmarks/scale.py --table pool                           as Markdown
    python benchmarks/scale.py --draw docs/figures/scale.svg

Each row is a separate process that opens a Parquet pool, fits a model on the labels and chooses 100 units. Pools are
written to FOLDER, 2 GB for the largest, and are removed from the page cache before each run. The limits are the file's
bytes at the speed of a plain read, and the floating-point operations that scores cannot avoid at the speed of matrix
products on all cores. The speeds are measured right after the run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

RESULTS = Path(__file__).parent.parent / "results" / "scale"
BATCH, GROUP, MOST_LABELS = 100, 1 << 17, 10_000
SIZES = {
    "pool": [(rows, 300, 25) for rows in (100_000, 1_000_000, 10_000_000)],
    "labels": [(100_000, labels, 25) for labels in (100, 300, 1000, 3000, 10_000)],
    "dimensions": [(100_000, 300, dimensions) for dimensions in (10, 30, 100, 300, 1000)],
}
MODELS = ("gp", "due")
ROUNDED = ("open", "fit", "score", "choose", "total", "cpu", "read_limit", "flop_limit", "peak_gb", "load")


@dataclass(frozen=True)
class Case:
    """One run."""

    study: str
    model: str
    acquisition: str
    rows: int
    labels: int
    dimensions: int

    @property
    def words(self) -> set[str]:
        return {str(value) for value in asdict(self).values()}


def cases() -> list[Case]:
    mu_rho_cases = [
        Case(study, model, "mu-rho-bald", *size) for study, sizes in SIZES.items() for size in sizes for model in MODELS
    ]
    return [*mu_rho_cases, *(Case("pool", model, "tau-vr", *size) for size in SIZES["pool"] for model in MODELS)]


def make_pool(folder: Path, rows: int, dimensions: int) -> Path:
    """Write a pool and the outcomes of some of its units, unless the files exist."""
    path = folder / f"pool-{rows}-{dimensions}.parquet"
    if path.exists():
        return path
    rng, names = np.random.default_rng(0), [f"x{k}" for k in range(dimensions)]
    parts, part, group = [], path.with_suffix(".part"), max(1 << 12, GROUP * 25 // max(25, dimensions))
    schema = pa.schema([("unit", pa.int64()), ("drug", pa.int8()), *((name, pa.float64()) for name in names)])
    with pq.ParquetWriter(part, schema) as writer:
        for start in range(0, rows, group):
            n = min(group, rows - start)
            x = rng.normal(size=(n, dimensions))
            arm = (rng.random(n) < 1 / (1 + np.exp(-x[:, 0] - x[:, 1]))).astype(np.int8)
            unit = np.arange(start, start + n)
            writer.write_table(pa.table([unit, arm, *(pa.array(c) for c in x.T)], schema=schema))
            y = x[:, 2] + arm * (1 + np.sin(2 * x[:, 0])) + 0.5 * rng.normal(size=n)
            parts.append(
                pd.DataFrame({"unit": unit, "outcome": y}).sample(frac=min(1, MOST_LABELS / n), random_state=0)
            )
    labels = pd.concat(parts).sample(MOST_LABELS, random_state=0)
    labels.to_parquet(path.with_suffix(".outcomes"), index=False)
    part.rename(path)
    return path


def run(case: Case, path: Path) -> dict[str, float]:
    """Choose a batch, and return the seconds of its parts and the operations that a score cannot avoid."""
    from causalbald.pools import ParquetPool, ParquetRound

    marks = [perf_counter()]
    measured = pd.read_parquet(path.with_suffix(".outcomes")).head(case.labels)
    pool = ParquetPool(path, id="unit", treatment="drug")
    marks.append(perf_counter())
    chosen = ParquetRound(pool, measured, outcome="outcome", model=case.model)
    _ = chosen.model  # fitted when it is first asked for
    marks.append(perf_counter())
    scores = chosen.scores(case.acquisition)
    marks.append(perf_counter())
    batch = chosen.choose(BATCH, case.acquisition, batch="greedy", scores=scores)
    marks.append(perf_counter())
    assert len(batch) == BATCH
    seconds = dict(zip(("open", "fit", "score", "choose"), np.diff(marks).tolist(), strict=True))
    double, single = operations(chosen.model, case)
    return {**seconds, "double": double, "single": single}


def operations(model: Any, case: Case) -> tuple[float, float]:
    """Return how many operations in double and in single precision the score of a unit takes at least.

    Distances to the n labels or sites, and a triangular product of an (n, n) matrix for each arm; before it, the layers
    of a deep model. For targets, distances to them and their product with the labels.
    """
    targets = 1000 if case.acquisition == "tau-vr" else 0
    if case.model == "due":
        singles, width = model._of_single_units(), model.hidden
        n, layers = len(singles[0].x), case.dimensions * width + (model.depth - 1) * width**2
        process = len(singles) * (2.0 * (n + targets) * width + 2 * n**2 + 2 * n * targets)
        rounded = singles[0].x.element_size() == 4
        return 0.0 if rounded else process, len(singles) * 2.0 * layers + (process if rounded else 0.0)
    parts, n = len(model.hyperparameters_.weights), len(model.single_.x)
    return 2.0 * parts * (n + targets) * case.dimensions + 2 * n**2 + 2 * n * targets, 0.0


def in_own_process(case: Case, path: Path) -> dict[str, float]:
    """Run a case in a new process and return its figures, with processor time and peak memory."""
    forget(path)
    command = [sys.executable, __file__, "--one", json.dumps(asdict(case)), "--pool", str(path)]
    started = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{case} failed")
    measures: dict[str, float] = json.loads(printed.splitlines()[-1])
    measures |= {"total": perf_counter() - started, "cpu": usage.ru_utime + usage.ru_stime}
    return measures | {"peak_gb": usage.ru_maxrss / 2**20}


def forget(path: Path) -> None:
    """Take a file out of the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_speed(path: Path) -> float:
    """Return bytes per second of reading a file from disk, at most 2 GB of it."""
    forget(path)
    started, size, buffer = perf_counter(), 0, bytearray(1 << 23)
    with path.open("rb", buffering=0) as file:
        while size < 1 << 31 and (count := file.readinto(buffer)):
            size += count
    return size / (perf_counter() - started)


def matmul_speed(kind: Any, seconds: float = 2.0) -> float:
    """Return operations per second of matrix products, one on each core at a time."""
    import torch

    from causalbald._threads import in_threads

    a, b = torch.rand(512, 512, dtype=kind), torch.rand(512, 1024, dtype=kind)
    done, started = 0, perf_counter()
    while (elapsed := perf_counter() - started) < seconds:
        done += sum(1 for _ in in_threads(lambda _: a @ b, range(100)))
    return done * 2 * 512 * 512 * 1024 / elapsed


def with_limits(case: Case, path: Path, measures: dict[str, float]) -> dict[str, Any]:
    """Return a row of the results."""
    import torch

    double, single = measures.pop("double"), measures.pop("single")
    measures["read_limit"] = path.stat().st_size / read_speed(path)
    measures["flop_limit"] = case.rows * (double / matmul_speed(torch.float64) + single / matmul_speed(torch.float32))
    measures["times_limit"] = round(measures["score"] / max(measures["read_limit"], measures["flop_limit"]), 1)
    return {
        **asdict(case),
        **{name: round(measures[name], 2) for name in ROUNDED},
        "times_limit": measures["times_limit"],
    }


def measure(folder: Path, only: set[str], *, again: bool) -> None:
    """Run what is missing, and write each row when its run ends."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    names = list(Case.__dataclass_fields__)
    for case in (c for c in cases() if only <= c.words):
        table = RESULTS / f"{case.study}.csv"
        rows = pd.read_csv(table) if table.exists() else pd.DataFrame(columns=names)
        same = (rows[names] == list(asdict(case).values())).all(axis=1)
        if same.any() and not again:
            continue
        path, load = make_pool(folder, case.rows, case.dimensions), os.getloadavg()[0]
        row = with_limits(case, path, {**in_own_process(case, path), "load": load})
        print(row, flush=True)
        rows = pd.concat([rows[~same], pd.DataFrame([row])]) if len(rows) else pd.DataFrame([row])
        rows.sort_values(["acquisition", "model", "rows", "labels", "dimensions"]).to_csv(table, index=False)


def markdown(study: str) -> str:
    """Return a table of the docs."""
    axis = "rows" if study == "pool" else study
    head = ["model", "acquisition", axis, "open", "fit", "score", "choose", "all, s", "peak, GB"]
    lines = [[*head, "read", "compute", "score / limit"]]
    for row in pd.read_csv(RESULTS / f"{study}.csv").to_dict("records"):
        cells = [f"`{row['model']}`", row["acquisition"], f"{row[axis]:,}"]
        numbers = ("open", "fit", "score", "choose", "total")
        cells += [f"{row[name]:,.1f}" if row[name] < 100 else f"{row[name]:,.0f}" for name in numbers]
        cells += [f"{row['peak_gb']:.2f}", f"{row['read_limit']:.1f}", f"{row['flop_limit']:.1f}"]
        lines.append([*cells, f"{row['times_limit']:g}"])
    lines.insert(1, ["---"] * 3 + ["---:"] * 9)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(output: Path) -> None:
    """Draw how time grows, on logarithmic axes."""
    from causalbald.figures import house_style, new_figure

    colours = {"gp": "#0072B2", "due": "#D55E00"}
    with house_style():
        figure = new_figure(11, 3.6)
        for panel, (study, axis) in zip(
            figure.subplots(1, 3), (("pool", "rows"), ("labels",) * 2, ("dimensions",) * 2), strict=True
        ):
            table = pd.read_csv(RESULTS / f"{study}.csv").query("acquisition == 'mu-rho-bald'")
            for model, rows in table.groupby("model"):
                rows = rows.assign(
                    ask=rows["score"] + rows["choose"], limit=rows[["read_limit", "flop_limit"]].max(axis=1)
                )
                lines = {"total": "-", "limit": ":"} if study == "pool" else {"fit": "-", "ask": "--", "limit": ":"}
                for name, style in lines.items():
                    label = f"{model}, {'limit of scoring' if name == 'limit' else name}"
                    panel.loglog(
                        rows[axis], rows[name], style, marker="o", ms=4, color=colours[str(model)], label=label
                    )
            panel.set(xlabel=f"{axis} of the pool" if study == "pool" else axis, ylabel="seconds")
            if study != "dimensions":  # the same lines as by labels
                panel.legend(fontsize=8)
        figure.savefig(output, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument(
        "--only", nargs="+", default=[], help="study, model, acquisition or numbers of a run; all must fit"
    )
    parser.add_argument("--again", action="store_true", help="also what is there already")
    parser.add_argument("--table", choices=list(SIZES))
    parser.add_argument("--draw", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--pool", type=Path, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.one:
        print(json.dumps(run(Case(**json.loads(a.one)), a.pool)))
    elif a.table:
        print(markdown(a.table))
    elif a.draw:
        draw(a.draw)
    elif a.folder:
        a.folder.mkdir(parents=True, exist_ok=True)
        measure(a.folder, set(a.only), again=a.again)
    else:
        parser.error("one of --folder, --table, --draw is needed")


if __name__ == "__main__":
    main()
