"""One round on a pool on disk: learn from what is measured, score everyone, choose a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from causalbald import acquisition as acq
from causalbald import models
from causalbald._files import check_place, replacing
from causalbald._random import generator
from causalbald._spreadsheet import read_cell
from causalbald._threads import one_thread
from causalbald._typing import Array, Positions
from causalbald._validation import check_choice, check_int, check_number
from causalbald.acquisition._registry import Batch
from causalbald.errors import InputError
from causalbald.models import CateEstimator, PropensityModel
from causalbald.pools import _choosing
from causalbald.pools._parquet import ParquetPool
from causalbald.pools._scorer import Block, Scorer
from causalbald.selection._selection import select
from causalbald.tables import PARQUET_SUFFIXES, as_text, column_of, is_text, read_ids, read_table, to_numbers

Progress = Callable[[int, int], None]
Backend = Literal["local", "ray"]
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
        acquisition: str | acq.Acquisition | acq.Score = "default",
        *,
        backend: Backend = "local",
        ray_address: str | None = None,
        progress: Progress | None = None,
    ) -> Array:
        """Return how important it would be to measure each unit of the pool, (N,).

        Parameters
        ----------
        acquisition : str or callable
        backend : "local" or "ray"
            On the threads of this machine, or on a Ray cluster that can read the pool's files.
        ray_address : str, optional
            Of the cluster; by default one is started on this machine.
        progress : function, optional
            Called with the number of units scored and of all.
        """
        function = acq.load(acquisition)
        return self._scores(function, backend, ray_address, progress, self._rng())

    def choose(
        self,
        size: int,
        acquisition: str | acq.Acquisition | acq.Score = "default",
        *,
        batch: Batch = "auto",
        temperature: float | None = None,
        scores: ArrayLike | None = None,
        backend: Backend = "local",
        ray_address: str | None = None,
        progress: Progress | None = None,
        picked: Progress | None = None,
    ) -> pa.Table:
        """Return whom to measure next, in the order of choice: the batch that :func:`causalbald.pools.choose` returns.

        Parameters
        ----------
        size : int
        acquisition : str or callable
        batch : "softmax", "greedy" or "auto"
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
        function, rng = acq.load(acquisition), self._rng()
        self.check_size(size)
        if temperature is not None:
            check_number(temperature, "temperature", low=0.0)
        known = None if scores is None else self._checked(scores)
        rule = self.rule(batch)
        if known is None:
            known = self._checked(self._scores(function, backend, ray_address, progress, rng))
        open_units = np.isfinite(known)
        open_units[self.measured] = open_units[self.pending] = False
        offered = np.where(open_units, known, -np.inf)
        if rule == "softmax":
            t = function.temperature if temperature is None else temperature
            chosen = select(offered, size, temperature=t, rng=rng)
        else:
            limit, available = max(_choosing.SHORTLIST, 10 * size), np.flatnonzero(open_units)
            looked_at = _choosing.shortlisted(lambda: offered, available, limit, function.temperature, rng)
            chosen = self._greedy(function, size, looked_at, temperature, rng, picked)
        return self._batch(chosen, known)

    def rule(self, batch: str = "auto") -> Batch:
        """Return how batches are chosen, if the model can bear it; see :func:`causalbald.pools.batch_rule`."""
        return _choosing.batch_rule(self.model, self.pool.sample.x, batch)

    def save_scores(self, scores: ArrayLike, path: str | Path) -> None:
        """Write ids and scores as a Parquet file, whole or not at all."""
        import pyarrow.parquet as pq

        check_scores_file(Path(path), remember=False)
        known, name, start = self._checked(scores), self.pool.id, 0
        kind = self.pool.with_whole_ids(self.pool.files.fields([name]).empty_table()).schema.field(name)
        schema = pa.schema([kind, ("score", pa.float64())])
        with replacing(Path(path), *self.pool.files.paths) as beside, pq.ParquetWriter(beside, schema) as writer:
            for ids in map(self.pool.with_whole_ids, self.pool.files.parts([name], _ROWS_WRITTEN)):
                part = known[start : start + len(ids)]
                writer.write_table(pa.table([ids[name], pa.array(part)], schema=schema))
                start += len(part)

    def _checked(self, scores: ArrayLike) -> Array:
        known = np.asarray(scores, dtype=np.float64)
        if known.shape != (len(self.pool),):
            raise InputError(f"scores have shape {known.shape} for {len(self.pool)} units: one for each, in order.")
        if np.isnan(known).any() or np.isposinf(known).any():
            raise InputError("scores contain NaN or +inf: use -inf for units that must not be chosen.")
        return known

    def _scores(
        self,
        function: acq.Acquisition,
        backend: Backend,
        ray_address: str | None,
        progress: Progress | None,
        rng: np.random.Generator,
    ) -> Array:
        check_choice(backend, "backend", ("local", "ray"))
        score = self._scorer(function)
        size, scores, done = _choosing.block_size(score), np.empty(len(self.pool)), 0
        if backend == "local":
            parts = score.over(self._blocks(size, score), rng)
        else:
            from causalbald.pools._cluster import ray_scores

            parts = ray_scores(self.pool, score, size, ray_address, self._weight if _counts_own(score) else None)
        for part in parts:
            scores[done : done + len(part)] = part
            done += len(part)
            if progress is not None:
                progress(done, len(scores))
        if (targets := self._targets(function)) is not None and (len(targets.positions) == done or score.goal_apart):
            with one_thread():
                scores[targets.positions] = score.of_goal(rng)
        return scores

    def _blocks(self, size: int, score: Scorer) -> Iterator[Block]:
        """Yield all units, with their weights where their own effects count by them."""
        if self._weights is None or self._weight is None or not _counts_own(score):
            yield from self.pool.blocks(size)
            return
        own, start = self._weights / self._weight[1], 0
        for block in self.pool.blocks(size):
            yield block._replace(own=own[start : start + len(block.x)])
            start += len(block.x)

    def _scorer(self, function: acq.Acquisition) -> Scorer:
        check_on_disk(function)
        propensity = self._propensity.predict if "propensity" in function.needs else None
        return Scorer.of(self.model, function, self._targets(function), self.pool.take, propensity)

    def targets(self) -> acq.Targets:
        """Return the population that matters, and the effect that is worthwhile."""
        return _choosing.pool_targets(len(self.pool), weights=self._weights, threshold=self._worthwhile)

    def _targets(self, function: acq.Acquisition) -> acq.Targets | None:
        return None if function.pointwise else self.targets()

    @cached_property
    def _propensity(self) -> PropensityModel:
        with one_thread():
            return PropensityModel(random_state=self.seed).fit(self.pool.sample.x, self.pool.sample.arm)

    def _greedy(
        self,
        function: acq.Acquisition,
        size: int,
        looked_at: Positions,
        temperature: float | None,
        rng: np.random.Generator,
        picked: Progress | None,
    ) -> Positions:
        """Choose a batch among a few, as a pool of its own: with those who are pending, and those who matter."""
        targets = self._targets(function)
        goal = looked_at[:0] if targets is None else targets.positions
        rows = np.unique(np.concatenate([looked_at, self.pending, goal]))
        units = self.pool.take(rows)
        chosen = _choosing.choose(
            self.model,
            units.x,
            units.arm,
            function,
            size,
            available=np.searchsorted(rows, looked_at),
            rng=rng,
            batch="greedy",
            temperature=temperature,
            pending=np.searchsorted(rows, self.pending),
            propensity=self._propensity.predict(units.x) if "propensity" in function.needs else None,
            targets=None if targets is None else _choosing.among(targets, rows, np.searchsorted(rows, goal)),
            shortlist=len(rows),
            picked=picked,
        )
        return rows[chosen]

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


def check_on_disk(function: acq.Acquisition) -> None:
    """Refuse a function that needs all of a pool in memory."""
    if function.batchwise:
        raise InputError(
            f"acquisition {function.name!r} looks at all of a pool at once, and this one is on disk: take another, "
            "such as 'default'."
        )


def _counts_own(score: Scorer) -> bool:
    """Whether units' own effects count by weights of their own."""
    return score.goal is not None and score.goal.own is not None
