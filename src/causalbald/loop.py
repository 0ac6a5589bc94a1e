"""One round after a fit: score a pool, choose a batch. Campaigns and experiments share it."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from causalbald import acquisition as acq
from causalbald._typing import Array, Positions
from causalbald._validation import check_inputs, check_positions, check_probability, check_treatment
from causalbald.errors import InputError
from causalbald.models.base import CateEstimator
from causalbald.selection import select, select_greedy

Batch = Literal["softmax", "greedy"]
_CHUNK = 4096


def score_pool(
    model: CateEstimator,
    X: ArrayLike,
    treatment: ArrayLike,
    acquisition: str | acq.Acquisition | acq.registry.Score,
    *,
    propensity: ArrayLike | None = None,
    targets: acq.Targets | None = None,
    rng: np.random.Generator | None = None,
) -> Array:
    """Return the score of every unit of a pool, (N,), in chunks where the acquisition function allows it."""
    function = acq.get(acquisition)
    x = check_inputs(X, images=model.accepts_images)
    arm = check_treatment(treatment, len(x))
    pi = None if propensity is None else check_probability(propensity, len(x))
    if not function.pointwise:
        return function(model.posterior(x), arm, propensity=pi, targets=targets, rng=rng)
    scores = []
    for start in range(0, len(x), _CHUNK):
        rows = slice(start, start + _CHUNK)
        part = None if pi is None else pi[rows]
        scores.append(function(model.posterior(x[rows], joint=False), arm[rows], propensity=part, rng=rng))
    return np.concatenate(scores)


def choose(
    model: CateEstimator,
    X: ArrayLike,
    treatment: ArrayLike,
    acquisition: str | acq.Acquisition | acq.registry.Score,
    size: int,
    *,
    available: ArrayLike,
    rng: np.random.Generator,
    batch: Batch = "softmax",
    temperature: float | None = None,
    pending: ArrayLike = (),
    propensity: ArrayLike | None = None,
    targets: acq.Targets | None = None,
) -> Positions:
    """Choose the next ``size`` units of a pool to measure, given a fitted model.

    Parameters
    ----------
    model : CateEstimator
        Fitted on what has been measured so far.
    X : (N, D) or (N, C, H, W), treatment : (N,)
        The whole pool.
    acquisition : str or callable
    size : int
    available : positions
        Units that may be chosen.
    rng : numpy.random.Generator
    batch : "softmax" or "greedy"
        Sample all at once by score, or one by one with conditioning after each pick.
    temperature : float, optional
        Of the softmax; by default the acquisition function's own, and 0 for greedy.
    pending : positions
        Units chosen earlier whose outcome is still to come; greedy batches take them into account.
    propensity, targets
        For acquisition functions that ask for them.

    Returns
    -------
    positions (size,)
        In the order of choice.
    """
    function = acq.get(acquisition)
    x = check_inputs(X, images=model.accepts_images)
    arm = check_treatment(treatment, len(x))
    waiting = check_positions(pending, len(x), "pending")
    open_units = np.setdiff1d(check_positions(available, len(x), "available"), waiting)
    closed = np.ones(len(x), dtype=bool)
    closed[open_units] = False
    if batch == "softmax":
        scores = score_pool(model, x, arm, function, propensity=propensity, targets=targets, rng=rng)
        t = function.temperature if temperature is None else temperature
        return select(np.where(closed, -np.inf, scores), size, temperature=t, rng=rng)
    if batch != "greedy":
        raise InputError(f"batch must be 'softmax' or 'greedy', got {batch!r}.")
    return select_greedy(
        model.posterior(x),
        arm,
        function,
        size,
        pending=waiting,
        excluded=np.flatnonzero(closed),
        propensity=propensity,
        targets=targets,
        temperature=temperature or 0.0,
        rng=rng,
    )
