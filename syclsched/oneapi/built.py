# SPDX-License-Identifier: Apache-2.0
"""Find the shared objects that the package's build made of its C parts."""

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
    """Return where the build put the submission loop (``_submit*.c``), or None where there was no C compiler."""
    home = Path(__file__).parents[1] / "devices"
    return find_built("_submit", home if folder is None else folder, installed=folder is None)


def _installed(stem: str) -> Iterator[Path]:
    """Yield what an installation has: Python started in a checkout imports the checkout, where nothing was built."""
    for distribution in distributions(name="syclsched"):
        for file in distribution.files or ():
            if file.match(f"{stem}*.so"):
                yield Path(str(distribution.locate_file(file)))
