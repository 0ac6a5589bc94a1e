"""From a template and figures to one HTML file that needs no network."""

from __future__ import annotations

import io
import re
from typing import Any
from zlib import crc32

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from causalbald.figures import house_style
from causalbald.report._text import FILTERS


def figure_svg(figure: Figure, description: str) -> Markup:
    """Return a figure as inline SVG with a text alternative.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure to draw. It is not changed.
    description : str
        What the figure shows, for readers who do not see it.

    Returns
    -------
    Markup
        HTML that templates do not escape. Text in the figure is drawn as outlines, so no markup of users is in it.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from causalbald.report import figure_svg
    >>> figure_svg(Figure(figsize=(1, 1)), "Nothing")[:44]
    Markup('<figure role="img" aria-label="Nothing"><svg')
    """
    buffer = io.StringIO()
    with house_style():
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = buffer.getvalue()
    image = Markup(_lean(svg[svg.index("<svg") :]))
    return Markup('<figure role="img" aria-label="{}">{}</figure>').format(description, image)


def _lean(svg: str) -> str:
    """Return an SVG without comments and unused ids. Called by :func:`figure_svg`.

    The ids that are used get a prefix made from the figure's content, so that figures on one page do not mix them up.
    """
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    used = {*re.findall(r'href="#([^"]+)"', svg), *re.findall(r"url\(#([^)]+)\)", svg)}
    prefix = f"f{crc32(svg.encode()):x}-"
    svg = re.sub(r' id="([^"]+)"', lambda match: f' id="{prefix}{match[1]}"' if match[1] in used else "", svg)
    return re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", svg)


def render(template: str, **values: Any) -> str:
    """Return a page made from a template of ``report/templates``.

    Parameters
    ----------
    template : str
        Name of the file.
    values
        What the template needs, by name. Each value is escaped unless it is Markup. A missing value is an error.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> from causalbald.report import render
    >>> "<title>" in render("base.html")
    True
    """
    environment = Environment(
        loader=PackageLoader("causalbald.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    return environment.get_template(template).render(**values)
