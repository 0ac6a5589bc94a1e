"""Common support: which units have counterparts in the other arm."""

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
MIN_DETERMINED_AUC = 0.99
_MAX_ODDS_RATIO = 9
_MIN_ARM_UNITS = 20
_ARM_NAMES = ("control", "treated")
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MIN_WIDTH = 48


@dataclass(frozen=True, eq=False)
class Support:
    """Which units are outside common support; :func:`common_support` returns it.

    Parameters
    ----------
    outside : (N,) bool
        Whether P(treated | x) is outside the ``band``, see :func:`support_band`.
    unmatched : (N,) bool
        Whether the propensity is beyond the propensities of all units of the other arm. This is a weaker sign: a few
        such units at the ends are usual.
    treatment : (N,)
        The arm of each unit, 0 or 1.

    Examples
    --------
    >>> from causalbald.diagnostics import common_support
    >>> support = common_support([0.05, 0.5, 0.4, 0.6], [0, 1, 0, 1])
    >>> support.outside.tolist()
    [True, False, False, False]
    >>> support.band
    (0.1, 0.9)
    """

    outside: NDArray[np.bool_]
    unmatched: NDArray[np.bool_]
    treatment: Treatment

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

    def summary(self, names: tuple[str, str] = _ARM_NAMES) -> str:
        """Return one sentence about the units outside support; ``names`` are the names of control and treated."""
        total, band = len(self.treatment), f"P({names[1]}) outside {band_text(self.band)}"
        if band_text(self.band) != band_text(support_band(EQUAL_ARMS)):
            band += f" (the share in arm {names[1]} is {100 * self.treatment.mean():.3g} %)"
        rare = int(self.arm_sizes.argmin())
        few = self.arm_sizes[rare] < _MIN_ARM_UNITS
        reservation = f", as far as the few units in arm {names[rare]} can tell ({self.arm_sizes[rare]})" if few else ""
        if not self.outside.any():
            sentence = f"None of {total:,} units has {band}: everyone can be compared with people of the other arm"
            return f"{sentence}{reservation}."
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
    """How well covariates separate treated from control; :func:`separation` returns it.

    Parameters
    ----------
    auc : float
        The AUC of the propensity: 0.5 if a coin decided about treatment, 1 if the covariates did.

    Examples
    --------
    >>> from causalbald.diagnostics import Separation
    >>> Separation(0.7).determined
    False
    """

    auc: float

    @property
    def determined(self) -> bool:
        """Whether the covariates practically determine the treatment: an AUC above 0.99."""
        return self.auc > MIN_DETERMINED_AUC

    def summary(self) -> str:
        """Return one sentence about the AUC, or two with the remedy if treatment is determined."""
        if not self.determined:
            return f"Covariates tell treated from control with AUC {self.auc:.2f} (0.5: not at all, 1: always)."
        return (
            f"Treatment is determined by the covariates (AUC {self.auc:.3f}): nobody has a comparable person in the "
            "other arm, so no effect can be learned. Look for a column that was recorded after treatment or encodes "
            "it, and leave it out."
        )


def support_margin(share_treated: float) -> float:
    """Return the least P(rarer arm | x) inside common support: 0.1 for equal arms, less if an arm is rare.

    Parameters
    ----------
    share_treated : float
        The share of treated units in the pool.

    Returns
    -------
    float
        The probability whose odds are a ninth of the odds of the rarer arm in the pool.

    Examples
    --------
    >>> from causalbald.diagnostics import support_margin
    >>> support_margin(0.5)
    0.1
    """
    rare = float(min(share_treated, 1 - share_treated))
    # Odds of the arm in the pool: o = rare / (1 - rare). A probability p has a ninth of them if p / (1 - p) = o / 9:
    # p = (o / 9) / (1 + o / 9) = rare / (rare + 9 (1 - rare)).
    return rare / (rare + _MAX_ODDS_RATIO * (1 - rare))


def propensity_clip(share_treated: float) -> float:
    """Return how far estimated propensities stay away from 0 and 1: 0.01, or half the margin of support if less.

    With a constant clip, no unit could be outside support if an arm is rare.

    Parameters
    ----------
    share_treated : float
        The share of treated units in the pool.

    Returns
    -------
    float

    Examples
    --------
    >>> from causalbald.diagnostics import propensity_clip
    >>> propensity_clip(0.5)
    0.01
    """
    return min(0.01, support_margin(share_treated) / 2)


def support_band(share_treated: float) -> tuple[float, float]:
    """Return the least and the largest P(treated | x) inside common support.

    For equal arms the band is [0.1, 0.9], the rule of thumb of Crump, Hotz, Imbens and Mitnik (2009,
    doi:10.1093/biomet/asn055) for a subpopulation whose average effect can be estimated well: at least one in ten units
    with these covariates is in the other arm. An arm that is rare in the pool is rare among most units, even if a coin
    decided about treatment. The odds of such an arm given x need only be a ninth of its odds in the pool, so the end of
    the band on its side moves outwards: see :func:`support_margin`. The other end stays at 0.1 or 0.9.

    Parameters
    ----------
    share_treated : float
        The share of treated units in the pool.

    Returns
    -------
    (float, float)
        The lower and the upper end.

    Examples
    --------
    >>> from causalbald.diagnostics import support_band
    >>> support_band(0.5)
    (0.1, 0.9)
    """
    margin = support_margin(share_treated)
    common = support_margin(EQUAL_ARMS)
    return (margin, 1 - common) if share_treated <= EQUAL_ARMS else (common, 1 - margin)


def band_text(band: tuple[float, float]) -> str:
    """Return a band as text, with two significant digits of each end's distance from 0 or 1, whichever is nearer.

    Parameters
    ----------
    band : (float, float)
        The lower and the upper end, as :func:`support_band` returns them, above 0 and below 1.

    Returns
    -------
    str

    Examples
    --------
    >>> from causalbald.diagnostics import band_text
    >>> band_text((0.0046, 0.9))
    '[0.0046, 0.9]'
    """
    return f"[{_probability_text(band[0])}, {_probability_text(band[1])}]"


def is_outside(propensity: Array, share_treated: float) -> NDArray[np.bool_]:
    """Return which units are outside common support: those with a propensity outside :func:`support_band`.

    Parameters
    ----------
    propensity : (N,)
        P(treated | x).
    share_treated : float
        The share of treated units in the pool of the units. For benchmarks it is ``EQUAL_ARMS``, so that the shares of
        units inside support can be compared between data sets.

    Returns
    -------
    (N,) bool

    Examples
    --------
    >>> import numpy as np
    >>> from causalbald.diagnostics import is_outside
    >>> is_outside(np.array([0.05, 0.5]), 0.5).tolist()
    [True, False]
    """
    low, high = support_band(share_treated)
    return (propensity < low) | (propensity > high)


def common_support(propensity: ArrayLike, treatment: ArrayLike) -> Support:
    """Return which units are outside common support, by the share of treated units in ``treatment``.

    Parameters
    ----------
    propensity : (N,)
        P(treated | x).
    treatment : (N,)
        The arm of each unit, 0 or 1.

    Returns
    -------
    Support

    Raises
    ------
    InputError
        If an arm is empty, or a propensity is not between 0 and 1.

    Examples
    --------
    >>> from causalbald.diagnostics import common_support
    >>> common_support([0.05, 0.5, 0.4, 0.6], [0, 1, 0, 1]).outside_by_arm.tolist()
    [1, 0]
    """
    pi, t = _checked(propensity, treatment)
    low = np.array([pi[t == arm].min() for arm in (1, 0)])[t]
    high = np.array([pi[t == arm].max() for arm in (1, 0)])[t]
    return Support(is_outside(pi, float(t.mean())), (pi < low) | (pi > high), t)


def separation(propensity: ArrayLike, treatment: ArrayLike) -> Separation:
    """Return how well the propensity separates the arms.

    Parameters
    ----------
    propensity : (N,)
        P(treated | x), cross-fitted: by a model that was not fitted on the unit. Otherwise noise looks like separation.
    treatment : (N,)
        The arm of each unit, 0 or 1.

    Returns
    -------
    Separation

    Raises
    ------
    InputError
        If an arm is empty, or a propensity is not between 0 and 1.

    Examples
    --------
    >>> from causalbald.diagnostics import separation
    >>> separation([0.2, 0.8, 0.6, 0.7], [0, 1, 0, 1]).auc
    1.0
    """
    return Separation(area_under_curve(*_checked(propensity, treatment)))


def propensity_edges(band: tuple[float, float]) -> Array:
    """Return the sorted edges of ten equal bins of [0, 1], and each end of the ``band`` that lies inside a bin."""
    edges = np.union1d(np.linspace(0, 1, 11), band)
    # A bin contains its left edge, but the right end of the band is inside the band.
    edges[edges == band[1]] = np.nextafter(band[1], 1)
    return edges


def support_lines(
    propensity: ArrayLike, treatment: ArrayLike, names: tuple[str, str] = _ARM_NAMES, width: int = 60
) -> list[str]:
    """Return a histogram of P(treated | x) by arm for a terminal: a title, and a line per bin.

    Bars are shares of the arm, on one scale; numbers are counts. Lines outside common support are marked. There are ten
    bins, and one more if the sizes of the arms move an end of the band into a bin.

    Parameters
    ----------
    propensity : (N,)
        P(treated | x).
    treatment : (N,)
        The arm of each unit, 0 or 1.
    names : (str, str)
        The names of control and treated.
    width : int
        The largest number of characters of a line, at least 48.

    Returns
    -------
    list of str

    Raises
    ------
    InputError
        If an arm is empty, a propensity is not between 0 and 1, or the width is too small.

    Examples
    --------
    >>> from causalbald.diagnostics import support_lines
    >>> support_lines([0.05, 0.5, 0.4, 0.6], [0, 1, 0, 1], width=48)[0]
    'P(trea…) control 2      treated 2'
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
    """Return propensities and arms (N,); raise InputError if one is not valid, an arm is empty, or lengths differ."""
    t = check_treatment(treatment)
    check_both_arms(t, "units")
    return check_probability(propensity, len(t)), t


def _probability_text(probability: float) -> str:
    """Return a probability above 0 and below 1, to two significant digits of its distance from the nearer end."""
    digits = 1 - math.floor(math.log10(min(probability, 1 - probability)))
    return f"{probability:.{digits}f}".rstrip("0")


def _bar(share: float, room: int) -> str:
    """Return a bar that fills a share of ``room`` characters, to an eighth of a character."""
    eighths = int(np.ceil(share * room * 8))
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()
