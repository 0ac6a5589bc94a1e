"""Results on disk: one small file per trial, written whole or not at all.

A folder holds ``planned.json`` (every trial ever asked for), ``trials/KEY.json`` (finished), ``partial/KEY.json`` (how
far an unfinished one has come), ``failed/KEY.json`` (why) and ``propensity/KEY.npy`` (per data set and seed).
``tables/`` holds finished trials as tidy CSV, if they were packed: small enough to be kept under version control.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from causalbald._files import locked, replacing
from causalbald._typing import Array
from causalbald._version import __version__
from causalbald.errors import InputError
from causalbald.experiments._packed import named_table, read_acquired, read_tables, write_tables
from causalbald.experiments._spec import TrialSpec
from causalbald.experiments._trial import TrialState
from causalbald.experiments._versions import of_one_version


class Store:
    """The results folder of a run."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def open(self) -> Store:
        """Make the folder if it is not there."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{str(self.folder)!r} is a file: give --out the name of a folder.")
        for name in ("trials", "partial", "failed", "propensity"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        return self

    def plan(self, specs: Iterable[TrialSpec]) -> None:
        """Note what is to be run, beside what was planned before."""
        with locked(self.folder / "planned.lock"):  # two runs may start at once
            planned = {spec.key: spec for spec in self.planned()}
            for spec in specs:
                if spec.plugins:  # of several versions of a trial, the last in the plan is the one asked for last
                    planned.pop(spec.key, None)
                planned[spec.key] = spec
            lines = [
                json.dumps(spec.given | ({"plugins": spec.plugins} if spec.plugins else {}))
                for spec in planned.values()
            ]
            with replacing(self.folder / "planned.json") as beside:
                beside.write_bytes(("[\n" + ",\n".join(lines) + "\n]\n").encode())

    def planned(self) -> list[TrialSpec]:
        """Return every trial that was ever asked for, in that order."""
        return [TrialSpec.from_record(values) for values in _read_json(self.folder / "planned.json") or []]

    def current(self) -> list[TrialSpec]:
        """Return every planned trial once, with the plugins that are loaded now.

        A trial whose plugin is not loaded is of the version that was asked for last.
        """
        return list({spec.settings_key: spec.updated() for spec in self.planned()}.values())

    def older(self) -> list[TrialSpec]:
        """Return the finished trials whose plugin has changed since."""
        current = {spec.key for spec in self.current()}
        return [spec for spec in self.planned() if spec.key not in current and self.is_done(spec)]

    def is_done(self, spec: TrialSpec) -> bool:
        """Return whether the trial's result is here."""
        return self._path("trials", spec).exists() or spec.key in self._packed_keys

    def state(self, spec: TrialSpec) -> TrialState:
        """Return how far an unfinished trial has come; at its start if nothing is known."""
        record = _read_json(self._path("partial", spec))
        return TrialState() if record is None else _to_state(record)

    def keep(self, spec: TrialSpec, state: TrialState) -> None:
        """Note how far a trial has come."""
        _write_json(self._path("partial", spec), _record(spec, state))

    def finish(self, spec: TrialSpec, state: TrialState) -> None:
        """Keep a result for good."""
        _write_json(self._path("trials", spec), _record(spec, state))
        for kind in ("partial", "failed"):
            self._path(kind, spec).unlink(missing_ok=True)

    def fail(self, spec: TrialSpec, error: str) -> None:
        """Note that a trial failed, and why."""
        _write_json(self._path("failed", spec), {"spec": spec.record, "error": error})

    def failures(self) -> list[tuple[TrialSpec, str]]:
        """Return the trials that failed and have not succeeded since."""
        found = _read_all(sorted((self.folder / "failed").glob("*.json")))
        return [(TrialSpec.from_record(record["spec"]), record["error"]) for record in found]

    def results(self) -> list[tuple[TrialSpec, TrialState]]:
        """Return all finished trials, in the order in which they were planned."""
        order = {spec.key: k for k, spec in enumerate(self.planned())}
        found = sorted((self.folder / "trials").glob("*.json"), key=lambda p: (order.get(p.stem, len(order)), p.stem))
        return [(TrialSpec.from_record(record["spec"]), _to_state(record)) for record in _read_all(found)]

    def table(self) -> pd.DataFrame:
        """Return a row per fit of all finished trials, with columns that name the trial, in the order of planning.

        Each plugin is of one version: of the one that is loaded, or else of the only one there is. A PluginWarning
        says which trials are left out. Raises InputError if a plugin that is not loaded has trials of several versions.
        """
        return of_one_version(self.rows(), [self])

    def rows(self) -> pd.DataFrame:
        """Return the rows of :meth:`table` for all versions of plugins."""
        packed = read_tables(self.folder)
        tables = [named_table(spec, state) for spec, state in self.results() if spec.key not in self._packed_keys]
        tables = [packed, *tables] if len(packed) else tables
        if not tables:
            raise InputError(f"no finished trials in {str(self.folder)!r}: run some with `causalbald run --out`.")
        order = {spec.key: k for k, spec in enumerate(self.planned())}
        table = pd.concat(tables, ignore_index=True)
        position = table["key"].map(lambda key: order.get(key, len(order)))
        return table.loc[position.sort_values(kind="stable").index].reset_index(drop=True)

    def pack(self) -> int:
        """Write all finished trials as tidy CSV into ``tables/``, remove their single files, and return how many.

        Numbers are rounded to five digits. What was acquired is kept for the first seed of each method alone.
        """
        results = self.results()
        first = min((spec.seed for spec in self.planned()), default=0)
        write_tables(
            self.folder, self.rows(), [(spec, state.acquired) for spec, state in results if spec.seed == first]
        )
        for spec, _ in results:
            self._path("trials", spec).unlink()
        self.__dict__.pop("_packed_keys", None)
        return len(results)

    def acquired(self, spec: TrialSpec) -> list[list[int]]:
        """Return the pool positions acquired before each fit of a finished trial."""
        record = _read_json(self._path("trials", spec))
        found = read_acquired(self.folder).get(spec.key) if record is None else _to_state(record).acquired
        if found is None:
            raise InputError(f"{str(self.folder)!r} does not say what was acquired in: {spec}. Try another seed.")
        return found

    @cached_property
    def _packed_keys(self) -> frozenset[str]:
        return frozenset(read_tables(self.folder)["key"])

    def propensity(self, spec: TrialSpec) -> Array | None:
        """Return the propensities of the trial's pool, if they are here."""
        path = self.folder / "propensity" / f"{spec.data_key}.npy"
        found: Array | None = np.load(path, allow_pickle=False) if path.exists() else None
        return found

    def keep_propensity(self, spec: TrialSpec, values: Array) -> None:
        """Keep the propensities of a trial's pool for all trials on the same data."""
        path = self.folder / "propensity" / f"{spec.data_key}.npy"
        with replacing(path) as beside, beside.open("wb") as file:
            np.save(file, values, allow_pickle=False)

    def _path(self, kind: str, spec: TrialSpec) -> Path:
        return self.folder / kind / f"{spec.key}.json"


def _record(spec: TrialSpec, state: TrialState) -> dict[str, Any]:
    rows = [{k: None if math.isnan(v) else v for k, v in row.items()} for row in state.rows]
    return {"version": __version__, "spec": spec.record, "rows": rows, "acquired": state.acquired}


def _to_state(record: dict[str, Any]) -> TrialState:
    rows = [{k: math.nan if v is None else v for k, v in row.items()} for row in record["rows"]]
    return TrialState(rows, record["acquired"])


def _read_all(paths: Iterable[Path]) -> list[Any]:
    return [record for record in map(_read_json, paths) if record is not None]


def _read_json(path: Path) -> Any:
    """Return what a file holds; None if there is none, or none any more, since workers finish at any time."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise InputError(f"{str(path)!r} is damaged ({error}): delete it, and its trial will be run again.") from error


def _write_json(path: Path, content: Any) -> None:
    with replacing(path) as beside:
        beside.write_bytes(json.dumps(content).encode())
