# SPDX-License-Identifier: Apache-2.0
"""Sphinx settings; build with ``sphinx-build -W -b html docs docs/_build/html``."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import syclsched

project = "syclsched"
author = "The syclsched contributors"
project_copyright = "The syclsched contributors, Apache-2.0"
version = release = syclsched.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Every build executes the tutorials, which are stored without outputs; an error in one ends the build.
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# They run with the package that this build documents, start without measurements, and leave nothing behind.
_scratch = tempfile.mkdtemp(prefix="syclsched-docs-")
atexit.register(shutil.rmtree, _scratch, ignore_errors=True)
for _name in ("XDG_DATA_HOME", "IPYTHONDIR"):
    os.environ[_name] = os.path.join(_scratch, _name.lower())
_root = str(Path(syclsched.__file__).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_root, os.environ.get("PYTHONPATH")]))
os.environ.pop("MPLBACKEND", None)  # notebooks show their charts

# Docstrings are numpydoc; a name in single backticks is an object.
default_role = "py:obj"
napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"syclsched {release}"
