"""Acquisition functions: from a belief about a pool to the log-importance of measuring each unit.

The rivals ``qhte``, ``macal``, ``lcmd`` and ``fccm`` have no scores: they choose whole batches by covariates.
"""

from causalbald.acquisition._functions import AcquisitionFunction, AcquisitionLike, BatchFunction, ScoreFunction
from causalbald.acquisition._paper import (
    mu_bald,
    mu_information,
    mu_pi_bald,
    mu_rho_bald,
    propensity_score,
    random_score,
    rho_bald,
    tau_bald,
    type_s,
)
from causalbald.acquisition._registry import load, load_score_function, names, register, score, version
from causalbald.acquisition._targeted import default, epig_mu, epig_tau, regret, tau_vr
from causalbald.acquisition._targets import TargetBelief, TargetPopulation, check_population

__all__ = [
    "AcquisitionFunction",
    "AcquisitionLike",
    "BatchFunction",
    "ScoreFunction",
    "TargetBelief",
    "TargetPopulation",
    "check_population",
    "default",
    "epig_mu",
    "epig_tau",
    "load",
    "load_score_function",
    "mu_bald",
    "mu_information",
    "mu_pi_bald",
    "mu_rho_bald",
    "names",
    "propensity_score",
    "random_score",
    "register",
    "regret",
    "rho_bald",
    "score",
    "tau_bald",
    "tau_vr",
    "type_s",
    "version",
]
