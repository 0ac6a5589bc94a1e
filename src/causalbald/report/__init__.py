"""Self-contained HTML pages."""

from causalbald.report._campaign_page import campaign_page, write_report
from causalbald.report._demo import Demo, demo_page, run_demo
from causalbald.report._page import figure_svg, render

__all__ = ["Demo", "campaign_page", "demo_page", "figure_svg", "render", "run_demo", "write_report"]
