"""The filters of the templates: users' text and numbers as HTML."""

from __future__ import annotations

from typing import Protocol

from markupsafe import Markup

from causalbald._words import (
    LONGEST_TEXT,
    as_told,
    interval,
    moment,
    number,
    thousands,
    visible,
    whole_percent,
)


class _Estimate(Protocol):
    """Any result that has an effect and the ends of its interval."""

    @property
    def effect(self) -> float: ...

    @property
    def lower(self) -> float: ...

    @property
    def upper(self) -> float: ...


def name(text: object, limit: int = LONGEST_TEXT) -> Markup:
    """Return what a user wrote as HTML, in at most ``limit`` characters.

    The text is escaped, and an ellipsis stands for what is cut off. The element isolates the text: text that is read
    from right to left does not turn around what is next to it.
    """
    return Markup("<bdi>{}</bdi>").format(visible(text, limit))


def estimate(average: _Estimate, spread: float | None = None, *, sign: bool = True) -> Markup:
    """Return an effect with its 95 % interval as HTML. With ``sign``, positive numbers get a plus.

    Numbers get the digits of ``spread``, a standard deviation; by default of the one that follows from the interval's
    width. The element also holds the effect with 12 digits, for programs that read the page.
    """
    digits = (average.upper - average.lower) / 4 if spread is None else spread
    shown = number(average.effect, digits, sign=sign)
    ends = interval(average.lower, average.upper, digits, sign=sign)
    return Markup('<data value="{:.12g}">{}</data> <span class="ends">({})</span>').format(average.effect, shown, ends)


FILTERS = {
    "moment": moment,
    "name": name,
    "visible": visible,
    "number": number,
    "interval": interval,
    "estimate": estimate,
    "percent": whole_percent,
    "thousands": thousands,
    "as_told": as_told,
}
