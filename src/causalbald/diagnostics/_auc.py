"""How well a score tells the arms apart."""

from __future__ import annotations

import numpy as np

from causalbald._typing import Array, Treatment


def area_under_curve(score: Array, treatment: Treatment) -> float:
    """Return the probability that a treated unit's score is above a control's, ties counting half (AUC).

    Parameters
    ----------
    score : (N,)
    treatment : (N,), both arms present
    """
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    treated = int(treatment.sum())
    above = float(rank[treatment == 1].sum()) - treated * (treated + 1) / 2
    return above / (treated * (len(treatment) - treated))
