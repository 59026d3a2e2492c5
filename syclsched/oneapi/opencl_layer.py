# SPDX-License-Identifier: Apache-2.0
"""The compiled OpenCL layer (``_il_layer.c``) that makes OpenCL 1.2 platforms accept SPIR-V."""

from __future__ import annotations

from pathlib import Path

from syclsched.oneapi.built_libraries import find_built

LAYERS_VARIABLE = "OPENCL_LAYERS"
_STEM = "_il_layer"


def find_layer(folder: Path | None = None) -> str | None:
    """Return the path of the built layer, or None where the package was built without a C compiler."""
    return find_built(_STEM, Path(__file__).parent if folder is None else folder, installed=folder is None)


def appended(current: str | None, layer: str) -> str:
    """Return the value of ``OPENCL_LAYERS`` with the layer after the user's own (the loader splits at colons)."""
    layers = [each for each in (current or "").split(":") if each]
    return ":".join([*layers, layer] if layer not in layers else layers)
