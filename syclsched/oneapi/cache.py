# SPDX-License-Identifier: Apache-2.0
"""The user's cache folder: where it is, and how files get into it so that no reader ever sees half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

APPLICATION = "syclsched"


def cache_root() -> Path:
    """Return the folder for what can be made again (``XDG_CACHE_HOME`` is respected); it may not exist yet."""
    import platformdirs

    return Path(platformdirs.user_cache_dir(APPLICATION, appauthor=False))


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name in its folder and rename it into place.

    Raises
    ------
    OSError
        Where the folder cannot be made or written; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
