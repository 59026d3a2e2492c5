# SPDX-License-Identifier: Apache-2.0
"""Device profiling: measurement, storage and use of profiles; `docs/profiling.md` defines every number.

Public are the names in ``__all__``; the modules are Internal.
"""

from syclsched.profiling.calibration import Calibration, calibrate
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
