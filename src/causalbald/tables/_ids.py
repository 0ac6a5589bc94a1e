"""People by their own ids. Positions in the pool never leave the library."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from causalbald._text import check_text
from causalbald._typing import Positions
from causalbald.errors import InputError

_MAX_LENGTH = 1000
_LOOK_AT = 10_000
_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"


def id_text(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return ids as text, as they are written: whole numbers or text, none missing, none repeated."""
    text = written(values, name)
    missing = int(text.null_count) + int(pc.sum(pc.equal(pc.utf8_trim_whitespace(text), "")).as_py() or 0)
    if missing:
        raise InputError(f"column {name!r} has {missing} rows without an id: give everyone one.")
    counts = pc.value_counts(text)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise InputError(
            f"column {name!r} has {len(repeated)} ids more than once, for example {repeated[0]['values'].as_py()!r}: "
            "one row per person."
        )
    longest = int(pc.max(pc.utf8_length(text)).as_py() or 0)
    if longest > _MAX_LENGTH:
        raise InputError(f"column {name!r} has an id of {longest} characters: at most {_MAX_LENGTH} are possible.")
    return text


def written(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return whole numbers or text as text."""
    if pa.types.is_floating(values.type):
        values = _whole(values, name)
    if not (pa.types.is_integer(values.type) or is_text(values.type)):
        raise InputError(f"ids in column {name!r} must be whole numbers or text, not {values.type}.")
    return pc.cast(values, pa.string())


class Units:
    """All units of a pool: who they are and, when first asked, where."""

    def __init__(self, ids: pa.ChunkedArray, name: str, *, text: bool = False) -> None:
        self.text = ids
        self.name = name
        self.kept_as_text = text

    def __len__(self) -> int:
        return len(self.text)

    def positions(self, ids: Iterable[Any]) -> Positions:
        """Return where ``ids`` are, in their order; unknown ones are an error that names one."""
        wanted = pa.array([canonical(i) for i in ids], pa.string())
        distinct = pc.unique(wanted)
        # As a rule few are looked up in many: it is faster to look for each of the many among the few.
        hits = pc.index_in(self._values, value_set=distinct)
        where = np.flatnonzero(hits.is_valid().to_numpy(zero_copy_only=False))
        found = np.full(len(distinct), -1, dtype=np.intp)
        found[hits.drop_null().to_numpy(zero_copy_only=False)] = where
        if (found < 0).any():
            unknown = distinct.take(pa.array(np.flatnonzero(found < 0))).to_pylist()
            raise InputError(
                f"{len(unknown)} of {len(wanted)} ids are not in the pool, for example {unknown[0]!r}."
                f"{meant(unknown[0], [self._values])} Ids are those of column {self.name!r}."
            )
        order: Positions = found[pc.index_in(wanted, value_set=distinct).to_numpy(zero_copy_only=False)]
        return order

    def held(self, ids: Iterable[str]) -> set[str]:
        """Return those of some ids, as text, that are in the pool."""
        wanted = pa.array(list(ids), pa.string())
        return set(wanted.filter(pc.is_in(wanted, value_set=self._values)).to_pylist())

    def at(self, positions: Positions) -> list[str]:
        """Return the ids at ``positions``, as text."""
        taken: list[str] = self._values.take(pa.array(positions)).to_pylist()
        return taken

    def column(self, ids: Iterable[str]) -> pa.Array:
        """Return ids as a column of the kind that the user's table had."""
        text = list(ids)
        return pa.array([int(i) for i in text], pa.int64()) if self.whole else pa.array(text, pa.string())

    @cached_property
    def whole(self) -> bool:
        """Whether the ids are whole numbers, written in the usual way, and not text in the user's own table."""
        return not self.kept_as_text and bool(pc.all(pc.match_substring_regex(self.text, _WHOLE)).as_py())

    @cached_property
    def _values(self) -> pa.Array:
        combined = self.text.combine_chunks() if isinstance(self.text, pa.ChunkedArray) else self.text
        return combined.combine_chunks() if isinstance(combined, pa.ChunkedArray) else combined


def meant(unknown: str, parts: Iterable[pa.Array]) -> str:
    """Say who in a pool may be meant by an id; a number that only looks alike is somebody else."""
    for values in parts:
        if re.fullmatch(r"\d+\.0+", unknown):
            whole = unknown.partition(".")[0]
            if pc.index(values, whole).as_py() >= 0:
                return f" Did you mean {whole!r}? Ids are written without decimals."
        elif unknown.isdecimal():
            place = pc.index(pc.equal(pc.utf8_ltrim(values, "0"), unknown.lstrip("0")), True).as_py()
            if place >= 0:
                return f" Did you mean {values[place].as_py()!r}? A spreadsheet drops leading zeros."
        else:
            close = get_close_matches(unknown, values.slice(0, _LOOK_AT).to_pylist(), n=1)
            return f" Did you mean {close[0]!r}?" if close else ""
    return ""


def canonical(value: Any) -> str:
    """Return an id as the text under which it is known."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    text = str(value)
    check_text(text, "an id")
    return text


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this kind holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _whole(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    try:
        return pc.cast(values, pa.int64())
    except pa.ArrowInvalid:
        raise InputError(f"ids in column {name!r} must be whole numbers or text, not decimals.") from None
