# SPDX-License-Identifier: Apache-2.0
"""Find the compiled OpenCL layer (``_il_layer.c``) that lets OpenCL 1.2 platforms take SPIR-V."""

from __future__ import annotations

import sysconfig
from pathlib import Path

LAYERS_VARIABLE = "OPENCL_LAYERS"
_STEM = "_il_layer"


def find_layer(folder: Path = Path(__file__).parent) -> str | None:
    """Return the path of the built layer, or None where the package was built without a C compiler.

    Parameters
    ----------
    folder : pathlib.Path
        Where the build puts it. A library built by another Python is used as well: it has nothing of Python in it.
    """
    suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    exact = folder / f"{_STEM}{suffix}"
    candidates = [exact, *sorted(folder.glob(f"{_STEM}*.so"))]
    return next((str(path) for path in candidates if path.is_file()), None)


def appended(current: str | None, layer: str) -> str:
    """Return the value of ``OPENCL_LAYERS`` with the layer after the user's own (the loader splits at colons)."""
    layers = [each for each in (current or "").split(":") if each]
    return ":".join([*layers, layer] if layer not in layers else layers)
