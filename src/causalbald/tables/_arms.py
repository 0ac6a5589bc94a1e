"""The two arms of a treatment column: which value is the control, and the arm of every unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from causalbald.errors import InputError
from causalbald.tables._encoding import as_text, nan_to_null
from causalbald.tables._numbers import and_more
from causalbald.tables._reading import is_text

ArmValue = str | int | float | bool
_CONTROL_AND_TREATED = (("0", "1"), ("false", "true"), ("no", "yes"), ("control", "treated"), ("control", "treatment"))
_MAX_SHOWN_VALUES = 5


class Arms(NamedTuple):
    """The arms of a pool; :func:`read_arms` returns it.

    Parameters
    ----------
    values : (value, value)
        The user's values of control and of treated.
    control : str
        The value of the control as text.
    arm : (N,)
        The arm of every unit, 0 or 1.

    Examples
    --------
    >>> from causalbald.tables import Arms
    >>> import numpy as np
    >>> Arms(("no", "yes"), "no", np.array([0, 1])).values
    ('no', 'yes')
    """

    values: tuple[ArmValue, ArmValue]
    control: str
    arm: NDArray[np.int8]


def read_arms(
    parts: Iterable[pa.ChunkedArray],
    kind: pa.DataType,
    name: str,
    control: ArmValue | None,
    describe_row: Callable[[int], str],
) -> Arms:
    """Return the arm of every unit from the treatment column of a pool.

    Parameters
    ----------
    parts : iterable of pyarrow.ChunkedArray
        The column, whole or in parts. One byte per unit is held in memory.
    kind : pyarrow.DataType
        The Arrow type of the column, which all parts have.
    name : str
        The name of the column, for errors.
    control : value or None
        The value of the control, in the user's letters or in others. With None, the values must be 0/1, false/true,
        no/yes, control/treated or control/treatment, in letters of any case.
    describe_row : function
        Returns the text for an error from the number of a row, which counts from 0 over all parts.

    Returns
    -------
    Arms

    Raises
    ------
    InputError
        If a value is missing, there are not two values, the column holds dates or the like, or ``control`` is not one
        of the values. Also if ``control`` is None and the values do not say which one is the control.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import read_arms
    >>> smoking = pa.chunked_array([["quit", "continued", "quit"]])
    >>> arms = read_arms([smoking], smoking.type, "smoking", "continued", lambda row: f"row {row + 1}")
    >>> arms.values, arms.arm.tolist()
    (('continued', 'quit'), [1, 0, 1])
    """
    _check_treatment_kind(kind, name)
    codes, distinct = [np.empty(0, dtype=np.int8)], pa.array([], kind)
    for part in parts:
        values = nan_to_null(part)
        distinct = pc.unique(pa.chunked_array([distinct, *values.drop_null().chunks]))
        if len(distinct) > 2:
            break  # refused by _control_first
        codes.append(pc.fill_null(pc.index_in(values, value_set=distinct), -1).to_numpy().astype(np.int8))
    code = np.concatenate(codes)
    missing = np.flatnonzero(code < 0)
    if len(missing):
        raise InputError(
            f"treatment {name!r} is missing in {describe_row(int(missing[0]))}{and_more(missing)}: leave such rows out "
            "of the pool. In CSV files words such as NA and None count as missing, too."
        )
    values_in_order, text = _control_first(distinct, name, control)
    control_code = as_text(pa.chunked_array([distinct])).to_pylist().index(text)
    return Arms(values_in_order, text, (code != control_code).astype(np.int8))


def _check_treatment_kind(kind: pa.DataType, name: str) -> None:
    """Raise InputError unless the Arrow type is that of text, numbers or yes/no; dates and lists are refused."""
    is_simple = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_null, is_text)
    if not any(is_kind(kind) for is_kind in is_simple):
        raise InputError(f"treatment {name!r} must hold text, numbers or yes/no, not {kind}.")


def _control_first(distinct: pa.Array, name: str, control: ArmValue | None) -> tuple[tuple[ArmValue, ArmValue], str]:
    """Return the two ``distinct`` values of the treatment, control first, and the control as text.

    ``control`` may be None, as for :func:`read_arms`, which calls this function. Raises InputError if there are not two
    values, or if the control is unknown. ``name`` is the column, for the message.
    """
    values: list[ArmValue] = distinct.to_pylist()
    shown = ", ".join(map(repr, values[:_MAX_SHOWN_VALUES])) + (", …" if len(values) > _MAX_SHOWN_VALUES else "")
    if len(values) != 2:
        problem = "an arm is empty" if len(values) < 2 else "keep two arms"
        raise InputError(f"treatment {name!r} must have two values, but has {len(values)} ({shown}): {problem}.")
    texts: list[str] = as_text(pa.chunked_array([distinct])).to_pylist()
    lower_texts = [text.lower() for text in texts]
    if control is None:
        usual = next((c for c, t in _CONTROL_AND_TREATED if {c, t} == {*lower_texts}), None)
        if usual is None:
            raise InputError(f"which of {shown} is the control? Say control={values[0]!r} (--control).")
        place = lower_texts.index(usual)
    else:
        # An exact spelling wins over one in other letters: values may be "A" and "a".
        places = {text: k for k, text in enumerate(lower_texts)} | {str(value): k for k, value in enumerate(values)}
        if str(control) not in places:
            raise InputError(f"control {control!r} is not a value of treatment {name!r}: it has {shown}.")
        place = places[str(control)]
    return (values[place], values[1 - place]), texts[place]
