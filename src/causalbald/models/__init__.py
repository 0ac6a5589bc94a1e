"""Bayesian models of both potential outcomes, and the propensity model."""

from causalbald.models.base import CateEstimator
from causalbald.models.due import DeepKernelGP
from causalbald.models.gaussian_process import GaussianProcess
from causalbald.models.propensity import PropensityModel
from causalbald.models.tarnet import TarnetEnsemble
from causalbald.models.registry import make_model, names, register

__all__ = ["CateEstimator", "DeepKernelGP", "GaussianProcess", "PropensityModel", "TarnetEnsemble", "make_model", "names", "register"]
