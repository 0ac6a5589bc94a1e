"""One round on a pool on disk: learn from what is measured, score everyone, choose a batch."""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from causalbald import acquisition as acq
from causalbald import models
from causalbald._choices import Backend, BatchRule
from causalbald._files import check_place, replacing
from causalbald._random import generator
from causalbald._threads import one_thread
from causalbald._typing import Array, Positions
from causalbald._validation import check_choice, check_int, check_number
from causalbald.errors import InputError
from causalbald.models import CateEstimator, PropensityModel
from causalbald.pools._choosing import batch_rule, choose_batch
from causalbald.pools._outcome_tables import RESULT_COLUMNS, read_outcomes
from causalbald.pools._parquet import ParquetPool
from causalbald.pools._population import pool_population
from causalbald.pools._scoring import Progress, Propensity, check_scores, score_pool
from causalbald.tables import PARQUET_SUFFIXES

ROWS_WRITTEN = 1 << 20  # rows of a file of scores that are written together, as one row group


class ParquetRound:
    """One round on a pool on disk: a model fitted on what is measured, which scores the pool and chooses a batch.

    The model is fitted once, when it is first needed. No batch function can choose, as it needs the pool in memory.

    Parameters
    ----------
    pool : ParquetPool
        All units.
    measured : path or DataFrame, or a list of these
        Ids and outcomes. A unit without an outcome in any of the tables was asked for and is not measured yet. It is
        not chosen again, and greedy batches take it into account.
    outcome : str
        Column of the outcome.
    model : str or CateEstimator
        One of :func:`causalbald.models.names`, or an unfitted model, which is fitted in place when it is needed.
    weight : str, optional
        Column of the pool that says how much each unit's effect matters to targeted functions; by default all the same.
        Exclude it from the covariates unless it is one.
    worthwhile : float
        The effect beyond which treating a unit is worthwhile; only ``regret`` looks at it.
    seed : int
        Same seed, same answer, whatever the size of blocks and the backend.

    Attributes
    ----------
    measured : positions
        Units with an outcome, sorted.
    pending : positions
        Units that were asked for and have no outcome yet, sorted.

    Raises
    ------
    InputError
        If a table cannot be used, an arm has no outcome, or a column has two roles.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import pandas as pd
    >>> from causalbald.models import GaussianProcess
    >>> from causalbald.pools import ParquetPool, ParquetRound
    >>> path = Path(tempfile.mkdtemp()) / "people.parquet"
    >>> people = pd.DataFrame({"person": range(30), "drug": [0, 1] * 15, "age": np.linspace(20, 70, 30)})
    >>> people.to_parquet(path)
    >>> pool = ParquetPool(path, id="person", treatment="drug")
    >>> results = pd.DataFrame({"person": range(8), "outcome": [1.0, 3.0, 1.5, 2.5, 0.5, 3.5, 1.0, 3.0]})
    >>> one_round = ParquetRound(pool, results, outcome="outcome", model=GaussianProcess(max_iter=3))
    >>> one_round.choose(2).column_names
    ['person', 'drug', 'score', 'effect', 'lower', 'upper']
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
        """Check roles of columns, and read weights and outcomes. No model is fitted yet."""
        self.pool, self.outcome, self.seed = pool, outcome, check_int(seed, "seed", low=0)
        if outcome in (c.name for c in pool.columns):
            raise InputError(f"column {outcome!r} is the outcome, and no covariate: exclude it (--exclude {outcome}).")
        if outcome in (pool.id, pool.treatment):
            raise InputError(f"column {outcome!r} cannot be the outcome: it is the id or the treatment.")
        if weight in (pool.id, pool.treatment, outcome):
            raise InputError(f"column {weight!r} cannot be the weight: it is the id, the treatment or the outcome.")
        for name in {pool.id, pool.treatment, outcome}.intersection(RESULT_COLUMNS):
            raise InputError(f"column {name!r} has the name of a column of the result: give it another name.")
        self._weights = None if weight is None else pool.numbers(weight, "weight")
        self._worthwhile = check_number(worthwhile, "worthwhile")
        self._weight = None if weight is None or self._weights is None else (weight, float(self._weights.sum()))
        sources = measured if isinstance(measured, (list, tuple)) else [measured]
        positions, y = read_outcomes(pool, sources, outcome)
        self.measured, self.pending = positions[~np.isnan(y)], positions[np.isnan(y)]
        if not len(self.measured):
            raise InputError(
                f"no outcome {outcome!r} is known yet: measure a first batch, drawn at random from both arms."
            )
        self._check_arms()
        self._y = y[~np.isnan(y)]
        self._unfitted = models.load(model, random_state=seed) if isinstance(model, str) else model

    @cached_property
    def model(self) -> CateEstimator:
        """The model, fitted when it is first asked for, so that mistakes in tables are reported before the fit."""
        labelled = self.pool.take(self.measured)
        return self._unfitted.fit(self._y, labelled.arm, X=labelled.x, pool=self.pool.sample.x)

    def scores(
        self,
        acquisition: acq.AcquisitionLike = "default",
        *,
        backend: Backend = "local",
        ray_address: str | None = None,
        progress: Progress | None = None,
    ) -> Array:
        """Return the score of each unit of the pool, (N,).

        Parameters
        ----------
        acquisition : str or callable
            A score function.
        backend : "local" or "ray"
            On the threads of this machine, or on a Ray cluster that can read the pool's files.
        ray_address : str, optional
            Address of the cluster; by default one is started on this machine.
        progress : function, optional
            Called with the number of units scored so far and the number of all units.

        Returns
        -------
        scores (N,)
            The same for each call with the same function.

        Raises
        ------
        InputError
            If the function has no scores of single units, or draws at random and the backend is "ray".
        CausalBaldError
            If a task of the cluster fails.
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
            Temperature of the softmax, 0 for the highest scores; by default the function's own, and 0 for greedy.
        scores : (N,), optional
            What :meth:`scores` returned for this acquisition function; by default computed. Units with -inf are not
            chosen.
        backend, ray_address, progress
            As for :meth:`scores`; not used if ``scores`` are given.
        picked : function, optional
            Called in greedy batches with the number of units picked so far and with ``size``.

        Returns
        -------
        table
            Id and treatment as in the pool, ``score``, and ``effect, lower, upper``: the expected effect with a 95 %
            interval, given the model.

        Raises
        ------
        InputError
            If fewer than ``size`` units are left, or the model cannot give what the rule needs. Both are found before
            the pool is scored.
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
        """Return how batches are chosen, "softmax" or "greedy": ``batch``, or for "auto" what the model allows.

        The model is fitted if that has not been done. Raises InputError if it cannot give greedy batches; see
        :func:`causalbald.pools.batch_rule`.
        """
        return batch_rule(self.model, self.pool, batch)

    def save_scores(self, scores: ArrayLike, path: str | Path) -> None:
        """Write ids and scores (N,) as a Parquet file, whole or not at all, in place of a file of that name.

        Raises InputError if the name does not end with .parquet, the file cannot be written, there is not one score per
        unit, or a score is NaN or +inf.
        """
        import pyarrow.parquet as pq

        check_scores_file(Path(path), remember=False)
        values, name, start = check_scores(scores, len(self.pool)), self.pool.id, 0
        kind = self.pool.with_whole_ids(self.pool.files.fields([name]).empty_table()).schema.field(name)
        schema = pa.schema([kind, ("score", pa.float64())])
        with replacing(Path(path), *self.pool.files.paths) as beside, pq.ParquetWriter(beside, schema) as writer:
            for ids in map(self.pool.with_whole_ids, self.pool.files.parts([name], ROWS_WRITTEN)):
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
        """Return the scores (N,) of the pool, computed here or on a Ray cluster. Called by `scores` and `choose`."""
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
        """Return P(treated given x) as a function of covariates; None if the acquisition function does not take it."""
        return self._propensity_model.predict if "propensity" in acq.load(acquisition).needs else None

    @cached_property
    def _propensity_model(self) -> PropensityModel:
        """The model of P(treated given x), fitted on the pool's sample when it is first needed."""
        with one_thread():
            return PropensityModel(random_state=self.seed).fit(self.pool.sample.x, self.pool.sample.arm)

    def _batch(self, chosen: Positions, scores: Array) -> pa.Table:
        """Return the table that `choose` returns, for the units ``chosen``; ``scores`` (N,) are of the whole pool."""
        belief = self.model.posterior(self.pool.take(chosen).x, joint=False)
        mean, table = belief.effect_mean, self.pool.people(chosen)
        for name, values in zip(RESULT_COLUMNS, (scores[chosen], mean, *belief.effect_interval()), strict=True):
            table = table.append_column(name, pa.array(values))
        return table

    def check_size(self, size: int) -> None:
        """Raise InputError if ``size`` is below 1, or fewer than ``size`` units are neither measured nor pending."""
        left = len(self.pool) - len(self.measured) - len(self.pending)
        if check_int(size, "size", low=1) > left:
            waiting = f"; {len(self.pending)} without an outcome count as asked for" if len(self.pending) else ""
            raise InputError(f"{size} units asked for, but only {left} can be chosen{waiting}: ask for fewer.")

    def _check_arms(self) -> None:
        """Raise InputError unless both arms have a measured unit."""
        for lacking in {0, 1} - set(self.pool.arm[self.measured].tolist()):
            value = self.pool.people(np.flatnonzero(self.pool.arm == lacking)[:1])[self.pool.treatment][0].as_py()
            raise InputError(
                f"nobody with {self.pool.treatment!r} {value!r} is measured, and an effect needs outcomes from both "
                "arms: measure some of them, drawn at random."
            )

    def _rng(self) -> np.random.Generator:
        """Return a new random generator; all of them draw the same numbers."""
        return generator(self.seed, "choose")


def check_scores_file(path: Path, *, remember: bool = True) -> None:
    """Raise InputError if scores cannot be written to a file.

    Parameters
    ----------
    path : Path
        The file; its name must end with .parquet.
    remember : bool
        Whether to remember what the file holds, so that the file is not replaced if it changes during the work.

    Raises
    ------
    InputError
        If the folder does not exist, the path is a folder, or the name does not end with .parquet.

    Examples
    --------
    >>> from pathlib import Path
    >>> from causalbald.pools import check_scores_file
    >>> check_scores_file(Path("scores.parquet"), remember=False)
    """
    check_place(path, remember=remember)
    if path.suffix.lower() not in PARQUET_SUFFIXES:
        raise InputError(f"cannot write {path.name!r}: choose a name that ends with .parquet.")


def check_on_disk(function: acq.AcquisitionFunction) -> None:
    """Raise InputError for a batch function, which needs the whole pool in memory.

    Parameters
    ----------
    function : ScoreFunction or BatchFunction
        The acquisition function for a pool on disk. A score function is never refused.

    Raises
    ------
    InputError
        If it is a batch function.

    Examples
    --------
    >>> from causalbald import acquisition
    >>> from causalbald.pools import check_on_disk
    >>> check_on_disk(acquisition.load("default"))
    """
    if isinstance(function, acq.BatchFunction):
        raise InputError(
            f"acquisition {function.name!r} looks at all of a pool at once, and this one is on disk: take another, "
            "such as 'default'."
        )
