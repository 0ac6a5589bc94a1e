"""Pools on disk, larger than memory: scores and batches from Parquet files, read a part at a time."""

from causalbald.streaming.parquet import ParquetPool
from causalbald.streaming.round import Round

__all__ = ["ParquetPool", "Round"]
