"""From scores to a batch: softmax sampling, the largest scores, or greedy with conditioning after each pick."""

from causalbald._choices import BatchRule
from causalbald.selection._conditioning import SequentialMarginals
from causalbald.selection._selection import check_relates_units, select, select_greedy

__all__ = ["BatchRule", "SequentialMarginals", "check_relates_units", "select", "select_greedy"]
