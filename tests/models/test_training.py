"""Training: random streams, labels of each member, early stopping, and members that stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from causalbald.errors import TrainingError
from causalbald.models._nn.encoders import ModulePerMember
from causalbald.models._nn.member_labels import LabelTensors, MemberLabels, MemberRows
from causalbald.models._nn.random_streams import RandomStreams
from causalbald.models._nn.training import Schedule, train


def test_what_a_member_draws_does_not_depend_on_the_others() -> None:
    def draws(streams: RandomStreams, position: int, high: list[int]) -> list[Tensor]:
        together = [
            streams.uniform((3, 2), low=-1.0, high=2.0),
            streams.normal((4,)),
            streams.integers(high, 5),
            streams.subsets(high, 6),
        ]
        return [*(d[position] for d in together), torch.tensor(streams.seed(position)), streams.normal((2,))[position]]

    alone = draws(RandomStreams([8]), 0, [10])
    for seeds, position in (([8, 3], 0), ([5, 6, 8], 2)):
        high = [7 + 3 * (seed == 8) for seed in seeds]
        for one, among in zip(alone, draws(RandomStreams(seeds), position, high), strict=True):
            torch.testing.assert_close(one, among, rtol=0, atol=0)
    assert not torch.equal(draws(RandomStreams([9]), 0, [10])[1], alone[1])
    assert alone[0].min() < 0
    assert len(set(alone[3].tolist())) == 6
    assert 0 <= alone[3].min() <= alone[3].max() < 10


def test_padding_does_not_count() -> None:
    members = [np.array([4, 7, 9]), np.array([0, 2, 3, 5, 8])]
    rows, values = MemberRows.padded(members, torch.device("cpu")), torch.arange(10.0) ** 2
    assert rows.lengths == [3, 5]
    torch.testing.assert_close(rows.mean(values[rows.index]), torch.stack([values[m].mean() for m in members]))
    for m, expected in enumerate(members):
        assert rows.of_member(m).index.tolist() == [expected.tolist()]
    drawn = rows.take_columns(rows.draw_columns(2, np.random.default_rng(0)))
    assert drawn.lengths == [2, 2]
    assert all(
        set(index) <= set(rows_of_member) for index, rows_of_member in zip(drawn.index.tolist(), members, strict=True)
    )


@pytest.mark.parametrize(("warm_up", "walked"), [(1, 6.0), (4, 0.25 + 0.5 + 0.75 + 3)])
def test_the_rate_rises_over_the_first_steps(warm_up: int, walked: float) -> None:
    network = nn.Linear(1, 1, bias=False)
    start, optimiser = network.weight.item(), torch.optim.SGD(network.parameters(), lr=0.1)
    train(network, optimiser, lambda: network.weight[0], Schedule(6, 6, 1, warm_up))
    assert start - network.weight.item() == pytest.approx(0.1 * walked, rel=1e-5)


@pytest.mark.parametrize("repeat", [True, False])
def test_batches_hold_only_labels_of_the_member(repeat: bool) -> None:
    members = [np.array([4, 7, 9]), np.array([0, 2, 3, 5, 8])]
    labels = LabelTensors(torch.arange(10.0)[:, None], torch.arange(10) % 2, 100 + torch.arange(10.0))
    member_labels = MemberLabels(labels, MemberRows.padded(members, torch.device("cpu")), labels, None)
    streams, seen = RandomStreams([1, 2]), [set[int](), set[int]()]
    for _ in range(30):
        batch = member_labels.batch(streams, 3, repeat=repeat)
        assert batch.x.shape == (2, 3, 1)
        torch.testing.assert_close(batch.y, 100 + batch.x[..., 0])
        torch.testing.assert_close(batch.t, batch.x[..., 0].long() % 2)
        for m, drawn in enumerate(batch.x[..., 0].long().tolist()):
            assert repeat or len(set(drawn)) == 3
            seen[m].update(drawn)
    assert seen == [set(rows_of_member.tolist()) for rows_of_member in members]
    assert member_labels.stop_score(lambda: lambda part: part.y, 2) is None


@pytest.mark.parametrize("chunk", [2, 100])
def test_held_out_score_is_the_mean_over_the_rows_of_the_member(chunk: int) -> None:
    members = [np.array([4, 7, 9]), np.array([0, 2, 3, 5, 8])]
    labels = LabelTensors(torch.zeros(10, 1), torch.zeros(10, dtype=torch.long), torch.arange(10.0) ** 2)
    rows = MemberRows.padded(members, torch.device("cpu"))
    score = MemberLabels(labels, rows, labels, rows).stop_score(lambda: lambda part: part.y, chunk)
    assert score is not None
    torch.testing.assert_close(score(), torch.stack([labels.y[m].mean() for m in members]))


class Counter(nn.Module):
    """A network whose every weight equals the number of steps it was trained for, by gradient descent of rate 1."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.count = nn.Parameter(torch.zeros(members, 1))

    def run(
        self,
        stop_score: Callable[[], Tensor] | None,
        max_steps: int = 40,
        every: int = 1,
        patience: int = 3,
        selection: SelectionLog | None = None,
    ) -> list[int]:
        self.steps = 0

        def loss() -> Tensor:
            self.steps += 1
            return -self.count[:, 0]

        schedule, per_member = Schedule(max_steps, every, patience), [] if selection is None else [selection]
        return train(self, torch.optim.SGD(self.parameters(), 1.0), loss, schedule, stop_score, per_member)


class SelectionLog:
    """Records which members remain, and at which step it was called."""

    def __init__(self, network: Counter) -> None:
        self.network, self.members = network, list(range(len(network.count)))
        self.calls: list[tuple[int, list[int]]] = []

    def select(self, members: Sequence[int]) -> None:
        self.members = list(members)
        self.calls.append((self.network.steps, self.members))


def test_members_get_back_their_best_weights_and_training_stops() -> None:
    network, peaks = Counter(3), torch.tensor([4.0, 12.0, 1.0])
    log = SelectionLog(network)
    assert network.run(lambda: -((network.count[:, 0] - peaks[log.members]) ** 2), selection=log) == [4, 12, 1]
    assert network.count[:, 0].tolist() == [4.0, 12.0, 1.0]
    assert network.steps == 12 + 3
    assert log.calls == [(1 + 3, [0, 1]), (4 + 3, [1]), (12 + 3, [0, 1, 2])]
    assert not network.training


def test_looks_are_rare_and_ties_go_to_the_earlier() -> None:
    network = Counter(1)
    assert network.run(lambda: -((network.count[:, 0] - 6) ** 2), every=4, patience=2) == [4]
    assert network.steps == 12


def test_a_finished_member_is_not_revived_and_a_slump_within_patience_is_forgiven() -> None:
    """Scores at steps 1 to 8: the first member peaks at 2, rises again after three looks; the second dips for two."""
    network = Counter(2)
    scores = torch.tensor([[1.0, 2.0, 0.0, 0.0, 0.0, 9.0, 9.5, 9.9], [3.0, 1.0, 1.0, 4.0, 5.0, 6.0, 7.0, 8.0]])
    log = SelectionLog(network)
    assert network.run(lambda: scores[log.members, network.steps - 1], max_steps=8, selection=log) == [2, 8]
    assert network.count[:, 0].tolist() == [2.0, 8.0]


def test_without_held_out_labels_all_steps_are_taken() -> None:
    network = Counter(2)
    assert network.run(None, max_steps=7) == []
    assert network.count[:, 0].tolist() == [7.0, 7.0]


@pytest.mark.parametrize("hopeless", [torch.nan, -torch.inf])
def test_no_finite_score_is_an_error(hopeless: float) -> None:
    network = Counter(2)
    with pytest.raises(TrainingError, match="learning_rate"):
        network.run(lambda: torch.tensor([1.0, hopeless]), max_steps=5, patience=5)


class StepCounter(nn.Module):
    """Features that equal the number of training steps; counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.calls = nn.Parameter(torch.zeros(1)), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.weight.expand(len(x), 1)


def test_finished_members_are_skipped_and_each_gets_its_weights_back() -> None:
    encoder, x, calls = ModulePerMember(StepCounter, RandomStreams([1, 2])), torch.zeros(2, 3, 4), []
    counters = [m for m in encoder.each if isinstance(m, StepCounter)]

    def loss() -> Tensor:
        calls.append([m.calls for m in counters])
        features: Tensor = encoder(x)
        return -features.mean((1, 2))

    def stop_score() -> Tensor:
        return torch.cat([-((counters[m].weight - [2.0, 9.0][m]) ** 2) for m in encoder.members])

    steps = train(encoder, torch.optim.SGD(encoder.parameters(), 1.0), loss, Schedule(30, 1, 2), stop_score)
    assert steps == [2, 9]
    assert [m.calls for m in counters] == [4, 11]
    assert calls[-1] == [4, 10]
    assert encoder(x)[:, 0, 0].tolist() == [2.0, 9.0]


def test_some_members_encode_as_they_do_among_all() -> None:
    streams = RandomStreams([1, 2, 3])
    encoder, x = ModulePerMember(lambda: nn.Linear(4, 2), streams), torch.ones(3, 3, 4)
    among_all = encoder(x)
    encoder.select([2, 0])
    torch.testing.assert_close(encoder(x[:2]), among_all[[2, 0]], rtol=0, atol=0)


def test_a_member_that_stops_does_not_change_streams_and_rows_of_the_remaining() -> None:
    all_streams, streams = RandomStreams([1, 2, 3]), RandomStreams([1, 2, 3])
    streams.select([2, 0])
    torch.testing.assert_close(streams.normal((4,)), all_streams.normal((4,))[[2, 0]], rtol=0, atol=0)
    streams.select([0, 1, 2])
    assert len(streams) == 3
    labels = LabelTensors(torch.arange(10.0)[:, None], torch.zeros(10, dtype=torch.long), torch.arange(10.0))
    rows = MemberRows.padded([np.array([4, 7]), np.array([0, 2, 3, 5]), np.array([1, 6, 8])], torch.device("cpu"))
    member_labels = MemberLabels(labels, rows, labels, rows)
    stop_score = member_labels.stop_score(lambda: lambda part: part.y, 100)
    assert stop_score is not None
    member_labels.select([1, 2])
    torch.testing.assert_close(stop_score(), torch.tensor([2.5, 5.0]))
    batch = member_labels.batch(RandomStreams([5, 6]), 4, repeat=False)
    assert batch.y.shape == (2, 2), "a batch is as long as the shortest of all members, whichever members remain"
    assert set(batch.y[1].tolist()) <= {1.0, 6.0, 8.0}
