"""Bayesian models of both potential outcomes, and the propensity model."""

from causalbald.models._auto import AutoEstimator
from causalbald.models._base import CateEstimator, CrossBelief, CrossBeliefOf, LabelSet
from causalbald.models._due import DeepKernelGP
from causalbald.models._gaussian_process import GaussianProcess, IndexProcess
from causalbald.models._propensity import PropensityModel
from causalbald.models._propensity_network import PropensityNetwork
from causalbald.models._registry import check_options, load, names, presets, register, summary, version
from causalbald.models._tarnet import TarnetEnsemble

__all__ = [
    "AutoEstimator",
    "CateEstimator",
    "CrossBelief",
    "CrossBeliefOf",
    "DeepKernelGP",
    "GaussianProcess",
    "IndexProcess",
    "LabelSet",
    "PropensityModel",
    "PropensityNetwork",
    "TarnetEnsemble",
    "check_options",
    "load",
    "names",
    "presets",
    "register",
    "summary",
    "version",
]
