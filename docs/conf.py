# SPDX-License-Identifier: Apache-2.0
"""Sphinx settings; build with ``sphinx-build -W -b html docs docs/_build/html``."""

from __future__ import annotations

import syclsched

project = "syclsched"
author = "The syclsched contributors"
project_copyright = "The syclsched contributors, Apache-2.0"
version = release = syclsched.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Docstrings are numpydoc; a name in single backticks is an object.
default_role = "py:obj"
napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"syclsched {release}"
