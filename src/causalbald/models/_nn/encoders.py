"""Encoders turn covariates into features: residual networks for tables and for images, or the user's own module."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from causalbald.errors import InputError
from causalbald.models._nn.layers import Convolution, Dense, activation, fixed_kernels
from causalbald.models._nn.random_streams import RandomStreams

# Images that pass through all layers together: what one layer hands to the next then stays in the processor's cache.
MAX_CACHED_IMAGES = 16


@dataclass(frozen=True)
class Architecture:
    """Size and regularisation of a network, as in the paper's tables.

    ``hidden`` is the number of units of a layer; for images, it is eight times the channels of the first stage.
    ``depth`` is the number of layers or, for images, of stages. ``slope`` is explained in :func:`layers.activation`.
    ``dropout`` is the share of units that dropout removes. ``coefficient`` is the largest gain of a layer; None means
    no limit.

    ``compares`` is True if a kernel compares images by their features. Dropout then removes the same channels from all
    images of a batch. If it removed other channels from each image, images would differ more by that than by what they
    show.
    """

    hidden: int
    depth: int
    slope: float
    dropout: float
    coefficient: float | None
    compares: bool = False


class Preactivation(nn.Module):
    """Activation, then dropout while training: the input of a residual layer."""

    def __init__(self, architecture: Architecture, streams: RandomStreams) -> None:
        super().__init__()
        self.slope, self.rate, self.streams = architecture.slope, architecture.dropout, streams

    def forward(self, x: Tensor) -> Tensor:
        """Return x (M, ...) activated, with dropout while training."""
        return self.dropout(activation(self.slope, x))

    def dropout(self, x: Tensor) -> Tensor:
        """Return x (M, ...) with a share of its entries zeroed and the remaining entries scaled up.

        Outside of training, x is returned as it is. This is not ``torch.nn.Dropout``, which draws from one global
        stream instead of one stream per member.
        """
        if self.rate == 0.0 or not self.training:
            return x
        survives = self.streams.uniform(x.shape[1:]) >= self.rate
        return x * (survives.to(x) / (1 - self.rate))


class DenseEncoder(nn.Module):
    """Residual network for tables: (M, n, inputs) to (M, n, hidden).

    A linear layer is followed by ``depth`` - 1 residual layers of activation, dropout and a linear map.
    """

    def __init__(
        self, inputs: int, architecture: Architecture, streams: RandomStreams, *, activate_output: bool
    ) -> None:
        """Make an encoder of ``inputs`` covariates for each stream; ``activate_output`` adds a last activation."""
        super().__init__()
        self.slope, self.activate_output = architecture.slope, activate_output
        self.preactivate = Preactivation(architecture, streams)
        self.outputs, gain = architecture.hidden, architecture.coefficient
        self.first = Dense(inputs, self.outputs, streams, coefficient=gain)
        layers = (Dense(self.outputs, self.outputs, streams, coefficient=gain) for _ in range(architecture.depth - 1))
        self.residual = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return features (M, n, hidden) of covariates x (M, n, inputs)."""
        x = self.first(x)
        for layer in self.residual:
            x = x + layer(self.preactivate(x))
        return activation(self.slope, x) if self.activate_output else x


class ConvolutionalEncoder(nn.Module):
    """Residual network for one member's images: (n, channels, H, W) to (n, outputs).

    A 5 x 5 stem to hidden / 8 channels, then ``depth`` stages of two residual blocks. The second block of each stage
    doubles the channels and halves the image, except in the last stage. Features are averages over the image.
    """

    def __init__(self, image: tuple[int, int, int], architecture: Architecture, *, activate_output: bool) -> None:
        """Make an encoder of images of the size ``image``: channels, height and width.

        Weights come from torch's global random state. ``activate_output`` adds a last activation.
        """
        super().__init__()
        channels, height, width = image
        self.slope, self.activate_output = architecture.slope, activate_output
        self.outputs, size = architecture.hidden // 8, (height, width)
        self.stem = Convolution(channels, self.outputs, 5, image=size, coefficient=architecture.coefficient)
        blocks = []
        for stage in range(architecture.depth):
            is_last = stage == architecture.depth - 1
            wider = self.outputs * (1 if is_last else 2)
            blocks.append(_ResidualBlock(self.outputs, self.outputs, size, 1, architecture))
            blocks.append(_ResidualBlock(self.outputs, wider, size, 1 if is_last else 2, architecture))
            self.outputs, size = wider, size if is_last else ((size[0] + 1) // 2, (size[1] + 1) // 2)
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        """Return features (n, outputs) of images x (n, channels, H, W).

        In evaluation without gradients, the kernels are normalised once, and ``MAX_CACHED_IMAGES`` images at a time
        pass through the layers.
        """
        if self.training or torch.is_grad_enabled():
            return self._features(x)
        with fixed_kernels(self):
            return torch.cat([self._features(part) for part in torch.split(x, MAX_CACHED_IMAGES)])

    def _features(self, x: Tensor) -> Tensor:
        """Return features (n, outputs) of images x (n, channels, H, W), which pass through each layer together."""
        x = self.blocks(self.stem(x.contiguous(memory_format=torch.channels_last))).mean((2, 3))
        return activation(self.slope, x) if self.activate_output else x


class _ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions, each after activation and dropout, plus a 1 x 1 convolution as shortcut."""

    def __init__(
        self, inputs: int, outputs: int, image: tuple[int, int], stride: int, architecture: Architecture
    ) -> None:
        """Make a block from ``inputs`` to ``outputs`` channels for images of this height and width.

        The second convolution and the shortcut have the ``stride``.
        """
        super().__init__()
        gain = architecture.coefficient
        self.slope, self.dropout, self.compares = architecture.slope, architecture.dropout, architecture.compares
        self.first = Convolution(inputs, inputs, 3, image=image, coefficient=gain)
        self.second = Convolution(inputs, outputs, 3, image=image, stride=stride, coefficient=gain)
        self.shortcut = Convolution(inputs, outputs, 1, image=image, stride=stride, coefficient=gain)

    def forward(self, x: Tensor) -> Tensor:
        """Return images x (n, inputs, H, W) mapped to (n, outputs, H / stride, W / stride), both rounded up."""
        residual = self.second(self._preactivate(self.first(self._preactivate(x))))
        outputs: Tensor = self.shortcut(self._dropout(x)) + residual
        return outputs

    def _preactivate(self, x: Tensor) -> Tensor:
        """Return x activated, with dropout while training."""
        return self._dropout(activation(self.slope, x))

    def _dropout(self, x: Tensor) -> Tensor:
        """Return x with random channels zeroed while training.

        All images lose the same channels if ``Architecture.compares`` is set, else each image loses its own.
        """
        if self.compares and self.training:
            return x * functional.dropout2d(x.new_ones(1, x.shape[1], 1, 1), self.dropout)
        return functional.dropout2d(x, self.dropout, self.training)


class ModulePerMember(nn.Module):
    """One ordinary module per member: x (M, n, ...) to features (M, n, F). The modules are called one after another.

    For convolutions this is faster on a CPU than one grouped convolution. Parameters named ``each.<m>...`` belong to
    member m, also in saved models; all other parameters of a network have a leading member axis. Randomness inside a
    module follows that member's stream.
    """

    def __init__(self, make: Callable[[], nn.Module], streams: RandomStreams) -> None:
        """Call ``make`` once per member, with torch's global random state seeded from the member's stream."""
        super().__init__()
        self.streams = streams
        members = []
        for m in range(len(streams)):
            with _seeded(streams.seed(m)):
                members.append(make())
        self.each = nn.ModuleList(members)
        self.select(range(len(members)))

    def select(self, members: Sequence[int]) -> None:
        """From now on encode for these members only, in this order; x must then have a row for each of them.

        ``members`` count from 0 among all members, whatever was selected before. Called by :func:`training.train`.
        """
        self.members = list(members)

    def forward(self, x: Tensor) -> Tensor:
        """Return features (M, n, F) of inputs x (M, n, ...), with a row for each selected member."""
        return torch.stack([self._features(row, x[row]) for row in range(len(self.members))])

    def _features(self, row: int, x: Tensor) -> Tensor:
        """Return features (n, F) of x (n, ...) by the module of the selected member number ``row``.

        While training, torch's global random state is seeded from the member's stream for this call.
        """
        encoder = self.each[self.members[row]]
        if not self.training:
            features: Tensor = encoder(x)
            return features
        with _seeded(self.streams.seed(row)):
            features = encoder(x)
        return features


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch's global random state within the context; restore the state afterwards. Devices are not seeded."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def make_encoder(
    shape: tuple[int, ...],
    architecture: Architecture,
    streams: RandomStreams,
    *,
    activate_output: bool,
    custom: nn.Module | None = None,
) -> nn.Module:
    """Return an encoder (M, n, *shape) -> (M, n, F) for units with covariates of this ``shape``.

    Each member gets a copy of ``custom``, the user's own module, if there is one. Otherwise tables get a
    ``DenseEncoder``, and images a ``ConvolutionalEncoder`` per member. ``activate_output`` adds a last activation to
    both; it does not change ``custom``. Raises InputError if ``custom`` is no module.
    """
    if custom is not None:
        if not isinstance(custom, nn.Module):
            raise InputError(f"encoder must be a torch.nn.Module, got {type(custom).__name__}.")
        return ModulePerMember(lambda: copy.deepcopy(custom), streams)
    if len(shape) == 1:
        return DenseEncoder(shape[0], architecture, streams, activate_output=activate_output)
    channels, height, width = shape
    image = (channels, height, width)
    return ModulePerMember(lambda: ConvolutionalEncoder(image, architecture, activate_output=activate_output), streams)


@torch.no_grad()
def feature_width(encoder: nn.Module, shape: tuple[int, ...], members: int) -> int:
    """Return F, the number of features of an encoder for units with covariates of this ``shape``.

    F is measured by encoding two units of zeros per member. Raises InputError if the encoder, which may be the user's,
    does not return features (n, F).
    """
    was_training = encoder.training
    features = encoder.eval()(torch.zeros(members, 2, *shape))
    encoder.train(was_training)
    if features.ndim != 3:
        raise InputError(f"an encoder must map (n, {', '.join(map(str, shape))}) to features (n, F).")
    return int(features.shape[-1])
