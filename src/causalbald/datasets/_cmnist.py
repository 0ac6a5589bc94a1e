"""CMNIST: handwritten digits that stand for a hidden coordinate (Jesson et al., 2021)."""

from __future__ import annotations

import gzip
import math
import zlib
from dataclasses import dataclass, replace
from functools import cache
from os import PathLike
from pathlib import Path

import numpy as np
from scipy.special import expit

from causalbald._random import generator
from causalbald._typing import AnyArray, Array, Positions
from causalbald._validation import check_both_arms, check_int, check_number
from causalbald.datasets import _download
from causalbald.datasets._base import Benchmark, Split, register
from causalbald.datasets._synthetic import response
from causalbald.errors import InputError

SIDE = 28  # pixels
MAX_INTENSITY = 1.4  # standard deviations
PIXEL_MEAN, PIXEL_SD = 0.1307, 0.3081


@register("cmnist")
def cmnist(
    seed: int = 0,
    *,
    data_dir: str | PathLike[str] | None = None,
    pool: int = 35_000,
    validation: int = 15_000,
    domain: float = 3.0,
    sigma: float = 1.0,
    fraction: float = 1.0,
) -> Benchmark:
    """MNIST digits (1, 28, 28) as proxies of a hidden coordinate phi; arms and outcomes as in the synthetic data.

    Pool and validation are disjoint random parts of the 60,000 training images, test is the 10,000 test images. phi
    orders the images by digit, then by mean intensity. The intensity of an image is standardised by the mean and the
    standard deviation of its digit over all training images, clipped to ±1.4 and mapped onto the tenth of
    [-domain, domain] that belongs to the digit. P(T=1) = sigmoid(2 phi + 0.5). Outcomes are those of the synthetic data
    at phi. Splits carry phi as ``latent``. The arms and outcomes of the test images depend on the seed, ``domain`` and
    ``sigma`` alone.

    Parameters
    ----------
    seed : int
        Seed of the choice of images, the arms and the outcomes.
    data_dir : path, optional
        Folder with the four original MNIST files, zipped or not. By default it is the folder that the environment
        variable ``CAUSALBALD_DATA`` names. Without the variable, the files are downloaded once into the user's cache.
    pool, validation : int
        Numbers of images. If fewer than ``pool + validation`` training images are left, because ``fraction`` is below 1
        or the files have fewer, both shrink in proportion and together take all images.
    domain : float
        phi spans [-domain, domain]. The formula of the paper has 2.0, its figure and its code have 3.0.
    sigma : float
        Standard deviation of the outcome noise; the original code has 0.01.
    fraction : float
        Share of the training images of each digit that is used, in (0, 1].

    Returns
    -------
    Benchmark

    Raises
    ------
    InputError
        If an option is out of its range, a file is missing or damaged, or the pool would lack an arm.
    DownloadError
        If the files cannot be downloaded.

    Examples
    --------
    >>> from causalbald import datasets
    >>> cmnist = datasets.load("cmnist", seed=0)  # doctest: +SKIP
    >>> cmnist.pool.x.shape  # doctest: +SKIP
    (35000, 1, 28, 28)
    """
    seed = check_int(seed, "seed", low=0)
    sizes = check_int(pool, "pool", low=1), check_int(validation, "validation", low=1)
    domain, sigma = check_number(domain, "domain", above=0), check_number(sigma, "sigma", low=0)
    if check_number(fraction, "fraction", above=0) > 1:
        raise InputError(f"fraction must be above 0 and at most 1, got {fraction!r}.")
    train, test = read_digits(_download.locate(data_dir))
    rows = _chosen_rows(train.digit, fraction, generator(seed, "cmnist", "choose"))
    n, m = _shrunk_sizes(*sizes, len(rows))
    units = _simulate(train, domain, sigma, generator(seed, "cmnist", "train"))
    check_both_arms(units.t[rows[:n]], "images of the pool")
    parts = (units.take(rows[:n]), units.take(rows[n : n + m]))
    test_units = _simulate(test, domain, sigma, generator(seed, "cmnist", "test"))
    return Benchmark("cmnist", *(_standardised(part) for part in (*parts, test_units)))


@dataclass(frozen=True, eq=False)
class Digits:
    """The images (N, 28, 28) of a file as bytes, their digits (N,), and their places (N,) in [0, 10].

    The place of an image is its digit plus a number from 0 to 1: its mean intensity among the images of that digit,
    standardised, clipped to ±1.4 and scaled.
    """

    images: AnyArray
    digit: Positions
    place: Array


@cache
def read_digits(folder: Path) -> tuple[Digits, Digits]:
    """Return the training and the test digits of the MNIST files in ``folder``, read once per process.

    All callers share the arrays: do not change them. Raises InputError if a file is missing or damaged, if images and
    labels do not fit together, or if the training files lack two different images of a digit.
    """
    images = {kind: _read_idx(_download.find(folder, f"{kind}-images-idx3-ubyte"), 3) for kind in ("train", "t10k")}
    labels = {kind: _read_idx(_download.find(folder, f"{kind}-labels-idx1-ubyte"), 1) for kind in ("train", "t10k")}
    for kind in ("train", "t10k"):
        if images[kind].shape != (len(labels[kind]), SIDE, SIDE) or labels[kind].max(initial=0) > 9:
            raise InputError(
                f"{kind}-images and {kind}-labels in {folder} are no MNIST pair (images {images[kind].shape}, "
                f"{len(labels[kind])} labels up to {labels[kind].max(initial=0)}): fetch both files again."
            )
    intensity = {kind: stack.mean(axis=(1, 2)) for kind, stack in images.items()}
    by_digit = [intensity["train"][labels["train"] == c] for c in range(10)]
    if min(len(np.unique(values)) for values in by_digit) < 2:
        raise InputError(f"the training files in {folder} lack a digit: two different images of each are needed.")
    mean, sd = (np.array([f(values) for values in by_digit]) for f in (np.mean, np.std))

    def digits(kind: str) -> Digits:
        """Return the images of the "train" or "t10k" files, with places by the intensities of the training images."""
        digit = labels[kind].astype(np.intp)
        standard = (intensity[kind] - mean[digit]) / sd[digit]
        intensities = (np.clip(standard, -MAX_INTENSITY, MAX_INTENSITY) + MAX_INTENSITY) / (2 * MAX_INTENSITY)
        return Digits(images[kind], digit, digit + intensities)

    return digits("train"), digits("t10k")


def _read_idx(path: Path, dimensions: int) -> AnyArray:
    """Return the bytes of an MNIST (idx) file as a read-only array with that many ``dimensions``.

    A name that ends with .gz is unzipped. Raises InputError if the file cannot be read, is damaged or is no such file.
    """
    try:
        content = path.read_bytes()
        raw = gzip.decompress(content) if path.suffix == ".gz" else content
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path} is cut short or damaged and cannot be unzipped: fetch the file again.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): check who may read it.") from None
    magic = bytes([0, 0, 8, dimensions])
    if raw[:4] != magic:
        raise InputError(f"{path} is no MNIST file: it starts with {raw[:4].hex() or 'nothing'}, not {magic.hex()}.")
    start = 4 + 4 * dimensions
    shape = tuple(int.from_bytes(raw[k : k + 4], "big") for k in range(4, start, 4))
    expected = start + math.prod(shape)
    if len(raw) != expected:
        raise InputError(f"{path} is cut short or damaged: {len(raw)} of {expected} bytes. Fetch the file again.")
    return np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape)


def _chosen_rows(digit: Positions, fraction: float, rng: np.random.Generator) -> Positions:
    """Return a fraction of the rows of each digit, at least one, with all digits mixed in random order.

    With the same random state, the rows of a smaller fraction are among the rows of a larger one.
    """
    order = rng.permutation(len(digit))
    is_chosen = np.zeros(len(digit), dtype=bool)
    for c in range(10):
        rows = order[digit[order] == c]
        is_chosen[rows[: max(1, round(fraction * len(rows)))]] = True
    chosen: Positions = order[is_chosen[order]]
    return chosen


def _shrunk_sizes(pool: int, validation: int, available: int) -> tuple[int, int]:
    """Return the sizes of pool and validation, shrunk in proportion if fewer images are available.

    Shrunk sizes together take all images, and each is at least 1. At least two images must be available.
    """
    if pool + validation <= available:
        return pool, validation
    shrunk = min(max(1, round(available * pool / (pool + validation))), available - 1)
    return shrunk, available - shrunk


def _simulate(digits: Digits, domain: float, sigma: float, rng: np.random.Generator) -> Split:
    """Return all images of a file with simulated arms and outcomes, and with phi as ``latent``; see :func:`cmnist`.

    ``x`` of the split (N, 1, 28, 28) is a view of the bytes of the file, not yet standardised.
    """
    phi = domain * (digits.place / 5 - 1)
    propensity = expit(2 * phi + 0.5)
    t = (rng.random(len(phi)) < propensity).astype(np.intp)
    mu0, mu1 = response(phi, 0), response(phi, 1)
    y = np.where(t == 1, mu1, mu0) + sigma * rng.normal(size=len(phi))
    return Split(digits.images[:, None], t, y, mu0, mu1, propensity, phi)


def _standardised(split: Split) -> Split:
    """Return a copy of a split in which each byte v of an image became the float32 pixel (v/255 - 0.1307)/0.3081."""
    pixels = split.x.astype(np.float32)
    pixels -= 255 * PIXEL_MEAN
    pixels /= 255 * PIXEL_SD
    return replace(split, x=pixels)
