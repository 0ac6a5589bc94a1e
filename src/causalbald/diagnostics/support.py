"""Common support: for whom there are comparable people in the other arm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalbald._typing import Array, Positions, Treatment
from causalbald._validation import check_both_arms, check_int, check_probability, check_treatment
from causalbald.diagnostics._auc import area_under_curve
from causalbald.errors import InputError

OVERLAP = (0.1, 0.9)
DETERMINED = 0.99
_NAMES = ("control", "treated")
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MIN_WIDTH = 48


@dataclass(frozen=True, eq=False)
class Support:
    """Which units lie outside common support.

    ``outside`` is the flag: P(treated | x) below 0.1 or above 0.9, the rule of thumb of Crump, Hotz, Imbens and Mitnik
    (2009) for a subpopulation whose average effect can be estimated well. Where one arm is rare, most of the pool is
    outside by this rule, as there are few units to compare with.

    ``unmatched`` is a weaker sign, of one arm running past the other: the unit's propensity lies beyond those of all
    units of the other arm. A few such units at the ends are usual.
    """

    outside: NDArray[np.bool_]
    """(N,)"""
    unmatched: NDArray[np.bool_]
    """(N,)"""
    treatment: Treatment
    """(N,)"""

    @property
    def arm_sizes(self) -> Positions:
        """Units per arm, (2,)."""
        return np.bincount(self.treatment, minlength=2)

    @property
    def outside_by_arm(self) -> Positions:
        """Units outside common support per arm, (2,)."""
        return np.bincount(self.treatment[self.outside], minlength=2)

    @property
    def unmatched_by_arm(self) -> Positions:
        """Units beyond all propensities of the other arm, per arm, (2,)."""
        return np.bincount(self.treatment[self.unmatched], minlength=2)

    def summary(self, names: tuple[str, str] = _NAMES) -> str:
        """Return one sentence; ``names`` are those of the arms."""
        total, band = len(self.treatment), f"P({names[1]}) outside [{OVERLAP[0]}, {OVERLAP[1]}]"
        if not self.outside.any():
            return f"None of {total:,} units has {band}: everyone can be compared with people of the other arm."
        found = int(self.outside.sum())
        per_arm = [
            f"{k:,} of {n:,} {name}" for k, n, name in zip(self.outside_by_arm, self.arm_sizes, names, strict=True)
        ]
        return (
            f"{found:,} of {total:,} units ({100 * found / total:.1f} %) have {band}, {' and '.join(per_arm)}: "
            "hardly anyone in the other arm is like them, so their effects rest on the model."
        )


@dataclass(frozen=True)
class Separation:
    """How well covariates tell who is treated: the AUC of the propensity, 0.5 for a coin toss, 1 for certainty."""

    auc: float

    @property
    def determined(self) -> bool:
        """Whether the covariates as good as determine the treatment: an AUC above 0.99."""
        return self.auc > DETERMINED

    def summary(self) -> str:
        """Return one sentence, with the remedy where treatment is determined."""
        if not self.determined:
            return f"Covariates tell treated from control with AUC {self.auc:.2f} (0.5: not at all, 1: always)."
        return (
            f"Treatment is determined by the covariates (AUC {self.auc:.3f}): nobody has a comparable person in the "
            "other arm, so no effect can be learned. Look for a column that was recorded after treatment or encodes "
            "it, and leave it out."
        )


def is_outside(propensity: Array) -> NDArray[np.bool_]:
    """Return whose P(treated | x) (N,) leaves too few people of the other arm to compare with, (N,)."""
    return (propensity < OVERLAP[0]) | (propensity > OVERLAP[1])


def common_support(propensity: ArrayLike, treatment: ArrayLike) -> Support:
    """Return who is outside common support, by P(treated | x) (N,) and arm (N,)."""
    pi, t = _checked(propensity, treatment)
    low = np.array([pi[t == arm].min() for arm in (1, 0)])[t]
    high = np.array([pi[t == arm].max() for arm in (1, 0)])[t]
    return Support(is_outside(pi), (pi < low) | (pi > high), t)


def separation(propensity: ArrayLike, treatment: ArrayLike) -> Separation:
    """Return how well P(treated | x) (N,) tells the arms (N,) apart.

    The propensities must be cross-fitted, each from models that have not seen the unit, or noise looks like separation.
    """
    return Separation(area_under_curve(*_checked(propensity, treatment)))


def propensity_edges(bins: int) -> Array:
    """Return the edges (bins + 1,) of equal bins of [0, 1]; a multiple of ten bins splits no side of the overlap."""
    edges = np.linspace(0, 1, bins + 1)
    # Bins hold their left edge, but 0.9 itself is inside.
    edges[edges == OVERLAP[1]] = np.nextafter(OVERLAP[1], 1)
    return edges


def support_lines(
    propensity: ArrayLike, treatment: ArrayLike, names: tuple[str, str] = _NAMES, width: int = 60
) -> list[str]:
    """Return a histogram of P(treated | x) by arm for a terminal: a title and ten lines, at most ``width`` wide.

    Bars are shares of the arm, on one scale; numbers are counts. Lines outside common support are marked.
    """
    pi, t = _checked(propensity, treatment)
    if check_int(width, "width", low=1) < _MIN_WIDTH:
        raise InputError(f"width must be at least {_MIN_WIDTH} columns, got {width}.")
    counts = np.array([np.histogram(pi[t == arm], propensity_edges(10))[0] for arm in (0, 1)])
    share = counts / counts.sum(axis=1, keepdims=True)
    label, mark, half = 9, 8, (width - 9 - 8) // 2
    room = half - len(f" {counts.max():,}") - 1
    titles = [_cut(name, f" {n:,}", half - 1) for name, n in zip(names, counts.sum(axis=1), strict=True)]
    lines = [f"{'P(' + _cut(names[1], ')', label - 3):<{label}}" + "".join(f"{title:<{half}}" for title in titles)]
    for k in range(10):
        bars = (f"{_bar(share[arm, k] / share.max(), room)} {counts[arm, k]:,}".lstrip() for arm in (0, 1))
        row = f"{k / 10:.1f}-{(k + 1) / 10:.1f}"
        outside = "outside" if k in (0, 9) else ""
        lines.append(f"{row:<{label}}" + "".join(f"{bar:<{half}}" for bar in bars) + f"{outside:>{mark - 1}}")
    return [line.rstrip() for line in lines]


def _checked(propensity: ArrayLike, treatment: ArrayLike) -> tuple[Array, Treatment]:
    t = check_treatment(treatment)
    check_both_arms(t, "units")
    return check_probability(propensity, len(t)), t


def _bar(share: float, room: int) -> str:
    eighths = int(np.ceil(share * room * 8))
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def _cut(name: str, rest: str, room: int) -> str:
    short = name if len(name) + len(rest) <= room else f"{name[: room - len(rest) - 1]}…"
    return short + rest
