"""Before money is spent: would choosing pay here? Outcomes are simulated on the user's covariates and treatments."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from causalbald._random import generator
from causalbald._typing import Array, Treatment
from causalbald._validation import check_int
from causalbald._workers import local_pool
from causalbald.campaign._belief import campaign_model
from causalbald.campaign._preparation import Preparation, prepare
from causalbald.campaign._settings import CampaignSettings
from causalbald.datasets import Benchmark, Split, _hill
from causalbald.errors import ApproximationWarning, InputError
from causalbald.experiments import run_trial
from causalbald.metrics import ENOUGH_SEEDS, LabelsNeeded, areas, labels_to_match, paired_interval
from causalbald.tables import read_table, to_numbers

BASELINE = "random"
MAX_SIMULATED_UNITS = 2000
MIN_WARM_START = 10
"""At least so many units are measured at random before anything is chosen, unless the user gives another number."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """What choosing would have saved in simulated studies, compared with measuring at random.

    Parameters
    ----------
    trials : DataFrame
        A row per fit: ``acquisition, seed, step, paid`` (measurements, or their cost, according to plan), ``labels``
        (measurements made), ``pehe`` (root mean squared error of effects over the pool) and the other columns of
        :func:`causalbald.experiments.run_trial`.
    settings : CampaignSettings
    units : int
        Units that took part.
    pool : int
        Units in the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import CampaignSettings, Simulation
    >>> rows = [
    ...     {"acquisition": name, "seed": seed, "step": step, "paid": 10 * (step + 1), "labels": 10, "pehe": error}
    ...     for name, errors in (("random", (2.0, 1.0)), ("default", (1.0, 0.5)))
    ...     for seed in (0, 1)
    ...     for step, error in enumerate(errors)
    ... ]
    >>> settings = CampaignSettings("patient", "drug", "cd4", arms=("placebo", "drug"))
    >>> simulation = Simulation(pd.DataFrame(rows), settings, units=80, pool=80)
    >>> summary = simulation.summary()
    >>> summary["paid"], summary["needed"], summary["saved"]
    (20.0, 10.0, 0.5)
    """

    trials: pd.DataFrame
    settings: CampaignSettings
    units: int
    pool: int

    def summary(self) -> dict[str, Any]:
        """Return what choosing needed for the accuracy that random measurements reached at the end of the plan.

        Returns
        -------
        dict
            ``acquisition, seeds, units, pool``, and ``paid``, which is what the whole plan pays.

            ``needed`` is the first payment from which the mean error over seeds stays at or below the error of random
            measurements at the end. ``needed_lower, needed_upper`` are the ends of its 95 % interval, from a bootstrap
            over pairs of trials. None stands for more than ``paid``; both ends are also None if there are too few seeds
            for an interval. ``saved, saved_lower, saved_upper`` are the shares of ``paid`` that were not needed.

            ``error`` and ``error_random`` are mean errors at the end. ``wins`` is the share of seeds in which choosing
            has the smaller mean error over the whole plan. ``difference`` is the mean difference of these errors,
            choosing minus random, and ``difference_lower, difference_upper`` are the ends of its 95 % t-interval.
        """
        chosen, random = (self._curves(name) for name in (self.settings.acquisition, BASELINE))
        gap = (areas(chosen) - areas(random)).to_numpy()
        difference, lower, upper = paired_interval(gap)
        end, needed = self._end, self._needed
        bounds = {"needed": needed.labels, "needed_lower": needed.lower, "needed_upper": needed.upper}
        shares = {"saved": needed.labels, "saved_lower": needed.upper, "saved_upper": needed.lower}
        return {
            "acquisition": self.settings.acquisition,
            "seeds": len(gap),
            "units": self.units,
            "pool": self.pool,
            "paid": end,
            **{name: value if np.isfinite(value) else None for name, value in bounds.items()},
            **{name: 1 - value / end if np.isfinite(value) else None for name, value in shares.items()},
            "error": float(chosen.loc[chosen["labels"] == end, "pehe"].mean()),
            "error_random": float(random.loc[random["labels"] == end, "pehe"].mean()),
            "wins": float(np.mean(gap < 0)),
            "difference": difference,
            "difference_lower": lower,
            "difference_upper": upper,
        }

    @property
    def helps(self) -> bool:
        """Whether choosing saved something: the interval of ``needed`` ends below what the plan pays.

        False with fewer than ``ENOUGH_SEEDS`` seeds, and if the plan measures everyone.
        """
        return self._seeds >= ENOUGH_SEEDS and not self.measures_everyone and self._needed.upper < self._end

    @property
    def measures_everyone(self) -> bool:
        """Whether all studies have measured all units at the end, so that the order makes no difference there."""
        last = self.trials[self.trials["step"] == self.trials["step"].max()]
        return bool((last["labels"] == self.units).all())

    @property
    def verdict(self) -> str:
        """Whether choosing would have paid, and what this does not show, in plain words."""
        caution = (
            "Outcomes were simulated, on response surfaces in the manner of Hill (2011): this shows what choosing can "
            "save among people like these, not what your own outcome is like."
        )
        part = f" {self.units:,} of {self.pool:,} people took part." if self.units < self.pool else ""
        return f"{self._lead()}{part} {caution}"

    def _lead(self) -> str:
        """Return the beginning of the verdict: whether choosing would have paid, with its numbers."""
        name, needed, end = self.settings.acquisition, self._needed, self._end
        what = "measurements" if self.settings.cost is None else f"(the sum of column {self.settings.cost!r})"
        if self.measures_everyone:
            return (
                f"Choosing cannot help at the end of this plan, which measures all {self.units:,} people: whom to "
                "measure first makes no difference to what is known when all are measured. Plan fewer rounds."
            )

        def shown(value: float) -> str:
            """Return a payment in words; no number beyond the end of the plan."""
            return f"{value:.0f}" if value <= end else f"more than {end:.0f}"

        compared = (
            f"in {self._seeds} simulated studies choosing by {name!r} needed {shown(needed.labels)} {what} for the "
            f"accuracy that random choice reached with {end:.0f}"
        )
        if self._seeds < ENOUGH_SEEDS:
            return f"Too few studies to tell: {compared}. Simulate at least {ENOUGH_SEEDS}, better 10 or more."
        compared += f" (95 % interval {shown(needed.lower)} to {shown(needed.upper)})"
        if self.helps:
            return f"Choosing would have paid here, saving {1 - needed.labels / end:.0%}: {compared}."
        if needed.lower > end:
            return f"Choosing would not have helped here: {compared}. Measuring at random does better."
        return f"It is not clear that choosing helps here: {compared}. Measuring at random may do as well."

    def _curves(self, acquisition: str) -> pd.DataFrame:
        """Return the trials of an acquisition function; their column ``labels`` holds what was paid according to plan.

        The payments are the same for all seeds; the functions of ``causalbald.metrics`` need that.
        """
        trials = self.trials[self.trials["acquisition"] == acquisition]
        return trials.assign(labels=trials["paid"])

    @property
    def _seeds(self) -> int:
        """Number of simulated pairs of studies."""
        return int(self.trials["seed"].nunique())

    @property
    def _end(self) -> float:
        """What the whole plan pays."""
        return float(self.trials["paid"].max())

    @cached_property
    def _needed(self) -> LabelsNeeded:
        """What choosing must pay to reach the error of random measurements at the end, with its interval."""
        return labels_to_match(self._curves(self.settings.acquisition), self._curves(BASELINE))


def simulate(
    pool: Any,
    *,
    id: str,
    treatment: str,
    outcome: str,
    batch_size: int = 10,
    rounds: int = 10,
    warm_start: int | None = None,
    seeds: int = 10,
    workers: int = 2,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Simulation:
    """Return what choosing would save on a table: campaigns are simulated on it before anything is measured.

    For each seed, outcomes of everyone are drawn anew: expected outcomes by Hill's response surface B on the table's
    covariates, an effect of 4 on average among the treated, noise of standard deviation 1. One campaign chooses, the
    other measures at random; both start with the same random measurements. Errors are those of the effects of all
    units in the pool. Outcomes in the table are not read. These options make no difference: an audit share, a budget of
    the whole campaign, and what is better or worthwhile.

    Parameters
    ----------
    pool, id, treatment, outcome, **options
        The table and what is said about it, as for :meth:`causalbald.campaign.Campaign.create`. Of more than 2,000
        units a random sample of 2,000 takes part. With ``cost``, a round pays what ``batch_size`` units cost on
        average.
    batch_size, rounds : int
        The plan: how many units are measured at a time, and how often.
    warm_start : int, optional
        Units measured at random before anything is chosen; by default as many as a batch, at least 10.
    seeds : int
        Pairs of simulated studies.
    workers : int
        Processes; the answer does not depend on it. A script that starts more than one must call this under
        ``if __name__ == "__main__":``.
    progress : callable, optional
        Called with (simulated studies done, all of them).

    Returns
    -------
    Simulation

    Raises
    ------
    InputError
        If the table or an option cannot be used, or the plan measures more units than there are. Refused are also a
        weight, binary outcomes, the acquisition function "random" and fewer than 2 seeds.

    Examples
    --------
    >>> import pandas as pd
    >>> from causalbald.campaign import simulate
    >>> from causalbald.errors import InputError
    >>> pool = pd.DataFrame({"patient": range(40), "drug": [0, 1] * 20, "age": range(30, 70)})
    >>> try:
    ...     simulate(pool, id="patient", treatment="drug", outcome="cd4", rounds=4)
    ... except InputError as error:
    ...     print(str(error).partition(",")[0])
    the plan is 10 + 4 x 10 = 50 measurements
    """
    check_int(seeds, "seeds", low=2)
    check_int(workers, "workers", low=1)
    prepared = prepare(_without_outcome(pool, id, outcome), id=id, treatment=treatment, outcome=outcome, **options)
    acquisition = prepared.settings.acquisition
    if acquisition == BASELINE:
        raise InputError(f"acquisition {BASELINE!r} is what others are compared with: choose another one.")
    study = _Study.of(prepared, batch_size, rounds, warm_start)
    jobs = [(name, seed) for seed in range(seeds) for name in (BASELINE, acquisition)]
    trials = pd.concat(_run_all(study, jobs, workers, progress), ignore_index=True)
    return Simulation(trials, prepared.settings, len(study.arm), len(prepared))


def _without_outcome(pool: Any, id: str, outcome: str) -> Any:
    """Return a user's table without the column of the outcome, if it has that column: outcomes are simulated."""
    table = read_table(pool, text=[id]).data
    return table.drop_columns([outcome]) if outcome in table.column_names else table


def _run_all(
    study: _Study, jobs: list[tuple[str, int]], workers: int, progress: Callable[[int, int], None] | None
) -> list[Any]:
    """Return the tables of the simulated studies, in the order of ``jobs``. Called by ``simulate``.

    A job is the name of an acquisition function and the number of a study. Jobs run in up to ``workers`` processes. An
    error in one ends all. ``progress`` is called after each with the number of jobs done and of all jobs.
    """
    with local_pool(min(workers, len(jobs))) as pool:
        futures = [pool.submit(study.run, *job) for job in jobs]
        for done, future in enumerate(as_completed(futures), start=1):
            future.result()  # an error ends all others at once
            if progress is not None:
                progress(done, len(jobs))
        return [future.result() for future in futures]


@dataclass(frozen=True, eq=False)
class _Study:
    """Units without outcomes, and the plan: all that a process needs to simulate a study."""

    x: Array
    arm: Treatment
    propensity: Array
    cost: Array | None
    settings: CampaignSettings
    warm_start: int
    batch_size: int
    rounds: int

    @classmethod
    def of(cls, prepared: Preparation, batch_size: int, rounds: int, warm_start: int | None) -> _Study:
        """Return the study on at most ``MAX_SIMULATED_UNITS`` units of the pool, drawn at random from a larger pool.

        If ``warm_start`` is None, it is ``batch_size``, at least ``MIN_WARM_START``. Raises InputError if the plan has
        more measurements than units, if a number is too small, or for a weight or binary outcomes.
        """
        settings, units = prepared.settings, np.arange(len(prepared))
        if settings.weight is not None:
            raise InputError("errors in a simulation are those of everyone: leave out the weight.")
        if settings.outcome_type == "binary":
            raise InputError("outcomes of a simulation are continuous: leave out outcome_type='binary'.")
        if len(units) > MAX_SIMULATED_UNITS:
            drawn = generator(settings.seed, "simulate").choice(len(units), size=MAX_SIMULATED_UNITS, replace=False)
            units = np.sort(drawn)
        first = max(MIN_WARM_START, check_int(batch_size, "batch_size", low=1)) if warm_start is None else warm_start
        check_int(first, "warm_start", low=2)
        planned = first + batch_size * check_int(rounds, "rounds", low=1)
        if planned > len(units):
            part = f" of {len(prepared):,}" if len(units) < len(prepared) else ""
            raise InputError(
                f"the plan is {first} + {rounds} x {batch_size} = {planned} measurements, but the simulation has "
                f"{len(units):,}{part} people: plan fewer rounds or smaller batches."
            )
        cost = None if settings.cost is None else to_numbers(prepared.table[settings.cost], settings.cost)[units]
        people = (prepared.x[units], prepared.arm[units], prepared.propensity[units])
        return cls(*people, cost, replace(settings, outcome_type="continuous"), first, batch_size, rounds)

    def run(self, acquisition: str, number: int) -> pd.DataFrame:
        """Return the table of one simulated study, with a row per fit and the columns of ``Simulation.trials``.

        Studies with the same ``number`` have the same outcomes and the same random measurements at the start.
        """
        with warnings.catch_warnings():
            # What an approximation costs is part of what is simulated.
            warnings.simplefilter("ignore", ApproximationWarning)
            table = run_trial(
                self.with_outcomes(number),
                model=campaign_model(self.settings),
                acquisition=acquisition,
                warm_start=self.warm_start,
                batch_size=self.batch_size,
                steps=self.rounds,
                batch="softmax" if acquisition == BASELINE else "auto",
                seed=int(generator(self.settings.seed, "simulate", number).integers(2**31)),
                propensity=self.propensity,
                cost=self.cost,
            )
        unit = 1.0 if self.cost is None else float(self.cost.mean())
        paid = unit * (self.warm_start + self.batch_size * table["step"])
        named = table.drop(columns=["width_inside", "width_outside", "seconds_fit", "seconds_score"])
        return pd.concat([pd.DataFrame({"acquisition": acquisition, "seed": number, "paid": paid}), named], axis=1)

    def with_outcomes(self, number: int) -> Benchmark:
        """Return a data set of the study's units with drawn outcomes. The test units are the pool itself.

        The same ``number`` gives the same outcomes. The validation split is empty.
        """
        rng = generator(self.settings.seed, "outcomes", number)
        mu0, mu1 = _hill.surface_b(_hill.linear_predictor(self.x, rng), self.arm)
        people = Split(self.x, self.arm, _hill.outcomes(mu0, mu1, self.arm, rng), mu0, mu1)
        return Benchmark("simulated", people, people.take(np.arange(0)), people)
