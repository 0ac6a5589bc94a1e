"""Which trials to run: data sets x models x acquisition functions x tracks x seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from causalbald import acquisition as acq
from causalbald import datasets as data
from causalbald import models
from causalbald._choices import BatchRule, Track
from causalbald._registry import Registry
from causalbald._validation import check_choice, check_int, check_number
from causalbald.errors import InputError
from causalbald.experiments._spec import TrialSpec
from causalbald.experiments._trial import LEAST_NUMBERS


@dataclass(frozen=True)
class BenchmarkSettings:
    """How a data set is studied. Nothing is checked before :meth:`Plan.specs`.

    Parameters
    ----------
    warm_start : int
        How many units are measured at random at first.
    batch_size, steps : int
        How many units are chosen at a time, and how often.
    options : dict
        Options of the data set, as for :func:`causalbald.datasets.load`.

    Examples
    --------
    >>> from causalbald.experiments import BenchmarkSettings
    >>> settings = BenchmarkSettings(warm_start=10, batch_size=5, steps=4)
    >>> settings.warm_start + settings.batch_size * settings.steps
    30
    """

    warm_start: int
    batch_size: int
    steps: int
    options: dict[str, Any] = field(default_factory=dict)


# The paper's table of settings. IHDP's last fit has the whole pool. ihdp-cov has fewer steps: its smallest pool has
# 229 units.
_DEFAULT_SETTINGS = {
    "synthetic": BenchmarkSettings(10, 10, 30),
    "synthetic-bimodal": BenchmarkSettings(10, 10, 30),
    "ihdp": BenchmarkSettings(100, 10, 37),
    "ihdp-cov": BenchmarkSettings(100, 10, 12),
    "cmnist": BenchmarkSettings(250, 50, 55),
}
# Data sets that use a model's hyper-parameters for another data set.
_PRESET_OF = {"ihdp-cov": "ihdp", "synthetic-bimodal": "synthetic"}
PAPER_ACQUISITIONS = (
    "random",
    "propensity",
    "type-s",
    "tau-bald",
    "mu-bald",
    "rho-bald",
    "mu-pi-bald",
    "mu-rho-bald",
)
"""The paper's acquisition functions. A plan that names no acquisition function has these."""


def default_settings(dataset: str) -> BenchmarkSettings | None:
    """Return how the paper studied a data set.

    Parameters
    ----------
    dataset : str
        Name of a data set.

    Returns
    -------
    BenchmarkSettings or None
        None for any data set that is not in the paper.

    Examples
    --------
    >>> from causalbald.experiments import default_settings
    >>> default_settings("ihdp")
    BenchmarkSettings(warm_start=100, batch_size=10, steps=37, options={})
    """
    return _DEFAULT_SETTINGS.get(dataset)


def preset_of(dataset: str) -> str:
    """Return under which name models have their hyper-parameters for a data set.

    Most data sets have a preset of the same name. A model need not have the preset.

    Parameters
    ----------
    dataset : str
        Name of a data set.

    Returns
    -------
    str

    Examples
    --------
    >>> from causalbald.experiments import preset_of
    >>> preset_of("ihdp-cov")
    'ihdp'
    """
    return _PRESET_OF.get(dataset, dataset)


@dataclass(frozen=True)
class Plan:
    """A grid of trials: a trial for each data set, model, acquisition function, track and seed.

    Parameters
    ----------
    datasets, models, acquisitions : tuple of str
        Names. They are checked by :meth:`specs`.
    tracks : tuple of str
        "paid", "paper" or both.
    seeds : tuple of int
        Seeds of the data and of the trials.
    settings : dict of str to BenchmarkSettings
        How each data set is studied; by default as in the paper. Data sets that are not in the paper need settings.
    model_options : dict of str to dict
        Options of each model, by its name.
    temperature : float, optional
        Of the softmax; by default each acquisition function's own.
    batch : "softmax", "greedy" or "auto", optional
        How scores become a batch; by default each acquisition function's own rule.

    Examples
    --------
    >>> from causalbald.experiments import Plan
    >>> plan = Plan(("synthetic",), acquisitions=("random", "mu-bald"), seeds=(0, 1))
    >>> [(spec.seed, spec.acquisition) for spec in plan.specs()]
    [(0, 'random'), (0, 'mu-bald'), (1, 'random'), (1, 'mu-bald')]
    """

    datasets: tuple[str, ...]
    models: tuple[str, ...] = ("gp",)
    acquisitions: tuple[str, ...] = PAPER_ACQUISITIONS
    tracks: tuple[str, ...] = ("paid",)
    seeds: tuple[int, ...] = (0,)
    settings: dict[str, BenchmarkSettings] = field(default_factory=dict)
    model_options: dict[str, dict[str, Any]] = field(default_factory=dict)
    temperature: float | None = None
    batch: BatchRule | None = None

    def specs(self) -> list[TrialSpec]:
        """Return the trials, ordered by seed, so that a run that stops early has some seeds of every combination.

        Returns
        -------
        list of TrialSpec

        Raises
        ------
        InputError
            If a name is unknown or repeated, an option or a number is wrong, or a data set has no settings. Sizes of
            pools are not checked.
        """
        self._check()
        return [
            self._spec(dataset, model, acquisition, track, seed)
            for seed in self.seeds
            for dataset in self.datasets
            for model in self.models
            for track in self.tracks
            for acquisition in self.acquisitions
        ]

    def _spec(self, dataset: str, model: str, acquisition: str, track: Any, seed: int) -> TrialSpec:
        """Return one trial of the grid, with the model's preset for the data set if the model has one."""
        settings, preset = self.settings_of(dataset), preset_of(dataset)
        return TrialSpec(
            dataset,
            acquisition,
            settings.warm_start,
            settings.batch_size,
            settings.steps,
            seed,
            model=model,
            preset=preset if preset in models.presets(model) else None,
            temperature=self.temperature,
            batch=self.batch,
            track=track,
            dataset_options=settings.options,
            model_options=self.model_options.get(model, {}),
        )

    def settings_of(self, dataset: str, **changes: Any) -> BenchmarkSettings:
        """Return how a data set is studied.

        Parameters
        ----------
        dataset : str
            Name of a data set.
        **changes
            Fields of BenchmarkSettings, with values that replace those of the plan or the paper.

        Returns
        -------
        BenchmarkSettings
            The plan's settings for the data set, or else the paper's. The plan is not changed.

        Raises
        ------
        InputError
            If neither the plan nor the paper has settings, and ``changes`` lack one of the numbers.
        """
        settings = self.settings.get(dataset) or default_settings(dataset)
        if settings is not None:
            return replace(settings, **changes)
        if not changes.keys() >= LEAST_NUMBERS.keys():
            raise InputError(
                f"no settings for data set {dataset!r}: give --warm-start, --batch-size and --steps, or "
                f"[settings.{dataset}] with warm_start, batch_size and steps in a file."
            )
        return BenchmarkSettings(**changes)

    def only(self, **names: tuple[str, ...]) -> Plan | None:
        """Return the part of the plan that has some of its names.

        Parameters
        ----------
        **names
            The names to keep, as ``datasets``, ``models``, ``acquisitions`` or ``tracks``. Names that the plan does not
            have are ignored.

        Returns
        -------
        Plan or None
            None if no trial is left. This plan is not changed.
        """
        parts = {key: tuple(v for v in getattr(self, key) if v in chosen) for key, chosen in names.items()}
        return replace(self, **parts) if all(parts.values()) else None  # type: ignore[arg-type]

    def changed(self, **numbers: int | None) -> Plan:
        """Return the plan with numbers replaced in the settings of all its data sets.

        Parameters
        ----------
        **numbers
            ``warm_start``, ``batch_size`` or ``steps``; None changes nothing.

        Returns
        -------
        Plan
            With settings for each of its data sets. This plan is not changed.

        Raises
        ------
        InputError
            If a data set has no settings, and one of the numbers is not given.
        """
        changes = {name: value for name, value in numbers.items() if value is not None}
        return replace(self, settings={dataset: self.settings_of(dataset, **changes) for dataset in self.datasets})

    def _check(self) -> None:
        """Raise InputError at the first name, option or number that is wrong, or missing. Called by :meth:`specs`."""
        for name in ("datasets", "models", "acquisitions", "tracks", "seeds"):
            values = getattr(self, name)
            if not values:
                raise InputError(f"the plan names no {name}: give at least one.")
            repeated = [value for place, value in enumerate(values) if value in values[:place]]
            if repeated:
                raise InputError(f"{name} names {repeated[0]!r} twice.")
        for dataset in self.datasets:
            data.check_options(dataset, [])
            settings = self.settings_of(dataset)
            data.check_options(dataset, settings.options)
            for name, least in LEAST_NUMBERS.items():
                check_int(getattr(settings, name), f"{name} of {dataset}", low=least)
        for model in self.models:
            models.check_options(model, self.model_options.get(model, {}))
        for acquisition in self.acquisitions:
            acq.load(acquisition)
        for track in self.tracks:
            check_choice(track, "track", get_args(Track))
        if self.temperature is not None:
            check_number(self.temperature, "temperature", low=0.0)
        if self.batch is not None:
            check_choice(self.batch, "batch", get_args(BatchRule))


_PRESETS: Registry[Callable[[], list[Plan]]] = Registry("preset", "presets")


def register_preset(name: str) -> Callable[[Callable[[], list[Plan]]], Callable[[], list[Plan]]]:
    """Return a decorator that gives a name to a function. The function has no arguments and returns plans.

    Packages register presets under the entry-point group ``causalbald.presets``. The decorator raises InputError if
    another function has the name.

    Parameters
    ----------
    name : str
        Name of the preset. The first line of the function's docstring describes the preset.

    Returns
    -------
    decorator
        The decorator returns the function unchanged.

    Examples
    --------
    >>> from causalbald.experiments import Plan, preset, register_preset
    >>> @register_preset("small-example")
    ... def small():
    ...     '''The synthetic data, once.'''
    ...     return [Plan(("synthetic",), acquisitions=("random",))]
    >>> len(preset("small-example"))
    1
    """
    return _PRESETS.register(name)


def preset_names() -> list[str]:
    """Return the names of all presets, also of plugins.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from causalbald.experiments import preset_names
    >>> "paper-ihdp" in preset_names()
    True
    """
    return _PRESETS.names()


def preset(name: str) -> list[Plan]:
    """Return the plans of a preset.

    Parameters
    ----------
    name : str
        One of :func:`preset_names`.

    Returns
    -------
    list of Plan

    Raises
    ------
    UnknownNameError
        If there is no such preset.

    Examples
    --------
    >>> from causalbald.experiments import preset
    >>> [plan.datasets for plan in preset("quick")]
    [('synthetic', 'ihdp')]
    """
    return _PRESETS[name]()


@register_preset("quick")
def _quick() -> list[Plan]:
    """Both small data sets, gp, random, mu-bald and mu-rho-bald, 2 seeds: minutes."""
    return [
        Plan(
            ("synthetic", "ihdp"),
            acquisitions=("random", "mu-bald", "mu-rho-bald"),
            seeds=(0, 1),
            settings={"synthetic": BenchmarkSettings(10, 10, 10), "ihdp": BenchmarkSettings(100, 20, 5)},
        )
    ]
