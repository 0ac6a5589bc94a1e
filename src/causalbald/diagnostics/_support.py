"""Common support: for whom there are comparable people in the other arm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalbald._typing import Array, Positions, Treatment
from causalbald._validation import check_both_arms, check_int, check_probability, check_treatment
from causalbald._words import shortened
from causalbald.diagnostics._auc import area_under_curve
from causalbald.errors import InputError

EQUAL_ARMS = 0.5
DETERMINED = 0.99
_ODDS_RATIO = 9
_FEW_IN_ARM = 20
_NAMES = ("control", "treated")
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MIN_WIDTH = 48


@dataclass(frozen=True, eq=False)
class Support:
    """Which units lie outside common support.

    ``outside`` is the flag: P(treated | x) lies outside the ``band`` of :func:`support_band`.

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
    def band(self) -> tuple[float, float]:
        """The least and the largest P(treated | x) inside common support, by the share treated."""
        return support_band(float(self.treatment.mean()))

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
        total, band = len(self.treatment), f"P({names[1]}) outside {band_text(self.band)}"
        if band_text(self.band) != band_text(support_band(EQUAL_ARMS)):
            band += f" (the share in arm {names[1]} is {100 * self.treatment.mean():.3g} %)"
        rare = int(self.arm_sizes.argmin())
        few = self.arm_sizes[rare] < _FEW_IN_ARM
        reservation = f", as far as the few units in arm {names[rare]} can tell ({self.arm_sizes[rare]})" if few else ""
        if not self.outside.any():
            said = f"None of {total:,} units has {band}: everyone can be compared with people of the other arm"
            return f"{said}{reservation}."
        outside_count = int(self.outside.sum())
        per_arm = [
            f"{k:,} of {n:,} {name}" for k, n, name in zip(self.outside_by_arm, self.arm_sizes, names, strict=True)
        ]
        return (
            f"{outside_count:,} of {total:,} units ({100 * outside_count / total:.1f} %) have {band}, "
            f"{' and '.join(per_arm)}: hardly anyone in the other arm is like them{reservation}, "
            "so their effects rest on the model."
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


def support_margin(share_treated: float) -> float:
    """Return the least P(rarer arm | x) inside common support: a ninth of the arm's odds among all, as a probability.

    It is 0.1 for equal arms and smaller for all others.
    """
    rare = float(min(share_treated, 1 - share_treated))
    # The arm's odds among all are rare / (1 - rare). A ninth of them are the odds of this probability:
    return rare / (rare + _ODDS_RATIO * (1 - rare))


def propensity_clip(share_treated: float) -> float:
    """Return the clip of estimated propensities: 0.01, or half the margin of support if that is less.

    With a constant, nobody could fall out of support where an arm is rare.
    """
    return min(0.01, support_margin(share_treated) / 2)


def support_band(share_treated: float) -> tuple[float, float]:
    """Return the least and the largest P(treated | x) inside common support, given the share treated of all units.

    For equal arms it is [0.1, 0.9], the rule of thumb of Crump, Hotz, Imbens and Mitnik (2009) for a subpopulation
    whose average effect can be estimated well: at least one in ten of the people like a unit is in the other arm.
    Where an arm is rare among all, it is rare among people like most units, even if a coin decided. There its odds
    given x need only be a ninth of its odds among all. The band's other end stays: where the rare arm has 10 to 90 %
    of the people like a unit, there are people to compare with.
    """
    margin = support_margin(share_treated)
    common = support_margin(EQUAL_ARMS)
    return (margin, 1 - common) if share_treated <= EQUAL_ARMS else (common, 1 - margin)


def band_text(band: tuple[float, float]) -> str:
    """Return the band in words, for example ``[0.0046, 0.9]``."""
    return f"[{_probability_text(band[0])}, {_probability_text(band[1])}]"


def is_outside(propensity: Array, share_treated: float) -> NDArray[np.bool_]:
    """Return whose P(treated | x) (N,) leaves too few people of the other arm to compare with, (N,).

    ``share_treated`` is that of the pool from which the units come. Benchmarks are judged as if arms were equal, so
    that shares inside overlap compare between data sets: ``EQUAL_ARMS``.
    """
    low, high = support_band(share_treated)
    return (propensity < low) | (propensity > high)


def common_support(propensity: ArrayLike, treatment: ArrayLike) -> Support:
    """Return who is outside common support, by P(treated | x) (N,) and arm (N,)."""
    pi, t = _checked(propensity, treatment)
    low = np.array([pi[t == arm].min() for arm in (1, 0)])[t]
    high = np.array([pi[t == arm].max() for arm in (1, 0)])[t]
    return Support(is_outside(pi, float(t.mean())), (pi < low) | (pi > high), t)


def separation(propensity: ArrayLike, treatment: ArrayLike) -> Separation:
    """Return how well P(treated | x) (N,) tells the arms (N,) apart.

    The propensities must be cross-fitted, each from models that have not seen the unit, or noise looks like separation.
    """
    return Separation(area_under_curve(*_checked(propensity, treatment)))


def propensity_edges(band: tuple[float, float]) -> Array:
    """Return the edges of ten equal bins of [0, 1], and of those that an end of the band splits in two."""
    edges = np.union1d(np.linspace(0, 1, 11), band)
    # Bins hold their left edge, but the band's right end itself is inside.
    edges[edges == band[1]] = np.nextafter(band[1], 1)
    return edges


def support_lines(
    propensity: ArrayLike, treatment: ArrayLike, names: tuple[str, str] = _NAMES, width: int = 60
) -> list[str]:
    """Return a histogram of P(treated | x) by arm for a terminal: a title and a line a bin, at most ``width`` wide.

    Bars are shares of the arm, on one scale; numbers are counts. Lines outside common support are marked. There are ten
    bins; one more where the arms' sizes move an end of the band into a bin.
    """
    pi, t = _checked(propensity, treatment)
    if check_int(width, "width", low=1) < _MIN_WIDTH:
        raise InputError(f"width must be at least {_MIN_WIDTH} columns, got {width}.")
    low, high = band = support_band(float(t.mean()))
    edges = propensity_edges(band)
    counts = np.array([np.histogram(pi[t == arm], edges)[0] for arm in (0, 1)])
    share = counts / counts.sum(axis=1, keepdims=True)
    ends = [f"{edge:.1f}" if edge in (0, 1) else _probability_text(edge) for edge in edges]
    rows = [f"{left}-{right}" for left, right in pairwise(ends)]
    label, mark = max(map(len, rows)) + 2, 8
    half = (width - label - mark) // 2
    room = half - len(f" {counts.max():,}") - 1
    ends = [f" {n:,}" for n in counts.sum(axis=1)]
    titles = [shortened(name, half - 1 - len(end)) + end for name, end in zip(names, ends, strict=True)]
    lines = [f"{f'P({shortened(names[1], label - 4)})':<{label}}" + "".join(f"{title:<{half}}" for title in titles)]
    for k, row in enumerate(rows):
        bars = (f"{_bar(share[arm, k] / share.max(), room)} {counts[arm, k]:,}".lstrip() for arm in (0, 1))
        outside = "outside" if edges[k + 1] <= low or edges[k] > high else ""
        lines.append(f"{row:<{label}}" + "".join(f"{bar:<{half}}" for bar in bars) + f"{outside:>{mark - 1}}")
    return [line.rstrip() for line in lines]


def _checked(propensity: ArrayLike, treatment: ArrayLike) -> tuple[Array, Treatment]:
    t = check_treatment(treatment)
    check_both_arms(t, "units")
    return check_probability(propensity, len(t)), t


def _probability_text(probability: float) -> str:
    """Return a probability between 0 and 1 with two significant digits of its distance from the nearer end."""
    digits = 1 - math.floor(math.log10(min(probability, 1 - probability)))
    return f"{probability:.{digits}f}".rstrip("0")


def _bar(share: float, room: int) -> str:
    eighths = int(np.ceil(share * room * 8))
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()
