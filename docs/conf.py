"""Sphinx settings."""

from __future__ import annotations

import causalbald

project = "causalbald"
author = "The causalbald developers"
release = version = causalbald.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx_copybutton"]
html_theme = "furo"
html_title = "causalbald"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_rtype = False
napoleon_use_ivar = True
copybutton_prompt_text = "$ "
