"""One fixed colour, marker and line per acquisition function and arm, readable by colour-blind people and in grey."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple
from zlib import crc32

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

from causalbald._words import shortened

# Okabe and Ito's palette, which stays distinct under the common kinds of colour blindness.
_BLUE, _VERMILION, _GREEN, _PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_ORANGE, _SKY, _GREY, _BLACK = "#E69F00", "#56B4E9", "#7F7F7F", "#000000"

ARM_COLOURS = (_BLUE, _VERMILION)
ARM_NAMES = ("control", "treated")
LONGEST_NAME = 40
_NO_GLYPH = "□"


class Look(NamedTuple):
    """How a method is drawn."""

    colour: str
    marker: str
    line: str


# Within each row of the convergence figure the line styles differ, as far as there are enough of them.
_LOOKS = {
    "random": Look(_GREY, "o", "--"),
    "propensity": Look(_ORANGE, "s", ":"),
    "type-s": Look(_PINK, "X", "-."),
    "tau-bald": Look(_SKY, "v", ":"),
    "mu-bald": Look(_GREEN, "^", "-."),
    "mu-info": Look(_GREEN, "p", ":"),
    "rho-bald": Look(_VERMILION, "D", "--"),
    "mu-pi-bald": Look(_BLACK, "P", "-"),
    "mu-rho-bald": Look(_BLUE, "*", "-"),
    "tau-vr": Look(_VERMILION, ">", "-"),
    "epig-tau": Look(_SKY, "<", "-"),
    "epig-mu": Look(_GREEN, "h", "--"),
    "regret": Look(_PINK, "d", "-."),
    "default": Look(_VERMILION, "H", "-"),  # it is tau-vr
    "qhte": Look(_ORANGE, "x", "--"),
    "macal": Look(_BLACK, "+", "-."),
    "lcmd": Look(_GREY, "3", ":"),
    "fccm": Look(_ORANGE, "4", "-"),
}
_OTHERS = [Look(c, m, ":") for c in (_BLACK, _GREEN, _VERMILION, _PINK, _SKY, _ORANGE) for m in ("8", "|", "1", "2")]


def look(acquisition: str) -> Look:
    """Return the look of an acquisition function; one that others have added gets a look from its name.

    With another batch rule than its own, as in "mu-bald, greedy", it looks the same but for the line.
    """
    name, _, rule = acquisition.partition(", ")
    if rule and name in _LOOKS:
        return _LOOKS[name]._replace(line=":")
    return _LOOKS.get(acquisition) or _OTHERS[crc32(acquisition.encode()) % len(_OTHERS)]


def looks(acquisitions: Iterable[str]) -> dict[str, Look]:
    """Return the looks of the acquisition functions of one figure, all different.

    They are those of :func:`look`, but where two functions that others have added would look the same, the later name
    in the alphabet takes the next look that is free.
    """
    names = list(dict.fromkeys(acquisitions))
    found: dict[str, Look] = {}
    for name in sorted(names):
        wanted = look(name)
        start = _OTHERS.index(wanted) if wanted in _OTHERS else 0
        choices = [wanted, *_OTHERS[start:], *_OTHERS[:start]]
        found[name] = next((c for c in choices if c not in found.values()), wanted)
    return {name: found[name] for name in names}


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the fonts and frames of all figures, and leave the caller's matplotlib settings alone."""
    settings: Any = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "legend.frameon": False,
        "svg.fonttype": "path",
        "svg.hashsalt": "causalbald",
    }
    with mpl.rc_context(settings):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return a figure that no global state knows of, so that nothing needs closing."""
    return Figure(figsize=(width, height), layout="constrained")


def plain(text: object, limit: int = LONGEST_NAME) -> str:
    """Return what a user wrote for a figure: cut, no mathematics, and a box for every character without a glyph."""
    characters = (c if _drawn(c) else _NO_GLYPH for c in shortened(str(text), limit))
    return "".join(characters).replace("$", r"\$")


@cache
def _drawn(character: str) -> bool:
    """Whether the fonts of figures, regular and bold, can draw a character."""
    if not character.isprintable():
        return False
    fonts = (get_font(findfont(FontProperties(weight=weight))) for weight in ("normal", "bold"))
    return all(font.get_char_index(ord(character)) for font in fonts)
