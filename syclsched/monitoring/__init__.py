# SPDX-License-Identifier: Apache-2.0
"""Status files: the live state of processes that allow `syclsched top` to show their runs.

Public are the names in ``__all__``; the modules are Internal.
"""

from __future__ import annotations

from syclsched.monitoring.status import GraphStatus, LaneStatus, MemoryStatus, ProcessStatus, RunStatus
from syclsched.monitoring.status_files import StatusFiles, read_status_files

__all__ = [
    "GraphStatus",
    "LaneStatus",
    "MemoryStatus",
    "ProcessStatus",
    "RunStatus",
    "StatusFiles",
    "read_status_files",
]
