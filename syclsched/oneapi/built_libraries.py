# SPDX-License-Identifier: Apache-2.0
"""Shared objects that the package's build made from its C sources."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from importlib.metadata import distributions
from itertools import chain
from pathlib import Path


def find_built(stem: str, folder: Path, *, installed: bool) -> str | None:
    """Return the path of a built shared object, or None where the package was built without a C compiler."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    candidates = [folder / f"{stem}{suffix}", *sorted(folder.glob(f"{stem}*.so"))]
    elsewhere = _installed(stem) if installed else ()
    return next((str(path) for path in chain(candidates, elsewhere) if path.is_file()), None)


def find_submission_loop(folder: Path | None = None) -> str | None:
    """Return the path of the built submission loop (``_submit*.c``), or None if there was no C compiler."""
    default_folder = Path(__file__).parents[1] / "devices" / "native"
    return find_built("_submit", default_folder if folder is None else folder, installed=folder is None)


def _installed(stem: str) -> Iterator[Path]:
    """Yield the shared objects of an installed package: a checkout that Python imports has none."""
    for distribution in distributions(name="syclsched"):
        for file in distribution.files or ():
            if file.match(f"{stem}*.so"):
                yield Path(str(distribution.locate_file(file)))
