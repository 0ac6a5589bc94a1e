"""The deep models' parts: gains by singular value decomposition, densities and kernels by other libraries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF, Matern
from torch import Tensor, distributions, nn
from torch.nn import functional

from causalbald._typing import Array
from causalbald.errors import InputError, TrainingError
from causalbald.models.nn.encoders import (
    Architecture,
    ConvolutionalEncoder,
    DenseEncoder,
    EachMember,
    feature_width,
)
from causalbald.models.nn.heads import GaussianMixture, Probit
from causalbald.models.nn.kernels import KERNELS, squared_distances
from causalbald.models.nn.layers import Convolution, Dense
from causalbald.models.nn.streams import Streams
from causalbald.models.nn.study import Labels, Rows, Study
from causalbald.models.nn.tarnet import TreatmentAsInput
from causalbald.models.nn.training import Schedule, train


@torch.no_grad()
def settle(module: nn.Module, x: Tensor, *, larger: float = 1.0, passes: int = 200) -> None:
    """Multiply all weights, then let the power iterations follow."""
    for name, parameter in module.named_parameters():
        if name.endswith("weight"):
            parameter.mul_(larger)
    module.train()
    for _ in range(passes):
        module(x)
    module.eval()


@torch.no_grad()
def applied(layer: Dense) -> Tensor:
    """The linear map of a dense layer, (M, *stack, inputs, outputs)."""
    *lead, inputs, _ = layer.weight.shape
    mapped: Tensor = layer.eval()(torch.eye(inputs).expand(*lead, inputs, inputs)) - layer.bias
    return mapped


@torch.no_grad()
def applied_to_images(layer: Convolution, image: tuple[int, int]) -> Tensor:
    """The linear map of a convolution on images of one size, (pixels, outputs)."""
    pixels = layer.in_channels * math.prod(image)
    units = torch.eye(pixels).reshape(pixels, layer.in_channels, *image)
    layer.eval()
    mapped: Tensor = (layer(units) - layer(torch.zeros_like(units[:1]))).reshape(pixels, -1)
    return mapped


def largest_gain(matrix: Tensor) -> Tensor:
    gain: Tensor = torch.linalg.svdvals(matrix)[..., 0]
    return gain


@pytest.mark.parametrize("stack", [(), (2,)])
def test_gain_of_each_dense_map_is_capped_and_never_raised(stack: tuple[int, ...]) -> None:
    c = 0.9
    layer = Dense(7, 5, Streams([1, 2, 3]), coefficient=c, stack=stack)
    with torch.no_grad():
        layer.weight.copy_(Streams([4, 5, 6]).normal((*stack, 7, 5)))
        layer.weight[1] *= 0.5 * c / largest_gain(layer.weight[1]).amax()
        layer.weight[2] *= 30
    settle(layer, torch.zeros(3, *stack, 1, 7))
    found = applied(layer)
    gains = largest_gain(found)
    assert (gains <= c * (1 + 1e-3)).all()
    torch.testing.assert_close(gains[[0, 2]], torch.full_like(gains[[0, 2]], c), rtol=1e-3, atol=0.0)
    torch.testing.assert_close(found[1], layer.weight.detach()[1])


def test_a_dense_map_without_a_coefficient_is_its_weight() -> None:
    layer = Dense(3, 4, Streams([1, 2]))
    settle(layer, torch.zeros(2, 1, 3), larger=50.0, passes=3)
    torch.testing.assert_close(applied(layer), layer.weight.detach())


def test_evaluation_leaves_the_gain_alone() -> None:
    layer = Dense(6, 6, Streams([1]), coefficient=0.5)
    settle(layer, torch.zeros(1, 1, 6), larger=5.0)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(1, 6, 6, generator=torch.Generator().manual_seed(0)))
    before = layer.gain_vector.clone()
    applied(layer)
    torch.testing.assert_close(layer.gain_vector, before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("image", "kernel", "stride"), [((6, 8), 3, 1), ((7, 7), 3, 2), ((9, 6), 5, 1), ((7, 7), 1, 2)]
)
def test_gain_of_a_convolution_is_that_of_its_map_on_real_images(
    image: tuple[int, int], kernel: int, stride: int
) -> None:
    c = 0.8
    torch.manual_seed(0)
    layer = Convolution(2, 3, kernel, image=image, stride=stride, coefficient=c)
    settle(layer, torch.zeros(1, 2, *image), larger=10.0)
    gain = largest_gain(applied_to_images(layer, image)).item()
    assert gain == pytest.approx(c, rel=1e-2)
    small = Convolution(2, 3, kernel, image=image, stride=stride, coefficient=c)
    settle(small, torch.zeros(1, 2, *image), larger=0.1)
    torch.testing.assert_close(small.normalised(), small.weight)


def test_gain_of_the_reshaped_kernel_is_another_number() -> None:
    torch.manual_seed(0)
    layer = Convolution(2, 3, 3, image=(8, 8))
    reshaped = largest_gain(layer.weight.detach().reshape(3, -1)).item()
    on_images = largest_gain(applied_to_images(layer, (8, 8))).item()
    assert on_images > 1.3 * reshaped


@torch.no_grad()
def make_worst(encoder: nn.Module, x: Tensor) -> None:
    """Give all weights one sign and no bias: bright inputs then pass every activation and stretch most."""
    for name, parameter in encoder.named_parameters():
        if name.endswith("weight"):
            parameter.abs_()
        else:
            parameter.zero_()
    settle(encoder, x, larger=6.0, passes=50)


def pairs(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Inputs near and far from each other: half of them differ at random, half in brightness."""
    draw = torch.Generator().manual_seed(3)
    a = torch.randn(200, *shape, generator=draw)
    apart = torch.cat([torch.randn(100, *shape, generator=draw), torch.ones(100, *shape)])
    a[100:].abs_()
    return a, a + 10 ** torch.linspace(-2, 1, 100).repeat(2).reshape(-1, *(1 for _ in shape)) * apart


@torch.no_grad()
def stretch(f: Callable[[Tensor], Tensor], a: Tensor, b: Tensor) -> float:
    """The largest ratio of distances after and before f."""
    return float(((f(a) - f(b)).norm(dim=-1) / (a - b).flatten(1).norm(dim=1)).max())


@pytest.mark.parametrize("slope", [-1.0, 0.0, 0.1])
def test_dense_encoder_reaches_and_keeps_its_lipschitz_bound(slope: float) -> None:
    c, depth = 0.95, 4
    a, b = pairs((3,))
    bound = c * (1 + c) ** (depth - 1)
    encoder = DenseEncoder(3, Architecture(16, depth, slope, 0.1, c), Streams([5]), activate_output=True)
    settle(encoder, a[None], larger=6.0, passes=50)
    assert stretch(lambda x: encoder(x[None])[0], a, b) <= bound * (1 + 1e-2)
    make_worst(encoder, a[None])
    assert 0.8 * bound < stretch(lambda x: encoder(x[None])[0], a, b) <= bound * (1 + 1e-2)


@pytest.mark.parametrize("image", [(8, 8), (9, 7)])
def test_convolutional_encoder_reaches_and_keeps_its_lipschitz_bound(image: tuple[int, int]) -> None:
    c, blocks, last_stage = 0.95, 4, math.ceil(image[0] / 2) * math.ceil(image[1] / 2)
    a, b = pairs((2, *image))
    bound = c * (c + c**2) ** blocks / math.sqrt(last_stage)
    torch.manual_seed(0)
    encoder = ConvolutionalEncoder((2, *image), Architecture(24, 2, -1.0, 0.1, c), activate_output=True)
    settle(encoder, a[:2], larger=6.0, passes=50)
    assert stretch(encoder, a, b) <= bound * (1 + 1e-2)
    make_worst(encoder, a[:2])
    assert 0.4 * bound < stretch(encoder, a, b) <= bound * (1 + 1e-2)


@pytest.mark.parametrize(
    ("name", "peer"),
    [("rbf", RBF()), ("matern12", Matern(nu=0.5)), ("matern32", Matern(nu=1.5)), ("matern52", Matern(nu=2.5))],
)
def test_kernels_are_those_of_scikit_learn(name: str, peer: Callable[..., Array]) -> None:
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(12, 3)), rng.normal(size=(9, 3))
    squared = torch.as_tensor(cdist(x, z) ** 2)
    np.testing.assert_allclose(KERNELS[name](squared), peer(x, z), atol=1e-9, rtol=1e-6)
    same = torch.zeros(1, requires_grad=True)
    value = KERNELS[name](same)
    torch.autograd.backward(value)
    assert value.item() == pytest.approx(1.0, abs=1e-5)
    assert same.grad is not None
    assert torch.isfinite(same.grad).all()


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_squared_distances_are_those_of_scipy(offset: float, precision: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    x, z = (torch.as_tensor(rng.normal(size=(2, n, 4)) + offset, dtype=precision) for n in (11, 6))
    found = squared_distances(x, z)
    for m in range(2):
        expected = cdist(x[m].double(), z[m].double(), "sqeuclidean")
        np.testing.assert_allclose(found[m], expected, atol=1e-4 if precision == torch.float32 else 1e-8)


def test_mixture_head_against_torch_distributions() -> None:
    draw = torch.Generator().manual_seed(0)
    raw = 3 * torch.randn(2, 7, 12, generator=draw, dtype=torch.float64)
    y = 3 * torch.randn(2, 7, generator=draw, dtype=torch.float64)
    logits, mean, spread = raw[..., :4], raw[..., 4:8], raw[..., 8:]
    peer = distributions.MixtureSameFamily(
        distributions.Categorical(logits=logits), distributions.Normal(mean, functional.softplus(spread) + 0.01)
    )
    head = GaussianMixture(4)
    assert head.outputs == 12
    torch.testing.assert_close(head.log_likelihood(raw, y), peer.log_prob(y))  # type: ignore[no-untyped-call]
    centre, variance = head.moments(raw)
    torch.testing.assert_close(centre, peer.mean)
    torch.testing.assert_close(variance, peer.variance)


def test_probit_head_against_scipy() -> None:
    score = torch.linspace(-30, 30, 41, dtype=torch.float64)
    one, zero = torch.ones_like(score), torch.zeros_like(score)
    head = Probit()
    np.testing.assert_allclose(head.log_likelihood(score[:, None], one), norm.logcdf(score), rtol=1e-9)
    np.testing.assert_allclose(head.log_likelihood(score[:, None], zero), norm.logsf(score), rtol=1e-9)
    mean, variance = head.moments(score[:, None])
    torch.testing.assert_close(mean, score)
    torch.testing.assert_close(variance, one)


def test_what_a_member_draws_does_not_depend_on_the_others() -> None:
    def draws(streams: Streams, position: int, high: list[int]) -> list[Tensor]:
        together = [
            streams.uniform((3, 2), low=-1.0, high=2.0),
            streams.normal((4,)),
            streams.integers(high, 5),
            streams.subsets(high, 6),
        ]
        return [*(d[position] for d in together), torch.tensor(streams.seed(position)), streams.normal((2,))[position]]

    alone = draws(Streams([8]), 0, [10])
    for seeds, position in (([8, 3], 0), ([5, 6, 8], 2)):
        high = [7 + 3 * (seed == 8) for seed in seeds]
        for one, among in zip(alone, draws(Streams(seeds), position, high), strict=True):
            torch.testing.assert_close(one, among, rtol=0, atol=0)
    assert not torch.equal(draws(Streams([9]), 0, [10])[1], alone[1])
    assert alone[0].min() < 0
    assert len(set(alone[3].tolist())) == 6
    assert 0 <= alone[3].min() <= alone[3].max() < 10


def test_rows_that_only_fill_up_do_not_count() -> None:
    members = [np.array([4, 7, 9]), np.array([0, 2, 3, 5, 8])]
    rows, values = Rows.of(members, torch.device("cpu")), torch.arange(10.0) ** 2
    assert rows.lengths == [3, 5]
    torch.testing.assert_close(rows.mean(values[rows.index]), torch.stack([values[m].mean() for m in members]))
    for m, expected in enumerate(members):
        assert rows.of_member(m).index.tolist() == [expected.tolist()]
    few = rows.columns(rows.at_most(2, np.random.default_rng(0)))
    assert few.lengths == [2, 2]
    assert all(set(index) <= set(own) for index, own in zip(few.index.tolist(), members, strict=True))


@pytest.mark.parametrize("repeat", [True, False])
def test_batches_hold_a_members_own_labels_alone(repeat: bool) -> None:
    members = [np.array([4, 7, 9]), np.array([0, 2, 3, 5, 8])]
    labels = Labels(torch.arange(10.0)[:, None], torch.arange(10) % 2, 100 + torch.arange(10.0))
    study = Study(labels, Rows.of(members, torch.device("cpu")), labels, None)
    streams, seen = Streams([1, 2]), [set[int](), set[int]()]
    for _ in range(30):
        batch = study.batch(streams, 3, repeat=repeat)
        assert batch.x.shape == (2, 3, 1)
        torch.testing.assert_close(batch.y, 100 + batch.x[..., 0])
        torch.testing.assert_close(batch.t, batch.x[..., 0].long() % 2)
        for m, drawn in enumerate(batch.x[..., 0].long().tolist()):
            assert repeat or len(set(drawn)) == 3
            seen[m].update(drawn)
    assert seen == [set(own.tolist()) for own in members]
    assert study.held_out(lambda: lambda part: part.y, 2) is None


@pytest.mark.parametrize("chunk", [2, 100])
def test_held_out_score_is_the_mean_over_a_members_own_rows(chunk: int) -> None:
    members = [np.array([4, 7, 9]), np.array([0, 2, 3, 5, 8])]
    labels = Labels(torch.zeros(10, 1), torch.zeros(10, dtype=torch.long), torch.arange(10.0) ** 2)
    rows = Rows.of(members, torch.device("cpu"))
    score = Study(labels, rows, labels, rows).held_out(lambda: lambda part: part.y, chunk)
    assert score is not None
    torch.testing.assert_close(score(), torch.stack([labels.y[m].mean() for m in members]))


class Counter(nn.Module):
    """A network whose every weight equals the number of steps it was trained for, by gradient descent of rate 1."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.count = nn.Parameter(torch.zeros(members, 1))

    def run(
        self,
        held_out: Callable[[], Tensor] | None,
        max_steps: int = 40,
        every: int = 1,
        patience: int = 3,
        along: Selected | None = None,
    ) -> list[int]:
        self.steps = 0

        def loss() -> Tensor:
            self.steps += 1
            return -self.count[:, 0]

        schedule, others = Schedule(max_steps, every, patience), [] if along is None else [along]
        return train(self, torch.optim.SGD(self.parameters(), 1.0), loss, schedule, held_out, others)


class Selected:
    """Remembers who was left, and when it was told."""

    def __init__(self, network: Counter) -> None:
        self.network, self.members = network, list(range(len(network.count)))
        self.told: list[tuple[int, list[int]]] = []

    def select(self, members: Sequence[int]) -> None:
        self.members = list(members)
        self.told.append((self.network.steps, self.members))


def test_members_get_back_their_own_best_weights_and_training_stops() -> None:
    network, peaks = Counter(3), torch.tensor([4.0, 12.0, 1.0])
    who = Selected(network)
    assert network.run(lambda: -((network.count[:, 0] - peaks[who.members]) ** 2), along=who) == [4, 12, 1]
    assert network.count[:, 0].tolist() == [4.0, 12.0, 1.0]
    assert network.steps == 12 + 3
    assert who.told == [(1 + 3, [0, 1]), (4 + 3, [1]), (12 + 3, [0, 1, 2])]
    assert not network.training


def test_looks_are_rare_and_ties_go_to_the_earlier() -> None:
    network = Counter(1)
    assert network.run(lambda: -((network.count[:, 0] - 6) ** 2), every=4, patience=2) == [4]
    assert network.steps == 12


def test_a_finished_member_is_not_revived_and_a_slump_within_patience_is_forgiven() -> None:
    """Scores at steps 1 to 8: the first member peaks at 2, rises again after three looks; the second dips for two."""
    network = Counter(2)
    scores = torch.tensor([[1.0, 2.0, 0.0, 0.0, 0.0, 9.0, 9.5, 9.9], [3.0, 1.0, 1.0, 4.0, 5.0, 6.0, 7.0, 8.0]])
    who = Selected(network)
    assert network.run(lambda: scores[who.members, network.steps - 1], max_steps=8, along=who) == [2, 8]
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


class Grown(nn.Module):
    """Features that equal the number of training steps; counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.calls = nn.Parameter(torch.zeros(1)), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.weight.expand(len(x), 1)


def test_finished_members_are_skipped_and_each_gets_its_weights_back() -> None:
    encoder, x, calls = EachMember(Grown, Streams([1, 2])), torch.zeros(2, 3, 4), []
    grown = [m for m in encoder.each if isinstance(m, Grown)]

    def loss() -> Tensor:
        calls.append([m.calls for m in grown])
        features: Tensor = encoder(x)
        return -features.mean((1, 2))

    def held_out() -> Tensor:
        return torch.cat([-((grown[m].weight - [2.0, 9.0][m]) ** 2) for m in encoder.members])

    steps = train(encoder, torch.optim.SGD(encoder.parameters(), 1.0), loss, Schedule(30, 1, 2), held_out)
    assert steps == [2, 9]
    assert [m.calls for m in grown] == [4, 11]
    assert calls[-1] == [4, 10]
    assert encoder(x)[:, 0, 0].tolist() == [2.0, 9.0]


def test_some_members_encode_as_they_do_among_all() -> None:
    streams = Streams([1, 2, 3])
    encoder, x = EachMember(lambda: nn.Linear(4, 2), streams), torch.ones(3, 3, 4)
    among_all = encoder(x)
    encoder.select([2, 0])
    torch.testing.assert_close(encoder(x[:2]), among_all[[2, 0]], rtol=0, atol=0)


def test_who_leaves_does_not_disturb_the_streams_and_rows_of_others() -> None:
    everyone, some = Streams([1, 2, 3]), Streams([1, 2, 3])
    some.select([2, 0])
    torch.testing.assert_close(some.normal((4,)), everyone.normal((4,))[[2, 0]], rtol=0, atol=0)
    some.select([0, 1, 2])
    assert len(some) == 3
    labels = Labels(torch.arange(10.0)[:, None], torch.zeros(10, dtype=torch.long), torch.arange(10.0))
    rows = Rows.of([np.array([4, 7]), np.array([0, 2, 3, 5]), np.array([1, 6, 8])], torch.device("cpu"))
    study = Study(labels, rows, labels, rows)
    held_out = study.held_out(lambda: lambda part: part.y, 100)
    assert held_out is not None
    study.select([1, 2])
    torch.testing.assert_close(held_out(), torch.tensor([2.5, 5.0]))
    batch = study.batch(Streams([5, 6]), 4, repeat=False)
    assert batch.y.shape == (2, 2), "a batch is as long as the shortest of all members, whoever is left"
    assert set(batch.y[1].tolist()) <= {1.0, 6.0, 8.0}


def test_randomness_inside_a_member_is_its_own_and_leaves_the_global_state_alone() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))

    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    together, alone = EachMember(make, Streams([1, 2])), EachMember(make, Streams([2]))
    x = torch.ones(1, 5, 6)
    first, second = together(x.expand(2, -1, -1)), together(x.expand(2, -1, -1))
    torch.testing.assert_close(first[1], alone(x)[0], rtol=0, atol=0)
    torch.testing.assert_close(second[1], alone(x)[0], rtol=0, atol=0)
    assert not torch.equal(first[1], second[1])
    torch.testing.assert_close(torch.random.get_rng_state(), before)


def test_number_of_parameters_is_that_of_the_paper() -> None:
    """The listing for one covariate and five Gaussians: 300 + 3 x 10,100 + 1,515."""
    network = TreatmentAsInput(1, Architecture(100, 4, 0.0, 0.0, 12.0), Streams([0, 1]), GaussianMixture(5).outputs)
    assert sum(p.numel() for p in network.parameters()) == 2 * 32_115


def test_encoder_that_gives_no_feature_vectors_is_refused() -> None:
    encoder = EachMember(lambda: nn.Conv2d(1, 2, 3), Streams([1]))
    with pytest.raises(InputError, match=r"\(n, 1, 6, 6\) to features \(n, F\)"):
        feature_width(encoder, (1, 6, 6), 1)
    flat = EachMember(lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()), Streams([1, 2]))
    assert feature_width(flat, (1, 6, 6), 2) == 2 * 4 * 4
    assert flat.training
