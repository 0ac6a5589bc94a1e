"""Units by their ids, as the user wrote them. Positions in the pool never leave the library."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from causalbald._spreadsheet import read_cell
from causalbald._text import check_text
from causalbald._typing import Positions
from causalbald.errors import InputError
from causalbald.tables._reading import InputTable, column_of, is_text

MAX_ID_CHARACTERS = 1000
_MAX_COMPARED_IDS = 10_000
_WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"


class Ids:
    """The ids of all units of a pool, in the order of the pool.

    Parameters
    ----------
    ids : pyarrow.ChunkedArray of text
        As :func:`check_ids` returns them: distinct, and none missing.
    name : str
        The column of ids in the user's table.
    is_text_column : bool
        Whether the user's own table has the ids as text, so that ``"7"`` is returned as text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import Ids, check_ids
    >>> ids = Ids(check_ids(pa.chunked_array([[205, 17, 3]]), "patient"), "patient")
    >>> ids.positions([3, "205"]).tolist()
    [2, 0]
    >>> ids.as_column(["3"]).to_pylist()
    [3]
    """

    def __init__(self, ids: pa.ChunkedArray, name: str, *, is_text_column: bool = False) -> None:
        self.text = ids
        self.name = name
        self.is_text_column = is_text_column

    def __len__(self) -> int:
        return len(self.text)

    def positions(self, ids: Iterable[Any]) -> Positions:
        """Return the positions of ``ids``, numbers or text, in their order; raise InputError if an id is unknown."""
        id_texts = pa.array([canonical_id(i) for i in ids], pa.string())
        return find_positions(id_texts, lambda: [self._values], f"column {self.name!r}")

    def contained(self, ids: Iterable[str]) -> set[str]:
        """Return which of ``ids``, given as text, are in the pool."""
        candidates = pa.array(list(ids), pa.string())
        return set(candidates.filter(pc.is_in(candidates, value_set=self._values)).to_pylist())

    def at(self, positions: Positions) -> list[str]:
        """Return the ids at some positions, as text."""
        taken: list[str] = self._values.take(pa.array(positions)).to_pylist()
        return taken

    def as_column(self, ids: Iterable[str]) -> pa.Array:
        """Return some ids of the pool, given as text, as whole numbers if ``are_whole_numbers``, else as text."""
        text = list(ids)
        return pa.array([int(i) for i in text], pa.int64()) if self.are_whole_numbers else pa.array(text, pa.string())

    @cached_property
    def are_whole_numbers(self) -> bool:
        """Whether all ids are whole numbers without leading zeros, and the user's own table has them not as text."""
        return not self.is_text_column and bool(pc.all(pc.match_substring_regex(self.text, _WHOLE_NUMBER)).as_py())

    @cached_property
    def _values(self) -> pa.Array:
        """The ids as one array."""
        combined = self.text.combine_chunks() if isinstance(self.text, pa.ChunkedArray) else self.text
        return combined.combine_chunks() if isinstance(combined, pa.ChunkedArray) else combined


def check_ids(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return a column of ids as text; raise InputError unless every row has an id that no other row has.

    Parameters
    ----------
    values : pyarrow.ChunkedArray
        Whole numbers or text.
    name : str
        The name of the column, for errors.

    Returns
    -------
    pyarrow.ChunkedArray of text

    Raises
    ------
    InputError
        If an id is missing, blank, repeated, longer than 1,000 characters, or neither a whole number nor text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import check_ids
    >>> check_ids(pa.chunked_array([[205.0, 17.0]]), "patient").to_pylist()
    ['205', '17']
    """
    text = ids_as_text(values, name)
    missing = pc.sum(is_blank(text)).as_py()
    if missing:
        raise InputError(f"column {name!r} has {missing} rows without an id: give everyone one.")
    check_unique(text, f"column {name!r} has {{count}} ids more than once")
    longest = int(pc.max(pc.utf8_length(text)).as_py() or 0)
    if longest > MAX_ID_CHARACTERS:
        raise InputError(
            f"column {name!r} has an id of {longest} characters: at most {MAX_ID_CHARACTERS} are possible."
        )
    return text


def ids_as_text(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return a column of whole numbers or text as text; missing ids stay missing.

    Parameters
    ----------
    values : pyarrow.ChunkedArray
        Whole numbers or text. Floats such as 205.0 count as whole numbers.
    name : str
        The name of the column, for errors.

    Returns
    -------
    pyarrow.ChunkedArray of text

    Raises
    ------
    InputError
        If the column holds something else, such as numbers with decimals.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import ids_as_text
    >>> ids_as_text(pa.chunked_array([[205.0, None]]), "patient").to_pylist()
    ['205', None]
    """
    if pa.types.is_floating(values.type):
        try:
            values = pc.cast(values, pa.int64())
        except pa.ArrowInvalid:
            raise InputError(f"ids in column {name!r} must be whole numbers or text, not decimals.") from None
    if not (pa.types.is_integer(values.type) or is_text(values.type)):
        raise InputError(f"ids in column {name!r} must be whole numbers or text, not {values.type}.")
    return pc.cast(values, pa.string())


def is_blank(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return for each id (text) whether the id is missing or blank.

    Parameters
    ----------
    text : pyarrow.ChunkedArray of text
        Ids.

    Returns
    -------
    pyarrow.ChunkedArray of bool

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import is_blank
    >>> is_blank(pa.chunked_array([["p1", " ", None]])).to_pylist()
    [False, True, True]
    """
    return pc.or_kleene(pc.is_null(text), pc.equal(pc.utf8_trim_whitespace(text), ""))


def check_unique(text: pa.ChunkedArray, sentence: str) -> None:
    """Raise InputError if an id occurs more than once.

    Parameters
    ----------
    text : pyarrow.ChunkedArray of text
        Ids.
    sentence : str
        The beginning of the message, with ``{count}`` in the place of the number of repeated ids.

    Raises
    ------
    InputError
        If an id is repeated; the message has the sentence, an example and the remedy.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import check_unique
    >>> check_unique(pa.chunked_array([["p1", "p2"]]), "the file has {count} ids more than once")
    """
    counts = pc.value_counts(text)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        beginning, example = sentence.replace("{count}", str(len(repeated))), repeated[0]["values"].as_py()
        raise InputError(f"{beginning}, for example {example!r}: one row per person.")


def find_positions(
    ids: pa.Array,
    pool_ids: Callable[[], Iterable[pa.Array]],
    where: str,
    describe_id: Callable[[str], str] = lambda _: "",
) -> Positions:
    """Return the positions of some units in a pool.

    Parameters
    ----------
    ids : pyarrow.Array of text
        M ids; an id may be repeated.
    pool_ids : function
        Returns the distinct ids of the whole pool as text, in parts. The function is called again if an id is unknown.
    where : str
        Where the ids of the pool are, such as ``column 'patient'``, for errors.
    describe_id : function, optional
        Returns the text that follows an unknown id in the error, such as the name of a file.

    Returns
    -------
    (M,) positions
        In the order of ``ids``.

    Raises
    ------
    InputError
        If an id is unknown. The message suggests a similar one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import find_positions
    >>> pool = [pa.array(["p1", "p2"]), pa.array(["p3"])]
    >>> find_positions(pa.array(["p3", "p1"]), lambda: pool, "column 'patient'").tolist()
    [2, 0]
    """
    distinct = pc.unique(ids)
    places, start = np.full(len(distinct), -1, dtype=np.intp), 0
    for part in pool_ids():
        # A few ids are looked up in many, so it is faster to look up each of the many among the few.
        hits = pc.index_in(part, value_set=distinct)
        hits = hits.combine_chunks() if isinstance(hits, pa.ChunkedArray) else hits
        rows = np.flatnonzero(hits.is_valid().to_numpy(zero_copy_only=False))
        places[hits.drop_null().to_numpy(zero_copy_only=False)] = start + rows
        start += len(part)
    unknown = np.flatnonzero(places < 0)
    if len(unknown):
        example = distinct[int(unknown[0])].as_py()
        raise InputError(
            f"{len(unknown)} of {len(ids)} ids are not in the pool, for example {example!r}{describe_id(example)}."
            f"{_suggestion(example, pool_ids())} Ids are those of {where}."
        )
    ordered: Positions = places[pc.index_in(ids, value_set=distinct).to_numpy(zero_copy_only=False)]
    return ordered


def _suggestion(unknown: str, parts: Iterable[pa.Array]) -> str:
    """Return a sentence that suggests an id of the pool for an unknown id, or empty text. Called by find_positions.

    A number with similar digits is not suggested: it is the id of somebody else. Text is compared with the first part.
    """
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
            similar = get_close_matches(unknown, values.slice(0, _MAX_COMPARED_IDS).to_pylist(), n=1)
            return f" Did you mean {similar[0]!r}?" if similar else ""
    return ""


def canonical_id(value: Any) -> str:
    """Return an id as the text that stands for it inside the library.

    Parameters
    ----------
    value : str or number
        As the user wrote it. A float such as 7.0 counts as a whole number.

    Returns
    -------
    str

    Raises
    ------
    InputError
        If the text is not UTF-8.

    Examples
    --------
    >>> from causalbald.tables import canonical_id
    >>> canonical_id(7.0), canonical_id("007")
    ('7', '007')
    """
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    text = str(value)
    check_text(text, "an id")
    return text


def read_ids(
    table: InputTable,
    name: str,
    in_pool: Callable[[list[str]], Collection[str]],
    settle: Callable[[int, str], str | None],
    remedy: str,
) -> pa.ChunkedArray:
    """Return the ids that the rows of a table stand for, as text, in the order of the rows.

    A cell with a leading apostrophe may be an id as it stands or, in a CSV file, another id that was made safe for
    spreadsheets. Version 0.1.0 wrote ``'=10`` for both ``=10`` and ``'=10``. If the pool has both, the other columns of
    the table decide, and nothing is guessed.

    Parameters
    ----------
    table : InputTable
        A table of outcomes or ids. An id in a frame or a Parquet file is taken as it stands if the pool has it, unless
        ``settle`` says otherwise.
    name : str
        The column of ids.
    in_pool : function
        Returns which of some ids are in the pool.
    settle : function
        Gets the number of a row and its cell. Returns the id that the row's other columns show, or None if they do not.
    remedy : str
        What the user can do about an id that has two meanings, for the error.

    Returns
    -------
    pyarrow.ChunkedArray of text

    Raises
    ------
    InputError
        If an id has two meanings, is missing or repeated, or the table has no such column.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from causalbald.tables import InputTable, read_ids
    >>> table = InputTable(pa.table({"patient": ["'=10", "p2"]}))
    >>> pool = {"=10", "p2"}
    >>> read_ids(table, "patient", pool.intersection, lambda row, cell: None, "rename one").to_pylist()
    ['=10', 'p2']
    """
    cells: list[str | None] = ids_as_text(column_of(table.data, name, "ids"), name).to_pylist()
    ids = _meant_ids(cells, in_pool, settle, remedy, typed=table.typed)
    return check_ids(pa.chunked_array([ids], pa.string()), name)


def _meant_ids(
    cells: Sequence[str | None],
    in_pool: Callable[[list[str]], Collection[str]],
    settle: Callable[[int, str], str | None],
    remedy: str,
    *,
    typed: bool,
) -> list[str | None]:
    """Return the ids that ``cells`` stand for; see :func:`read_ids`, which calls this function."""
    ids = list(cells)
    doubtful = {row: cell for row, cell in enumerate(cells) if cell is not None and cell.startswith("'")}
    if not doubtful:
        return ids
    contained = in_pool(sorted({text for cell in doubtful.values() for text in (cell, cell[1:])}))
    for row, cell in doubtful.items():
        bare = cell[1:]
        if bare not in contained:
            # Nobody, or the unit whose id is the cell as it stands. An error about nobody names what was meant.
            ids[row] = cell if cell in contained else read_cell(cell)
        elif cell not in contained:
            ids[row] = bare
        elif read_cell(cell) != cell:  # else the apostrophe is part of the id: we add none to such text
            ids[row] = settle(row, cell) or (cell if typed else None)
        if ids[row] is None:
            raise InputError(
                f"id {cell!r} may mean {bare!r}, written so that no spreadsheet runs it, or {cell!r} itself: {remedy}."
            )
    return ids
