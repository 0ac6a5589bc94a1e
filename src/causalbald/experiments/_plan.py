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
    """How a data set is studied.

    Parameters
    ----------
    warm_start : int
        How many units are measured at random at first.
    batch_size, steps : int
        How many units are chosen at a time, and how often.
    options : dict
        Options of the data set.

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


# The paper's table of settings. IHDP's last fit has the whole pool; the smallest pool of ihdp-cov has 229 units.
_DEFAULT_SETTINGS = {
    "synthetic": BenchmarkSettings(10, 10, 30),
    "synthetic-bimodal": BenchmarkSettings(10, 10, 30),
    "ihdp": BenchmarkSettings(100, 10, 37),
    "ihdp-cov": BenchmarkSettings(100, 10, 12),
    "cmnist": BenchmarkSettings(250, 50, 55),
}
# Data sets for which a model's hyper-parameters for another data set are used.
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
"""The paper's acquisition functions, and those of a plan that names none."""


def default_settings(dataset: str) -> BenchmarkSettings | None:
    """Return how the paper studied a data set.

    Parameters
    ----------
    dataset : str
        Name of a data set.

    Returns
    -------
    BenchmarkSettings or None
        None if the data set is not the paper's.

    Examples
    --------
    >>> from causalbald.experiments import default_settings
    >>> default_settings("ihdp")
    BenchmarkSettings(warm_start=100, batch_size=10, steps=37, options={})
    """
    return _DEFAULT_SETTINGS.get(dataset)


def preset_of(dataset: str) -> str:
    """Return the name that a model's hyper-parameters for a data set have, if the model has them.

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
    """A grid of trials.

    Parameters
    ----------
    datasets, models, acquisitions : tuple of str
        Names. Every combination is a trial.
    tracks : tuple of str
        "paid", "paper" or both.
    seeds : tuple of int
        A trial for each.
    settings : dict of str to BenchmarkSettings
        By data set; needed for data sets that are not the paper's.
    model_options : dict of str to dict
        By model.
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
        """Return the trials, first seed first: an unfinished run has few seeds of everything.

        Returns
        -------
        list of TrialSpec

        Raises
        ------
        InputError
            If a name, an option or a number is wrong: before the first trial, and not in the middle of the night.
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
        """Return one trial of the grid."""
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
            Replace settings of the plan.

        Returns
        -------
        BenchmarkSettings

        Raises
        ------
        InputError
            If neither the plan nor the paper has settings, and ``changes`` lack a number.
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
        """Return the part of the plan with some names.

        Parameters
        ----------
        **names
            ``datasets``, ``models`` or ``tracks``.

        Returns
        -------
        Plan or None
            None if no trial is left.
        """
        parts = {key: tuple(v for v in getattr(self, key) if v in chosen) for key, chosen in names.items()}
        return replace(self, **parts) if all(parts.values()) else None  # type: ignore[arg-type]

    def changed(self, **numbers: int | None) -> Plan:
        """Return the plan with numbers replaced in the settings of all data sets.

        Parameters
        ----------
        **numbers
            ``warm_start``, ``batch_size`` or ``steps``; None changes nothing.

        Returns
        -------
        Plan

        Raises
        ------
        InputError
            If a data set has no settings.
        """
        changes = {name: value for name, value in numbers.items() if value is not None}
        return replace(self, settings={dataset: self.settings_of(dataset, **changes) for dataset in self.datasets})

    def _check(self) -> None:
        """Raise InputError at the first name, option or number that is wrong."""
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
    """Return a decorator that gives a function without arguments, which returns plans, a name.

    Packages register presets under the entry-point group ``causalbald.presets``.

    Parameters
    ----------
    name : str
        Name of the preset. The first line of the function's docstring describes it.

    Returns
    -------
    decorator
        It returns the function unchanged.

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
    """Return the names of all presets.

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
    InputError
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
