"""Checks at the edge of the library. Each turns bad input into an error that names the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from causalbald._covariate_names import in_fitted_order, table_columns
from causalbald._typing import AnyArray, Array, Positions, Treatment
from causalbald.errors import InputError

_MAX_LISTED_POSITIONS = 3


def _examples(where: Any) -> str:
    """Return how many entries of a mask are true, and the first positions, for a message."""
    positions = np.flatnonzero(where)
    shown = ", ".join(str(p) for p in positions[:_MAX_LISTED_POSITIONS])
    more = ", ..." if len(positions) > _MAX_LISTED_POSITIONS else ""
    return f"{len(positions)} of {np.size(where)}, at position {shown}{more}"


def check_covariates(
    values: Any,
    name: str = "X",
    *,
    columns: int | None = None,
    names: Sequence[str] | None = None,
    image_models: str = "a model that takes them",
) -> Array:
    """Return ``values`` (array or any DataFrame) as a finite (N, D) float array; raise InputError if they are none.

    At least one row and one column are needed. ``columns`` is the number of columns that ``values`` must have. With
    ``names``, columns of a DataFrame must have these names, and are put in this order. ``name`` names the argument in
    messages; the message about an image ends on ``image_models``.
    """
    table = in_fitted_order(table_columns(values, name) or {}, names, name)
    labels = [str(c) for c in table]
    if table:
        matrix = np.column_stack([_as_float(column, f"{name}[{c!r}]") for c, column in table.items()])
    else:
        matrix = _as_float(values, name)
    if matrix.ndim != 2:
        raise InputError(
            f"{name} has shape {matrix.shape}, but a table of units by covariates (N, D) is needed. "
            "One covariate is a column: X.reshape(-1, 1). "
            f"Images have shape (N, C, H, W), X[:, None] for one channel, and need {image_models}."
        )
    if matrix.shape[1] == 0 or matrix.shape[0] == 0:
        raise InputError(f"{name} has shape {matrix.shape}: give at least one row and one covariate.")
    if columns is not None and matrix.shape[1] != columns:
        raise InputError(
            f"{name} has {matrix.shape[1]} covariates, but {columns} are needed: same columns, same order."
        )
    for j in np.flatnonzero(~np.isfinite(matrix).all(axis=0))[:1]:
        column = labels[j] if labels else j
        raise InputError(
            f"{name} has missing or infinite values in column {column!r} ({_examples(~np.isfinite(matrix[:, j]))}). "
            "Impute them or drop the column."
        )
    return matrix


def check_inputs(
    values: Any,
    name: str = "X",
    *,
    images: bool,
    shape: tuple[int, ...] | None = None,
    names: Sequence[str] | None = None,
    **options: str,
) -> AnyArray:
    """Return a table (N, D) as float64 or, if the caller takes ``images``, images (N, C, H, W) as float32.

    Four dimensions are images. With ``shape``, each unit must have this shape; ``names`` are as for
    :func:`check_covariates`, which ``options`` go to. Raises InputError, naming the first bad column or bad images.
    """
    dimensions = np.ndim(values) if not hasattr(values, "columns") else 2
    if dimensions == 4 and images:
        return _check_images(values, name, shape)
    if shape is not None and len(shape) == 3:
        raise InputError(f"{name} must be images (N, {', '.join(map(str, shape))}), got {np.shape(values)}.")
    return check_covariates(values, name, columns=None if shape is None else shape[0], names=names, **options)


def _check_images(values: Any, name: str, shape: tuple[int, ...] | None) -> AnyArray:
    """Return images (N, C, H, W) as finite float32, at least one; else raise InputError.

    With ``shape``, each image must have this shape (C, H, W).
    """
    try:
        pixels = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not numeric ({error}).") from None
    if pixels.size == 0:
        raise InputError(f"{name} has shape {pixels.shape}: give at least one image.")
    if shape is not None and pixels.shape[1:] != shape:
        raise InputError(f"{name} has units of shape {pixels.shape[1:]}, but {shape} is needed.")
    bad = ~np.isfinite(pixels).all(axis=(1, 2, 3))
    if bad.any():
        raise InputError(f"{name} has images with missing or infinite pixels ({_examples(bad)}).")
    return pixels


def check_vector(values: Any, name: str, length: int | None = None) -> Array:
    """Return ``values`` as a finite (N,) float array; raise InputError if they are none, or N is not ``length``.

    Any N is allowed by default, also 0. ``name`` names the argument in messages.
    """
    vector = _as_float(values, name)
    if vector.ndim != 1:
        raise InputError(f"{name} has shape {vector.shape}, but one number per unit (N,) is needed.")
    if length is not None and len(vector) != length:
        raise InputError(f"{name} has {len(vector)} entries for {length} units: pass one per unit, in the same order.")
    if not np.isfinite(vector).all():
        raise InputError(
            f"{name} has missing or infinite values ({_examples(~np.isfinite(vector))}). "
            "Leave out units whose value is not known."
        )
    return vector


def check_treatment(values: Any, length: int | None = None, name: str = "treatment") -> Treatment:
    """Return ``values`` as a (N,) integer array of 0 (control) and 1 (treated); else raise InputError.

    One arm may be missing, see :func:`check_both_arms`. With ``length``, N must equal it.
    """
    vector = check_vector(values, name, length)
    bad = (vector != 0) & (vector != 1)
    if bad.any():
        raise InputError(
            f"{name} must be 0 (control) or 1 (treated), but {_examples(bad)} is not: "
            f"found {vector[bad][0]:g}. Recode the two arms as 0 and 1."
        )
    return vector.astype(np.intp)


def check_both_arms(treatment: Treatment, what: str = "labelled units") -> None:
    """Raise InputError unless both arms occur in ``treatment`` (N,); ``what`` names the units in the message."""
    for arm in (0, 1):
        if not (treatment == arm).any():
            raise InputError(
                f"no {what} in arm {arm}: an effect needs outcomes from both arms. "
                f"Measure at least one unit with treatment {arm}."
            )


def check_probability(values: Any, length: int, name: str = "propensity") -> Array:
    """Return ``values`` as a (``length``,) array of probabilities, 0 and 1 included; else raise InputError."""
    vector = check_vector(values, name, length)
    bad = (vector < 0) | (vector > 1)
    if bad.any():
        raise InputError(f"{name} must lie in [0, 1], but {_examples(bad)} does not: found {vector[bad][0]:g}.")
    return vector


def check_positions(values: ArrayLike, length: int, name: str = "positions") -> Positions:
    """Return ``values`` as an integer array of distinct positions from 0 to ``length`` - 1, in their order.

    No values give no positions. Raises InputError for other values, also for booleans and for negative positions.
    """
    positions = np.asarray(values)
    if positions.dtype == np.bool_:
        raise InputError(f"{name} are booleans: pass positions, np.flatnonzero(mask).")
    if positions.size == 0:
        return np.empty(0, dtype=np.intp)
    if positions.ndim != 1 or not np.issubdtype(positions.dtype, np.integer):
        raise InputError(f"{name} must be a list of integers, got shape {positions.shape}, type {positions.dtype}.")
    if positions.min() < 0 or positions.max() >= length:
        worst = positions.max() if positions.max() >= length else positions.min()
        raise InputError(f"{name} must lie in 0 ... {length - 1}, found {worst}.")
    unique, counts = np.unique(positions, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"{name} repeat: {unique[counts > 1][0]} occurs more than once. Pass each unit once.")
    return positions.astype(np.intp)


def check_int(value: Any, name: str, *, low: int) -> int:
    """Return ``value`` as an integer of at least ``low``; else raise InputError, also for True and for 2.0."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise InputError(f"{name} must be an integer of at least {low}, got {value!r}.")
    return int(value)


def check_cost(cost: ArrayLike, length: int) -> Array:
    """Return the cost of each unit, (length,), all above 0; else raise InputError."""
    price = check_vector(cost, "cost", length)
    if (price <= 0).any():
        raise InputError(f"cost must be above 0 for every unit, found {price.min():g}.")
    return price


def check_number(
    value: Any, name: str, *, low: float = -np.inf, above: float = -np.inf, below: float = np.inf
) -> float:
    """Return ``value`` as a finite float with low <= value < below and value > above; else raise InputError.

    By default there is no such limit. True, False and numbers written as text are refused.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not np.isfinite(value):
        raise InputError(f"{name} must be a number, got {value!r}.")
    if not (low <= value < below and value > above):
        limits = [f"at least {low:g}"] * (low > -np.inf) + [f"above {above:g}"] * (above > -np.inf)
        limits += [f"below {below:g}"] * (below < np.inf)
        raise InputError(f"{name} must be {' and '.join(limits)}, got {value!r}.")
    return float(value)


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``; else raise InputError."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return str(value)


def check_alpha(alpha: float) -> float:
    """Return ``alpha`` if it is a probability of error, above 0 and below 1; else raise InputError."""
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie between 0 and 1 (0.05 for a 95 % interval), got {alpha!r}.")
    return float(alpha)


def _as_float(values: Any, name: str) -> Array:
    """Return a column or table as float64, missing values as NaN.

    Raises InputError for dates and for other values that are not numbers. Text that reads as a number is taken.
    """
    # Dates would pass as nanoseconds since 1970, and a missing date as a number far below all others.
    if getattr(getattr(values, "dtype", None), "kind", "") in ("m", "M") or np.asarray(values).dtype.kind in ("m", "M"):
        raise InputError(f"{name} holds dates or durations: use an age or a number of days instead.")
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        entries = np.asarray(values, dtype=object).ravel()
        example = next((v for v in entries if not isinstance(v, (int, float, np.number))), entries[:1])
        raise InputError(
            f"{name} is not numeric: found {example!r}. Encode text and categories as numbers first."
        ) from None


def broadcast(values: ArrayLike, shape: tuple[int, ...], name: str) -> Array:
    """Return numbers as a read-only float array of ``shape``, repeated where needed; else raise InputError.

    A scalar fills the whole array. ``name`` names the argument in the message.
    """
    try:
        return np.broadcast_to(np.asarray(values, dtype=np.float64), shape)
    except ValueError:
        raise InputError(f"{name} has shape {np.shape(values)}, which does not broadcast to {shape}.") from None
