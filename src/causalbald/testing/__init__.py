"""For extensions of the package: a belief without a model, and conformance suites that raise AssertionError."""

from causalbald.testing._conformance import check_acquisition, check_dataset, check_model
from causalbald.testing._fake import fake_posterior
from causalbald.testing._pool import check_pool
from causalbald.testing._storage import check_storage

__all__ = ["check_acquisition", "check_dataset", "check_model", "check_pool", "check_storage", "fake_posterior"]
