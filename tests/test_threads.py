"""How many threads a fit takes: one, unless ``CAUSALBALD_THREADS`` says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from causalbald._threads import one_thread
from causalbald._typing import Array
from causalbald.errors import InputError
from causalbald.models import GaussianProcess
from causalbald.models._evidence import log_evidence

SMALL, LARGE = 60, 130


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let each library take three threads, whatever this machine has."""
    monkeypatch.delenv("CAUSALBALD_THREADS", raising=False)
    with threadpool_limits(3):
        torch.set_num_threads(3)
        yield
        torch.set_num_threads(1)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Numbers of threads that libraries might take while hyper-parameters are searched for."""
    seen: set[int] = set()

    def watched(*arguments: Any) -> Any:
        seen.update(library["num_threads"] for library in threadpool_info())
        seen.add(torch.get_num_threads())
        return log_evidence(*arguments)

    monkeypatch.setattr("causalbald.models._gaussian_process.log_evidence", watched)
    return seen


def fit(labels: int) -> GaussianProcess:
    """Return a fitted model to which more than 100 labels are many, as more than 512 are by default."""
    rng = np.random.default_rng(0)
    x: Array = rng.normal(size=(labels, 3))
    t = np.arange(labels) % 2
    y = np.sin(x[:, 0]) + t * x[:, 1] + 0.2 * rng.normal(size=labels)
    return GaussianProcess(inducing=100, max_iter=10).fit(y, t, X=x)


@pytest.mark.parametrize("labels", [SMALL, LARGE])
def test_a_fit_takes_one_thread_and_gives_the_others_back(labels: int, threads: set[int]) -> None:
    fit(labels)
    assert threads == {1}
    assert torch.get_num_threads() == 3
    assert {library["num_threads"] for library in threadpool_info()} == {3}


def test_large_fits_take_what_the_variable_says_and_no_more_than_there_are(
    threads: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSALBALD_THREADS", "2")
    fit(LARGE)
    assert threads == {2}
    threads.clear()
    monkeypatch.setenv("CAUSALBALD_THREADS", "64")
    fit(LARGE)
    assert threads == {3}
    assert torch.get_num_threads() == 3


def test_neither_small_fits_nor_campaigns_follow_the_variable(
    threads: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSALBALD_THREADS", "2")
    fit(SMALL)
    with one_thread():  # as campaigns and trials do, whose records must not depend on the machine
        fit(LARGE)
    assert threads == {1}


def test_a_fit_is_that_of_one_thread_to_the_last_bit() -> None:
    by_default = fit(LARGE)
    with one_thread():
        on_one = fit(LARGE)
        beliefs = [model.posterior(np.linspace(-2, 2, 90).reshape(30, 3)) for model in (by_default, on_one)]
    np.testing.assert_array_equal(beliefs[0].mean, beliefs[1].mean)
    np.testing.assert_array_equal(beliefs[0].factor, beliefs[1].factor)


@pytest.mark.parametrize("value", ["two", "0", "-1", "1.5", "²"])
@pytest.mark.parametrize("labels", [SMALL, LARGE])
def test_a_bad_number_names_the_variable_and_the_remedy(
    value: str, labels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSALBALD_THREADS", value)
    with pytest.raises(InputError, match=f"CAUSALBALD_THREADS must be a whole number .*'{value}'.*unset it"):
        fit(labels)


@pytest.mark.parametrize("value", ["", " 1 "])
def test_an_empty_variable_is_one_thread(value: str, threads: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAUSALBALD_THREADS", value)
    fit(LARGE)
    assert threads == {1}
