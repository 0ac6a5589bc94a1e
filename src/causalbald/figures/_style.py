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
MAX_NAME_CHARACTERS = 40
_NO_GLYPH = "□"


class Look(NamedTuple):
    """How a method is drawn.

    Parameters
    ----------
    colour, marker, line : str
        Colour, marker and line style in matplotlib's notation.

    Examples
    --------
    >>> from causalbald.figures import Look
    >>> Look("#0072B2", "o", "--").line
    '--'
    """

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
    "default": Look(_VERMILION, "H", "-"),  # the same function as tau-vr
    "qhte": Look(_ORANGE, "x", "--"),
    "macal": Look(_BLACK, "+", "-."),
    "lcmd": Look(_GREY, "3", ":"),
    "fccm": Look(_ORANGE, "4", "-"),
}
# For functions of other packages and files.
_OTHER_COLOURS = (_BLACK, _GREEN, _VERMILION, _PINK, _SKY, _ORANGE)
_OTHER_LOOKS = [Look(colour, marker, ":") for colour in _OTHER_COLOURS for marker in ("8", "|", "1", "2")]


def look(acquisition: str) -> Look:
    """Return the look of an acquisition function.

    Parameters
    ----------
    acquisition : str
        Name of a function, perhaps with another batch rule than its own, as in "mu-bald, greedy".

    Returns
    -------
    Look
        A function without a fixed look, such as one of a plugin, gets a look from its name, always the same. Another
        batch rule makes the line of a function with a fixed look dotted.

    Examples
    --------
    >>> from causalbald.figures import look
    >>> look("mu-bald").marker, look("mu-bald, greedy").marker
    ('^', '^')
    """
    name, _, rule = acquisition.partition(", ")
    if rule and name in _LOOKS:
        return _LOOKS[name]._replace(line=":")
    return _LOOKS.get(acquisition) or _OTHER_LOOKS[crc32(acquisition.encode()) % len(_OTHER_LOOKS)]


def looks(acquisitions: Iterable[str]) -> dict[str, Look]:
    """Return the looks of the acquisition functions of one figure, all different as long as there are enough looks.

    Parameters
    ----------
    acquisitions : iterable of str
        Names, which may repeat.

    Returns
    -------
    dict of str to Look
        In the order of ``acquisitions``. If two functions would look the same, the later name in the alphabet takes the
        next free look of those for functions without a fixed look.

    Examples
    --------
    >>> from causalbald.figures import looks
    >>> list(looks(["random", "mu-bald", "random"]))
    ['random', 'mu-bald']
    """
    names = list(dict.fromkeys(acquisitions))
    taken: dict[str, Look] = {}
    for name in sorted(names):
        first_choice = look(name)
        start = _OTHER_LOOKS.index(first_choice) if first_choice in _OTHER_LOOKS else 0
        choices = [first_choice, *_OTHER_LOOKS[start:], *_OTHER_LOOKS[:start]]
        taken[name] = next((choice for choice in choices if choice not in taken.values()), first_choice)
    return {name: taken[name] for name in names}


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the fonts and frames of the package's figures within a ``with`` block.

    The caller's settings of matplotlib return afterwards.

    Yields
    ------
    None

    Examples
    --------
    >>> import matplotlib as mpl
    >>> from causalbald.figures import house_style
    >>> with house_style():
    ...     mpl.rcParams["axes.grid"]
    True
    """
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
    """Return an empty figure outside matplotlib's global state, which need not be closed.

    Parameters
    ----------
    width, height : float
        In inches.

    Returns
    -------
    Figure

    Examples
    --------
    >>> from causalbald.figures import new_figure
    >>> float(new_figure(7.0, 4.2).get_figwidth())
    7.0
    """
    return Figure(figsize=(width, height), layout="constrained")


def plain(text: object, limit: int = MAX_NAME_CHARACTERS) -> str:
    """Return a user's text as a figure can show it: cut to ``limit`` characters.

    Dollar signs are escaped, so that matplotlib draws no formula. Characters that the fonts lack become boxes.
    """
    characters = (c if _has_glyph(c) else _NO_GLYPH for c in shortened(str(text), limit))
    return "".join(characters).replace("$", r"\$")


@cache
def _has_glyph(character: str) -> bool:
    """Return whether the regular and the bold font of figures can draw a character; False for control characters."""
    if not character.isprintable():
        return False
    fonts = (get_font(findfont(FontProperties(weight=weight))) for weight in ("normal", "bold"))
    return all(font.get_char_index(ord(character)) for font in fonts)
