# SPDX-License-Identifier: Apache-2.0
"""Shared objects that the package's build made from its C sources: the submission loop and the OpenCL layer."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from importlib.metadata import distributions
from itertools import chain
from pathlib import Path


def find_submission_loop(folder: Path | None = None) -> str | None:
    """Return the path of the submission loop (``_submit*.c``), or None if there was no C compiler."""
    return _find("_submit", Path(__file__).parents[1] / "devices" / "native", folder)


def find_layer(folder: Path | None = None) -> str | None:
    """Return the path of the layer by which OpenCL 1.2 accepts SPIR-V (``_il_layer.c``), or None as above."""
    return _find("_il_layer", Path(__file__).parent, folder)


def _find(stem: str, package: Path, folder: Path | None) -> str | None:
    """Return a shared object in the given folder; without one, in the package's or an installed package's folder."""
    suffix, where = sysconfig.get_config_var("EXT_SUFFIX") or ".so", folder or package
    candidates = [where / f"{stem}{suffix}", *sorted(where.glob(f"{stem}*.so"))]
    elsewhere = _installed(stem) if folder is None else ()
    return next((str(path) for path in chain(candidates, elsewhere) if path.is_file()), None)


def _installed(stem: str) -> Iterator[Path]:
    """Yield the shared objects of an installed package: a checkout that Python imports has none."""
    for distribution in distributions(name="syclsched"):
        for file in distribution.files or ():
            if file.match(f"{stem}*.so"):
                yield Path(str(distribution.locate_file(file)))
