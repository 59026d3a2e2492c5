# SPDX-License-Identifier: Apache-2.0
"""Energy of a timetable, from the busy and idle power of devices."""

from __future__ import annotations

import math

import numpy as np

from syclsched.errors import PolicyError
from syclsched.scheduling.core.busy_time import busy_seconds
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import Floats
from syclsched.scheduling.timetable import Timetable


def energy_j(problem: Problem, timetable: Timetable, done_s: float) -> float:
    """Return the energy of all devices until the makespan."""
    tables = problem.tables
    device = tables.processor_device[timetable.processor]
    busy_s = busy_seconds(device, timetable.start_s, timetable.finish_s, len(problem.devices))
    return weigh(busy_s, done_s, tables.busy_w, tables.idle_w)


def weigh(busy_s: Floats, done_s: float, busy_w: Floats, idle_w: Floats) -> float:
    """Return the joules of devices that are busy for some time and idle for the rest."""
    counted = (busy_s > 0.0) | ~(np.isnan(busy_w) & np.isnan(idle_w))
    # A device that is never busy needs no busy power, one that is never idle no idle power.
    busy_j = np.where(busy_s > 0.0, busy_w * busy_s, 0.0)
    idle_j = np.where(done_s > busy_s, idle_w * (done_s - busy_s), 0.0)
    return float((busy_j + idle_j)[counted].sum())


def require_power(problem: Problem) -> None:
    """Raise if the energy is unknown for every timetable of a problem."""
    busy, idle = np.isfinite(problem.tables.busy_w), np.isfinite(problem.tables.idle_w)
    hint = "Give busy_w and idle_w, watts, under power in its profile, or leave it out"
    for device in np.flatnonzero(busy != idle).tolist():
        missing = "idle_w" if busy[device] else "busy_w"
        raise PolicyError(
            f"its {missing} is not known, so no energy can be", where=f"device {problem.devices[device]!r}", hint=hint
        )
    tables = problem.tables
    able = np.isfinite(tables.seconds[:, busy]).any(axis=1)[tables.kind]
    for task in np.flatnonzero(~able).tolist():
        row = tables.seconds[tables.kind[task]].tolist()
        where = ", ".join(name for name, seconds in zip(problem.devices, row, strict=True) if seconds < math.inf)
        raise PolicyError(
            f"it can run on {where} only, of which no power is known, so no energy can be",
            where=f"task {problem.names[task]!r}",
            hint="Give busy_w and idle_w, watts, under power in the profiles of these devices",
        )
