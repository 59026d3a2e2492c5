# SPDX-License-Identifier: Apache-2.0
"""Device profiling: measurement, storage and use of profiles; `docs/reference/profiling.md` defines every number.

Public are the names in ``__all__``; the modules are Internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syclsched.profiling.storage.attaching import attach, with_profiles
from syclsched.profiling.storage.described_platforms import (
    load_platform,
    load_profile,
    load_profile_set,
    platform_from_profiles,
    shipped_names,
)
from syclsched.profiling.storage.history_store import HistoryStore
from syclsched.profiling.storage.profile_store import ProfileStore

if TYPE_CHECKING:
    from syclsched.profiling.calibration import Calibration, calibrate

__all__ = [
    "Calibration",
    "HistoryStore",
    "ProfileStore",
    "attach",
    "calibrate",
    "load_platform",
    "load_profile",
    "load_profile_set",
    "platform_from_profiles",
    "shipped_names",
    "with_profiles",
]


def __getattr__(name: str) -> Any:
    """Import the measurement of tasks on first use: it needs the packages of devices, which plans do not."""
    if name not in ("Calibration", "calibrate"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from syclsched.profiling import calibration

    return getattr(calibration, name)
