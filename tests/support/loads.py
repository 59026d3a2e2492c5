# SPDX-License-Identifier: Apache-2.0
"""Made-up loads of the machine for measurements."""

from __future__ import annotations

import itertools

from syclsched.profiling.busy import CpuTimes, LoadMeter

#: A machine whose load is unknown.
QUIET = LoadMeter(read=lambda: None)


def busy_machine() -> LoadMeter:
    """Return the meter of a machine half of which other processes use."""
    times = (CpuTimes(0.5 * n, float(n), 0.0) for n in itertools.count())
    return LoadMeter(read=lambda: next(times))
