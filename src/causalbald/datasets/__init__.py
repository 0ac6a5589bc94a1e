"""Benchmarks with known truth: a pool to choose from, a validation and a test split. And one real study, NHEFS."""

from causalbald.datasets._base import Benchmark, Split, check_options, load, names, register
from causalbald.datasets._cmnist import cmnist
from causalbald.datasets._download import DownloadError
from causalbald.datasets._ihdp import ihdp, ihdp_cov
from causalbald.datasets._nhefs import load_nhefs
from causalbald.datasets._synthetic import synthetic

__all__ = [
    "Benchmark",
    "DownloadError",
    "Split",
    "check_options",
    "cmnist",
    "ihdp",
    "ihdp_cov",
    "load",
    "load_nhefs",
    "names",
    "register",
    "synthetic",
]
