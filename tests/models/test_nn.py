"""The deep models' parts: gains by singular value decomposition, densities and kernels by other libraries."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF, Matern
from torch import Tensor, distributions, nn
from torch.nn import functional

from causalbald._typing import Array
from causalbald.errors import InputError
from causalbald.models._nn.encoders import (
    Architecture,
    ConvolutionalEncoder,
    DenseEncoder,
    ModulePerMember,
    feature_width,
)
from causalbald.models._nn.heads import GaussianMixture, Probit
from causalbald.models._nn.kernels import KERNELS, squared_distances
from causalbald.models._nn.layers import Convolution, Dense
from causalbald.models._nn.random_streams import RandomStreams
from causalbald.models._nn.tarnet import TreatmentAsInput


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
    layer = Dense(7, 5, RandomStreams([1, 2, 3]), coefficient=c, stack=stack)
    with torch.no_grad():
        layer.weight.copy_(RandomStreams([4, 5, 6]).normal((*stack, 7, 5)))
        layer.weight[1] *= 0.5 * c / largest_gain(layer.weight[1]).amax()
        layer.weight[2] *= 30
    settle(layer, torch.zeros(3, *stack, 1, 7))
    linear_map = applied(layer)
    gains = largest_gain(linear_map)
    assert (gains <= c * (1 + 1e-3)).all()
    torch.testing.assert_close(gains[[0, 2]], torch.full_like(gains[[0, 2]], c), rtol=1e-3, atol=0.0)
    torch.testing.assert_close(linear_map[1], layer.weight.detach()[1])


def test_a_dense_map_without_a_coefficient_is_its_weight() -> None:
    layer = Dense(3, 4, RandomStreams([1, 2]))
    settle(layer, torch.zeros(2, 1, 3), larger=50.0, passes=3)
    torch.testing.assert_close(applied(layer), layer.weight.detach())


def test_evaluation_leaves_the_gain_alone() -> None:
    layer = Dense(6, 6, RandomStreams([1]), coefficient=0.5)
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
    encoder = DenseEncoder(3, Architecture(16, depth, slope, 0.1, c), RandomStreams([5]), activate_output=True)
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


@pytest.mark.parametrize("compares", [True, False])
def test_dropout_leaves_equal_images_equal_where_images_are_compared(compares: bool) -> None:
    torch.manual_seed(0)
    architecture = Architecture(64, 2, -1.0, 0.3, None, compares=compares)
    encoder = ConvolutionalEncoder((1, 8, 8), architecture, activate_output=True).train()
    images = torch.randn(1, 1, 8, 8).expand(5, -1, -1, -1)
    first, again = encoder(images), encoder(images)
    assert not torch.allclose(first, again)
    assert torch.allclose(first, first[:1].expand(5, -1), atol=1e-5) == compares
    # Survivors are scaled up, so that a linear layer sees on average what it sees without dropout.
    block = encoder.blocks[0]
    ones_after_dropout = torch.stack([block._dropout(torch.ones(1, 8, 2, 2)) for _ in range(2000)])  # type: ignore[operator]
    assert abs(float(ones_after_dropout.mean()) - 1) < 0.03
    assert abs(float((ones_after_dropout == 0).float().mean()) - 0.3) < 0.03


def test_kernels_fixed_for_many_images_are_those_of_each_batch_and_forgotten_after() -> None:
    torch.manual_seed(0)
    architecture = Architecture(64, 2, -1.0, 0.3, 0.5)
    encoder = ConvolutionalEncoder((1, 8, 8), architecture, activate_output=True).eval()
    images = torch.randn(40, 1, 8, 8)
    for _ in range(2):
        one_by_one = torch.cat([encoder(image[None]) for image in images]).detach()
        with torch.no_grad():
            torch.testing.assert_close(encoder(images), one_by_one)
            encoder.stem.weight.mul_(3.0)
            encoder.blocks[1].second.weight.add_(0.1)  # type: ignore[union-attr,operator]


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
    squared = squared_distances(x, z)
    for m in range(2):
        expected = cdist(x[m].double(), z[m].double(), "sqeuclidean")
        np.testing.assert_allclose(squared[m], expected, atol=1e-4 if precision == torch.float32 else 1e-8)


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


def test_randomness_inside_a_member_is_its_own_and_leaves_the_global_state_alone() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))

    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    together, alone = ModulePerMember(make, RandomStreams([1, 2])), ModulePerMember(make, RandomStreams([2]))
    x = torch.ones(1, 5, 6)
    first, second = together(x.expand(2, -1, -1)), together(x.expand(2, -1, -1))
    torch.testing.assert_close(first[1], alone(x)[0], rtol=0, atol=0)
    torch.testing.assert_close(second[1], alone(x)[0], rtol=0, atol=0)
    assert not torch.equal(first[1], second[1])
    torch.testing.assert_close(torch.random.get_rng_state(), before)


def test_number_of_parameters_is_that_of_the_paper() -> None:
    """The listing for one covariate and five Gaussians: 300 + 3 x 10,100 + 1,515."""
    network = TreatmentAsInput(
        1, Architecture(100, 4, 0.0, 0.0, 12.0), RandomStreams([0, 1]), GaussianMixture(5).outputs
    )
    assert sum(p.numel() for p in network.parameters()) == 2 * 32_115


def test_encoder_that_gives_no_feature_vectors_is_refused() -> None:
    encoder = ModulePerMember(lambda: nn.Conv2d(1, 2, 3), RandomStreams([1]))
    with pytest.raises(InputError, match=r"\(n, 1, 6, 6\) to features \(n, F\)"):
        feature_width(encoder, (1, 6, 6), 1)
    flat = ModulePerMember(lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()), RandomStreams([1, 2]))
    assert feature_width(flat, (1, 6, 6), 2) == 2 * 4 * 4
    assert flat.training
