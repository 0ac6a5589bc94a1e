"""Which trials to run: data sets x models x acquisitions x tracks x seeds, from a TOML file, a preset or flags."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from causalbald import acquisition as acq
from causalbald import datasets as data
from causalbald import models
from causalbald._validation import check_choice, check_int, check_number
from causalbald.acquisition._registry import Batch
from causalbald.errors import InputError
from causalbald.experiments._spec import TrialSpec


@dataclass(frozen=True)
class BenchmarkSettings:
    """How a data set is studied; ``options`` are those of the data set."""

    warm_start: int
    batch_size: int
    steps: int
    options: dict[str, Any] = field(default_factory=dict)


# The numbers among them, and how small they may be.
_NUMBERS = {"warm_start": 2, "batch_size": 1, "steps": 0}
# The paper's table of settings. IHDP's last fit has the whole pool.
PAPER = {
    "synthetic": BenchmarkSettings(10, 10, 30),
    "synthetic-bimodal": BenchmarkSettings(10, 10, 30),
    "ihdp": BenchmarkSettings(100, 10, 37),
    "ihdp-cov": BenchmarkSettings(100, 10, 12),  # its smallest pool has 229 units
    "cmnist": BenchmarkSettings(250, 50, 55),
}
# Which preset of a model suits a data set that has none of its own name.
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


@dataclass(frozen=True)
class Plan:
    """A grid of trials. ``settings`` are needed for data sets that are not the paper's.

    ``batch`` is each acquisition function's own unless given.
    """

    datasets: tuple[str, ...]
    models: tuple[str, ...] = ("gp",)
    acquisitions: tuple[str, ...] = PAPER_ACQUISITIONS
    tracks: tuple[str, ...] = ("paid",)
    seeds: tuple[int, ...] = (0,)
    settings: dict[str, BenchmarkSettings] = field(default_factory=dict)
    model_options: dict[str, dict[str, Any]] = field(default_factory=dict)
    temperature: float | None = None
    batch: Batch | None = None

    def specs(self) -> list[TrialSpec]:
        """Return the trials, first seed first: an unfinished run has few seeds of everything."""
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
        s = self.settings_of(dataset)
        preset = preset_of(dataset)
        return TrialSpec(
            dataset,
            acquisition,
            s.warm_start,
            s.batch_size,
            s.steps,
            seed,
            model=model,
            preset=preset if preset in models.presets(model) else None,
            temperature=self.temperature,
            batch=self.batch,
            track=track,
            dataset_options=s.options,
            model_options=self.model_options.get(model, {}),
        )

    def settings_of(self, dataset: str, **given: Any) -> BenchmarkSettings:
        """Return how a data set is studied, with what is ``given`` in place of what the plan says."""
        found = self.settings.get(dataset) or PAPER.get(dataset)
        if found is not None:
            return replace(found, **given)
        if not given.keys() >= {*_NUMBERS}:
            raise InputError(
                f"no settings for data set {dataset!r}: give --warm-start, --batch-size and --steps, or "
                f"[settings.{dataset}] with warm_start, batch_size and steps in a file."
            )
        return BenchmarkSettings(**given)

    def only(self, **names: tuple[str, ...]) -> Plan | None:
        """Return the part with these ``datasets``, ``models`` or ``tracks``; None if there is none."""
        kept = {key: tuple(v for v in getattr(self, key) if v in wanted) for key, wanted in names.items()}
        return replace(self, **kept) if all(kept.values()) else None  # type: ignore[arg-type]

    def changed(self, **settings: Any) -> Plan:
        """Return the plan with warm_start, batch_size or steps replaced in the settings of every data set."""
        given = {k: v for k, v in settings.items() if v is not None}
        return replace(self, settings={d: self.settings_of(d, **given) for d in self.datasets})

    def _check(self) -> None:
        """Fail before the first trial, not in the middle of the night."""
        for name in ("datasets", "models", "acquisitions", "tracks", "seeds"):
            values = getattr(self, name)
            if not values:
                raise InputError(f"the plan names no {name}: give at least one.")
            repeated = [v for k, v in enumerate(values) if v in values[:k]]
            if repeated:
                raise InputError(f"{name} names {repeated[0]!r} twice.")
        for dataset in self.datasets:
            data.check_options(dataset, [])
            settings = self.settings_of(dataset)
            data.check_options(dataset, settings.options)
            for name, least in _NUMBERS.items():
                check_int(getattr(settings, name), f"{name} of {dataset}", low=least)
        for model in self.models:
            models.load(model, **self.model_options.get(model, {}))
        for acquisition in self.acquisitions:
            acq.load(acquisition)
        for track in self.tracks:
            check_choice(track, "track", ("paid", "paper"))
        if self.temperature is not None:
            check_number(self.temperature, "temperature", low=0.0)
        if self.batch is not None:
            check_choice(self.batch, "batch", ("softmax", "greedy", "auto"))


PRESETS: dict[str, tuple[str, list[Plan]]] = {}


def preset_of(dataset: str) -> str:
    """Return the name of the models' presets for a data set, if they have one."""
    return _PRESET_OF.get(dataset, dataset)


def _preset(name: str, what: str, *plans: Plan) -> None:
    PRESETS[name] = (what, list(plans))


_preset(
    "quick",
    "both small data sets, gp, random, mu-bald and mu-rho-bald, 2 seeds: minutes",
    Plan(
        ("synthetic", "ihdp"),
        acquisitions=("random", "mu-bald", "mu-rho-bald"),
        seeds=(0, 1),
        settings={"synthetic": BenchmarkSettings(10, 10, 10), "ihdp": BenchmarkSettings(100, 20, 5)},
    ),
)
_BOTH = ("paper", "paid")
_preset(
    "paper-synthetic",
    "the paper's synthetic experiment: due 40 seeds, ensemble 20, both tracks",
    Plan(("synthetic",), ("due",), tracks=_BOTH, seeds=tuple(range(40))),
    Plan(("synthetic",), ("ensemble",), tracks=("paper",), seeds=tuple(range(20))),
)
_preset(
    "paper-ihdp",
    "the paper's IHDP experiments, with and without covariate shift: due 200 seeds, ensemble 50",
    Plan(("ihdp",), ("due",), tracks=_BOTH, seeds=tuple(range(200))),
    Plan(("ihdp-cov",), ("due",), tracks=("paper",), seeds=tuple(range(200))),
    Plan(("ihdp",), ("ensemble",), tracks=("paper",), seeds=tuple(range(50))),
)
_preset(
    "paper-cmnist",
    "the paper's image experiment: due 10 seeds, ensemble 5",
    Plan(("cmnist",), ("due",), tracks=("paper",), seeds=tuple(range(10))),
    Plan(("cmnist",), ("ensemble",), tracks=("paper",), seeds=tuple(range(5))),
)


def preset(name: str) -> list[Plan]:
    """Return the plans of a preset."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}. Known: {', '.join(PRESETS)}.")
    return PRESETS[name][1]


def read_plan(path: str | Path) -> Plan:
    """Return the plan in a TOML file."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no file {str(path)!r}: give a TOML file, or a --preset ({', '.join(PRESETS)}).")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} is not valid TOML: {error}.") from error
    return plan_of(content, path.name)


def plan_of(content: dict[str, Any], source: str = "the plan") -> Plan:
    """Return the plan of a TOML file's content."""
    _known(content, [f.name for f in fields(Plan)], source)
    values: dict[str, Any] = dict(content)
    if "datasets" not in values:
        raise InputError(f"{source} names no datasets.")
    for name in ("datasets", "models", "acquisitions", "tracks"):
        if name in values:
            values[name] = _texts(values[name], f"{name} in {source}")
    if "seeds" in values:
        values["seeds"] = parse_seeds(values["seeds"])
    plan = Plan(**{**values, "settings": {}})
    names = [f.name for f in fields(BenchmarkSettings)]
    settings = _tables(values.get("settings", {}), plan.datasets, "settings", source)
    for dataset, given in settings.items():
        _known(given, names, f"settings.{dataset} in {source}")
        _tables({"options": given.get("options", {})}, ["options"], f"settings.{dataset}", source)
    _tables(plan.model_options, plan.models, "model_options", source)
    return replace(plan, settings={dataset: _settings(dataset, given) for dataset, given in settings.items()})


def _tables(given: Any, names: Sequence[str], what: str, source: str) -> dict[str, dict[str, Any]]:
    """Return tables by name, if they are tables, of names that the plan has."""
    if not isinstance(given, dict):
        raise InputError(f"{what} in {source} must be a table, [{what}.NAME], got {given!r}.")
    _known(given, list(names), f"{what} in {source}")
    for name, table in given.items():
        if not isinstance(table, dict):
            raise InputError(f"{what}.{name} in {source} must be a table, [{what}.{name}], got {table!r}.")
    return given


def _settings(dataset: str, given: dict[str, Any]) -> BenchmarkSettings:
    default = PAPER.get(dataset)
    missing = [name for name in _NUMBERS if name not in given]
    if default is None and missing:
        raise InputError(f"settings.{dataset} lacks {missing[0]!r}.")
    return BenchmarkSettings(**given) if default is None else replace(default, **given)


def parse_seeds(seeds: Any) -> tuple[int, ...]:
    """Return seeds given as a number of them, a list, or text such as ``0-19`` or ``0,3,7-9``."""
    if isinstance(seeds, str):
        try:
            ranges = [[int(end) for end in part.split("-")] for part in seeds.split(",")]
        except ValueError:
            ranges = [[]]
        if not all(len(r) in (1, 2) and r[0] <= r[-1] for r in ranges):
            raise InputError(f"seeds {seeds!r} are not of the form 0-19 or 0,3,7-9.")
        return tuple(s for r in ranges for s in range(r[0], r[-1] + 1))
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        return tuple(range(check_int(seeds, "seeds", low=1)))
    if isinstance(seeds, Sequence):
        return tuple(check_int(s, "seeds", low=0) for s in seeds)
    raise InputError(f"seeds must be a number of seeds, a list or text such as '0-19', got {seeds!r}.")


def _texts(values: Any, what: str) -> tuple[str, ...]:
    listed = [values] if isinstance(values, str) else values
    if not isinstance(listed, list) or not all(isinstance(v, str) for v in listed):
        raise InputError(f"{what} must be a list of names, got {values!r}.")
    return tuple(listed)


def _known(given: Iterable[str], names: list[str], where: str) -> None:
    for name in given:
        if name not in names:
            raise InputError(f"{where}: unknown entry {name!r}. Known: {', '.join(names)}.")
