# SPDX-License-Identifier: Apache-2.0
"""Selection of devices that can share a divisible load without sharing cores, and their costs per row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from syclsched.costs import CostModel
from syclsched.errors import PlatformError
from syclsched.model.operation import Signature
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.task import LogicalArray, Task
from syclsched.rewrites.divisible import LoadWorker
from syclsched.rewrites.granularity import concurrent_lanes, without_shared_cores
from syclsched.rewrites.regions import Region, Traffic


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """One lane of a device that may take part."""

    device: Device
    beside: int  # number of the device's slots, which share its link


def select_workers(platform: Platform, tasks: Iterable[Task], costs: CostModel) -> tuple[WorkerSlot, ...]:
    """Return lanes that can compute at the same time without slowing each other down, the fastest devices first."""
    speed = dict.fromkeys((device.name for device in platform.devices), 0.0)
    for task in tasks:
        choices = costs.choices(task, platform.devices)
        fastest = min((c[1].seconds for c in choices if c is not None), default=0.0)
        for device, choice in zip(platform.devices, choices, strict=True):
            if choice is not None:
                speed[device.name] += fastest / choice[1].seconds if choice[1].seconds > 0 else 1.0
    useful = [d for d in sorted(platform.devices, key=lambda d: -speed[d.name]) if speed[d.name] > 0]
    lanes = [(device, concurrent_lanes(platform, device)) for device in without_shared_cores(platform, useful)]
    return tuple(WorkerSlot(device, count) for device, count in lanes for _ in range(count))


def worker_costs(
    seat: WorkerSlot,
    region: Region,
    traffic: Traffic,
    costs: CostModel,
    arrays: Mapping[str, LogicalArray],
    overhead_s: float,
) -> LoadWorker | None:
    """Return the cost of a region's rows on a lane; None if it cannot run there."""
    each = [_line(task, region.rows, seat.device, costs) for task in region.tasks]
    lines = [line for line in each if line is not None]
    if len(lines) < len(each):
        return None
    try:
        there, back = _copy_lines(seat.device, costs)
    except PlatformError:
        return None
    inward = [arrays[name].nbytes for name in (*traffic.given, *traffic.made)]
    outward = [arrays[name].nbytes for name in traffic.results]
    chunk_s = sum(fixed for fixed, _ in lines) + overhead_s * len(lines)
    return LoadWorker(
        setup_s=sum(there[0] + arrays[name].nbytes * there[1] for name in traffic.shared if arrays[name].nbytes),
        chunk_s=chunk_s + len(inward) * there[0] + len(outward) * back[0],
        copy_s=seat.beside * (sum(inward) * there[1] + sum(outward) * back[1]) / region.rows,
        compute_s=sum(per_row for _, per_row in lines),
    )


# --- inside ---------------------------------------------------------------------------------------


def _line(task: Task, rows: int, device: Device, costs: CostModel) -> tuple[float, float] | None:
    """Return a task's seconds per launch and per row on a device, from its costs for all rows and for half of them."""
    whole, half = costs.best(task, device), costs.best(_with_rows(task, rows // 2), device)
    if whole is None or half is None:
        return None
    whole_s, half_s = whole[1].seconds, half[1].seconds
    if whole[1].origin != half[1].origin or not 0 < half_s < whole_s:
        return 0.0, whole_s / rows  # one measured, one modelled: not comparable
    per_row = min((whole_s - half_s) / (rows - rows // 2), whole_s / rows)
    return whole_s - rows * per_row, per_row


def _with_rows(task: Task, rows: int) -> Task:
    """Return a task as it would be with another number of rows."""
    assert task.operation is not None
    assert task.operation.split is not None
    assert task.signature is not None
    shapes = dict(task.signature.shapes)
    for name in task.operation.split.cut(task.signature):
        shapes[name] = (rows, *shapes[name][1:])
    scalars = dict(task.signature.scalars)
    if task.operation.split.scalars is not None:
        scalars |= task.operation.split.scalars(task.signature, 0, rows)
    return replace(task, signature=Signature(shapes, task.signature.dtypes, scalars))


def _copy_lines(device: Device, costs: CostModel) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return latency and seconds per byte of copies from the host's memory to a device, and back."""
    free = (0.0, 0.0)
    host = next((d for d in costs.platform.devices if d.is_host), None)
    there = free if HOST in device.reaches else costs.copy_latency_and_slope(HOST, device.space)
    within = host is not None and device.space in host.reaches
    return there, free if within else costs.copy_latency_and_slope(device.space, HOST)


def harmonic_s(task: Task, seats: Sequence[WorkerSlot], costs: CostModel) -> float:
    """Return the seconds of a task if all lanes that can run it shared it without loss; 0 if there is none."""
    choices = costs.choices(task, [seat.device for seat in seats])
    speeds = [1.0 / c[1].seconds for c in choices if c is not None and c[1].seconds > 0]
    return 1.0 / sum(speeds) if speeds else 0.0
