# SPDX-License-Identifier: Apache-2.0
"""Loads of the machine, as made up for measurements."""

from __future__ import annotations

import itertools

from syclsched.profiling.busy import CpuTimes, LoadMeter

#: A machine whose load is not known.
QUIET = LoadMeter(read=lambda: None)


def busy_machine() -> LoadMeter:
    """Return the meter of a machine of which other processes take half."""
    times = (CpuTimes(0.5 * n, float(n), 0.0) for n in itertools.count())
    return LoadMeter(read=lambda: next(times))
