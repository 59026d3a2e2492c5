# SPDX-License-Identifier: Apache-2.0
"""Disturbances at given times: devices that slow down or fail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from syclsched.errors import DeviceNotFoundError, PlanError, did_you_mean
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST
from syclsched.simulation.machine import EVENT, Floats, Machine, records


@dataclass(frozen=True, slots=True)
class SlowDown:
    """A device's kernels and host functions take longer from a time on, until its next slow-down."""

    device: str
    at_s: float  # when it begins
    factor: float  # on planned durations; 1 ends the slow-down


@dataclass(frozen=True, slots=True)
class Failure:
    """A device fails: nothing on its lanes, and nothing that touches its memory, finishes after that time.

    Its memory is its space, unless that is also the space of other devices or of the host.
    """

    device: str
    at_s: float  # instructions that end exactly then have finished


Event = SlowDown | Failure


def with_events(plan: Plan, machine: Machine, events: Sequence[Event]) -> Machine:
    """Return a machine on which some disturbances happen."""
    steps = machine.steps.copy()
    known = {name: n for n, name in enumerate(dict.fromkeys(lane.device for lane in plan.lanes))}
    rows: list[tuple[float, int, float]] = []
    for event in sorted(events, key=lambda e: e.at_s):
        check_event(event, [device.name for device in plan.platform.devices])
        if isinstance(event, Failure):
            _lose(plan, event, steps["lost_s"])
            rows.append((event.at_s, -1, 1.0))
        elif event.device in known:
            rows.append((event.at_s, known[event.device], event.factor))
    at_s, device, factor = zip(*rows, strict=True) if rows else ((), (), ())
    return machine._replace(steps=steps, events=records(EVENT, len(rows), at_s=at_s, device=device, factor=factor))


def check_event(event: Event, devices: Sequence[str]) -> None:
    """Refuse an event of an unknown device, or with an invalid time or factor."""
    where = f"{'failure' if isinstance(event, Failure) else 'slow-down'} of {event.device!r}"
    if event.device not in devices:
        hint = f"{did_you_mean(event.device, devices)}It has {', '.join(devices)}"
        raise DeviceNotFoundError("the platform has no such device", where=where, hint=hint)
    if not 0.0 <= event.at_s < math.inf:
        raise PlanError(f"the time is {event.at_s!r}", where=where, hint="It is a finite number of seconds from 0 on")
    if isinstance(event, SlowDown) and not 0.0 < event.factor < math.inf:
        raise PlanError(f"the factor is {event.factor!r}", where=where, hint="It must be positive and finite")


def _lose(plan: Plan, failure: Failure, lost_s: Floats) -> None:
    """Record the instructions that cannot finish after a failure."""
    space = plan.platform.device(failure.device).space
    homes = [device.name for device in plan.platform.devices if device.space == space]
    memory = {space} if homes == [failure.device] and space != HOST else set()
    position = 0
    for lane in plan.lanes:
        for instruction in lane.instructions:
            if lane.device == failure.device or any(use.space in memory for use in instruction.uses):
                lost_s[position] = min(lost_s[position], failure.at_s)
            position += 1
