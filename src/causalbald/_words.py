"""Numbers and users' text as people read them: in the shell, on pages, and in messages.

The shell gets plain ASCII signs. Pages get typographic ones, and digits that follow from the uncertainty.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from datetime import datetime

LONGEST_TEXT = 60
"""How many characters of a user's text a page shows, unless it says otherwise."""
MAX_DECIMALS = 6
MAX_WRITTEN_OUT = 1e9
"""Pages write larger numbers with an exponent."""
IN_SENTENCE, IN_TABLE = " ({} to {})", " [{}, {}]"


# Text


def shortened(text: str, limit: int) -> str:
    """Return a text of at most ``limit`` characters. If it was cut, its last character is an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def printable(text: str) -> str:
    """Return a text that cannot act on a terminal: characters that cannot be printed are written as escapes.

    A line break, for example, becomes a backslash and the letter n.
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def visible(text: object, limit: int = LONGEST_TEXT) -> str:
    """Return a text for a page, cut to ``limit`` characters, in which control characters are visible signs.

    Line breaks are control characters, too. Other invisible characters are kept, as they join letters and emoji: the
    page must isolate the text, for example by ``<bdi>``. HTML is not escaped.
    """
    return "".join(_sign(c) for c in shortened(str(text), limit))


def _sign(character: str) -> str:
    """Return a character, or the visible sign that stands for a control character."""
    category = unicodedata.category(character)
    if category not in ("Cc", "Cs", "Zl", "Zp"):
        return character
    if ord(character) < 0x20:
        return chr(0x2400 + ord(character))  # the pictures that Unicode has for control characters
    return "␊" if category in ("Zl", "Zp") else "\ufffd"


# Numbers in the shell


def rounded(value: float | None) -> str:
    """Return a number for the shell: three digits, or all digits before the point with commas, such as ``12,345``.

    The text is empty if the number is None or NaN.
    """
    if value is None or math.isnan(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def estimate(
    value: float | None,
    lower: float | None,
    upper: float | None,
    write: Callable[[float], str] = rounded,
    form: str = IN_SENTENCE,
) -> str:
    """Return an estimate with its interval, such as ``1.2 (0.8 to 1.6)``.

    The interval is left out if one of its ends is None or NaN. The text is empty if the estimate is None or NaN.
    ``form`` is ``IN_SENTENCE`` or ``IN_TABLE``, and ``write`` turns a number into text.
    """
    if value is None or math.isnan(value):
        return ""
    if lower is None or upper is None or math.isnan(lower) or math.isnan(upper):
        return write(value)
    return write(value) + form.format(write(lower), write(upper))


def percent(share: float) -> str:
    """Return a share of 1 for the shell, as a percentage with three digits: 0.975 gives ``97.5 %``."""
    return f"{100 * share:.3g} %"


def amount(value: float) -> str:
    """Return money, or another number that a person wrote, with up to ten digits and with commas."""
    return f"{value:,.10g}"


# Numbers on pages


def number(value: float | None, spread: float | None = None, *, sign: bool = False) -> str:
    """Return a number for a page; a dash if it is missing or infinite.

    ``spread`` is the number's standard deviation. The number ends with the first or second digit of its spread. It has
    three digits of its own if the spread is None, 0 or infinite. Numbers that need more than ``MAX_DECIMALS``, or reach
    ``MAX_WRITTEN_OUT``, are written with three digits, and with an exponent if needed. ``sign`` writes a plus before
    positive numbers.
    """
    if value is None or not math.isfinite(value):
        return "–"
    if spread is not None and spread > 0 and math.isfinite(spread):
        # Two digits of a spread from 10 to 35, one digit of a spread from 36 to 99.
        decimals = -math.floor(math.log10(spread / 3.55))
    else:
        decimals = 0 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
    plus = "+" if sign else ""
    if decimals > MAX_DECIMALS or abs(value) >= MAX_WRITTEN_OUT:
        text = f"{value:{plus}.3g}"
    else:
        text = f"{round(value, decimals) + 0.0:{plus},.{max(0, decimals)}f}"  # + 0.0 turns -0.0 into 0.0
    return text.replace("-", "−")


def interval(lower: float, upper: float, spread: float | None = None, *, sign: bool = False) -> str:
    """Return a 95 % interval for a page, such as ``0.8 to 1.6``.

    The ends get as many digits as a number with this ``spread`` (see :func:`number`), by default a quarter of the
    interval's width.
    """
    digits = (upper - lower) / 4 if spread is None else spread
    return f"{number(lower, digits, sign=sign)} to {number(upper, digits, sign=sign)}"


def as_told(value: float | None) -> str:
    """Return an outcome for a page with up to ten digits; a dash if it is None."""
    return "–" if value is None else f"{value + 0.0:.10g}".replace("-", "−")


def whole_percent(share: float | None) -> str:
    """Return a share of 1 for a page, as a percentage without decimals; a dash if it is None or not finite.

    A share between 0 and 0.005 is ``under 1 %``, and one between 0.995 and 1 is ``over 99 %``.
    """
    if share is None or not math.isfinite(share):
        return "–"
    if 0 < share < 0.005 or 0.995 < share < 1:
        return "under 1 %" if share < 0.5 else "over 99 %"
    return f"{100 * share:.0f} %"


def thousands(value: int) -> str:
    """Return a count with commas, such as ``12,345``."""
    return f"{value:,}"


def moment(time: str) -> str:
    """Return a recorded time (ISO 8601, in UTC) for a page, such as ``1 May 2026, 09:30 UTC``.

    Text that is no time is returned as :func:`visible` text.
    """
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return visible(time)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"
