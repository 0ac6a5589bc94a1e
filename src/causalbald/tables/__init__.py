"""Users' tables in and out: reading, columns, ids, arms, roles, numbers and writing.

Campaigns and pools on disk share these functions, so a table means the same to both.
"""

from typing import TYPE_CHECKING, Any

from causalbald.tables._arms import Arms, ArmValue, read_arms
from causalbald.tables._columns import ColumnSummary, Covariates, find_columns
from causalbald.tables._encoding import MISSING, OTHER, Column, as_text, encode, feature_names, without_apostrophes
from causalbald.tables._ids import (
    Ids,
    canonical_id,
    check_ids,
    check_unique,
    find_positions,
    ids_as_text,
    is_blank,
    read_ids,
)
from causalbald.tables._numbers import locating_cells, read_amounts, to_numbers
from causalbald.tables._reading import PARQUET_SUFFIXES, InputTable, column_of, is_text, read_table
from causalbald.tables._roles import check_column_list, covariate_names
from causalbald.tables._writing import as_frame, write_rows, write_table

if TYPE_CHECKING:
    from causalbald.tables._parquet_files import ParquetFiles

__all__ = [
    "MISSING",
    "OTHER",
    "PARQUET_SUFFIXES",
    "ArmValue",
    "Arms",
    "Column",
    "ColumnSummary",
    "Covariates",
    "Ids",
    "InputTable",
    "ParquetFiles",
    "as_frame",
    "as_text",
    "canonical_id",
    "check_column_list",
    "check_ids",
    "check_unique",
    "column_of",
    "covariate_names",
    "encode",
    "feature_names",
    "find_columns",
    "find_positions",
    "ids_as_text",
    "is_blank",
    "is_text",
    "locating_cells",
    "read_amounts",
    "read_arms",
    "read_ids",
    "read_table",
    "to_numbers",
    "without_apostrophes",
    "write_rows",
    "write_table",
]


def __getattr__(name: str) -> Any:
    """Return ``ParquetFiles``, imported when it is first used because it needs a slow part of pyarrow.

    Raises AttributeError for other names.
    """
    if name == "ParquetFiles":
        from causalbald.tables._parquet_files import ParquetFiles

        return ParquetFiles
    raise AttributeError(f"module 'causalbald.tables' has no attribute {name!r}")
