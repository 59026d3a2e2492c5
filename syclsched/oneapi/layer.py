# SPDX-License-Identifier: Apache-2.0
"""Find the compiled OpenCL layer (``_il_layer.c``) that lets OpenCL 1.2 platforms take SPIR-V."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from importlib.metadata import distributions
from itertools import chain
from pathlib import Path

LAYERS_VARIABLE = "OPENCL_LAYERS"
_STEM = "_il_layer"


def find_layer(folder: Path | None = None) -> str | None:
    """Return the path of the built layer, or None where the package was built without a C compiler.

    Parameters
    ----------
    folder : pathlib.Path, optional
        Where to look; by default where the build puts it, then in installations of the package. A library built by
        another Python is used as well: it has nothing of Python in it.
    """
    suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    place = Path(__file__).parent if folder is None else folder
    candidates = [place / f"{_STEM}{suffix}", *sorted(place.glob(f"{_STEM}*.so"))]
    elsewhere = _installed() if folder is None else ()
    return next((str(path) for path in chain(candidates, elsewhere) if path.is_file()), None)


def _installed() -> Iterator[Path]:
    """Yield what an installation has: Python started in a checkout imports the checkout, where nothing was built."""
    for distribution in distributions(name="syclsched"):
        for file in distribution.files or ():
            if file.match(f"{_STEM}*.so"):
                yield Path(str(distribution.locate_file(file)))


def appended(current: str | None, layer: str) -> str:
    """Return the value of ``OPENCL_LAYERS`` with the layer after the user's own (the loader splits at colons)."""
    layers = [each for each in (current or "").split(":") if each]
    return ":".join([*layers, layer] if layer not in layers else layers)
