"""Self-contained HTML pages: the report on a campaign, and the demo.

Names are imported when they are first used, so that the report on a campaign does not wait for what only the demo
needs: data sets and experiments.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from causalbald.report._campaign_page import campaign_page, write_report
    from causalbald.report._demo import Demo, demo_page, run_demo
    from causalbald.report._page import figure_svg, render

_HOMES = {
    "campaign_page": "_campaign_page",
    "write_report": "_campaign_page",
    "Demo": "_demo",
    "demo_page": "_demo",
    "run_demo": "_demo",
    "figure_svg": "_page",
    "render": "_page",
}

__all__ = ["Demo", "campaign_page", "demo_page", "figure_svg", "render", "run_demo", "write_report"]


def __getattr__(name: str) -> Any:
    """Return a public name, imported from its file when it is first used."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"causalbald.report.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'causalbald.report' has no attribute {name!r}")
