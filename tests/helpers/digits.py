"""A stand-in for the MNIST files, made of the small digits that scikit-learn ships."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from causalbald._typing import AnyArray


def write_stand_in(folder: Path, train: int = 400, test: int = 100) -> Path:
    """Write the four files under their original names into ``folder``, and return it."""
    source = load_digits()
    assert train + test <= len(source.target), f"scikit-learn has {len(source.target)} digits"
    large = np.kron(source.images, np.ones((1, 3, 3))) * (255 / 16)
    images = np.pad(large, ((0, 0), (2, 2), (2, 2))).round().astype(np.uint8)
    folder.mkdir(parents=True, exist_ok=True)
    for kind, rows in (("train", slice(0, train)), ("t10k", slice(train, train + test))):
        write_idx(folder / f"{kind}-images-idx3-ubyte.gz", images[rows])
        write_idx(folder / f"{kind}-labels-idx1-ubyte.gz", source.target[rows].astype(np.uint8))
    return folder


def write_idx(path: Path, values: AnyArray) -> None:
    """Write bytes as a zipped idx file."""
    header = bytes([0, 0, 8, values.ndim]) + b"".join(n.to_bytes(4, "big") for n in values.shape)
    path.write_bytes(gzip.compress(header + values.tobytes(), mtime=0))
