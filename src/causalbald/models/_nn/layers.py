"""Dense and convolutional layers with soft spectral normalisation: a weight's gain is capped, never raised.

The gain of a linear map is its largest singular value σ. A weight W is applied as W / max(1, σ / c), c the coefficient
(Gouk et al., 2021, Regularisation of Neural Networks by Enforcing Lipschitz Continuity, arXiv:1804.04368).
σ is followed by power iteration, one a training step (Miyato et al., 2018, arXiv:1802.05957, algorithm 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_input

from causalbald.models._nn.random_streams import RandomStreams

# Power iterations of a new layer.
_FIRST_ITERATIONS = 15


def activation(slope: float, x: Tensor) -> Tensor:
    """Return the leaky ReLU of x with this slope for negative x. Slope 0 is ReLU.

    Any negative ``slope`` means ELU, as in the paper's tables.
    """
    return functional.elu(x) if slope < 0 else functional.leaky_relu(x, slope)


class Dense(nn.Module):
    """M linear maps, (M, *stack, n, inputs) to (M, *stack, n, outputs), each divided by max(1, gain / coefficient).

    ``stack`` holds further axes with a map for each place, such as one per arm. The bias is not divided.

    This is not ``torch.nn.utils.parametrizations.spectral_norm``, which divides by the gain even where the gain is
    below the coefficient, and knows neither members nor stacks.
    """

    gain_vector: Tensor  # right singular vector of the largest singular value; saved with the model

    def __init__(
        self,
        inputs: int,
        outputs: int,
        streams: RandomStreams,
        *,
        coefficient: float | None = None,
        stack: Sequence[int] = (),
    ) -> None:
        """Draw weights and biases of a layer for each stream. ``coefficient`` None means that the gain has no limit."""
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
        """Return x (M, *stack, n, inputs) mapped to (M, *stack, n, outputs).

        A stack axis of length 1 in x is shared: all maps along the axis get the same x. If the gain is limited, each
        call while training also improves the estimate of the gain.
        """
        mapped = x @ self.weight
        if self.coefficient is None:
            return mapped + self.bias
        excess = self.gain() / self.coefficient
        if (excess <= 1.0).all():
            return mapped + self.bias
        # Dividing the outputs costs less than dividing the weight: a batch has fewer rows than a layer.
        return torch.addcmul(self.bias, mapped, excess.clamp_min(1.0).reciprocal())

    def gain(self) -> Tensor:
        """Return estimates of the largest singular values, (M, *stack, 1, 1).

        While training, each call first improves ``gain_vector`` in place by one power iteration. The gradient flows
        through the weight alone, not through the singular vectors.
        """
        # u = W v / |W v|, then v = Wᵀ u / |Wᵀ u|, then σ = uᵀ W v. Vectors are multiplied as rows: batched products of
        # matrices with columns take ten times as long.
        with torch.no_grad():
            left_vector = functional.normalize(self.gain_vector.mT @ self.weight.mT, dim=-1)
        mapped = left_vector @ self.weight
        if self.training:
            self.gain_vector.copy_(_unit(mapped.detach().mT))
        return mapped @ self.gain_vector


class Convolution(nn.Conv2d):
    """A convolution divided by max(1, gain / coefficient), with the gain of its map on images of the given size.

    The gain of a kernel depends on image size, padding and stride. The gain of the kernel reshaped into a matrix, which
    is often used instead, is another number and bounds nothing.
    """

    gain_image: Tensor  # right singular vector of the largest singular value; saved with the model

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
        """Make a convolution for images of this height and width. ``kernel`` is the side of the kernel.

        Weights come from torch's global random state. ``coefficient`` None means that the gain has no limit.
        """
        super().__init__(inputs, outputs, kernel, stride=stride, padding=kernel // 2)
        self.coefficient = coefficient
        self.fixed: Tensor | None = None
        if coefficient is not None:
            self.register_buffer("gain_image", _unit_image(torch.randn(1, inputs, *image)))
            for _ in range(_FIRST_ITERATIONS):
                self._iterate()

    def forward(self, x: Tensor) -> Tensor:
        """Return x (n, inputs, H, W) mapped to (n, outputs, H / stride, W / stride), both rounded up."""
        return functional.conv2d(x, self.normalised(), self.bias, self.stride, self.padding)

    def normalised(self) -> Tensor:
        """Return the kernel that ``forward`` applies: the weight divided by max(1, gain / coefficient).

        While training, ``gain_image`` is first improved in place by one power iteration. Within :func:`fixed_kernels`,
        the kernel that was computed at the beginning is returned. Without a coefficient, the weight is returned.
        """
        if self.coefficient is None:
            return self.weight
        if self.fixed is not None:
            return self.fixed
        if self.training:
            self._iterate()
        mapped = self._map(self.gain_image)
        gain = (mapped * _unit_image(mapped.detach())).sum()  # σ = uᵀ W v, u = W v / |W v|
        return self.weight / (gain / self.coefficient).clamp_min(1.0)

    def _map(self, x: Tensor) -> Tensor:
        """Return the convolution of x with the kernel as it is, without bias."""
        return functional.conv2d(x, self.weight, None, self.stride, self.padding)

    @torch.no_grad()
    def _iterate(self) -> None:
        """Improve ``gain_image`` v in place by one power iteration: u = W v / |W v|, then v = Wᵀ u / |Wᵀ u|."""
        left_image, size = _unit_image(self._map(self.gain_image)), list(self.gain_image.shape)
        # The transpose of a convolution is the gradient with respect to its input.
        back: Tensor = conv2d_input(size, self.weight, left_image, self.stride, self.padding)  # type: ignore[no-untyped-call]
        self.gain_image.copy_(_unit_image(back))


@contextmanager
def fixed_kernels(network: nn.Module) -> Iterator[None]:
    """Within the context, each convolution of a network keeps the kernel that it has at the beginning.

    So kernels are normalised once, not for every batch. The weights must not change within the context.
    """
    convolutions = [layer for layer in network.modules() if isinstance(layer, Convolution)]
    for layer in convolutions:
        layer.fixed = layer.normalised()
    try:
        yield
    finally:
        for layer in convolutions:
            layer.fixed = None


def _unit(x: Tensor) -> Tensor:
    """Return columns (..., n, 1) divided by their lengths."""
    return functional.normalize(x, dim=-2)


def _unit_image(x: Tensor) -> Tensor:
    """Return an image divided by its length, the root of the sum of its squared pixels."""
    length: Tensor = x.norm().clamp_min(1e-12)
    return x / length
