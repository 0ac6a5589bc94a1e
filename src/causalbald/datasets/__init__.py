"""Benchmarks with known truth, each with a pool, a validation and a test split; and one real study, NHEFS."""

from causalbald.datasets._base import Benchmark, Split, check_options, load, names, register, summary, version
from causalbald.datasets._cmnist import cmnist
from causalbald.datasets._download import DownloadError
from causalbald.datasets._ihdp import ihdp, ihdp_cov
from causalbald.datasets._nhefs import NHEFS_ID, NHEFS_OUTCOME, NHEFS_TREATMENT, follow_up, load_nhefs
from causalbald.datasets._synthetic import synthetic

__all__ = [
    "NHEFS_ID",
    "NHEFS_OUTCOME",
    "NHEFS_TREATMENT",
    "Benchmark",
    "DownloadError",
    "Split",
    "check_options",
    "cmnist",
    "follow_up",
    "ihdp",
    "ihdp_cov",
    "load",
    "load_nhefs",
    "names",
    "register",
    "summary",
    "synthetic",
    "version",
]
