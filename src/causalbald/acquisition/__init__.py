"""Acquisition functions: from a belief about a pool to the log-importance of measuring each unit.

The rivals ``qhte``, ``macal``, ``lcmd`` and ``fccm`` have no scores: they choose whole batches by covariates.
"""

from causalbald.acquisition.paper import (
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
from causalbald.acquisition.registry import Acquisition, Targets, get, names, register, score
from causalbald.acquisition.rivals import fccm, lcmd, macal, qhte
from causalbald.acquisition.targeted import default, epig_mu, epig_tau, regret, tau_vr

__all__ = [
    "Acquisition",
    "Targets",
    "default",
    "epig_mu",
    "epig_tau",
    "fccm",
    "get",
    "lcmd",
    "macal",
    "mu_bald",
    "mu_information",
    "mu_pi_bald",
    "mu_rho_bald",
    "names",
    "propensity_score",
    "qhte",
    "random_score",
    "register",
    "regret",
    "rho_bald",
    "score",
    "tau_bald",
    "tau_vr",
    "type_s",
]
