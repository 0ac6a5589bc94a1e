"""Columns of covariates are matched by name, wherever a table meets a fitted model."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.base import clone

from causalbald import datasets, diagnostics, pools
from causalbald._typing import AnyArray, Array, Positions
from causalbald.errors import InputError
from causalbald.models import CateEstimator, DeepKernelGP, GaussianProcess, LabelSet, PropensityModel, PropensityNetwork
from causalbald.posterior import Posterior

NAMES, OTHER_ORDER = ["age", "bmi", "income"], ["income", "age", "bmi"]
rng = np.random.default_rng(0)
UNITS = rng.normal(size=(40, 3)) * [1.0, 10.0, 100.0]
ARM = np.arange(40) % 2
OUTCOME = UNITS[:, 0] + ARM * UNITS[:, 1] + 0.1 * UNITS[:, 2]

KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "narwhals": lambda frame: nw.from_native(frame, eager_only=True),
}


def frame(names: list[str], x: Array = UNITS) -> pd.DataFrame:
    return pd.DataFrame(x, columns=NAMES)[names]


class Recorder(CateEstimator):
    """Believes in the effect of the first covariate, and remembers what it was shown."""

    def __init__(self, *, random_state: int = 0) -> None:
        self.random_state = random_state

    def _fit(self, data: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None:
        self.shown_ = [data.x, pool, *([] if validation is None else [validation.x])]

    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        mean = np.stack([np.zeros(len(x)), x[:, 0]], axis=1)
        return Posterior(mean, np.abs(x[:, :1, None]) * np.ones((1, 2, 1)) * [[0.0], [1.0]], np.zeros(()), np.ones(2))


def fitted(x: Any = None) -> Recorder:
    return Recorder().fit(OUTCOME, ARM, X=frame(NAMES) if x is None else x)


def scores(model: CateEstimator, x: Any) -> Array:
    return pools.score_pool(model, pools.MemoryPool(x, ARM), "tau-bald")


def batch(model: CateEstimator, x: Any) -> Positions:
    random = np.random.default_rng(0)
    pool = pools.MemoryPool(x, ARM)
    return pools.choose_batch(model, pool, "tau-bald", 3, available=range(40), rng=random, temperature=0.0)


ENTRIES: dict[str, Callable[[CateEstimator, Any], Any]] = {
    "posterior": lambda model, x: model.posterior(x).mean,
    "effect": lambda model, x: model.effect(x),
    "const_marginal_effect": lambda model, x: model.const_marginal_effect(x),
    "effect_interval": lambda model, x: model.effect_interval(x),
    "ate": lambda model, x: model.ate(x),
    "ate_interval": lambda model, x: model.ate_interval(x),
    "score_pool": scores,
    "choose_batch": batch,
    "batch_rule": lambda model, x: pools.batch_rule(model, pools.MemoryPool(x, ARM)) == "greedy",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_columns_in_another_order_are_put_in_order(entry: str, kind: str) -> None:
    model, enter, table = fitted(), ENTRIES[entry], KINDS[kind]
    np.testing.assert_array_equal(enter(model, table(frame(OTHER_ORDER))), enter(model, UNITS))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_other_names_are_refused_with_the_difference(entry: str, kind: str) -> None:
    renamed = KINDS[kind](frame(NAMES).rename(columns={"age": "Age"}))
    with pytest.raises(InputError, match=r"^X has 3 columns.* 3 .*missing 'age'; unexpected 'Age'.*rename or drop"):
        ENTRIES[entry](fitted(), renamed)


def test_columns_too_many_or_too_few_are_named() -> None:
    model = fitted()
    with pytest.raises(InputError, match=r"X has 4 columns that are not the 3 .*given to fit: unexpected 'weight'\."):
        model.effect(frame(NAMES).assign(weight=1.0))
    with pytest.raises(InputError, match=r"X has 2 columns that are not the 3 .*given to fit: missing 'bmi'\."):
        model.effect(frame(["income", "age"]))
    with pytest.raises(InputError, match="X has 2 covariates, but 3 are needed"):
        model.effect(UNITS[:, :2])
    wide = pd.DataFrame(np.ones((40, 8)), columns=list("abcdefgh"))
    with pytest.raises(InputError, match="unexpected 'a', 'b', 'c', 'd', 'e' and 3 more"):
        model.effect(wide)


def test_pool_and_validation_are_compared_with_x() -> None:
    mixed = frame(OTHER_ORDER)
    model = Recorder().fit(OUTCOME, ARM, X=frame(NAMES), pool=mixed, validation=(OUTCOME, ARM, mixed))
    for shown in model.shown_:
        np.testing.assert_array_equal(shown, UNITS)
    renamed = frame(NAMES).rename(columns={"bmi": "BMI"})
    with pytest.raises(InputError, match=r"pool has 3 .*missing 'bmi'; unexpected 'BMI'"):
        Recorder().fit(OUTCOME, ARM, X=frame(NAMES), pool=renamed)
    with pytest.raises(InputError, match=r"validation X has 3 .*missing 'bmi'; unexpected 'BMI'"):
        Recorder().fit(OUTCOME, ARM, X=frame(NAMES), validation=(OUTCOME, ARM, renamed))


@pytest.mark.filterwarnings("error")
def test_where_one_side_has_no_names_columns_are_taken_by_position() -> None:
    numbered = pd.DataFrame(UNITS)
    for model, table in (
        (fitted(), UNITS),
        (fitted(), numbered),
        (fitted(UNITS), frame(NAMES)),
        (fitted(numbered), UNITS),
    ):
        np.testing.assert_array_equal(model.effect(table), UNITS[:, 0])
    Recorder().fit(OUTCOME, ARM, X=frame(NAMES), pool=UNITS, validation=(OUTCOME, ARM, UNITS))


def test_names_are_remembered_as_scikit_learn_does() -> None:
    model = fitted()
    assert list(model.feature_names_in_) == NAMES
    assert model.feature_names_in_.dtype == object
    assert model.n_features_in_ == 3
    model.fit(OUTCOME, ARM, X=UNITS)
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(fitted(pd.DataFrame(UNITS)), "feature_names_in_")
    with pytest.raises(
        InputError, match=r"X has columns whose names are text, and others like 1, a int.*astype\(str\)"
    ):
        fitted(pd.DataFrame(UNITS, columns=["age", 1, 2]))


def test_copies_keep_the_names_and_clones_do_not() -> None:
    model = GaussianProcess(max_iter=5).fit(OUTCOME, ARM, X=frame(NAMES))
    effect = model.effect(UNITS)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copied.effect(frame(OTHER_ORDER)), effect)
    assert not hasattr(clone(model), "feature_names_in_")


def test_saved_models_keep_the_names_and_files_without_names_still_load(tmp_path: Path) -> None:
    model = DeepKernelGP(hidden=8, depth=1, members=1, folds=2, max_epochs=1).fit(OUTCOME, ARM, X=frame(NAMES))
    path, old = tmp_path / "model.safetensors", tmp_path / "old.safetensors"
    model.save(path)
    loaded = DeepKernelGP.load(path)
    assert list(loaded.feature_names_in_) == NAMES
    np.testing.assert_array_equal(loaded.effect(frame(OTHER_ORDER)), model.effect(UNITS))
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        description = json.loads(file.metadata()["causalbald"])
    del description["names"]
    save_file(tensors, old, metadata={"causalbald": json.dumps(description)})
    unnamed = DeepKernelGP.load(old)
    assert not hasattr(unnamed, "feature_names_in_")
    assert unnamed.n_features_in_ == 3
    np.testing.assert_array_equal(unnamed.effect(frame(NAMES)), model.effect(UNITS))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "model", [PropensityModel(folds=2), PropensityNetwork(hidden=8, depth=1, epoch_steps=2, max_epochs=1)]
)
def test_propensities_are_predicted_by_name(model: Any, kind: str) -> None:
    table = KINDS[kind]
    model = clone(model).fit(table(frame(NAMES)), ARM)
    assert list(model.feature_names_in_) == NAMES
    assert model.n_features_in_ == 3
    np.testing.assert_array_equal(model.predict(table(frame(OTHER_ORDER))), model.predict(UNITS))
    with pytest.raises(InputError, match="missing 'bmi'"):
        model.predict(table(frame(["age", "income"])))


@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_every_kind_give_their_names(kind: str) -> None:
    table = KINDS[kind](frame(OTHER_ORDER))
    assert list(diagnostics.balance_table(table, ARM)["covariate"]) == OTHER_ORDER
    benchmark = datasets.Benchmark.from_arrays(table, ARM, OUTCOME, OUTCOME, OUTCOME, seed=0)
    assert benchmark.covariate_names == tuple(OTHER_ORDER)
