"""Benchmarks with known truth: a pool to choose from, a validation and a test split. And one real study, NHEFS."""

from causalbald.datasets.base import Benchmark, Split, load, names, register
from causalbald.datasets.cmnist import cmnist
from causalbald.datasets.download import DownloadError
from causalbald.datasets.ihdp import ihdp, ihdp_cov
from causalbald.datasets.nhefs import load_nhefs
from causalbald.datasets.synthetic import synthetic

__all__ = [
    "Benchmark",
    "DownloadError",
    "Split",
    "cmnist",
    "ihdp",
    "ihdp_cov",
    "load",
    "load_nhefs",
    "names",
    "register",
    "synthetic",
]
