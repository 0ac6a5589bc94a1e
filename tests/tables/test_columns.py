"""Columns of a pool: their kinds, their encoding, and cells that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causalbald.errors import InputError
from causalbald.tables import (
    MISSING,
    OTHER,
    Column,
    check_ids,
    encode,
    feature_names,
    find_columns,
    to_numbers,
)


def columns_of(**columns: Any) -> tuple[list[Column], list[Any]]:
    table = pa.table(columns)
    return find_columns(table, table.column_names, {})[:2]


def test_numbers_with_gaps_get_the_median_and_an_indicator() -> None:
    columns, summaries = columns_of(age=[1.0, None, 3.0, 8.0])
    assert feature_names(columns) == ["age", f"age {MISSING}"]
    np.testing.assert_array_equal(encode(columns, pa.table({"age": [1.0, None]})), [[1, 0], [3, 1]])
    assert summaries[0].missing == 1


def test_nan_that_is_no_null_is_missing() -> None:
    """As polars and Arrow hand it over; pandas turns NaN into nulls."""
    columns, summaries = columns_of(age=pa.array([1.0, float("nan"), None, 8.0, 3.0]))
    assert columns[0].indicator
    assert columns[0].fill == 3
    assert summaries[0].missing == 2
    columns, summaries = columns_of(age=pa.array([1.0, float("nan"), 8.0]))
    assert columns[0].indicator
    assert summaries[0].missing == 1
    columns, summaries = columns_of(age=pa.array([1.0, 2.0, 8.0]))
    assert (columns[0].indicator, summaries[0].missing) == (False, 0)


def test_thirty_categories_have_a_column_each_and_more_are_pooled() -> None:
    thirty = [f"c{k:02d}" for k in range(30) for _ in range(2)]
    columns, _ = columns_of(site=thirty)
    assert len(columns[0].levels) == 30
    assert OTHER not in columns[0].levels
    columns, _ = columns_of(site=[*thirty * 4, "c30", "c30"])
    assert len(columns[0].levels) == 30, "29 of their own, and one for the others"
    assert columns[0].levels[-1] == OTHER


def test_times_of_day_are_refused_as_dates_are() -> None:
    with pytest.raises(InputError, match=r"'at' \(dates: use an age"):
        columns_of(at=["12:30", "7:05:10", "23:59"])


def test_ids_have_at_most_1000_characters() -> None:
    assert check_ids(pa.chunked_array([["x" * 1000]]), "id").to_pylist() == ["x" * 1000]
    with pytest.raises(InputError, match="an id of 1001 characters: at most 1000 are possible"):
        check_ids(pa.chunked_array([["x" * 1001]]), "id")


def test_categories_have_a_column_each_but_for_the_most_frequent() -> None:
    columns, _ = columns_of(site=["a", "b", "a", "c", None])
    assert columns[0].levels == ("a", MISSING, "b", "c")
    new = pa.table({"site": ["c", "a", None, "never seen"]})
    np.testing.assert_array_equal(encode(columns, new), [[0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0]])


def test_many_categories_share_a_column_also_those_seen_later() -> None:
    values = [f"c{k:03d}" for k in range(40) for _ in range(4)] + ["often"] * 50 + ["also"] * 30
    columns, _ = columns_of(site=values)
    assert columns[0].levels == ("often", "also", OTHER)
    np.testing.assert_array_equal(
        encode(columns, pa.table({"site": ["c001", "new", "often"]})), [[0, 1], [0, 1], [0, 0]]
    )


def test_a_column_survives_storage_as_json() -> None:
    columns, _ = columns_of(site=["a", "b", "a"], age=[1.0, None, 2.0])
    assert [Column.from_json(c.as_json()) for c in columns] == columns


def test_columns_that_say_nothing_are_left_out_with_a_note() -> None:
    _, summaries = columns_of(age=[1, 2, 3], same=[1, 1, 1], word=["a", "a", "a"], empty=[None, None, None])
    assert [(d.column, d.use, d.note) for d in summaries[1:]] == [
        ("same", "left out", "constant"),
        ("word", "left out", "constant"),
        ("empty", "left out", "all values are missing"),
    ]


def test_columns_that_cannot_be_used_are_all_named_with_the_remedy() -> None:
    days = pd.Series(pd.date_range("2020-01-01", periods=50))
    with pytest.raises(InputError) as error:
        columns_of(
            day=pa.array(days),
            written=[f"{k % 28 + 1}.3.2020" for k in range(50)],
            name=[f"person {k}" for k in range(50)],
            weight=["70", "71", "72 kg", "80", "60"] * 10,
            tags=[[1, 2]] * 50,
        )
    message = str(error.value)
    assert all(repr(name) in message for name in ("day", "written", "name", "weight", "tags"))
    assert "'72 kg'" in message
    assert "exclude=" in message


def test_a_kind_can_be_said() -> None:
    table = pa.table({"code": [1, 2, 1, 3], "age": [1.0, 2.0, 3.0, 4.0]})
    columns, *_ = find_columns(table, ["code", "age"], {"code": "categorical"})
    assert feature_names(columns) == ["code = 2", "code = 3", "age"]
    with pytest.raises(InputError, match="'numeric' or 'categorical'"):
        find_columns(table, ["code"], {"code": "ordinal"})


def test_categories_of_numbers_do_not_depend_on_which_rows_are_encoded() -> None:
    table = pa.table({"code": [1.0, 2.5, 1.0, None]})
    columns, *_ = find_columns(table, ["code"], {"code": "categorical"})
    encoded = encode(columns, table)
    np.testing.assert_array_equal(encode(columns, table.slice(0, 1)), encoded[:1])
    np.testing.assert_array_equal(encode(columns, pa.table({"code": [1, 1]})), encoded[[0, 2]])


def test_values_that_are_no_numbers_are_named_with_their_row() -> None:
    with pytest.raises(InputError, match="row 2 has 'high'"):
        to_numbers(pa.chunked_array([["1", "high"]]), "cd4")
    with pytest.raises(InputError, match="infinite value in row 1"):
        to_numbers(pa.chunked_array([[float("inf")]]), "cd4")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["12,3", " 7 ", "-0,5", None, ""], [12.3, 7.0, -0.5, np.nan, np.nan]),
        (["1,234", "1,5"], [1.234, 1.5]),
        (["0,123", "1,2E-3"], [0.123, 0.0012]),
        (["12.3", " "], [12.3, np.nan]),
    ],
)
def test_a_column_of_text_may_have_decimal_commas(cells: list[str | None], expected: list[float]) -> None:
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        values = pa.chunked_array([pa.array(cells[:1], kind), pa.array(cells[1:], kind)])
        np.testing.assert_array_equal(to_numbers(values, "cd4"), expected)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["950", None, "1,234"], r"'cd4' has '1,234' in row 3, which may mean 1\.234 or 1234"),
        (["12,5", "8.25"], "row 1 has '12,5'"),
        (["1,5", "1,234,567"], "row 2 has '1,234,567'"),
        (["1,5", "<0,5"], "row 2 has '<0,5'"),
        (["1,5", "<0.5"], "row 2 has '<0.5'"),
        (["a,b"], "row 1 has 'a,b'"),
    ],
)
def test_commas_that_may_mean_something_else_are_refused(cells: list[str | None], said: str) -> None:
    with pytest.raises(InputError, match=said):
        to_numbers(pa.chunked_array([cells]), "cd4")


def test_covariates_are_read_in_parts_and_so_take_no_decimal_commas() -> None:
    with pytest.raises(InputError, match="row 1 has '12,5'"):
        find_columns(pa.table({"dose": ["12,5", "1,5"]}), ["dose"], {"dose": "numeric"})


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=False, width=32)),
            st.one_of(st.none(), st.text(max_size=8)),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_whatever_can_be_encoded_is_finite_and_the_same_row_by_row(rows: list[tuple[Any, Any]]) -> None:
    table = pa.table(
        {"n": pa.array([r[0] for r in rows], pa.float64()), "c": pa.array([r[1] for r in rows], pa.string())}
    )
    try:
        columns, summaries, _ = find_columns(table, ["n", "c"], {})
    except InputError as error:
        assert str(error)  # noqa: PT017 - a refusal with a reason is fine
        return
    x = encode(columns, table)
    assert np.isfinite(x).all()
    assert x.shape == (len(rows), len(feature_names(columns)))
    assert len(summaries) == 2
    single = np.concatenate([encode(columns, table.slice(k, 1)) for k in range(len(rows))])
    np.testing.assert_array_equal(single, x)
