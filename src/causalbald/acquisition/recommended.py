"""What we recommend when nothing more is known; docs/label-efficiency.md says on what evidence."""

from __future__ import annotations

from causalbald._typing import Array, Treatment
from causalbald.acquisition.paper import mu_rho_bald
from causalbald.acquisition.registry import register
from causalbald.posterior import Posterior


@register("default", batch="auto")
def default(posterior: Posterior, treatment: Treatment) -> Array:
    """What we recommend: mu-rho-BALD, one unit after the other where the model can tell how units hang together."""
    return mu_rho_bald(posterior, treatment)
