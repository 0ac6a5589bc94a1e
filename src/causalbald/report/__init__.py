"""Self-contained HTML pages."""

from causalbald.report.demo import Demo, demo_page, run_demo
from causalbald.report.page import figure_svg, render

__all__ = ["Demo", "demo_page", "figure_svg", "render", "run_demo"]
