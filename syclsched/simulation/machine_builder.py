# SPDX-License-Identifier: Apache-2.0
"""Conversion of a plan to the form the simulation engine runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain

import numpy as np
import numpy.typing as npt

from syclsched.errors import IncompletePlanError
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, SEPARATE, Interference, Platform
from syclsched.model.platform_parts.machines import machine_numbers
from syclsched.simulation.channels import share_channels
from syclsched.simulation.instruction_columns import InstructionColumns, LaneLike, lane_devices, read_columns
from syclsched.simulation.machine import (
    ALLOC,
    DEVICE,
    EVENT,
    INTERFERENCE,
    LANE,
    PROCESSOR,
    STEP,
    WORK,
    Floats,
    Ints,
    Machine,
    Records,
    records,
)
from syclsched.simulation.overheads import host_overheads
from syclsched.simulation.plan_memo import PlanMemo

#: How many times as long a host function and a kernel of all cores take beside each other, if they want more cores than
#: there are: the kernel waits for its slowest thread, which the function's displace, and the reverse. Assumed: calls of
#: OpenBLAS and kernels of the CPU device were seen to take two to five times their time alone.
_DISPLACED = 3.0


@PlanMemo
def flatten(plan: Plan) -> Machine:
    """Return a plan in the engine's form; cached."""
    return machine_of(plan.platform, plan.lanes, read_columns(plan), plan.peak_bytes)


def machine_of(
    platform: Platform, lanes: Sequence[LaneLike], columns: InstructionColumns, peak_bytes: Mapping[str, int]
) -> Machine:
    """Return instructions in the engine's form."""
    steps, waits = _steps(platform, lanes, columns, peak_bytes)
    devices = lane_devices(lanes)
    processors = {name: n for n, name in enumerate(platform.processor_cores)}
    contention, channels = share_channels(platform, columns, processors, steps)
    return Machine(
        steps,
        _lanes(lanes, platform, devices, processors, columns.lane_starts, steps),
        *_devices(devices, platform),
        _processors(platform),
        channels,
        records(EVENT, 0),
        waits,
        np.zeros(len(columns.spaces) + 1, np.int64),
        contention,
    )


def _steps(
    platform: Platform, lanes: Sequence[LaneLike], columns: InstructionColumns, peak_bytes: Mapping[str, int]
) -> tuple[Records, Ints]:
    count = len(columns.number)
    by_number = _by_number(columns.number)
    ordered = columns.number[by_number]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        raise IncompletePlanError(f"instruction {ordered[twice[0]]} is there twice", where="lanes")
    order = np.empty_like(by_number)
    order[by_number] = np.arange(count)
    on_host = np.repeat([lane.kind == "host" for lane in lanes], np.diff(columns.lane_starts)).astype(np.bool_)
    waits = _waits(columns.waits, ordered, by_number)
    overheads = host_overheads(platform)
    steps = records(
        STEP, count + 1, wait_start=columns.wait_starts, first=-1, second=-1, source=-1, target=-1, waiter=-1
    )
    steps["lost_s"] = np.inf
    real = steps[:-1]
    real["number"] = columns.number
    real["order"] = order
    real["kind"] = columns.kind
    real["wait_end"] = columns.wait_starts[1:]
    real["duration_s"] = columns.duration_s
    real["submit_s"] = _submitted_s(lanes, columns, by_number, np.where(on_host, 0.0, overheads.submission_s))
    crossing = _crossing(on_host, columns.wait_starts, waits)
    real["handoff_s"] = np.where(crossing, overheads.handoff_s, 0.0)
    if len(columns.space):
        _limit(real, columns, peak_bytes)
    return steps, waits


def _submitted_s(lanes: Sequence[LaneLike], columns: InstructionColumns, by_number: Ints, takes_s: Floats) -> Floats:
    """Return when instructions are submitted: on each machine one after another, in the plan's global order."""
    machine_of_lane = np.array(machine_numbers(lane.device for lane in lanes), np.int64)
    machine = np.repeat(machine_of_lane, np.diff(columns.lane_starts))
    order = by_number[np.argsort(machine[by_number], kind="stable")]
    until_s = np.cumsum(takes_s[order])
    first = np.searchsorted(machine[order], machine[order])  # of the same machine
    submitted_s: Floats = np.empty(len(order))
    submitted_s[order] = until_s - (until_s - takes_s[order])[first]
    return submitted_s


def _limit(steps: Records, columns: InstructionColumns, peak_bytes: Mapping[str, int]) -> None:
    """Record how much memory must have been freed before each allocation.

    As in a run (`PeakMemoryLimit`), an allocation is made if there is space for it and for all
    pending allocations before it in the plan's order. So as many bytes must have been freed in its space as it and all
    allocations before it need beyond the peak. Later allocations that are made earlier leave that space free, too.
    """
    memory = np.flatnonzero(columns.kind < WORK)
    steps["first"][memory] = columns.space
    gets = columns.kind[memory] == ALLOC
    steps["room_bytes"][memory[~gets]] = columns.nbytes[memory[~gets]]
    for n, space in enumerate(columns.spaces):
        if space in peak_bytes:
            here = memory[gets & (columns.space == n)]
            here = here[np.argsort(steps["order"][here])]
            steps["room_bytes"][here] = np.cumsum(columns.nbytes[here]) - peak_bytes[space]


def _by_number(number: Ints) -> Ints:
    """Return the indices of instructions by ascending number; numbers 0, 1, ... need no sorting."""
    if len(number) and number.min() == 0 and number.max() == len(number) - 1:
        place = np.full(len(number), -1)
        place[number] = np.arange(len(number))
        if place.min() >= 0:
            return place
    return np.argsort(number, kind="stable")


def _waits(named: Ints, ordered: Ints, by_number: Ints) -> Ints:
    """Return the indices of the instructions waited for; the number of instructions for unknown ones."""
    if not len(named):
        return named
    last = len(ordered) - 1
    dense = ordered[0] == 0 and ordered[last] == last  # numbers are unique
    place = np.minimum(named if dense else np.searchsorted(ordered, named), last)
    return np.where(ordered[place] == named, by_number[place], len(ordered))


def _crossing(on_host: npt.NDArray[np.bool_], wait_start: Ints, waits: Ints) -> npt.NDArray[np.bool_]:
    """Return which instructions wait for one on the other side: a device for a host function, or the reverse.

    Between host functions and devices, one thread must detect completion and another must wake up; device work that
    waits for a host function is submitted only after that has returned.
    """
    waiting = np.repeat(np.arange(len(on_host)), np.diff(wait_start))
    there = np.append(on_host, False)[waits] != on_host[waiting]
    crossing = np.zeros(len(on_host), dtype=bool)
    crossing[waiting[there]] = True
    return crossing


def _lanes(
    lanes: Sequence[LaneLike],
    platform: Platform,
    devices: dict[str, int],
    processors: dict[str, int],
    starts: Ints,
    steps: Records,
) -> Records:
    known = {device.name: device for device in platform.devices if device.name in devices}
    on = {name: processors.get(device.processor or "", -1) for name, device in known.items()}
    cores = {name: platform.lane_cores(device) for name, device in known.items()}
    return records(
        LANE,
        len(lanes),
        pointer=starts[:-1],
        end=starts[1:],
        device=[devices[lane.device] for lane in lanes],
        mixes=[lane.kind != "copy" for lane in lanes],
        processor=[on.get(lane.device, -1) for lane in lanes],
        cores=[cores.get(lane.device, 0) for lane in lanes],
        cursor=steps["wait_start"][starts[:-1]],
        place=-1,
        next_waiter=-1,
        load=_submission_loads(lanes, platform),
        rate=1.0,
        speed=1.0,
    )


def _submission_loads(lanes: Sequence[LaneLike], platform: Platform) -> list[float]:
    """Return how much the submitting thread slows each lane down, if all cores are taken.

    For devices whose processor is not stated; else the thread counts among those that share the cores. With ``c`` cores
    and ``t`` threads of the device's lanes on them, one more thread slows all of them to ``c / (t + 1)``, if that is
    less than 1.
    """
    computing: dict[str, int] = {}
    for lane in lanes:
        if lane.kind == "compute":
            computing[lane.device] = computing.get(lane.device, 0) + 1
    loads = dict.fromkeys(computing, 0.0)
    for device, used in computing.items():
        if platform.device(device).processor is None and platform.interference(device, HOST):
            cores = platform.device(device).compute_units
            apart = any({p.first, p.second} == {device} and p.factor < SEPARATE for p in platform.interferences)
            loads[device] = max(0.0, ((used if apart else cores) + 1) / cores - 1.0)
    return [loads[lane.device] if lane.kind == "compute" else 0.0 for lane in lanes]


def _devices(devices: dict[str, int], platform: Platform) -> tuple[Records, Records]:
    """Return the devices, and for each the rows of devices that slow it down."""
    here = [p for p in platform.interferences if p.first in devices and p.second in devices]
    factors = {frozenset((p.first, p.second)): _unshared(platform, p) for p in here}
    rows: list[list[tuple[int, float]]] = [[] for _ in devices]
    for pair, factor in factors.items():
        if factor > 0:
            first, last = devices[min(pair)], devices[max(pair)]
            rows[first].append((last, factor))
            if first != last:
                rows[last].append((first, factor))
    start = [0, *accumulate(map(len, rows))]
    flat = list(chain.from_iterable(rows))
    return (
        records(DEVICE, len(rows), interference_start=start[:-1], interference_end=start[1:], slowed=1.0),
        records(INTERFERENCE, len(flat), device=[d for d, _ in flat], factor=[f for _, f in flat]),
    )


def _unshared(platform: Platform, pair: Interference) -> float:
    """Return the interference factor of two devices without the part that follows from sharing cores."""
    first, second = platform.device(pair.first), platform.device(pair.second)
    if first.processor is None or first.processor != second.processor:
        return pair.factor
    wanted = platform.lane_cores(first) + platform.lane_cores(second)
    oversubscription = max(1.0, wanted / platform.processor_cores[first.processor])
    if first.is_host or second.is_host:
        return max(0.0, _DISPLACED / oversubscription - 1.0) if oversubscription > 1.0 else 0.0
    return max(0.0, (1.0 + pair.factor) / oversubscription - 1.0)


def _processors(platform: Platform) -> Records:
    """Return the processors; the thread that submits runs on that of its machine's host."""
    cores = platform.processor_cores
    hosts = {device.processor for device in platform.devices if device.is_host}
    return records(PROCESSOR, len(cores), cores=list(cores.values()), submitting=[name in hosts for name in cores])
