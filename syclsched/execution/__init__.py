# SPDX-License-Identifier: Apache-2.0
"""Execution of plans on SYCL queues: in-order lanes, and no host wait until data is requested.

Names are imported on first use; no SYCL module is imported before a run starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syclsched.lazy_names import lazy_names

_LAZY = {
    "Run": "syclsched.execution.handle.run",
    "Runner": "syclsched.execution.runner.bound_plan",
    "Safeguards": "syclsched.execution.core.safeguards",
    "Stream": "syclsched.execution.runner.stream",
    "StreamStatistics": "syclsched.execution.runner.stream",
    "bind": "syclsched.execution.runner.bound_plan",
    "execute": "syclsched.execution.runner.one_off",
}

__all__ = sorted(_LAZY)

if TYPE_CHECKING:
    from syclsched.execution.core.safeguards import Safeguards as Safeguards
    from syclsched.execution.handle.run import Run as Run
    from syclsched.execution.runner.bound_plan import Runner as Runner
    from syclsched.execution.runner.bound_plan import bind as bind
    from syclsched.execution.runner.one_off import execute as execute
    from syclsched.execution.runner.stream import Stream as Stream
    from syclsched.execution.runner.stream import StreamStatistics as StreamStatistics

__getattr__ = lazy_names(__name__, _LAZY)
