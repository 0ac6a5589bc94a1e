"""From a template and figures to one HTML file that needs no network."""

from __future__ import annotations

import io
import re
from typing import Any
from zlib import crc32

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from causalbald.figures._style import house_style
from causalbald.report._text import FILTERS


def figure_svg(figure: Figure, description: str) -> Markup:
    """Return a figure as inline SVG with a text alternative."""
    buffer = io.StringIO()
    with house_style():
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = buffer.getvalue()
    # Text is drawn as outlines: no markup of users is in it.
    image = Markup(_lean(svg[svg.index("<svg") :]))
    return Markup('<figure role="img" aria-label="{}">{}</figure>').format(description, image)


def _lean(svg: str) -> str:
    """Leave out comments and ids that nothing refers to; the other ids become unique on a page of several figures."""
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    used = {*re.findall(r'href="#([^"]+)"', svg), *re.findall(r"url\(#([^)]+)\)", svg)}
    prefix = f"f{crc32(svg.encode()):x}-"
    svg = re.sub(r' id="([^"]+)"', lambda found: f' id="{prefix}{found[1]}"' if found[1] in used else "", svg)
    return re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", svg)


def render(template: str, **values: Any) -> str:
    """Fill a template of ``report/templates``; every value is escaped unless it is Markup."""
    environment = Environment(
        loader=PackageLoader("causalbald.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    return environment.get_template(template).render(**values)
