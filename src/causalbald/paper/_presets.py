"""The plans of the paper's experiments, for ``causalbald run --preset``."""

from __future__ import annotations

from causalbald.experiments import Plan, register_preset

_BOTH_TRACKS = ("paper", "paid")


@register_preset("paper-synthetic")
def synthetic() -> list[Plan]:
    """The paper's synthetic experiment: due 40 seeds, ensemble 20, both tracks."""
    return [
        Plan(("synthetic",), ("due",), tracks=_BOTH_TRACKS, seeds=tuple(range(40))),
        Plan(("synthetic",), ("ensemble",), tracks=("paper",), seeds=tuple(range(20))),
    ]


@register_preset("paper-ihdp")
def ihdp() -> list[Plan]:
    """The paper's IHDP experiments, with and without covariate shift: due 200 seeds, ensemble 50."""
    return [
        Plan(("ihdp",), ("due",), tracks=_BOTH_TRACKS, seeds=tuple(range(200))),
        Plan(("ihdp-cov",), ("due",), tracks=("paper",), seeds=tuple(range(200))),
        Plan(("ihdp",), ("ensemble",), tracks=("paper",), seeds=tuple(range(50))),
    ]


@register_preset("paper-cmnist")
def cmnist() -> list[Plan]:
    """The paper's image experiment: due 10 seeds, ensemble 5."""
    return [
        Plan(("cmnist",), ("due",), tracks=("paper",), seeds=tuple(range(10))),
        Plan(("cmnist",), ("ensemble",), tracks=("paper",), seeds=tuple(range(5))),
    ]
