"""How well a score tells the arms apart."""

from __future__ import annotations

import numpy as np

from causalbald._typing import Array, Treatment


def area_under_curve(score: Array, treatment: Treatment) -> float:
    """Return the probability that the score of a treated unit is above the score of a control (AUC).

    Ties count half. Both arms must occur, which is not checked. The AUC is computed by hand because importing
    scikit-learn takes seconds, and the diagnostics of a campaign are needed before any model.

    Parameters
    ----------
    score : (N,)
        A number for each unit, without missing ones; only the order counts.
    treatment : (N,)
        The arm of each unit, 0 or 1.
    """
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    # Units with equal scores share the mean of their ranks.
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    treated = int(treatment.sum())
    # Mann-Whitney: U = sum of the ranks of the treated - n1 (n1 + 1) / 2, and AUC = U / (n1 n0).
    above = float(rank[treatment == 1].sum()) - treated * (treated + 1) / 2
    return above / (treated * (len(treatment) - treated))
