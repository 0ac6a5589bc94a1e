"""What defines a trial, by name, so that it can be stored, compared and sent to another process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any

from causalbald import acquisition as acq
from causalbald import datasets, models
from causalbald._typing import Array
from causalbald.acquisition import _registry as acquisitions
from causalbald.acquisition._registry import Batch
from causalbald.datasets import _base as benchmarks
from causalbald.errors import InputError
from causalbald.experiments._trial import Track, TrialState, run_trial

# Part of every key: raise it when trials of the same spec are no longer the same trials.
_FORMAT = 1
# Columns that name a trial in tables.
NAMES = ("dataset", "model", "acquisition", "batch", "track", "seed")
# Fields that may name a plugin, and the modules in which their names are looked up.
_REGISTRIES: dict[str, Any] = {"dataset": benchmarks, "model": models, "acquisition": acquisitions}
PLUGIN_KINDS = tuple(_REGISTRIES)


@dataclass(frozen=True)
class TrialSpec:
    """Everything that defines a trial.

    ``preset`` names the hyper-parameters of one of the paper's data sets, for models that have them;
    ``model_options`` win over it. ``batch`` is the acquisition function's own rule unless given. ``plugins`` holds the
    version, a digest of the source, of each plugin that the trial needs: an edited plugin makes another trial.
    """

    dataset: str
    acquisition: str
    warm_start: int
    batch_size: int
    steps: int
    seed: int
    model: str = "gp"
    preset: str | None = None
    temperature: float | None = None
    batch: Batch | None = None
    track: Track = "paid"
    dataset_options: dict[str, Any] = field(default_factory=dict)
    model_options: dict[str, Any] = field(default_factory=dict)
    plugins: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.batch is None:
            object.__setattr__(self, "batch", self._own_batch)
        if self.temperature is not None:  # 1 and 1.0 are the same trial
            object.__setattr__(self, "temperature", float(self.temperature))
        for name in ("dataset_options", "model_options"):
            object.__setattr__(self, name, _plain(getattr(self, name)))
        object.__setattr__(self, "plugins", self._loaded_plugins())

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> TrialSpec:
        """Return a stored trial, of the versions of plugins that it was stored with."""
        values = dict(record)
        plugins = values.pop("plugins", {})
        spec = cls(**values)
        object.__setattr__(spec, "plugins", plugins)
        return spec

    @property
    def record(self) -> dict[str, Any]:
        """Everything that defines the trial, to be stored."""
        return {name: value for name, value in asdict(self).items() if name != "plugins" or value}

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that defines the trial but the versions of plugins."""
        return {name: value for name, value in asdict(self).items() if name != "plugins"}

    def _loaded_plugins(self) -> dict[str, str]:
        found = {kind: plugin_version(kind, getattr(self, kind)) for kind in PLUGIN_KINDS}
        return {kind: version for kind, version in found.items() if version is not None}

    def updated(self) -> TrialSpec:
        """Return the same trial with the plugins that are loaded now; those that are not keep their version."""
        unloaded = {k: v for k, v in self.plugins.items() if not is_loaded(k, getattr(self, k))}
        return TrialSpec.from_record(self.settings | {"plugins": self._loaded_plugins() | unloaded})

    def _check_plugin(self, kind: str) -> None:
        """Raise if a plugin is loaded in another version than the trial's."""
        name, version = getattr(self, kind), self.plugins.get(kind)
        loaded = plugin_version(kind, name)
        if is_loaded(kind, name) and loaded != version:
            raise InputError(
                f"{kind} {name!r} is version {loaded} now, but the trial ({self}) was planned with version "
                f"{version or 'unknown'}: the plugin has changed. Start `causalbald run` again."
            )

    @property
    def _own_batch(self) -> Batch:
        return acq.load(self.acquisition).batch if self.acquisition in acq.names() else "softmax"

    @property
    def key(self) -> str:
        """Address of the trial's result: a digest of everything that defines it."""
        return _digest(self.record)

    @property
    def settings_key(self) -> str:
        """Digest that all versions of the trial share."""
        return _digest(self.settings)

    @property
    def data_key(self) -> str:
        """Address of what depends on data set and seed alone."""
        version = {"plugin": self.plugins["dataset"]} if "dataset" in self.plugins else {}
        return _digest({"dataset": self.dataset, "options": self.dataset_options, "seed": self.seed, **version})

    @property
    def given(self) -> dict[str, Any]:
        """What has no default or differs from it: ``TrialSpec(**given)`` is the same trial, of the plugins loaded.

        The rule of batches is always there: its default is the function's own, and functions of other packages may be
        unknown to whoever reads it.
        """
        own = self.settings
        required = {
            f.name: own.pop(f.name) for f in fields(self) if f.init and f.default is f.default_factory is MISSING
        }
        plain = replace(TrialSpec(**required), batch=None)
        return required | {name: own[name] for name in own if name == "batch" or own[name] != getattr(plain, name)}

    @property
    def names(self) -> dict[str, Any]:
        """The columns that name the trial in tables."""
        return {name: getattr(self, name) for name in NAMES} | {"acquisition": self.method}

    @property
    def method(self) -> str:
        """The acquisition function, and the rule of its batches if that is not its own."""
        return self.acquisition if self.batch == self._own_batch else f"{self.acquisition}, {self.batch}"

    def __str__(self) -> str:
        return f"{self.dataset}, {self.model}, {self.acquisition}, track {self.track}, seed {self.seed}"

    def load(self) -> datasets.Benchmark:
        """Return the realisation of the data set."""
        self._check_plugin("dataset")
        return datasets.load(self.dataset, self.seed, **self.dataset_options)

    def load_model(self) -> Any:
        """Return the model, not fitted."""
        self._check_plugin("model")
        return models.load(self.model, self.preset, random_state=self.seed, **self.model_options)

    def run(
        self,
        *,
        propensity: Array | None = None,
        state: TrialState | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> TrialState:
        """Run the trial, from ``state`` on if given, and return its last state."""
        self._check_plugin("acquisition")
        state = TrialState() if state is None else state
        run_trial(
            self.load(),
            model=self.load_model(),
            acquisition=self.acquisition,
            warm_start=self.warm_start,
            batch_size=self.batch_size,
            steps=self.steps,
            temperature=self.temperature,
            batch=self.batch,
            seed=self.seed,
            track=self.track,
            propensity=propensity,
            state=state,
            progress=progress,
        )
        return state


def plugin_version(kind: str, name: str) -> str | None:
    """Return the version of a plugin that is loaded, by the field that names it; None if it is not, or no plugin."""
    version: str | None = _REGISTRIES[kind].version(name)
    return version


def is_loaded(kind: str, name: str) -> bool:
    """Return whether a data set, model or acquisition function is known here."""
    return name in _REGISTRIES[kind].names()


def _plain(value: Any) -> Any:
    """Return options in which whole numbers are integers, however they were written."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps({"format": _FORMAT, **content}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
