"""What arms alone tell about an outcome with two values: no model of covariates should do worse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from causalbald._typing import AnyArray, Array, Treatment
from causalbald.models._base import CateEstimator, CrossBelief, CrossBeliefOf, LabelSet
from causalbald.posterior import Posterior

_ARMS = 2
_PRIOR_LABELS = 2.0  # number of labels that the prior of an arm counts for


@dataclass(kw_only=True, eq=False, repr=False)
class ArmMeans(CateEstimator):
    """Model of an outcome with two values that gives all units of an arm the same risk, with a beta belief about it.

    An outcome at the higher of the two values is an event. The prior of each arm counts for two labels, and its mean
    is the share of events in both arms together, with one event and one non-event added. Covariates, the pool and
    validation labels are not used. ``AutoEstimator`` uses it as a candidate.

    Parameters
    ----------
    limits : (low, high)
        The two values; the higher one is the event.
    random_state : int
        Not used.
    """

    limits: tuple[float, float] = (0.0, 1.0)
    random_state: int = 0

    accepts_images = True

    def _fit(self, labels: LabelSet, pool: AnyArray, validation: LabelSet | None) -> None:
        """Set mean, variance and noise of each arm's expected outcome, (K,), on the scale of the outcome."""
        low, high = self.limits
        risk, arm_labels = arm_risks(labels.y > low, labels.t)
        scale = high - low
        self.mean_ = low + scale * risk
        # The belief about the risk is beta with mean p from m = arm_labels + _PRIOR_LABELS labels: its variance is
        # p (1 - p) / (m + 1). An outcome scatters by p (1 - p) around its risk.
        self.variance_ = scale**2 * risk * (1 - risk) / (arm_labels + _PRIOR_LABELS + 1)
        self.noise_ = scale**2 * risk * (1 - risk)

    def _posterior(self, x: AnyArray, *, joint: bool) -> Posterior:
        """Return the belief in which all units of an arm share one expected outcome, and arms are independent.

        ``joint`` changes nothing: covariances between units are always part of the belief.
        """
        shape = len(x), _ARMS
        factor = np.broadcast_to(np.diag(np.sqrt(self.variance_)), (*shape, _ARMS))
        return Posterior(np.broadcast_to(self.mean_, shape), factor, np.zeros(()), self.noise_, limits=self.limits)

    def cross_belief(self, X: Any) -> CrossBeliefOf:
        """Return a function from new units to their covariances with the units in ``X``, as the base class does.

        The covariance of two units is the variance of their arm, or 0 if their arms differ.
        """
        n_others = len(self._check_new(X))

        def at(x: AnyArray) -> CrossBelief:
            """Return the cross-belief of units x (N, D)."""

            def covariance(rows: slice, treatment: Treatment, arm: int | None) -> Array:
                """Return covariances (n, J) as :class:`CrossBelief` describes."""
                sign = np.array([-1.0, 1.0]) if arm is None else np.eye(_ARMS)[arm]
                return np.repeat((sign * self.variance_)[treatment][:, None], n_others, axis=1)

            return CrossBelief(self._posterior(x, joint=False), covariance)

        return at


def arm_risks(event: NDArray[np.bool_], arm: Treatment) -> tuple[Array, Array]:
    """Return the expected share of events in each arm, (K,), and the number of labels in each arm, (K,).

    ``event`` (n,) tells which labels are events, and ``arm`` (n,) is 0 or 1. The share is pulled towards that of both
    arms together, so that it is never 0 or 1, even in an arm without labels.
    """
    arm_labels = np.bincount(arm, minlength=_ARMS).astype(np.float64)
    pooled_risk = (event.sum() + 1) / (len(event) + 2)
    arm_events = np.bincount(arm, weights=event, minlength=_ARMS)
    return (arm_events + _PRIOR_LABELS * pooled_risk) / (arm_labels + _PRIOR_LABELS), arm_labels
