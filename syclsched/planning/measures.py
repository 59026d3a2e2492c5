# SPDX-License-Identifier: Apache-2.0
"""Metrics of a plan (makespan, initiation interval, energy, peak memory) from its predicted times."""

from __future__ import annotations

import math

import numpy as np

from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.profile import Power, Quantity
from syclsched.model.tables.instruction_table import table_of
from syclsched.model.tables.lazy_objects import lane_table
from syclsched.scheduling.core.busy_time import busy_seconds
from syclsched.scheduling.objectives import Metrics
from syclsched.scheduling.objectives.power import weigh

#: Kinds of instructions that compute.
_COMPUTING = {"launch": 0, "host": 0}


def measure(plan: Plan, platform: Platform) -> Metrics:
    """Return a plan's metrics."""
    names = [device.name for device in platform.devices]
    tables = list(map(lane_table, plan.lanes)) or [table_of(())]
    lengths = list(map(len, tables))
    lanes = [names.index(lane.device) for lane in plan.lanes] or [0]
    device = np.repeat(np.array(lanes, dtype=np.int64), lengths)
    start_s, finish_s, duration_s = (
        np.concatenate([getattr(table, name) for table in tables]) for name in ("start_s", "finish_s", "duration_s")
    )
    works = np.concatenate([table.kind.numbered(_COMPUTING) >= 0 for table in tables])
    works &= finish_s > start_s
    busy_s = busy_seconds(device[works], start_s[works], finish_s[works], len(names))
    powers = [Power() if device.profile is None else device.profile.power for device in platform.devices]
    busy_w, idle_w = [_watts(power.busy_w) for power in powers], [_watts(power.idle_w) for power in powers]
    joules = weigh(busy_s, plan.makespan_s, np.array(busy_w), np.array(idle_w))
    loads = [sum(part.tolist()) for part in np.split(duration_s, np.cumsum(lengths)[:-1])]
    return Metrics(
        makespan_s=plan.makespan_s,
        initiation_interval_s=max(loads, default=0.0),
        energy_j=None if math.isnan(joules) else joules,
        peak_bytes={space.name: float(plan.peak_bytes.get(space.name, 0)) for space in platform.spaces},
    )


def _watts(quantity: Quantity | None) -> float:
    return math.nan if quantity is None else quantity.value
