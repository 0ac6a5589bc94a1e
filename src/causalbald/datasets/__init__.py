"""Benchmarks with known truth: a pool to choose from, a validation and a test split."""

from causalbald.datasets.base import Benchmark, Split, load, names, register
from causalbald.datasets.ihdp import ihdp
from causalbald.datasets.synthetic import synthetic

__all__ = ["Benchmark", "Split", "ihdp", "load", "names", "register", "synthetic"]
