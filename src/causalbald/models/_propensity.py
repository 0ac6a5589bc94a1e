"""P(treated | x), from covariates and treatments alone: no outcome is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from causalbald._covariate_names import fitted_names, remember, text_names
from causalbald._typing import Array, Treatment
from causalbald._validation import check_both_arms, check_covariates, check_int, check_treatment
from causalbald.errors import InputError


class PropensityModel(BaseEstimator):
    """Calibrated, cross-fitted and clipped propensity scores.

    Logistic regression and boosted trees are each fitted on all folds but one and predict the one left out; the
    better by log loss of those predictions is kept, calibrated on them by Platt scaling, and clipped.

    Parameters
    ----------
    folds : int
        Folds of the cross-fit; fewer if an arm has fewer units.
    clip : float
        Probabilities stay within [clip, 1 - clip].
    random_state : int

    Attributes
    ----------
    cross_fitted_ : (N,)
        P(treated | x) of the units given to ``fit``, each from models that have not seen it.
    kind_ : "logistic" or "trees"
    """

    def __init__(self, *, folds: int = 5, clip: float = 0.01, random_state: int = 0) -> None:
        self.folds = folds
        self.clip = clip
        self.random_state = random_state

    def fit(self, X: Any, T: ArrayLike) -> Self:
        """Learn from covariates X (N, D) and arms T (N,)."""
        x, names = check_covariates(X), text_names(X, "X")
        t = check_treatment(T, len(x), "T")
        check_both_arms(t, "units")
        check_clip(self.clip)
        folds = check_folds(self.folds, t)
        splits = list(StratifiedKFold(folds, shuffle=True, random_state=self.random_state).split(x, t))
        found = {}
        for kind, make in (("logistic", self._logistic), ("trees", self._trees)):
            models = [make().fit(x[train], t[train]) for train, _ in splits]
            raw = np.empty(len(t))
            for model, (_, left_out) in zip(models, splits, strict=True):
                raw[left_out] = model.predict_proba(x[left_out])[:, 1]
            found[kind] = (log_loss(t, raw), models, raw)
        self.kind_ = min(found, key=lambda kind: found[kind][0])
        _, self.models_, raw = found[self.kind_]
        self.calibration_ = Calibration.of(logit(_inside(raw)), t, self.clip)
        self.cross_fitted_ = self.calibration_.of_probability(raw)
        remember(self, names, x.shape[1:])
        return self

    def predict(self, X: Any) -> Array:
        """Return P(treated | x) of new units, (N,): the mean over the folds' models, calibrated and clipped."""
        check_is_fitted(self)
        x = check_covariates(X, columns=self.n_features_in_, names=fitted_names(self))
        return self.calibration_.of_probability(np.mean([m.predict_proba(x)[:, 1] for m in self.models_], axis=0))

    def _logistic(self) -> Any:
        return make_pipeline(StandardScaler(), LogisticRegression())

    def _trees(self) -> Any:
        return HistGradientBoostingClassifier(
            max_iter=100, learning_rate=0.05, max_leaf_nodes=15, random_state=self.random_state
        )


def check_folds(folds: int, treatment: Treatment) -> int:
    """Return the number of folds, fewer than asked for if an arm has fewer units."""
    possible = min(check_int(folds, "folds", low=2), int(np.bincount(treatment).min()))
    if possible < 2:
        raise InputError("a propensity model needs at least two units in each arm.")
    return possible


def check_clip(clip: float) -> None:
    """Raise unless probabilities can stay within [clip, 1 - clip]."""
    if not 0 <= clip < 0.5:
        raise InputError(f"clip must lie in [0, 0.5), got {clip!r}.")


@dataclass(frozen=True)
class Calibration:
    """Platt scaling of log odds, then clipping."""

    slope: float
    intercept: float
    clip: float

    @classmethod
    def of(cls, log_odds: Array, treatment: Treatment, clip: float) -> Calibration:
        """Return the scaling under which treatments are most likely given cross-fitted log odds."""
        fitted = LogisticRegression(C=1e6).fit(log_odds[:, None], treatment)
        return cls(float(fitted.coef_[0, 0]), float(fitted.intercept_[0]), clip)

    def __call__(self, log_odds: Array) -> Array:
        """Return calibrated, clipped probabilities."""
        clipped: Array = np.clip(expit(self.slope * log_odds + self.intercept), self.clip, 1 - self.clip)
        return clipped

    def of_probability(self, raw: Array) -> Array:
        """Return calibrated, clipped probabilities of raw ones."""
        return self(logit(_inside(raw)))


def _inside(p: Array) -> Array:
    return np.clip(p, 1e-6, 1 - 1e-6)
