"""Acquisition functions: from a belief about a pool to the log-importance of measuring each unit.

The rivals ``qhte``, ``macal``, ``lcmd`` and ``fccm`` have no scores: they choose whole batches by covariates.
"""

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
from causalbald.acquisition._registry import (
    Acquisition,
    Batch,
    BatchRule,
    Score,
    Targets,
    check_targets,
    load,
    names,
    register,
    score,
)
from causalbald.acquisition._targeted import default, epig_mu, epig_tau, regret, tau_vr

__all__ = [
    "Acquisition",
    "Batch",
    "BatchRule",
    "Score",
    "Targets",
    "check_targets",
    "default",
    "epig_mu",
    "epig_tau",
    "load",
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
]
