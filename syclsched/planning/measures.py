# SPDX-License-Identifier: Apache-2.0
"""Metrics of a plan (makespan, initiation interval, energy, peak memory) from its predicted times."""

from __future__ import annotations

import math

import numpy as np

from syclsched.model.plan import Instruction, Plan
from syclsched.model.platform import Platform
from syclsched.model.profile import Power, Quantity
from syclsched.scheduling.core.busy_time import busy_seconds
from syclsched.scheduling.objectives import Metrics
from syclsched.scheduling.objectives.power import weigh


def measure(plan: Plan, platform: Platform) -> Metrics:
    """Return a plan's metrics."""
    names = [device.name for device in platform.devices]
    spans = [(names.index(lane.device), i) for lane in plan.lanes for i in lane.instructions if _computes(i)]
    busy_s = busy_seconds(
        np.array([device for device, _ in spans], dtype=np.int64),
        np.array([i.start_s for _, i in spans]),
        np.array([i.finish_s for _, i in spans]),
        len(names),
    )
    powers = [Power() if device.profile is None else device.profile.power for device in platform.devices]
    busy_w, idle_w = [_watts(power.busy_w) for power in powers], [_watts(power.idle_w) for power in powers]
    joules = weigh(busy_s, plan.makespan_s, np.array(busy_w), np.array(idle_w))
    loads = [sum(i.duration_s for i in lane.instructions) for lane in plan.lanes]
    return Metrics(
        makespan_s=plan.makespan_s,
        initiation_interval_s=max(loads, default=0.0),
        energy_j=None if math.isnan(joules) else joules,
        peak_bytes={space.name: float(plan.peak_bytes.get(space.name, 0)) for space in platform.spaces},
    )


def _watts(quantity: Quantity | None) -> float:
    return math.nan if quantity is None else quantity.value


def _computes(instruction: Instruction) -> bool:
    return instruction.kind in ("launch", "host") and instruction.finish_s > instruction.start_s
