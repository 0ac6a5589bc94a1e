"""What arms alone say of an outcome of two values: a belief that no model of covariates should do worse than."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from causalbald._typing import AnyArray, Array, Treatment
from causalbald.models._base import CateEstimator, CrossBelief, CrossBeliefOf, LabelSet
from causalbald.posterior import Posterior

_ARMS = 2
_PRIOR_LABELS = 2.0  # that the share of events in both arms together counts for in each


class ArmMeans(CateEstimator):
    """The same risk for everyone in an arm, with a beta belief about it; for outcomes of two values.

    Each arm's prior is worth two labels, and its mean is the share of events in both arms together.

    Parameters
    ----------
    limits : (low, high)
        The two values; the higher one is the event.
    random_state : int
        Not used.
    """

    accepts_images = True

    def __init__(self, *, limits: tuple[float, float] = (0.0, 1.0), random_state: int = 0) -> None:
        self.limits = limits
        self.random_state = random_state

    def _fit(self, data: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None:
        low, high = self.limits
        risk, labels = arm_risks(data.y > low, data.t)
        scale = high - low
        self.mean_ = low + scale * risk
        # A beta belief with these means, from so many labels and the prior's.
        self.variance_ = scale**2 * risk * (1 - risk) / (labels + _PRIOR_LABELS + 1)
        self.noise_ = scale**2 * risk * (1 - risk)

    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        shape = len(x), _ARMS
        factor = np.broadcast_to(np.diag(np.sqrt(self.variance_)), (*shape, _ARMS))
        return Posterior(np.broadcast_to(self.mean_, shape), factor, np.zeros(()), self.noise_, limits=self.limits)

    def cross_belief(self, X: Any) -> CrossBeliefOf | None:
        """Return what ties other units to those in ``X``: arms are known to be the same for everyone."""
        others = len(self._check_new(X))

        def at(x: AnyArray) -> CrossBelief:
            def covariance(rows: slice, own: Treatment, arm: int | None) -> Array:
                sign = np.array([-1.0, 1.0]) if arm is None else np.eye(_ARMS)[arm]
                return np.repeat((sign * self.variance_)[own][:, None], others, axis=1)

            return CrossBelief(self._posterior(x, joint=False), covariance)

        return at


def arm_risks(event: NDArray[np.bool_], arm: Treatment) -> tuple[Array, Array]:
    """Return the expected share of events in each arm, never 0 or 1, and how many labels each has, (K,)."""
    labels = np.bincount(arm, minlength=_ARMS).astype(np.float64)
    together = (event.sum() + 1) / (len(event) + 2)
    events = np.bincount(arm, weights=event, minlength=_ARMS)
    return (events + _PRIOR_LABELS * together) / (labels + _PRIOR_LABELS), labels
