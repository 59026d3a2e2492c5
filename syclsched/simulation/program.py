# SPDX-License-Identifier: Apache-2.0
"""From a plan to what the compiled engine runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np
import numpy.typing as npt

from syclsched.errors import IncompletePlanError
from syclsched.model.plan import Instruction, Lane, Plan
from syclsched.model.platform import HOST, Platform
from syclsched.simulation.channels import share_channels
from syclsched.simulation.machine import (
    BESIDE,
    COPY,
    DEVICE,
    EVENT,
    IMMEDIATE,
    LANE,
    STEP,
    WORK,
    Ints,
    Machine,
    Records,
    records,
)
from syclsched.simulation.overheads import host_overheads

_KINDS = {"alloc": IMMEDIATE, "free": IMMEDIATE, "copy": COPY}

#: Two lanes of a device that slow each other down less than this are on different cores.
_SEPARATE = 0.5


def flatten(plan: Plan) -> Machine:
    """Return a plan as the engine runs it.

    Parameters
    ----------
    plan : Plan
        The plan; durations are taken from its instructions, interference, submission cost and links from its platform.

    Returns
    -------
    Machine
        At its start, nothing disturbs it.

    Raises
    ------
    IncompletePlanError
        If two instructions have one number.
    PlatformError
        If links are shared and there is none for a copy.
    """
    instructions = [i for lane in plan.lanes for i in lane.instructions]
    steps, waits = _steps(plan, instructions)
    devices = {name: n for n, name in enumerate(dict.fromkeys(lane.device for lane in plan.lanes))}
    contention, channels = share_channels(plan.platform, instructions, steps)
    return Machine(
        steps,
        _lanes(plan, devices, steps),
        *_devices(devices, plan.platform),
        channels,
        records(EVENT, 0),
        waits,
        contention,
    )


def _steps(plan: Plan, instructions: Sequence[Instruction]) -> tuple[Records, Ints]:
    count = len(instructions)
    number = np.array([i.id for i in instructions], dtype=np.int64)
    by_number = np.argsort(number, kind="stable")
    ordered = number[by_number]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        raise IncompletePlanError(f"instruction {ordered[twice[0]]} is there twice", where="lanes")
    order = np.empty_like(by_number)
    order[by_number] = np.arange(count)
    on_host = np.array([lane.kind == "host" for lane in plan.lanes for _ in lane.instructions], dtype=bool)
    wait_start, waits = _waits(instructions, ordered, by_number)
    overheads = host_overheads(plan.platform)
    steps = records(STEP, count + 1, wait_start=wait_start, first=-1, second=-1, waiter=-1, lost_s=np.inf)
    real = steps[:-1]
    real["number"] = number
    real["order"] = order
    real["kind"] = [_KINDS.get(i.kind, WORK) for i in instructions]
    real["wait_end"] = wait_start[1:]
    real["duration_s"] = [i.duration_s for i in instructions]
    # Submissions happen one after another in the plan's global order.
    real["submit_s"] = np.cumsum(np.where(on_host[by_number], 0.0, overheads.submission_s))[order]
    real["handoff_s"] = np.where(_crossing(on_host, wait_start, waits), overheads.handoff_s, 0.0)
    return steps, waits


def _waits(instructions: Sequence[Instruction], ordered: Ints, by_number: Ints) -> tuple[Ints, Ints]:
    """Return rows of what each instruction waits for, as positions; the count of all for one that is not there."""
    start = np.array([0, *accumulate(len(i.waits) for i in instructions)], dtype=np.int64)
    named = np.fromiter(chain.from_iterable(i.waits for i in instructions), dtype=np.int64, count=int(start[-1]))
    if not len(named):
        return start, named
    place = np.minimum(np.searchsorted(ordered, named), len(ordered) - 1)
    return start, np.where(ordered[place] == named, by_number[place], len(ordered))


def _crossing(on_host: npt.NDArray[np.bool_], wait_start: Ints, waits: Ints) -> npt.NDArray[np.bool_]:
    """Return which instructions wait for one on the other side: device for host function, or the reverse.

    Between host functions and devices a thread has to notice and another to be woken; and work that waits for a host
    function is submitted only once that has returned.
    """
    waiting = np.repeat(np.arange(len(on_host)), np.diff(wait_start))
    there = np.append(on_host, False)[waits] != on_host[waiting]
    crossing = np.zeros(len(on_host), dtype=bool)
    crossing[waiting[there]] = True
    return crossing


def _lanes(plan: Plan, devices: dict[str, int], steps: Records) -> Records:
    ends = list(accumulate(len(lane.instructions) for lane in plan.lanes))
    starts = [0, *ends[:-1]][: len(ends)]
    return records(
        LANE,
        len(ends),
        pointer=starts,
        end=ends,
        device=[devices[lane.device] for lane in plan.lanes],
        mixes=[lane.kind != "copy" for lane in plan.lanes],
        cursor=steps["wait_start"][starts],
        place=-1,
        next_waiter=-1,
        load=_submission_loads(plan.lanes, plan.platform),
        rate=1.0,
        speed=1.0,
    )


def _submission_loads(lanes: Sequence[Lane], platform: Platform) -> list[float]:
    """Return how much the submitting thread slows each lane down: its share of cores that are all taken.

    With ``c`` cores and ``t`` threads of the device's lanes on them, one more thread slows all of them to
    ``c / (t + 1)``, if that is less than 1.
    """
    computing: dict[str, int] = {}
    for lane in lanes:
        if lane.kind == "compute":
            computing[lane.device] = computing.get(lane.device, 0) + 1
    loads = dict.fromkeys(computing, 0.0)
    for device, used in computing.items():
        if platform.interference(device, HOST):
            cores = platform.device(device).compute_units
            apart = any({p.first, p.second} == {device} and p.factor < _SEPARATE for p in platform.interferences)
            loads[device] = max(0.0, ((used if apart else cores) + 1) / cores - 1.0)
    return [loads[lane.device] if lane.kind == "compute" else 0.0 for lane in lanes]


def _devices(devices: dict[str, int], platform: Platform) -> tuple[Records, Records]:
    """Return the devices, and rows of those that slow each down."""
    factors = {frozenset((p.first, p.second)): p.factor for p in platform.interferences}
    rows: list[list[tuple[int, float]]] = [[] for _ in devices]
    for pair, factor in factors.items():
        if factor > 0 and all(name in devices for name in pair):
            first, last = devices[min(pair)], devices[max(pair)]
            rows[first].append((last, factor))
            if first != last:
                rows[last].append((first, factor))
    start = [0, *accumulate(map(len, rows))]
    flat = list(chain.from_iterable(rows))
    return (
        records(DEVICE, len(rows), beside_start=start[:-1], beside_end=start[1:], slowed=1.0),
        records(BESIDE, len(flat), device=[d for d, _ in flat], factor=[f for _, f in flat]),
    )
