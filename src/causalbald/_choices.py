"""Choices that an option or an argument has, each typed once.

They are apart from the packages that they belong to, as ``causalbald --help`` shows them and must not import numpy.
"""

from typing import Literal

Better = Literal["higher", "lower"]
"""Which outcomes are better."""
OutcomeType = Literal["auto", "continuous", "binary"]
"""What outcomes are modelled as. With ``auto``, this follows from the outcomes."""
BatchRule = Literal["softmax", "greedy", "auto"]
"""How scores become a batch. ``auto`` is ``greedy`` if the model can say how units covary, else ``softmax``."""
Track = Literal["paid", "paper"]
"""Whether validation outcomes of a trial count, or are free as in the paper."""
Backend = Literal["local", "ray"]
"""Where work is done: on this machine, or on a Ray cluster."""
