# SPDX-License-Identifier: Apache-2.0
"""The user's cache folder."""

from __future__ import annotations

from pathlib import Path

APPLICATION = "syclsched"


def cache_root() -> Path:
    """Return the folder for data that can be made again (``XDG_CACHE_HOME`` is respected); it may not exist yet."""
    import platformdirs

    return Path(platformdirs.user_cache_dir(APPLICATION, appauthor=False))
