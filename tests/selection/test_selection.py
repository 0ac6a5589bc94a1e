"""Batches: frequencies against the softmax law, greedy against re-scoring by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causalbald import Posterior, acquisition, pools
from causalbald.errors import InputError
from causalbald.models import GaussianProcess
from causalbald.selection import _selection, select, select_greedy
from causalbald.testing import fake_posterior
from tests.test_posterior import joint_covariance


def test_frequencies_follow_the_softmax_law_without_replacement() -> None:
    """P(first i, then j) = w_i / W * w_j / (W - w_i), w = exp(score / T): checked for all ordered pairs."""
    scores, temperature, repeats = np.array([0.3, -0.2, 0.0, 0.6]), 0.5, 40_000
    rng = np.random.default_rng(0)
    counts: dict[tuple[int, int], int] = dict.fromkeys(itertools.permutations(range(4), 2), 0)
    for _ in range(repeats):
        first, second = select(scores, 2, temperature=temperature, rng=rng)
        counts[int(first), int(second)] += 1
    w = np.exp(scores / temperature)
    for (i, j), count in counts.items():
        p = w[i] / w.sum() * w[j] / (w.sum() - w[i])
        assert abs(count - repeats * p) < 4.5 * np.sqrt(repeats * p * (1 - p)), (i, j)


def test_zero_temperature_takes_the_best_and_breaks_ties_at_random() -> None:
    scores = np.array([1.0, 3.0, 3.0, -np.inf, 2.0])
    first = [int(select(scores, 3, temperature=0, rng=np.random.default_rng(s))[0]) for s in range(200)]
    assert set(first) == {1, 2}
    assert 60 < first.count(1) < 140
    assert select(scores, 3, temperature=0, rng=np.random.default_rng(0))[2] == 4


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6) | st.just(-np.inf), min_size=1, max_size=30),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.integers(0, 30),
)
def test_batches_are_distinct_and_never_hold_forbidden_units(
    values: list[float], temperature: float, size: int
) -> None:
    scores = np.array(values)
    rng = np.random.default_rng(0)
    if size > np.isfinite(scores).sum():
        with pytest.raises(InputError, match="ask for fewer"):
            select(scores, size, temperature=temperature, rng=rng)
        return
    batch = select(scores, size, temperature=temperature, rng=rng)
    assert len(set(batch.tolist())) == size
    assert np.isfinite(scores[batch]).all()


@pytest.mark.parametrize(
    ("scores", "size", "temperature", "message"),
    [
        ([0.0, np.nan], 1, 1.0, "NaN"),
        ([0.0, np.inf], 1, 1.0, "inf"),
        ([[0.0]], 1, 1.0, "shape"),
        ([0.0], 2, 1.0, "ask for fewer"),
        ([0.0], -1, 1.0, "size"),
        ([0.0], 1, -1.0, "temperature"),
        ([0.0], 1, np.nan, "temperature"),
    ],
)
def test_bad_input(scores: object, size: int, temperature: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        select(scores, size, temperature=temperature, rng=np.random.default_rng(0))  # type: ignore[arg-type]


TREATMENT = np.arange(9) % 2


def by_hand(p: Posterior, name: str, size: int, pending: list[int]) -> list[int]:
    """Greedy on the explicit joint covariance, with the textbook update, no factor involved."""
    joint = joint_covariance(p)
    taken = list(pending)
    chosen: list[int] = []

    def measure(i: int) -> None:
        nonlocal joint
        row = 2 * i + TREATMENT[i]
        joint = joint - np.outer(joint[:, row], joint[:, row]) / (joint[row, row] + 0.5)

    for i in pending:
        measure(i)
    for _ in range(size):
        blocks = np.stack([joint[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] for i in range(len(p))])
        marginal = Posterior(p.mean, np.zeros((len(p), 2, 1)), blocks, p.noise)
        scores = acquisition.score(name, marginal, TREATMENT)
        scores[taken] = -np.inf
        chosen.append(int(scores.argmax()))
        taken.append(chosen[-1])
        measure(chosen[-1])
    return chosen


@pytest.mark.parametrize("name", ["mu-bald", "mu-rho-bald", "mu-info", "tau-bald"])
@pytest.mark.parametrize("pending", [[], [2, 5]])
def test_greedy_conditions_on_pending_units_and_picks(name: str, pending: list[int]) -> None:
    p = fake_posterior(units=9, seed=4)
    got = select_greedy(p, TREATMENT, name, 4, pending=pending, rng=np.random.default_rng(0))
    assert got.tolist() == by_hand(p, name, 4, pending)


def test_greedy_avoids_the_twin_that_top_k_would_take() -> None:
    """Two equal units are the most uncertain: after one is measured, the other says little."""
    factor = np.zeros((3, 2, 3))
    factor[0, :, 0] = factor[1, :, 0] = 3.0
    factor[2, :, 1] = 2.0
    p = Posterior(np.zeros((3, 2)), factor, np.zeros(()), np.array(0.1))
    rng = np.random.default_rng(0)
    assert set(select(acquisition.score("mu-bald", p, [0, 0, 0]), 2, temperature=0, rng=rng)) == {0, 1}
    assert 2 in select_greedy(p, [0, 0, 0], "mu-bald", 2, rng=rng)


def test_greedy_mu_info_maximises_the_joint_information() -> None:
    """BatchBALD: the greedy pair's gain is the log-determinant gain of the two outcomes."""
    p = fake_posterior(units=9, seed=7)
    first, second = select_greedy(p, TREATMENT, "mu-info", 2, rng=np.random.default_rng(0))
    joint = joint_covariance(p)

    def information(units: list[int]) -> float:
        rows = [2 * i + TREATMENT[i] for i in units]
        return 0.5 * float(np.linalg.slogdet(np.eye(len(rows)) + joint[np.ix_(rows, rows)] / 0.5)[1])

    assert first == max(range(9), key=lambda i: information([i]))
    assert second == max((i for i in range(9) if i != first), key=lambda i: information([first, i]))


def test_greedy_respects_exclusions_and_says_when_nothing_is_left() -> None:
    p = fake_posterior(units=9)
    batch = select_greedy(p, TREATMENT, "mu-bald", 3, excluded=range(5), pending=[8], rng=np.random.default_rng(0))
    assert set(batch.tolist()) == {5, 6, 7}
    with pytest.raises(InputError, match="only 3 can be chosen"):
        select_greedy(p, TREATMENT, "mu-bald", 4, excluded=range(5), pending=[8], rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="pass rng"):
        select_greedy(p, TREATMENT, "mu-bald", 1, temperature=0.5)
    first, again = (select_greedy(p, TREATMENT, "random", 4).tolist() for _ in range(2))
    assert first == again
    with pytest.raises(InputError, match="pending repeat"):
        select_greedy(p, TREATMENT, "mu-bald", 1, pending=[1, 1], rng=np.random.default_rng(0))


def test_greedy_refuses_a_handful_of_draws_and_names_softmax() -> None:
    draws = np.random.default_rng(0).normal(size=(5, 9, 2))
    with pytest.raises(InputError, match="softmax"):
        select_greedy(Posterior.from_draws(draws, 0.1), TREATMENT, "mu-bald", 2, rng=np.random.default_rng(0))


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_part_at_a_time_chooses_as_all_at_once(monkeypatch: pytest.MonkeyPatch, temperature: float) -> None:
    scores = np.random.default_rng(0).integers(0, 5, size=400).astype(float)  # with ties
    scores[::7] = -np.inf
    candidates = np.flatnonzero(np.isfinite(scores))
    noise = np.random.default_rng(1).gumbel(size=len(candidates))
    keys = scores[candidates] / temperature + noise if temperature else scores[candidates]
    expected = candidates[np.lexsort((noise, keys))[::-1]]
    for chunk in (3, 64, 400):
        monkeypatch.setattr(_selection, "_BLOCK_UNITS", chunk)
        for size in (0, 1, 30, len(candidates)):
            got = select(scores, size, temperature=temperature, rng=np.random.default_rng(1))
            np.testing.assert_array_equal(got, expected[:size])


def test_budgets_scores_and_targets_that_cannot_be_meant_are_refused(rng: np.random.Generator) -> None:
    x, t = rng.normal(size=(60, 2)), np.arange(60) % 2
    model = GaussianProcess(max_iter=2).fit(x[:20, 0], t[:20], X=x[:20], pool=x)
    left, pool = np.arange(20, 60), pools.MemoryPool(x, t)
    with pytest.raises(InputError, match="budget must be a number"):
        pools.choose_batch(model, pool, "mu-bald", 3, available=left, rng=rng, budget=float("nan"))
    for length in (59, 61):
        with pytest.raises(InputError, match=rf"scores have shape \({length},\) for 60 units"):
            pools.choose_batch(model, pool, "mu-bald", 3, available=left, rng=rng, scores=np.zeros(length))
    far = acquisition.TargetPopulation.of([70], 100)
    with pytest.raises(InputError, match="targets have position 70, but there are 60 units"):
        acquisition.score("tau-vr", model.posterior(x), t, population=far)
    with pytest.raises(InputError, match=r"population must be TargetPopulation\.of"):
        acquisition.score("tau-vr", model.posterior(x), t, population=np.arange(3))  # type: ignore[arg-type]
