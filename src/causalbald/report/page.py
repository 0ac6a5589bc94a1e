"""From a template and figures to one HTML file that needs no network."""

from __future__ import annotations

import io
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from causalbald.figures.style import house_style


def figure_svg(figure: Figure, description: str) -> Markup:
    """Return a figure as inline SVG with a text alternative."""
    buffer = io.StringIO()
    with house_style():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    image = Markup(svg[svg.index("<svg") :])  # drawn by matplotlib, not by users: no markup of theirs is in it
    return Markup('<figure role="img" aria-label="{}">{}</figure>').format(description, image)


def render(template: str, **values: Any) -> str:
    """Fill a template of ``report/templates``; every value is escaped unless it is Markup."""
    environment = Environment(
        loader=PackageLoader("causalbald.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
