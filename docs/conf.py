"""Sphinx's settings for `make docs`, which lays the pages out before."""

project = "sge-autoscaler"
extensions = ["myst_parser"]
root_doc = "docs/index"
html_theme = "furo"
html_title = project
html_copy_source = False
html_show_sphinx = False
myst_heading_anchors = 4
