"""Pools, in memory or on disk: score all units, choose a batch."""

from causalbald.pools._choosing import batch_rule, choose_batch
from causalbald.pools._outcome_tables import RESULT_COLUMNS
from causalbald.pools._parquet import ParquetPool
from causalbald.pools._pool import Block, MemoryPool, Pool
from causalbald.pools._population import pool_population
from causalbald.pools._round import ParquetRound, check_on_disk, check_scores_file
from causalbald.pools._scoring import Scorer, score_pool

__all__ = [
    "RESULT_COLUMNS",
    "Block",
    "MemoryPool",
    "ParquetPool",
    "ParquetRound",
    "Pool",
    "Scorer",
    "batch_rule",
    "check_on_disk",
    "check_scores_file",
    "choose_batch",
    "pool_population",
    "score_pool",
]
