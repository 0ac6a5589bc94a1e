"""Dense and convolutional layers with soft spectral normalisation: a weight's gain is capped, never raised."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_input

from causalbald.models._nn.random_streams import RandomStreams

_FIRST_ITERATIONS = 15


def activation(slope: float, x: Tensor) -> Tensor:
    """Return leaky ReLU with the given slope (0: ReLU), or ELU for a negative one, as the paper's tables say it."""
    return functional.elu(x) if slope < 0 else functional.leaky_relu(x, slope)


class Dense(nn.Module):
    """M linear maps, (M, *stack, n, inputs) to (M, *stack, n, outputs), each divided by max(1, gain / coefficient).

    The gain is the largest singular value, followed by one power iteration a training step.
    """

    gain_vector: Tensor

    def __init__(
        self,
        inputs: int,
        outputs: int,
        streams: RandomStreams,
        *,
        coefficient: float | None = None,
        stack: Sequence[int] = (),
    ) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(streams.uniform((*stack, inputs, outputs), low=-bound, high=bound))
        self.bias = nn.Parameter(streams.uniform((*stack, 1, outputs), low=-bound, high=bound))
        self.coefficient = coefficient
        if coefficient is not None:
            self.register_buffer("gain_vector", _unit(streams.normal((*stack, outputs, 1))))
            for _ in range(_FIRST_ITERATIONS):
                self.gain()

    def forward(self, x: Tensor) -> Tensor:
        """Map (M, *stack, n, inputs); a missing or unit stack axis is shared."""
        mapped = x @ self.weight
        if self.coefficient is None:
            return mapped + self.bias
        excess = self.gain() / self.coefficient
        if (excess <= 1.0).all():
            return mapped + self.bias
        # Dividing the outputs costs less than dividing the weight: a batch has fewer rows than a layer.
        return torch.addcmul(self.bias, mapped, excess.clamp_min(1.0).reciprocal())

    def gain(self) -> Tensor:
        """Return the largest singular values, (M, *stack, 1, 1), after one more power iteration while training.

        Vectors are multiplied as rows: batched products of matrices with columns take ten times as long.
        """
        with torch.no_grad():
            left = functional.normalize(self.gain_vector.mT @ self.weight.mT, dim=-1)
        mapped = left @ self.weight
        if self.training:
            self.gain_vector.copy_(_unit(mapped.detach().mT))
        return mapped @ self.gain_vector


class Convolution(nn.Conv2d):
    """A convolution divided by max(1, gain / coefficient), the gain that of the map on images of the given size.

    A kernel's gain depends on image size, padding and stride; that of the kernel reshaped into a matrix, which is
    often used instead, is another number and bounds nothing.
    """

    gain_image: Tensor

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        image: tuple[int, int],
        stride: int = 1,
        coefficient: float | None = None,
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, padding=kernel // 2)
        self.coefficient = coefficient
        self.fixed: Tensor | None = None
        if coefficient is not None:
            self.register_buffer("gain_image", _unit_image(torch.randn(1, inputs, *image)))
            for _ in range(_FIRST_ITERATIONS):
                self._iterate()

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, inputs, H, W) to (n, outputs, H / stride, W / stride)."""
        return functional.conv2d(x, self.normalised(), self.bias, self.stride, self.padding)

    def normalised(self) -> Tensor:
        """Return the kernel that is applied."""
        if self.coefficient is None:
            return self.weight
        if self.fixed is not None:
            return self.fixed
        if self.training:
            self._iterate()
        mapped = self._map(self.gain_image)
        gain = (mapped * _unit_image(mapped.detach())).sum()
        return self.weight / (gain / self.coefficient).clamp_min(1.0)

    def _map(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, None, self.stride, self.padding)

    @torch.no_grad()
    def _iterate(self) -> None:
        left, size = _unit_image(self._map(self.gain_image)), list(self.gain_image.shape)
        back: Tensor = conv2d_input(size, self.weight, left, self.stride, self.padding)  # type: ignore[no-untyped-call]
        self.gain_image.copy_(_unit_image(back))


@contextmanager
def fixed_kernels(network: nn.Module) -> Iterator[None]:
    """Inside, kernels are normalised once, not for every batch: weights must not change."""
    convolutions = [layer for layer in network.modules() if isinstance(layer, Convolution)]
    for layer in convolutions:
        layer.fixed = layer.normalised()
    try:
        yield
    finally:
        for layer in convolutions:
            layer.fixed = None


def _unit(x: Tensor) -> Tensor:
    return functional.normalize(x, dim=-2)


def _unit_image(x: Tensor) -> Tensor:
    length: Tensor = x.norm().clamp_min(1e-12)
    return x / length
