"""What defines a trial, by name, so that it can be stored, compared and sent to another process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any

from causalbald import acquisition as acq
from causalbald import datasets
from causalbald._typing import Array
from causalbald.acquisition.registry import Batch
from causalbald.experiments.trial import Track, TrialState, run_trial
from causalbald.models import make_model

# Part of every key: raise it when trials of the same spec are no longer the same trials.
_FORMAT = 1
# Columns that name a trial in tables.
NAMES = ("dataset", "model", "acquisition", "batch", "track", "seed")


@dataclass(frozen=True)
class TrialSpec:
    """Everything that defines a trial.

    ``preset`` names the hyper-parameters of one of the paper's data sets, for models that have them;
    ``model_options`` win over it. ``batch`` is the acquisition function's own rule unless given.
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

    def __post_init__(self) -> None:
        if self.batch is None:
            object.__setattr__(self, "batch", self._own_batch)
        if self.temperature is not None:  # 1 and 1.0 are the same trial
            object.__setattr__(self, "temperature", float(self.temperature))
        for name in ("dataset_options", "model_options"):
            object.__setattr__(self, name, _plain(getattr(self, name)))

    @property
    def _own_batch(self) -> Batch:
        return acq.get(self.acquisition).batch if self.acquisition in acq.names() else "softmax"

    @property
    def key(self) -> str:
        """Address of the trial's result: a digest of everything that defines it."""
        return _digest(asdict(self))

    @property
    def data_key(self) -> str:
        """Address of what depends on data set and seed alone."""
        return _digest({"dataset": self.dataset, "options": self.dataset_options, "seed": self.seed})

    @property
    def given(self) -> dict[str, Any]:
        """What has no default or differs from it: ``TrialSpec(**given)`` is the same trial.

        The rule of batches is always there: its default is the function's own, and functions of other packages may be
        unknown to whoever reads it.
        """
        own = asdict(self)
        required = {f.name: own.pop(f.name) for f in fields(self) if f.default is f.default_factory is MISSING}
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
        return datasets.load(self.dataset, self.seed, **self.dataset_options)

    def make_model(self) -> Any:
        """Return the model, not fitted."""
        return make_model(self.model, self.preset, random_state=self.seed, **self.model_options)

    def run(
        self,
        *,
        propensity: Array | None = None,
        state: TrialState | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> TrialState:
        """Run the trial, from ``state`` on if given, and return its last state."""
        state = TrialState() if state is None else state
        run_trial(
            self.load(),
            model=self.make_model(),
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
