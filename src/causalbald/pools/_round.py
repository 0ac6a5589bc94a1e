"""One round on a pool on disk: learn from what is measured, score everyone, choose a batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from causalbald import acquisition as acq
from causalbald import models
from causalbald._choices import Backend, BatchRule
from causalbald._files import check_place, replacing
from causalbald._random import generator
from causalbald._spreadsheet import read_cell
from causalbald._threads import one_thread
from causalbald._typing import Array, Positions
from causalbald._validation import check_choice, check_int, check_number
from causalbald.errors import InputError
from causalbald.models import CateEstimator, PropensityModel
from causalbald.pools._choosing import batch_rule, choose_batch
from causalbald.pools._parquet import ParquetPool
from causalbald.pools._population import pool_population
from causalbald.pools._scoring import Progress, Propensity, check_scores, score_pool
from causalbald.tables import PARQUET_SUFFIXES, as_text, column_of, is_text, read_ids, read_table, to_numbers

_ROWS_WRITTEN = 1 << 20
OWN_COLUMNS = ("score", "effect", "lower", "upper")


class ParquetRound:
    """A model fitted on what is measured of a pool on disk, which scores the pool and chooses whom to measure next.

    Parameters
    ----------
    pool : ParquetPool
    measured : path or DataFrame, or a list of these
        Ids and outcomes. Rows without an outcome are people who were asked for and are not measured yet, unless another
        table has their outcome: they are not chosen again, and greedy batches take them into account.
    outcome : str
        Column of the outcome.
    model : str or CateEstimator
        One of :func:`causalbald.models.names`, or an unfitted model of your own.
    weight : str, optional
        Column of the pool that says how much each unit's effect matters to targeted functions; by default all the same.
        Exclude it from the covariates unless it is one.
    worthwhile : float
        Effect at which the decision whom to treat changes, for ``regret``.
    seed : int
        Same seed, same answer, whatever the chunks and the backend.
    """

    def __init__(
        self,
        pool: ParquetPool,
        measured: Any,
        *,
        outcome: str,
        model: str | CateEstimator = "gp",
        weight: str | None = None,
        worthwhile: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.pool, self.outcome, self.seed = pool, outcome, check_int(seed, "seed", low=0)
        if outcome in (c.name for c in pool.columns):
            raise InputError(f"column {outcome!r} is the outcome, and no covariate: exclude it (--exclude {outcome}).")
        if outcome in (pool.id, pool.treatment):
            raise InputError(f"column {outcome!r} cannot be the outcome: it is the id or the treatment.")
        if weight in (pool.id, pool.treatment, outcome):
            raise InputError(f"column {weight!r} cannot be the weight: it is the id, the treatment or the outcome.")
        for name in {pool.id, pool.treatment, outcome}.intersection(OWN_COLUMNS):
            raise InputError(f"column {name!r} has the name of a column of the result: give it another name.")
        self._weights = None if weight is None else pool.numbers(weight, "weight")
        self._worthwhile = check_number(worthwhile, "worthwhile")
        self._weight = None if weight is None or self._weights is None else (weight, float(self._weights.sum()))
        where, y = self._read(measured if isinstance(measured, (list, tuple)) else [measured])
        self.measured, self.pending = where[~np.isnan(y)], where[np.isnan(y)]
        if not len(self.measured):
            raise InputError(
                f"no outcome {outcome!r} is known yet: measure a first batch, drawn at random from both arms."
            )
        self._check_arms()
        self._y = y[~np.isnan(y)]
        self._unfitted = models.load(model, random_state=seed) if isinstance(model, str) else model

    @cached_property
    def model(self) -> CateEstimator:
        """The model, fitted when it is first asked for: mistakes are found before."""
        known = self.pool.take(self.measured)
        return self._unfitted.fit(self._y, known.arm, X=known.x, pool=self.pool.sample.x)

    def scores(
        self,
        acquisition: acq.AcquisitionLike = "default",
        *,
        backend: Backend = "local",
        ray_address: str | None = None,
        progress: Progress | None = None,
    ) -> Array:
        """Return how important it would be to measure each unit of the pool, (N,).

        Parameters
        ----------
        acquisition : str or callable
            A score function.
        backend : "local" or "ray"
            On the threads of this machine, or on a Ray cluster that can read the pool's files.
        ray_address : str, optional
            Of the cluster; by default one is started on this machine.
        progress : function, optional
            Called with the number of units scored and of all.
        """
        return self._scores(acquisition, backend, ray_address, progress, self._rng())

    def choose(
        self,
        size: int,
        acquisition: acq.AcquisitionLike = "default",
        *,
        batch: BatchRule = "auto",
        temperature: float | None = None,
        scores: ArrayLike | None = None,
        backend: Backend = "local",
        ray_address: str | None = None,
        progress: Progress | None = None,
        picked: Progress | None = None,
    ) -> pa.Table:
        """Return whom to measure next, in the order of choice.

        The batch is the one that :func:`causalbald.pools.choose_batch` returns for the same rows in memory.

        Parameters
        ----------
        size : int
            How many units to choose.
        acquisition : str or callable
            A score function.
        batch : "softmax", "greedy" or "auto"
            As for :func:`causalbald.pools.choose_batch`.
        temperature : float, optional
            Of the softmax, 0 for the highest scores; by default the function's own, and 0 for greedy.
        scores : (N,), optional
            What :meth:`scores` returned, if it is known already.
        backend, ray_address, progress
            As for :meth:`scores`.
        picked : function, optional
            Called with the number of units picked so far and of all, in greedy batches.

        Returns
        -------
        table
            Id and treatment as in the pool, ``score``, and ``effect, lower, upper``: the expected effect with a 95 %
            interval, given the model.
        """
        rng = self._rng()
        self.check_size(size)
        values = None if scores is None else check_scores(scores, len(self.pool))
        rule = self.rule(batch)
        if values is None:
            values = check_scores(self._scores(acquisition, backend, ray_address, progress, rng), len(self.pool))
        is_open = np.isfinite(values)
        is_open[self.measured] = is_open[self.pending] = False
        chosen = choose_batch(
            self.model,
            self.pool,
            acquisition,
            size,
            available=np.flatnonzero(is_open),
            rng=rng,
            batch=rule,
            temperature=temperature,
            pending=self.pending,
            population=self.population(),
            propensity=self._propensity(acquisition),
            scores=values,
            picked=picked,
        )
        return self._batch(chosen, values)

    def rule(self, batch: BatchRule = "auto") -> BatchRule:
        """Return how batches are chosen: ``batch``, or for "auto" what the model allows.

        Raises InputError if the model cannot give greedy batches; see :func:`causalbald.pools.batch_rule`.
        """
        return batch_rule(self.model, self.pool, batch)

    def save_scores(self, scores: ArrayLike, path: str | Path) -> None:
        """Write ids and scores as a Parquet file, whole or not at all."""
        import pyarrow.parquet as pq

        check_scores_file(Path(path), remember=False)
        values, name, start = check_scores(scores, len(self.pool)), self.pool.id, 0
        kind = self.pool.with_whole_ids(self.pool.files.fields([name]).empty_table()).schema.field(name)
        schema = pa.schema([kind, ("score", pa.float64())])
        with replacing(Path(path), *self.pool.files.paths) as beside, pq.ParquetWriter(beside, schema) as writer:
            for ids in map(self.pool.with_whole_ids, self.pool.files.parts([name], _ROWS_WRITTEN)):
                part = values[start : start + len(ids)]
                writer.write_table(pa.table([ids[name], pa.array(part)], schema=schema))
                start += len(part)

    def _scores(
        self,
        acquisition: acq.AcquisitionLike,
        backend: Backend,
        ray_address: str | None,
        progress: Progress | None,
        rng: np.random.Generator,
    ) -> Array:
        """Return the scores (N,) of the pool, computed here or on a Ray cluster."""
        check_choice(backend, "backend", get_args(Backend))
        check_on_disk(acq.load(acquisition))
        on_cluster = None
        if backend == "ray":
            from causalbald.pools._cluster import ray_scores  # needs an optional dependency

            on_cluster = partial(ray_scores, pool=self.pool, address=ray_address, weight=self._weight)
        return score_pool(
            self.model,
            self.pool,
            acquisition,
            population=self.population(),
            propensity=self._propensity(acquisition),
            rng=rng,
            progress=progress,
            backend=on_cluster,
        )

    def population(self) -> acq.TargetPopulation:
        """Return the target population: the pool, with its weights and the effect that is worthwhile."""
        return pool_population(len(self.pool), weights=self._weights, threshold=self._worthwhile)

    def _propensity(self, acquisition: acq.AcquisitionLike) -> Propensity | None:
        """Return P(treated given x) as a function of covariates, if the acquisition function takes it."""
        return self._propensity_model.predict if "propensity" in acq.load(acquisition).needs else None

    @cached_property
    def _propensity_model(self) -> PropensityModel:
        """The model of P(treated given x), fitted on the pool's sample when it is first needed."""
        with one_thread():
            return PropensityModel(random_state=self.seed).fit(self.pool.sample.x, self.pool.sample.arm)

    def _batch(self, chosen: Positions, scores: Array) -> pa.Table:
        belief = self.model.posterior(self.pool.take(chosen).x, joint=False)
        mean, table = belief.effect_mean, self.pool.people(chosen)
        for name, values in zip(OWN_COLUMNS, (scores[chosen], mean, *belief.effect_interval()), strict=True):
            table = table.append_column(name, pa.array(values))
        return table

    def _read(self, sources: Sequence[Any]) -> tuple[Positions, Array]:
        """Return where the people in some tables are, in the order of the pool, and their outcomes."""
        if not sources:
            raise InputError("no table of outcomes is given: one with ids and outcomes is needed.")
        names = [str(s) if isinstance(s, (str, Path)) else f"table {k}" for k, s in enumerate(sources, start=1)]
        found = [self._read_one(source).to_pandas() for source in sources]
        told = pd.concat([table.assign(table=name) for table, name in zip(found, names, strict=True)])
        people = told.groupby("id", sort=False)["outcome"]
        if len(torn := np.flatnonzero(people.nunique() > 1)):
            name = people.nunique().index[torn[0]]
            known = told[told["id"] == name].dropna().drop_duplicates("outcome")
            shown = [f"{value:g} in {table}" for value, table in zip(known["outcome"], known["table"], strict=True)]
            raise InputError(f"id {name!r} has different outcomes, {shown[0]} and {shown[1]}: mend one of them.")
        outcomes = people.first()  # of those that are not missing

        def source(unit: str) -> str:
            return f" in {told['table'][told['id'] == unit].iloc[0]}" if len(names) > 1 else ""

        where = self.pool.positions(pa.array(outcomes.index, pa.string()), source)
        order = np.argsort(where)
        return where[order], outcomes.to_numpy()[order]

    def _read_one(self, source: Any) -> pa.Table:
        try:
            return self._outcomes(source)
        except InputError as error:
            if isinstance(source, (str, Path)) and Path(source).name not in str(error):
                raise InputError(f"{Path(source).name}: {error}") from None
            raise

    def _outcomes(self, source: Any) -> pa.Table:
        name = self.pool.id
        found = read_table(source, text=[name])
        table = found.data
        remedy = "give the whole table that `choose` wrote, or a Parquet file"
        settle = partial(self._of_arm, table)
        ids = read_ids(found, name, self.pool.contained, settle, remedy)
        if not is_text(self.pool.files.kind(name)):  # as a spreadsheet or pandas may write whole numbers
            ids = pc.replace_substring_regex(ids, r"^(-?\d+)\.0+$", r"\1")
        outcome = column_of(table, self.outcome, "outcome")
        values = to_numbers(outcome, self.outcome, ids.to_pylist(), decimal=found.decimal)
        return pa.table({"id": ids, "outcome": values})

    def _of_arm(self, table: pa.Table, row: int, cell: str) -> str | None:
        """Return whom a row of a batch stands for: who is written so now, or the other person if the arm says so."""
        if not {self.pool.treatment, *OWN_COLUMNS} <= {*table.column_names}:
            return None
        arm = read_cell(as_text(table[self.pool.treatment].slice(row, 1))[0].as_py())
        people = (cell[1:], cell)
        arms = self.pool.people(self.pool.positions(pa.array(people)))[self.pool.treatment]
        fitting = [unit for unit, a in zip(people, as_text(arms).to_pylist(), strict=True) if read_cell(a) == arm]
        return fitting[0] if fitting else None

    def check_size(self, size: int) -> None:
        """Refuse to choose more units than there are left."""
        left = len(self.pool) - len(self.measured) - len(self.pending)
        if check_int(size, "size", low=1) > left:
            asked = f"; {len(self.pending)} without an outcome count as asked for" if len(self.pending) else ""
            raise InputError(f"{size} units asked for, but only {left} can be chosen{asked}: ask for fewer.")

    def _check_arms(self) -> None:
        for lacking in {0, 1} - set(self.pool.arm[self.measured].tolist()):
            whom = self.pool.people(np.flatnonzero(self.pool.arm == lacking)[:1])[self.pool.treatment][0].as_py()
            raise InputError(
                f"nobody with {self.pool.treatment!r} {whom!r} is measured, and an effect needs outcomes from both "
                "arms: measure some of them, drawn at random."
            )

    def _rng(self) -> np.random.Generator:
        return generator(self.seed, "choose")


def check_scores_file(path: Path, *, remember: bool = True) -> None:
    """Refuse a name under which scores cannot be written, before the work; see :func:`check_place`."""
    check_place(path, remember=remember)
    if path.suffix.lower() not in PARQUET_SUFFIXES:
        raise InputError(f"cannot write {path.name!r}: choose a name that ends with .parquet.")


def check_on_disk(function: acq.AcquisitionFunction) -> None:
    """Raise InputError for a batch function, which needs the whole pool in memory."""
    if isinstance(function, acq.BatchFunction):
        raise InputError(
            f"acquisition {function.name!r} looks at all of a pool at once, and this one is on disk: take another, "
            "such as 'default'."
        )
