"""Acquisition functions: from a belief about a pool to the log-importance of measuring each unit."""

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
from causalbald.acquisition.targeted import epig_mu, epig_tau, regret, tau_vr

__all__ = [
    "Acquisition",
    "Targets",
    "epig_mu",
    "epig_tau",
    "get",
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
