"""Words and numbers on a page: what users wrote, cut and made visible; numbers with as many digits as they deserve."""

from __future__ import annotations

import math
import unicodedata
from datetime import datetime
from typing import Any

from markupsafe import Markup

LONGEST = 60
_MOST_DECIMALS = 6
_LARGE = 1e9


def visible(text: object, limit: int = LONGEST) -> str:
    """Return what a user wrote in at most ``limit`` characters; line breaks and the like become visible signs."""
    written = str(text)
    cut = written if len(written) <= limit else f"{written[: limit - 1]}…"
    return "".join(_sign(c) if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in cut)


def name(text: object, limit: int = LONGEST) -> Markup:
    """Return what a user wrote as HTML that neither breaks nor turns around what stands beside it."""
    return Markup("<bdi>{}</bdi>").format(visible(text, limit))


def number(value: float | None, spread: float | None = None, *, sign: bool = False) -> str:
    """Return a number with one or two digits of its ``spread``, or three of its own; a dash if there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    known = spread if spread is not None and spread > 0 and math.isfinite(spread) else None
    # Two digits of a spread from 10 to 35, one of a spread from 36 to 99.
    decimals = -math.floor(math.log10(known / 3.55)) if known else _own_decimals(value)
    plus = "+" if sign else ""
    if decimals > _MOST_DECIMALS or abs(value) >= _LARGE:
        written = f"{value:{plus}.3g}"
    else:
        written = f"{round(value, decimals) + 0.0:{plus},.{max(0, decimals)}f}"
    return written.replace("-", "−")


def interval(lower: float, upper: float, spread: float | None = None, *, sign: bool = False) -> str:
    """Return both ends of a 95 % interval in words, with the digits of ``spread`` or of its own standard deviation."""
    digits = (upper - lower) / 4 if spread is None else spread
    return f"{number(lower, digits, sign=sign)} to {number(upper, digits, sign=sign)}"


def estimate(found: Any, spread: float | None = None, *, sign: bool = True) -> Markup:
    """Return ``effect`` with its interval; the page holds the exact number, too."""
    digits = (found.upper - found.lower) / 4 if spread is None else spread
    shown, ends = number(found.effect, digits, sign=sign), interval(found.lower, found.upper, digits, sign=sign)
    return Markup('<data value="{:.12g}">{}</data> <span class="ends">({})</span>').format(found.effect, shown, ends)


def as_told(value: float | None) -> str:
    """Return an outcome with all its digits; a dash if there is none."""
    return "–" if value is None else f"{value + 0.0:.10g}".replace("-", "−")


def percent(share: float | None) -> str:
    """Return a share as a percentage that says 0 or 100 only where it is."""
    if share is None or not math.isfinite(share):
        return "–"
    if 0 < share < 0.005 or 0.995 < share < 1:
        return "under 1 %" if share < 0.5 else "over 99 %"
    return f"{100 * share:.0f} %"


def thousands(value: int) -> str:
    """Return a count with separators of thousands."""
    return f"{value:,}"


def moment(time: str) -> str:
    """Return a recorded time (UTC, ISO 8601) as people write it."""
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        return visible(time)
    return f"{found.day} {found:%B %Y, %H:%M} UTC"


FILTERS = {
    "moment": moment,
    "name": name,
    "visible": visible,
    "number": number,
    "interval": interval,
    "estimate": estimate,
    "percent": percent,
    "thousands": thousands,
    "as_told": as_told,
}


def _sign(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # the pictures that Unicode has for control characters
    return "␊" if unicodedata.category(character) in ("Zl", "Zp") else "\ufffd"


def _own_decimals(value: float) -> int:
    return 0 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
