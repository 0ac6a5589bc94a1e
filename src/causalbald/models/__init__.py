"""Bayesian models of both potential outcomes, and the propensity model."""

from causalbald.models.auto import AutoEstimator
from causalbald.models.base import CateEstimator
from causalbald.models.due import DeepKernelGP
from causalbald.models.gaussian_process import GaussianProcess, IndexProcess
from causalbald.models.propensity import PropensityModel
from causalbald.models.propensity_network import PropensityNetwork
from causalbald.models.registry import make_model, names, register
from causalbald.models.tarnet import TarnetEnsemble

__all__ = [
    "AutoEstimator",
    "CateEstimator",
    "DeepKernelGP",
    "GaussianProcess",
    "IndexProcess",
    "PropensityModel",
    "PropensityNetwork",
    "TarnetEnsemble",
    "make_model",
    "names",
    "register",
]
