"""P(treated | x), from covariates and treatments alone: no outcome is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from causalbald._covariate_names import fitted_names, remember, text_names
from causalbald._typing import Array, Treatment
from causalbald._validation import check_both_arms, check_covariates, check_int, check_treatment
from causalbald.errors import InputError
from causalbald.models._base import IMAGE_MODELS

# Distance of a raw probability from 0 and 1, so that its log odds are finite.
_MIN_PROBABILITY = 1e-6


@dataclass(kw_only=True, eq=False, repr=False)
class PropensityModel(BaseEstimator):
    """Calibrated, cross-fitted and clipped propensities.

    Logistic regression and boosted trees are each fitted on all folds but one, and predict the units left out. The
    model whose predictions have the smaller log loss is taken, calibrated on these predictions by Platt scaling, and
    clipped.

    Parameters
    ----------
    folds : int
        Number of folds of the cross-fit, at least 2. An arm with fewer units sets the number of folds.
    clip : float
        Probabilities stay within [clip, 1 - clip]; at least 0 and below 0.5.
    random_state : int
        Chooses folds and trees.

    Attributes
    ----------
    cross_fitted_ : (N,)
        P(treated | x) of the units given to ``fit``, each from models that have not seen it.
    kind_ : "logistic" or "trees"
        The model that was taken.

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.models import PropensityModel
    >>> x, t = np.linspace(-2, 2, 40)[:, None], np.repeat([0, 1, 0, 1], 10)
    >>> model = PropensityModel(folds=2, clip=0.1).fit(x, t)
    >>> model.predict([[-2.0], [2.0]]).shape
    (2,)
    >>> bool((model.cross_fitted_ >= 0.1).all())
    True
    """

    folds: int = 5
    clip: float = 0.01
    random_state: int = 0

    def fit(self, X: Any, T: ArrayLike) -> Self:
        """Learn from covariates and arms, and return the model.

        Parameters
        ----------
        X : (N, D) array or DataFrame
            Covariates. The names of a DataFrame's columns are remembered.
        T : (N,)
            Arms, 0 or 1; at least two units in each.

        Returns
        -------
        PropensityModel
            The model itself, fitted.

        Raises
        ------
        InputError
            If shapes disagree, a value is missing, an arm has fewer than two units, or an option is out of range.
        """
        # The parts of scikit-learn that this file needs are imported where they are used: they take half a second,
        # and `campaign ask` imports this file but fits no propensities.
        from sklearn.metrics import log_loss
        from sklearn.model_selection import StratifiedKFold

        x, names = check_covariates(X, image_models=IMAGE_MODELS), text_names(X, "X")
        t = check_treatment(T, len(x), "T")
        check_both_arms(t, "units")
        check_clip(self.clip)
        folds = check_folds(self.folds, t)
        splits = list(StratifiedKFold(folds, shuffle=True, random_state=self.random_state).split(x, t))
        candidates = {}
        for kind, make in (("logistic", self._logistic), ("trees", self._trees)):
            models = [make().fit(x[train], t[train]) for train, _ in splits]
            raw = np.empty(len(t))
            for model, (_, left_out) in zip(models, splits, strict=True):
                raw[left_out] = model.predict_proba(x[left_out])[:, 1]
            candidates[kind] = (log_loss(t, raw), models, raw)
        self.kind_ = min(candidates, key=lambda kind: candidates[kind][0])
        _, self.models_, raw = candidates[self.kind_]
        self.calibration_ = Calibration.of(logit(_inside(raw)), t, self.clip)
        self.cross_fitted_ = self.calibration_.of_probability(raw)
        remember(self, names, x.shape[1:])
        return self

    def predict(self, X: Any) -> Array:
        """Return P(treated | x) of new units: the mean over the models of the folds, calibrated and clipped.

        Parameters
        ----------
        X : (N, D) array or DataFrame
            Covariates, in the columns of ``fit``.

        Returns
        -------
        (N,) array
            Probabilities within [clip, 1 - clip].

        Raises
        ------
        NotFittedError
            If ``fit`` has not been called.
        InputError
            If ``X`` does not have the columns of ``fit``, or a value is missing.
        """
        check_is_fitted(self)
        x = check_covariates(X, columns=self.n_features_in_, names=fitted_names(self))
        return self.calibration_.of_probability(np.mean([m.predict_proba(x)[:, 1] for m in self.models_], axis=0))

    def _logistic(self) -> Any:
        """Return an unfitted logistic regression on standardised covariates."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), LogisticRegression())

    def _trees(self) -> Any:
        """Return an unfitted classifier of boosted trees, seeded by ``random_state``."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            max_iter=100, learning_rate=0.05, max_leaf_nodes=15, random_state=self.random_state
        )


def check_folds(folds: int, treatment: Treatment) -> int:
    """Return ``folds``, or the number of units in the smaller arm if that is less. ``treatment`` holds the arms (N,).

    Raises InputError if ``folds`` is no integer of at least 2, or if an arm has fewer than two units.
    """
    possible = min(check_int(folds, "folds", low=2), int(np.bincount(treatment, minlength=2).min()))
    if possible < 2:
        raise InputError("a propensity model needs at least two units in each arm.")
    return possible


def check_clip(clip: float) -> None:
    """Raise InputError unless 0 <= ``clip`` < 0.5, so that probabilities can stay within [clip, 1 - clip]."""
    if not 0 <= clip < 0.5:
        raise InputError(f"clip must lie in [0, 0.5), got {clip!r}.")


@dataclass(frozen=True)
class Calibration:
    """Platt scaling of log odds, then clipping: P = clip(expit(slope * log odds + intercept))."""

    slope: float
    intercept: float
    clip: float

    @classmethod
    def of(cls, log_odds: Array, treatment: Treatment, clip: float) -> Calibration:
        """Return the scaling under which treatments (N,) are most likely, given cross-fitted log odds (N,).

        ``clip`` is kept for the probabilities; it does not change the scaling.
        """
        from sklearn.linear_model import LogisticRegression

        fitted = LogisticRegression(C=1e6).fit(log_odds[:, None], treatment)
        return cls(float(fitted.coef_[0, 0]), float(fitted.intercept_[0]), clip)

    def __call__(self, log_odds: Array) -> Array:
        """Return the probabilities that log odds stand for, calibrated and clipped to [clip, 1 - clip]."""
        clipped: Array = np.clip(expit(self.slope * log_odds + self.intercept), self.clip, 1 - self.clip)
        return clipped

    def of_probability(self, raw: Array) -> Array:
        """Return raw probabilities, calibrated and clipped to [clip, 1 - clip]. A raw 0 or 1 is allowed."""
        return self(logit(_inside(raw)))


def _inside(p: Array) -> Array:
    """Return probabilities moved away from 0 and 1 by ``_MIN_PROBABILITY``, so that their log odds are finite."""
    return np.clip(p, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
