"""Results on disk: one small file per trial, written whole or not at all.

A folder holds

- ``planned.json``: all trials that were ever planned;
- ``trials/KEY.json``: finished trials;
- ``partial/KEY.json``: how far unfinished trials have come;
- ``failed/KEY.json``: why trials failed;
- ``propensity/KEY.npy``: estimated propensities; here KEY stands for data set and seed;
- ``tables/``: finished trials as tidy CSV, if they were packed; small enough for version control.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from causalbald._files import locked, replacing
from causalbald._typing import Array
from causalbald._version import __version__
from causalbald.errors import InputError
from causalbald.experiments._json_files import read_all, read_json, write_json
from causalbald.experiments._packed import named_table, read_acquired, read_tables, write_tables
from causalbald.experiments._spec import TrialSpec
from causalbald.experiments._state import TrialState
from causalbald.experiments._versions import of_one_version

_FOLDERS = ("trials", "partial", "failed", "propensity")


class Store:
    """The folder with the results of a run.

    Parameters
    ----------
    folder : path
        It need not exist until something is written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from causalbald.experiments import Store, TrialSpec, run
    >>> spec = TrialSpec("synthetic", "random", 8, 4, 1, seed=0, dataset_options={"pool": 60, "test": 20})
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(folder).open()
    ...     store.plan([spec])
    ...     store.finish(spec, spec.run())
    ...     store.is_done(spec), store.table()["labels"].tolist()
    (True, [8, 12])
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def open(self) -> Store:
        """Create the folder and its parts if they do not exist, and return this store.

        Returns
        -------
        Store

        Raises
        ------
        InputError
            If the folder is a file.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{str(self.folder)!r} is a file: give --out the name of a folder.")
        for name in _FOLDERS:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        return self

    def plan(self, specs: Iterable[TrialSpec]) -> None:
        """Add trials to ``planned.json``, each once. Called by :func:`run` before the first fit.

        Parameters
        ----------
        specs : iterable of TrialSpec
            The trials to be run.

        Raises
        ------
        InputError
            If the folder has a finished trial with the same name and other settings: tables could not tell them apart.
            Then nothing is added.
        """
        with locked(self.folder / "planned.lock"):  # two runs may start at once
            before = self.planned()
            planned = {spec.key: spec for spec in before}
            done = {tuple(spec.names.values()): spec for spec in before if self.is_done(spec)}
            for spec in specs:
                self._check_name(spec, done.get(tuple(spec.names.values()), spec))
                if spec.plugins:  # of several versions of a trial, the last one in the plan was planned last
                    planned.pop(spec.key, None)
                planned[spec.key] = spec
            lines = [
                json.dumps(spec.arguments() | ({"plugins": spec.plugins} if spec.plugins else {}))
                for spec in planned.values()
            ]
            with replacing(self.folder / "planned.json") as beside:
                beside.write_bytes(("[\n" + ",\n".join(lines) + "\n]\n").encode())

    def _check_name(self, spec: TrialSpec, finished: TrialSpec) -> None:
        """Raise InputError if ``finished`` has other settings than ``spec``; versions of plugins may differ.

        ``finished`` is the finished trial with the same name, or ``spec`` itself. Called by :meth:`plan`.
        """
        new, old = spec.settings, finished.settings
        changes = "; ".join(f"{name} {old[name]!r}, now {new[name]!r}" for name in new if new[name] != old[name])
        if changes:
            raise InputError(
                f"{str(self.folder)!r} has a trial of {spec} already, with other settings ({changes}). Tables could "
                "not tell them apart: choose another folder."
            )

    def planned(self) -> list[TrialSpec]:
        """Return all trials that were ever planned, in the order of planning; none if the folder has no plan.

        Returns
        -------
        list of TrialSpec
            With the versions of plugins that the trials were planned with: a trial may occur in several versions.
        """
        return [TrialSpec.from_json(record) for record in read_json(self.folder / "planned.json") or []]

    def current(self) -> list[TrialSpec]:
        """Return every planned trial once, with the versions of plugins that are loaded now.

        Returns
        -------
        list of TrialSpec
            If a plugin is not loaded, its trials have the version that was planned last.
        """
        return _updated(self.planned())

    def older(self) -> list[TrialSpec]:
        """Return the finished trials with another version of a plugin than :meth:`current` gives.

        Returns
        -------
        list of TrialSpec
        """
        planned = self.planned()
        current = {spec.key for spec in _updated(planned)}
        return [spec for spec in planned if spec.key not in current and self.is_done(spec)]

    def is_done(self, spec: TrialSpec) -> bool:
        """Return whether the folder has the trial's result, in a file of its own or packed.

        Parameters
        ----------
        spec : TrialSpec
            The trial.

        Returns
        -------
        bool
        """
        return self._path("trials", spec).exists() or spec.key in self._packed_keys

    def state(self, spec: TrialSpec) -> TrialState:
        """Return how far an unfinished trial has come, as :meth:`keep` wrote it.

        Parameters
        ----------
        spec : TrialSpec
            The trial.

        Returns
        -------
        TrialState
            Empty if the trial has not started, and if it is finished.
        """
        record = read_json(self._path("partial", spec))
        return TrialState() if record is None else TrialState.from_json(record)

    def keep(self, spec: TrialSpec, state: TrialState) -> None:
        """Write how far a trial has come, in place of what was written before. Called after each fit.

        Parameters
        ----------
        spec : TrialSpec
            The trial.
        state : TrialState
            Its state.
        """
        write_json(self._path("partial", spec), _record(spec, state))

    def finish(self, spec: TrialSpec, state: TrialState) -> None:
        """Write a trial's result, and delete the trial's files in ``partial/`` and ``failed/``.

        Parameters
        ----------
        spec : TrialSpec
            The trial.
        state : TrialState
            Its last state.
        """
        write_json(self._path("trials", spec), _record(spec, state))
        for kind in ("partial", "failed"):
            self._path(kind, spec).unlink(missing_ok=True)

    def fail(self, spec: TrialSpec, error: str) -> None:
        """Write that a trial failed, and why. What :meth:`keep` wrote about the trial stays.

        Parameters
        ----------
        spec : TrialSpec
            The trial.
        error : str
            The traceback.
        """
        write_json(self._path("failed", spec), {"spec": spec.to_json(), "error": error})

    def failures(self) -> list[tuple[TrialSpec, str]]:
        """Return the trials, of all plugin versions, that failed and have not succeeded since, with their tracebacks.

        Returns
        -------
        list of (TrialSpec, str)
        """
        records = read_all(sorted((self.folder / "failed").glob("*.json")))
        return [(TrialSpec.from_json(record["spec"]), record["error"]) for record in records]

    def results(self) -> list[tuple[TrialSpec, TrialState]]:
        """Return all finished trials that are not packed, in the order of planning; trials without a plan come last.

        Returns
        -------
        list of (TrialSpec, TrialState)
        """
        return self._results(_places(self.planned()))

    def _results(self, places: dict[str, int]) -> list[tuple[TrialSpec, TrialState]]:
        """Return :meth:`results`, given the place of each trial's key in the plan."""
        paths = (self.folder / "trials").glob("*.json")
        ordered = sorted(paths, key=lambda path: (places.get(path.stem, len(places)), path.stem))
        return [(TrialSpec.from_json(record["spec"]), TrialState.from_json(record)) for record in read_all(ordered)]

    def table(self) -> pd.DataFrame:
        """Return a table with a row per fit of each finished trial, in the order of planning.

        Each plugin has one version: the one that is loaded, or else the only one in the folder. A PluginWarning says
        how many trials of other versions are omitted.

        Returns
        -------
        DataFrame
            ``key``, the columns :data:`NAMES`, and the columns of :func:`run_trial`.

        Raises
        ------
        InputError
            If no trial is finished, only other versions of a loaded plugin are, or a plugin that is not loaded has
            trials of several versions.
        """
        return of_one_version(self.rows(), [self])

    def rows(self) -> pd.DataFrame:
        """Return a table as :meth:`table` does, but with the trials of all versions of plugins.

        Returns
        -------
        DataFrame

        Raises
        ------
        InputError
            If no trial is finished.
        """
        places, packed = _places(self.planned()), read_tables(self.folder)
        results = self._results(places)
        tables = [named_table(spec, state) for spec, state in results if spec.key not in self._packed_keys]
        tables = [packed, *tables] if len(packed) else tables
        if not tables:
            raise InputError(f"no finished trials in {str(self.folder)!r}: run some with `causalbald run --out`.")
        table = pd.concat(tables, ignore_index=True)
        place = table["key"].map(lambda key: places.get(key, len(places)))
        return table.loc[place.sort_values(kind="stable").index].reset_index(drop=True)

    def pack(self) -> int:
        """Write all finished trials as tidy CSV into ``tables/``, and delete their single files.

        Numbers are rounded to five digits. Acquired positions are kept only for trials with the plan's smallest seed.
        What was packed before is kept. Raises InputError if no trial is finished.

        Returns
        -------
        int
            How many trials were packed now.
        """
        results = self.results()
        first_seed = min((spec.seed for spec in self.planned()), default=0)
        acquired = [(spec, state.acquired) for spec, state in results if spec.seed == first_seed]
        write_tables(self.folder, self.rows(), acquired)
        for spec, _ in results:
            self._path("trials", spec).unlink()
        self.__dict__.pop("_packed_keys", None)
        return len(results)

    def acquired(self, spec: TrialSpec) -> list[list[int]]:
        """Return the pool positions measured before each fit of a finished trial.

        Parameters
        ----------
        spec : TrialSpec
            The trial.

        Returns
        -------
        list of list of int

        Raises
        ------
        InputError
            If the trial is not finished, or was packed without its positions.
        """
        record = read_json(self._path("trials", spec))
        if record is not None:
            return TrialState.from_json(record).acquired
        packed = read_acquired(self.folder)
        if spec.key not in packed:
            raise InputError(f"{str(self.folder)!r} does not say what was acquired in: {spec}. Try another seed.")
        return packed[spec.key]

    @cached_property
    def _packed_keys(self) -> frozenset[str]:
        """Keys of the trials in ``tables/``, read once: if another process packs, this store does not notice."""
        return frozenset(read_tables(self.folder)["key"])

    def propensity(self, spec: TrialSpec) -> Array | None:
        """Return the estimated propensities of the trial's pool, (N,), if the folder has them.

        Parameters
        ----------
        spec : TrialSpec
            Any trial on the same data.

        Returns
        -------
        array (N,) or None
        """
        path = self.folder / "propensity" / f"{spec.data_key}.npy"
        propensity: Array | None = np.load(path, allow_pickle=False) if path.exists() else None
        return propensity

    def propensity_or(self, spec: TrialSpec, fit: Callable[[], Array]) -> Array:
        """Return the propensities that the folder has for the trial's pool; if it has none, fit and keep them.

        Other processes that need the same propensities wait meanwhile, except on systems without file locks.

        Parameters
        ----------
        spec : TrialSpec
            Any trial on the same data.
        fit : callable
            Returns the propensities (N,). Called only if the folder has none.

        Returns
        -------
        array (N,)
        """
        with locked(self.folder / "partial" / f".{spec.data_key}.lock"):
            propensity = self.propensity(spec)
            if propensity is None:
                propensity = fit()
                path = self.folder / "propensity" / f"{spec.data_key}.npy"
                with replacing(path) as beside, beside.open("wb") as file:
                    np.save(file, propensity, allow_pickle=False)
        return propensity

    def _path(self, kind: str, spec: TrialSpec) -> Path:
        """Return the file that a trial has, or would have, in the folder ``kind``, one of ``_FOLDERS``."""
        return self.folder / kind / f"{spec.key}.json"


def _updated(planned: Iterable[TrialSpec]) -> list[TrialSpec]:
    """Return :meth:`Store.current` for a plan that has been read."""
    return list({spec.settings_key: spec.updated() for spec in planned}.values())


def _places(planned: list[TrialSpec]) -> dict[str, int]:
    """Return the place of each trial in the plan, counted from 0, by the trial's key."""
    return {spec.key: place for place, spec in enumerate(planned)}


def _record(spec: TrialSpec, state: TrialState) -> dict[str, Any]:
    """Return the content of a trial's file in ``trials/`` or ``partial/``."""
    return {"version": __version__, "spec": spec.to_json(), **state.to_json()}
