"""Pools, in memory or on disk: score everyone, choose a batch."""

from causalbald.pools._choosing import (
    SHORTLIST,
    affordable,
    among,
    batch_rule,
    block_size,
    choose,
    payable,
    pool_targets,
    score_pool,
    shortlisted,
)
from causalbald.pools._parquet import ParquetPool
from causalbald.pools._round import ParquetRound
from causalbald.pools._scorer import Block, Scorer

__all__ = [
    "SHORTLIST",
    "Block",
    "ParquetPool",
    "ParquetRound",
    "Scorer",
    "affordable",
    "among",
    "batch_rule",
    "block_size",
    "choose",
    "payable",
    "pool_targets",
    "score_pool",
    "shortlisted",
]
