"""Sphinx configuration: Markdown through MyST, warnings are errors (`scripts/docs`)."""

project = "loadkit"
author = "The loadkit authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "loadkit"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
