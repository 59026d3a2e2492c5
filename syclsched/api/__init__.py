# SPDX-License-Identifier: Apache-2.0
"""The library's main functions: discover, describe, calibrate, plan, verify, simulate, run, bind and monitor.

Each takes and returns the frozen data of `syclsched.model`. The packages below can be used directly for finer control.
"""

from syclsched.api.planning import calibrate, plan, simulate, verify
from syclsched.api.platforms import describe, discover, with_lanes
from syclsched.api.running import bind, monitor, run

__all__ = [
    "bind",
    "calibrate",
    "describe",
    "discover",
    "monitor",
    "plan",
    "run",
    "simulate",
    "verify",
    "with_lanes",
]
