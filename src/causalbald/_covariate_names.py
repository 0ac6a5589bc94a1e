"""The one rule by which columns of covariates are matched: by name if both tables have names, else by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from causalbald.errors import InputError

_MAX_LISTED = 5


def table_columns(values: Any, what: str) -> dict[Any, Any] | None:
    """Return a DataFrame's columns by name, in its order; None for an array, whose columns have no names.

    Every table that narwhals reads counts as a DataFrame: pandas, polars, Arrow and others. ``what`` names the
    argument in messages. Raises InputError if two columns have the same name as text.
    """
    if isinstance(values, (np.ndarray, list, tuple)):
        return None
    import narwhals as nw

    try:
        frame = nw.from_native(values, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise _repeated([str(name) for name in values.columns], what) from None
    if not isinstance(frame, nw.DataFrame):
        return None
    texts = [str(name) for name in frame.columns]
    if len(set(texts)) < len(texts):
        raise _repeated(texts, what)
    return {name: frame.get_column(name).to_native() for name in frame.columns}


def text_names(values: Any, what: str) -> list[str] | None:
    """Return the names of a DataFrame's columns if all are text; None for arrays, numbered columns and no columns.

    Raises InputError if only some names are text. ``what`` names the argument in messages.
    """
    names = list(table_columns(values, what) or ())
    is_text = [isinstance(name, str) for name in names]
    if any(is_text) and not all(is_text):
        number = names[is_text.index(False)]
        raise InputError(
            f"{what} has columns whose names are text, and others like {number!r}, a {type(number).__name__}: name all "
            "by text, for example with df.columns = df.columns.astype(str)."
        )
    return [str(name) for name in names] if names and all(is_text) else None


def in_fitted_order(columns: dict[Any, Any], fitted: Sequence[str] | None, what: str) -> dict[Any, Any]:
    """Return a table's columns, by name, in the order of the names in ``fitted``; raise InputError if the names differ.

    ``columns`` are returned unchanged if there are none, if one of their names is no text, or if ``fitted`` is None:
    then the table that the model was fitted on had no names. ``what`` names the argument in messages.
    """
    if fitted is None or not columns or not all(isinstance(name, str) for name in columns):
        return columns
    missing = [name for name in fitted if name not in columns]
    unexpected = [name for name in columns if name not in set(fitted)]
    if missing or unexpected:
        differences = [f"missing {_listed(missing)}"] * bool(missing)
        differences += [f"unexpected {_listed(unexpected)}"] * bool(unexpected)
        raise InputError(
            f"{what} has {len(columns)} columns that are not the {len(fitted)} of the X given to fit: "
            f"{'; '.join(differences)}. Pass the same columns by the same names, in any order: rename or drop others."
        )
    return {name: columns[name] for name in fitted}


def remember(estimator: Any, names: Sequence[str] | None, shape: tuple[int, ...]) -> None:
    """Set ``n_features_in_`` of an estimator and, if columns have names, ``feature_names_in_``, as scikit-learn does.

    Without names, ``feature_names_in_`` of an earlier fit is removed. ``shape`` is the shape of one unit; an image
    counts its channels as features. Called by ``fit`` of every model.
    """
    estimator.n_features_in_ = shape[0]
    vars(estimator).pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def fitted_names(estimator: Any) -> list[str] | None:
    """Return the names of the columns that an estimator was fitted on; None if they had none."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else list(names)


def _repeated(texts: list[str], what: str) -> InputError:
    """Return, not raise, the error that names the first name in ``texts`` that occurs twice."""
    repeated = next(text for text in texts if texts.count(text) > 1)
    return InputError(f"{what} has more than one column {repeated!r}: rename or drop one.")


def _listed(names: Sequence[str]) -> str:
    """Return the first ``_MAX_LISTED`` names for a message, and how many more there are."""
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(map(repr, names[:_MAX_LISTED])) + more
