"""What we recommend: the function that campaigns use unless told otherwise."""

from __future__ import annotations

from causalbald._typing import Array, Treatment
from causalbald.acquisition.registry import Targets, register
from causalbald.acquisition.targeted import tau_vr
from causalbald.posterior import Posterior


@register("default", batch="auto", linked=True)
def default(posterior: Posterior, treatment: Treatment, *, targets: Targets) -> Array:
    """What we recommend: tau-vr, one unit after the other where the model can tell how units hang together."""
    return tau_vr(posterior, treatment, targets=targets)
