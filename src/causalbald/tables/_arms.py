"""The two arms of a treatment column: which value is the control."""

from __future__ import annotations

import pyarrow as pa

from causalbald.errors import InputError
from causalbald.tables._columns import as_text
from causalbald.tables._ids import is_text

Value = str | int | float | bool
_KNOWN_ARMS = (("0", "1"), ("false", "true"), ("no", "yes"), ("control", "treated"), ("control", "treatment"))


def check_treatment_kind(kind: pa.DataType, name: str) -> None:
    """Refuse treatments that are no simple values, such as dates and lists."""
    simple = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    if not (is_text(kind) or any(is_kind(kind) for is_kind in simple)):
        raise InputError(f"treatment {name!r} must hold text, numbers or yes/no, not {kind}.")


def find_arms(values: pa.Array, name: str, control: Value | None) -> tuple[tuple[Value, Value], str]:
    """Return both of the distinct ``values`` of the treatment, control first, and the control as text."""
    distinct: list[Value] = values.to_pylist()
    shown = ", ".join(repr(v) for v in distinct[:5]) + (", …" if len(distinct) > 5 else "")
    if len(distinct) != 2:
        what = "an arm is empty" if len(distinct) < 2 else "keep two arms"
        raise InputError(f"treatment {name!r} must have two values, but has {len(distinct)} ({shown}): {what}.")
    texts = as_text(pa.chunked_array([values])).to_pylist()
    by_text = {w.lower(): v for w, v in zip(texts, distinct, strict=True)} | {str(v): v for v in distinct}
    if control is None:
        known = next((c for c, t in _KNOWN_ARMS if {c, t} == {w.lower() for w in texts}), None)
        if known is None:
            raise InputError(f"which of {shown} is the control? Say control={distinct[0]!r} (--control).")
        first = by_text[known]
    elif str(control) in by_text:
        first = by_text[str(control)]
    else:
        raise InputError(f"control {control!r} is not a value of treatment {name!r}: it has {shown}.")
    text, second = next((w, v) for w, v in zip(texts, reversed(distinct), strict=True) if v != first)
    return (first, second), text
