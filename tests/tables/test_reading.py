"""Tables in and out: every dialect, file and frame."""

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

from causalbald._spreadsheet import safe_cell
from causalbald.errors import InputError
from causalbald.tables import (
    ParquetFiles,
    as_frame,
    check_ids,
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


def test_a_header_may_have_a_line_break_in_quotes(tmp_path: Path) -> None:
    for delimiter in ",;":
        text = f'id{delimiter}"blood\npressure"{delimiter}sex\n1{delimiter}120{delimiter}f\n'
        table = read_table(write(tmp_path / "t.csv", text)).data
        assert table.to_pylist() == [{"id": 1, "blood\npressure": 120, "sex": "f"}]


def test_two_lines_are_enough_to_find_the_dialect(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "id;a\n1;2,5\n"))
    assert (table.data.to_pylist(), table.decimal) == ([{"id": 1, "a": 2.5}], ",")


def test_a_column_that_is_not_utf8_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"id,town\n" + b"1,Rome\n" * 50_000 + b"2,K\xf6ln\n")
    with pytest.raises(InputError, match=r"'town' \(a binary is neither a number nor a category\)"):
        find_columns(read_table(path).data, ["town"], {})
    with pytest.raises(InputError, match=r"t\.csv is not text in utf8: save it as CSV in UTF-8"):
        read_table(path, text=["town"])


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2", ""], pa.int64()),
        (["1", "2.5", "-inf"], pa.float64()),
        (["true", "False", "1"], pa.bool_()),
        (["2024-05-01", "NA"], pa.date32()),
        (["2024-05-01 10:00", "2024-05-02"], pa.timestamp("s")),
        (["", "NA", "."], pa.null()),
        (["1", "x"], pa.string()),
    ],
)
def test_the_kind_of_a_column_fits_all_of_its_cells(tmp_path: Path, cells: list[str], kind: pa.DataType) -> None:
    text = "id,a\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(cells))
    assert read_table(write(tmp_path / "t.csv", text)).data.schema.field("a").type == kind


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
        table = read_table(frame)
        assert table.data["id"].to_pylist() == ["007", "008"]
        assert type(as_frame(table.data, table.backend)) is type(frame)


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
    table = read_table(path)
    with pytest.raises(InputError, match=r"has '1.234' in row 1, which may mean 1,234 or 1234"):
        to_numbers(table.data["y"], "y", decimal=table.decimal)
    path.write_text("id;weight;y\n1;70,5;1.234\n2;81,2;9.5\n")
    table = read_table(path)
    assert to_numbers(table.data["y"], "y", decimal=table.decimal).tolist() == [1.234, 9.5]


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
