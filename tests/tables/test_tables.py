from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causalbald._spreadsheet import safe_cell
from causalbald.errors import InputError
from causalbald.tables import (
    MISSING,
    OTHER,
    Column,
    ParquetFiles,
    as_frame,
    check_ids,
    encode,
    feature_names,
    find_columns,
    read_table,
    to_numbers,
    write_table,
)

ROWS = [{"id": "007", "age": 41.5, "sex": "f"}, {"id": "008", "age": None, "sex": "m"}]


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("id,age,sex\n007,41.5,f\n008,,m\n", "utf-8"),
        ("id;age;sex\n007;41,5;f\n008;;m\n", "utf-8"),
        ("id\tage\tsex\r\n007\t41.5\tf\r\n008\tNA\tm\r\n", "utf-8"),
        ("id|age|sex\n007|41.5|f\n008|.|m\n", "utf-8-sig"),
        ('"id";"age";"sex"\n"007";"41,5";"f"\n"008";"";"m"\n', "utf-16"),
    ],
)
def test_csv_dialects_are_found_from_the_data(tmp_path: Path, text: str, encoding: str) -> None:
    table = read_table(write(tmp_path / "t.csv", text, encoding), text=["id"]).data
    assert table.to_pylist() == ROWS


def test_a_file_saved_by_an_old_spreadsheet(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "id;größe;ort\n1;1,5;Köln\n2;2,5;Zürich\n", "cp1252")).data
    assert table["größe"].to_pylist() == [1.5, 2.5]
    assert table["ort"].to_pylist() == ["Köln", "Zürich"]


def test_a_comma_within_quotes_is_no_delimiter(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", 'id,name\n1,"a, b"\n2,"line\nbreak"\n')).data
    assert table["name"].to_pylist() == ["a, b", "line\nbreak"]


@pytest.mark.parametrize("later", ["2.5", "x"])
def test_a_column_may_change_its_kind_after_many_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: str
) -> None:
    monkeypatch.setattr("causalbald.tables._dialects.BLOCK_BYTES", 1000)
    text = "id,a\n" + "".join(f"{k},{k}\n" for k in range(1000)) + f"1000,{later}\n"
    values = read_table(write(tmp_path / "t.csv", text)).data["a"].to_pylist()
    assert values[-1] == (2.5 if later == "2.5" else "x")
    assert len(values) == 1001


def test_every_kind_of_frame_comes_back_as_itself() -> None:
    for frame in (pd.DataFrame(ROWS), pl.DataFrame(ROWS), pa.Table.from_pylist(ROWS)):
        found = read_table(frame)
        assert found.data["id"].to_pylist() == ["007", "008"]
        assert type(as_frame(found.data, found.backend)) is type(frame)


def test_an_index_with_a_name_is_a_column() -> None:
    frame = pd.DataFrame(ROWS).set_index("id")
    assert read_table(frame).data.column_names == ["id", "age", "sex"]


def test_row_numbers_of_pandas_are_no_column(tmp_path: Path) -> None:
    frame = pd.DataFrame([*ROWS, *ROWS]).iloc[[3, 1, 2]]
    assert read_table(frame).data.column_names == ["id", "age", "sex"]
    assert read_table(frame.set_index("id", drop=False)).data.column_names == ["id", "age", "sex"]
    frame.to_parquet(tmp_path / "t.parquet")
    assert pq.read_schema(tmp_path / "t.parquet").names[-1] == "__index_level_0__"
    for source in (tmp_path / "t.parquet", pq.read_table(tmp_path / "t.parquet")):
        assert read_table(source).data.column_names == ["id", "age", "sex"]
    assert ParquetFiles(tmp_path / "t.parquet").names == ["id", "age", "sex"]


@pytest.mark.parametrize(
    ("header", "said"), [(["id", "y", "y"], "more than one column 'y'"), (["id", None, "y"], "column without a name")]
)
def test_names_in_excel_are_those_that_are_written(tmp_path: Path, header: list[str | None], said: str) -> None:
    pd.DataFrame([header, [1, None, 2.5], [2, 3.5, 4.5]]).to_excel(tmp_path / "t.xlsx", index=False, header=False)
    with pytest.raises(InputError, match=rf"t\.xlsx has {'a ' if 'without' in said else ''}{said}"):
        read_table(tmp_path / "t.xlsx")
    pd.DataFrame([["id", "y", None], [1, 2.5, None]]).to_excel(tmp_path / "t.xlsx", index=False, header=False)
    assert read_table(tmp_path / "t.xlsx").data.column_names == ["id", "y"], "an empty column is nothing"


def test_points_in_a_file_with_decimal_commas_may_be_those_of_thousands(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id;weight;y\n1;70,5;1.234\n2;81,2;950\n")
    found = read_table(path)
    with pytest.raises(InputError, match=r"has '1.234' in row 1, which may mean 1,234 or 1234"):
        to_numbers(found.data["y"], "y", decimal=found.decimal)
    path.write_text("id;weight;y\n1;70,5;1.234\n2;81,2;9.5\n")
    found = read_table(path)
    assert to_numbers(found.data["y"], "y", decimal=found.decimal).tolist() == [1.234, 9.5]


def test_parquet_and_excel(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    assert read_table(tmp_path / "t.parquet").data.to_pylist() == ROWS
    assert read_table(tmp_path / "t.xlsx", text=["id"]).data.to_pylist() == ROWS


def test_decimals_beyond_64_bits_are_numbers_and_no_ids(tmp_path: Path) -> None:
    big = pa.array([Decimal(10**30), Decimal(7)], pa.decimal128(38, 0))
    pq.write_table(pa.table({"a": big}), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet").data
    np.testing.assert_array_equal(to_numbers(table["a"], "a"), [1e30, 7])
    with pytest.raises(InputError, match=r"ids in column 'a' must be whole numbers or text, not decimal128"):
        check_ids(table["a"], "a")


def test_columns_of_several_kinds_in_excel_are_text(tmp_path: Path) -> None:
    day = pd.Timestamp("2024-05-01")
    mixed = {"id": [7, "p8", 9], "a": ["12,5", 7, None], "b": [7, "x", 2.5], "day": [day, None, day], "n": [1, None, 3]}
    pd.DataFrame(mixed, dtype=object).to_excel(tmp_path / "t.xlsx", index=False)
    for text in ([], ["id"]):
        table = read_table(tmp_path / "t.xlsx", text=text).data
        assert table["id"].to_pylist() == ["7", "p8", "9"]
        assert table["a"].to_pylist() == ["12,5", "7", None]
        assert table["b"].to_pylist() == ["7", "x", "2.5"]
        assert table["day"].to_pylist() == [day, None, day]
        assert table["n"].to_pylist() == [1.0, None, 3.0]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "empty"),
        ("t.csv", b"a,b\n1,2\n3\n", "a row has 1 cells where the header has 2: '3'"),
        ("t.csv", b"a,a\n1,2\n", "more than one column 'a'"),
        ("t.csv", b"a,\n1,2\n", "without a name"),
        ("t.csv", b"\x00\x01\x02\x03", "not a text file"),
        ("t.parquet", b"PAR1 and no more", "cut short"),
        ("t.xlsx", b"PK no", "Excel"),
        ("t.doc", b"x", "unknown format"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nowhere.csv", "no file 'nowhere.csv'"),
        ([1, 2], "cannot read a list"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than one column 'a'"),
        (pd.DataFrame({"a": [1, "x"]}), "mixes kinds"),
    ],
)
def test_things_that_are_no_table(source: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_table(source)


def test_cells_that_a_spreadsheet_would_run_are_quoted(tmp_path: Path) -> None:
    table = pa.table({"=id": ["=1+1", "+x", "-1", "@a", "ok"], "v": [-1.5, 2.0, None, 0.0, 1.0]})
    write_table(table, tmp_path / "t.csv")
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines == ["'=id,v", "'=1+1,-1.5", "'+x,2.0", "-1,", "'@a,0.0", "ok,1.0"]
    assert safe_cell(-1) == -1
    write_table(table, tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").data.equals(table)
    with pytest.raises(InputError, match=r"\.csv or \.parquet"):
        write_table(table, tmp_path / "t.doc")


def found(**columns: Any) -> tuple[list[Column], list[Any]]:
    table = pa.table(columns)
    return find_columns(table, table.column_names, {})[:2]


def test_numbers_with_gaps_get_the_median_and_an_indicator() -> None:
    columns, described = found(age=[1.0, None, 3.0, 8.0])
    assert feature_names(columns) == ["age", f"age {MISSING}"]
    np.testing.assert_array_equal(encode(columns, pa.table({"age": [1.0, None]})), [[1, 0], [3, 1]])
    assert described[0].missing == 1


def test_categories_have_a_column_each_but_for_the_most_frequent() -> None:
    columns, _ = found(site=["a", "b", "a", "c", None])
    assert columns[0].levels == ("a", MISSING, "b", "c")
    new = pa.table({"site": ["c", "a", None, "never seen"]})
    np.testing.assert_array_equal(encode(columns, new), [[0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0]])


def test_many_categories_share_a_column_also_those_seen_later() -> None:
    values = [f"c{k:03d}" for k in range(40) for _ in range(4)] + ["often"] * 50 + ["also"] * 30
    columns, _ = found(site=values)
    assert columns[0].levels == ("often", "also", OTHER)
    np.testing.assert_array_equal(
        encode(columns, pa.table({"site": ["c001", "new", "often"]})), [[0, 1], [0, 1], [0, 0]]
    )


def test_a_column_survives_storage_as_json() -> None:
    columns, _ = found(site=["a", "b", "a"], age=[1.0, None, 2.0])
    assert [Column.from_json(c.as_json()) for c in columns] == columns


def test_columns_that_say_nothing_are_left_out_with_a_note() -> None:
    _, described = found(age=[1, 2, 3], same=[1, 1, 1], word=["a", "a", "a"], empty=[None, None, None])
    assert [(d.column, d.use, d.note) for d in described[1:]] == [
        ("same", "left out", "constant"),
        ("word", "left out", "constant"),
        ("empty", "left out", "all values are missing"),
    ]


def test_columns_that_cannot_be_used_are_all_named_with_the_remedy() -> None:
    days = pd.Series(pd.date_range("2020-01-01", periods=50))
    with pytest.raises(InputError) as error:
        found(
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
    both = encode(columns, table)
    np.testing.assert_array_equal(encode(columns, table.slice(0, 1)), both[:1])
    np.testing.assert_array_equal(encode(columns, pa.table({"code": [1, 1]})), both[[0, 2]])


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
        columns, described, _ = find_columns(table, ["n", "c"], {})
    except InputError as error:
        assert str(error)  # noqa: PT017 - a refusal with a reason is fine
        return
    x = encode(columns, table)
    assert np.isfinite(x).all()
    assert x.shape == (len(rows), len(feature_names(columns)))
    assert len(described) == 2
    single = np.concatenate([encode(columns, table.slice(k, 1)) for k in range(len(rows))])
    np.testing.assert_array_equal(single, x)
