"""What defines a trial, by name, so that it can be stored, compared and sent to another process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any

from causalbald import acquisition as acq
from causalbald import datasets, models
from causalbald._choices import BatchRule, Track
from causalbald._typing import Array
from causalbald.acquisition import _registry as acquisitions
from causalbald.errors import InputError
from causalbald.experiments._state import TrialState
from causalbald.experiments._trial import run_trial
from causalbald.models import CateEstimator

# Part of every key. Raise it when trials with the same spec are no longer the same trials.
_FORMAT = 1
NAMES = ("dataset", "model", "acquisition", "batch", "track", "seed")
"""Columns that name a trial in tables."""
# The fields of TrialSpec that may name a plugin, and the modules that look up their names.
_REGISTRIES: dict[str, Any] = {"dataset": datasets, "model": models, "acquisition": acquisitions}
PLUGIN_KINDS = tuple(_REGISTRIES)


@dataclass(frozen=True)
class TrialSpec:
    """Everything that defines a trial. Names and numbers are not checked before the trial is loaded or run.

    Parameters
    ----------
    dataset, acquisition, model : str
        Names of the data set, the acquisition function and the model.
    warm_start, batch_size, steps, seed : int
        As for :func:`run_trial`; ``seed`` also draws the data.
    preset : str, optional
        Names the hyper-parameters of one of the paper's data sets, for models that have them.
    temperature : float, optional
        Of the softmax; by default the acquisition function's own.
    batch : "softmax", "greedy" or "auto", optional
        How scores become a batch; by default the acquisition function's own rule.
    track : "paid" or "paper"
        With ``paper``, the model gets the outcomes of the validation split for free; see :func:`run_trial`.
    dataset_options, model_options : dict
        Options of the data set and of the model. Options of the model replace those of the preset.

    Attributes
    ----------
    plugins : dict
        The version, a digest of the source, of each plugin that the trial needs. An edited plugin makes another trial.

    Examples
    --------
    >>> from causalbald.experiments import TrialSpec
    >>> spec = TrialSpec("synthetic", "random", 8, 4, 1, seed=0, dataset_options={"pool": 60, "test": 20})
    >>> spec.batch, spec.key
    ('softmax', '559f7826ad31')
    >>> len(spec.run().rows)
    2
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
    batch: BatchRule | None = None
    track: Track = "paid"
    dataset_options: dict[str, Any] = field(default_factory=dict)
    model_options: dict[str, Any] = field(default_factory=dict)
    plugins: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Fill in the batch rule and the versions of plugins, so that equal trials have equal keys.

        For the same reason the temperature becomes a float, and whole numbers in options become integers.
        """
        if self.batch is None:
            object.__setattr__(self, "batch", self._default_batch)
        if self.temperature is not None:  # 1 and 1.0 are the same trial
            object.__setattr__(self, "temperature", float(self.temperature))
        for name in ("dataset_options", "model_options"):
            object.__setattr__(self, name, _with_whole_numbers(getattr(self, name)))
        object.__setattr__(self, "plugins", self._loaded_plugins())

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> TrialSpec:
        """Return a stored trial. Its plugins have the versions in the record, not those that are loaded now.

        Parameters
        ----------
        record : dict
            From :meth:`to_json`; or from :meth:`arguments`, with ``plugins`` added if the trial has any. Without
            ``plugins``, the trial has none.

        Returns
        -------
        TrialSpec
        """
        values = dict(record)
        plugins = values.pop("plugins", {})
        spec = cls(**values)
        object.__setattr__(spec, "plugins", plugins)
        return spec

    def to_json(self) -> dict[str, Any]:
        """Return everything that defines the trial, as a dict that can be written as JSON.

        Returns
        -------
        dict
            All fields; ``plugins`` only if the trial has any.
        """
        return self.settings | ({"plugins": dict(self.plugins)} if self.plugins else {})

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that make this trial: ``TrialSpec(**spec.arguments())``, with the plugins loaded now.

        Returns
        -------
        dict
            Arguments without a default, arguments that differ from their default, and the batch rule. The rule is
            always included: its default is the acquisition function's own, which a reader without that function's
            package cannot look up.
        """
        settings = self.settings
        required = {
            f.name: settings.pop(f.name) for f in fields(self) if f.init and f.default is f.default_factory is MISSING
        }
        plain = replace(TrialSpec(**required), batch=None)
        changed = {k: value for k, value in settings.items() if k == "batch" or value != getattr(plain, k)}
        return required | changed

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that defines the trial except the versions of plugins: a dict that the caller may change."""
        return {name: value for name, value in asdict(self).items() if name != "plugins"}

    @property
    def key(self) -> str:
        """Digest of everything that defines the trial. It names the files of the trial's result."""
        return _digest(self.to_json())

    @property
    def settings_key(self) -> str:
        """Digest of the settings. Trials that differ only in the versions of plugins share it."""
        return _digest(self.settings)

    @property
    def data_key(self) -> str:
        """Digest of the data set, its options and plugin version, and the seed. Trials on the same data share it."""
        version = {"plugin": self.plugins["dataset"]} if "dataset" in self.plugins else {}
        return _digest({"dataset": self.dataset, "options": self.dataset_options, "seed": self.seed, **version})

    @property
    def names(self) -> dict[str, Any]:
        """The trial's values of the columns ``NAMES`` of tables; ``acquisition`` is :attr:`method`."""
        return {name: getattr(self, name) for name in NAMES} | {"acquisition": self.method}

    @property
    def method(self) -> str:
        """Name of the acquisition function, with the batch rule if the rule is not the function's own."""
        return self.acquisition if self.batch == self._default_batch else f"{self.acquisition}, {self.batch}"

    def __str__(self) -> str:
        return f"{self.dataset}, {self.model}, {self.acquisition}, track {self.track}, seed {self.seed}"

    def updated(self) -> TrialSpec:
        """Return the same trial with the versions of plugins that are loaded now.

        A plugin that is not loaded keeps its version. This trial is not changed.

        Returns
        -------
        TrialSpec
        """
        unloaded = {kind: version for kind, version in self.plugins.items() if not is_loaded(kind, getattr(self, kind))}
        return TrialSpec.from_json(self.settings | {"plugins": self._loaded_plugins() | unloaded})

    def load(self) -> datasets.Benchmark:
        """Return the data: the realisation of the data set for this seed.

        Returns
        -------
        Benchmark

        Raises
        ------
        InputError
            If the data set or one of its options is unknown, or it is a plugin that has changed since the trial was
            planned.
        """
        self._check_plugin("dataset")
        return datasets.load(self.dataset, self.seed, **self.dataset_options)

    def load_model(self) -> CateEstimator:
        """Return the model, not fitted.

        Returns
        -------
        CateEstimator

        Raises
        ------
        InputError
            If the model or one of its options is unknown, or it is a plugin that has changed since the trial was
            planned.
        """
        self._check_plugin("model")
        return models.load(self.model, self.preset, random_state=self.seed, **self.model_options)

    def run(
        self,
        *,
        benchmark: datasets.Benchmark | None = None,
        propensity: Array | None = None,
        state: TrialState | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> TrialState:
        """Run the trial by :func:`run_trial`, and return its last state. Writes no files.

        Parameters
        ----------
        benchmark : Benchmark, optional
            What :meth:`load` returned. By default the data are loaded.
        propensity, progress
            As for :func:`run_trial`.
        state : TrialState, optional
            Where the trial stopped earlier. The trial continues there, and changes ``state`` in place.

        Returns
        -------
        TrialState
            ``state`` itself if it was given.

        Raises
        ------
        InputError
            If a name is unknown, a plugin has changed since the trial was planned, or the pool is too small for the
            trial.
        """
        self._check_plugin("acquisition")
        state = TrialState() if state is None else state
        run_trial(
            self.load() if benchmark is None else benchmark,
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

    @property
    def _default_batch(self) -> BatchRule:
        """The acquisition function's own batch rule; softmax for a function that is not loaded."""
        return acq.load(self.acquisition).batch if self.acquisition in acq.names() else "softmax"

    def _loaded_plugins(self) -> dict[str, str]:
        """Return the versions, as loaded now, of the plugins that the trial names, by field of the trial."""
        versions = {kind: plugin_version(kind, getattr(self, kind)) for kind in PLUGIN_KINDS}
        return {kind: version for kind, version in versions.items() if version is not None}

    def _check_plugin(self, kind: str) -> None:
        """Raise InputError if a plugin is loaded in another version than the trial was planned with.

        ``kind`` is one of ``PLUGIN_KINDS``. Nothing is raised for a name that is not loaded.
        """
        name, version = getattr(self, kind), self.plugins.get(kind)
        loaded = plugin_version(kind, name)
        if is_loaded(kind, name) and loaded != version:
            raise InputError(
                f"{kind} {name!r} is version {loaded} now, but the trial ({self}) was planned with version "
                f"{version or 'unknown'}: the plugin has changed. Start `causalbald run` again."
            )


def plugin_version(kind: str, name: str) -> str | None:
    """Return the version of a loaded plugin, a digest of its source; None for names of this package and unknown names.

    ``kind`` is one of ``PLUGIN_KINDS``: the field of :class:`TrialSpec` that has the name.
    """
    version: str | None = _REGISTRIES[kind].version(name)
    return version


def is_loaded(kind: str, name: str) -> bool:
    """Return whether a data set, model or acquisition function, as ``kind`` says, is registered with the name."""
    return name in _REGISTRIES[kind].names()


def _with_whole_numbers(value: Any) -> Any:
    """Return options in which every whole number is an integer: 200.0 becomes 200, also within lists and dicts.

    Tuples become lists, as in JSON. The options themselves are not changed.
    """
    if isinstance(value, dict):
        return {name: _with_whole_numbers(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digest(content: dict[str, Any]) -> str:
    """Return 12 hexadecimal digits of a hash of the content and ``_FORMAT``. The order of the names does not matter."""
    text = json.dumps({"format": _FORMAT, **content}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
