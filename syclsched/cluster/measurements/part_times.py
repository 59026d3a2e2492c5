# SPDX-License-Identifier: Apache-2.0
"""Times of the parts of a run and of the copies between them, beside the times that the plan predicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from syclsched.model.plan import Instruction, Plan
from syclsched.model.platform_parts.machines import local_name, machine_of
from syclsched.model.text.sections import Section, facts, table
from syclsched.model.text.units import format_bytes, format_seconds, plural
from syclsched.model.trace import Span, Trace


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Time for which a device of a machine computed.

    Parameters
    ----------
    device : str
        Name of the device on its machine.
    tasks : int
        Number of tasks it ran.
    busy_s, predicted_s : float
        Sum of their durations in seconds, measured and as the plan predicts it.
    """

    device: str
    tasks: int
    busy_s: float
    predicted_s: float


@dataclass(frozen=True, slots=True)
class PartTime:
    """Time of one machine's part of a run.

    Parameters
    ----------
    machine : str
        Name of the machine.
    seconds : float
        From the start of the part on the machine to its end there, waits for other machines included.
    predicted_s : float
        From the start of the run to the end of the part, as the plan predicts it.
    replayed : bool
        Whether compiled code replayed the part; else its instructions were dispatched one by one.
    devices : tuple of DeviceTime
        The devices that ran tasks.
    """

    machine: str
    seconds: float
    predicted_s: float
    replayed: bool
    devices: tuple[DeviceTime, ...]


def part_time(plan: Plan, machine: str, seconds: float, replayed: bool, trace: Trace) -> PartTime:
    """Return the time of a machine's part, of the tasks that it ran; ``trace`` is that of all machines."""
    busy_s: dict[str, float] = {}
    ran = {span.task for span in trace.spans if span.outcome == "done"} | {None}
    counts: dict[str, int] = {}
    for span in trace.spans:
        if span.kind in ("launch", "host") and machine_of(span.device) == machine:
            device = local_name(span.device)
            busy_s[device] = busy_s.get(device, 0.0) + span.duration_s
            counts[device] = counts.get(device, 0) + (span.outcome == "done")
    predicted: dict[str, float] = {}
    ends_s = 0.0
    for lane, instruction in plan.instructions():
        if machine_of(lane.device) != machine or instruction.task not in ran:
            continue
        ends_s = max(ends_s, instruction.finish_s)
        if instruction.kind in ("launch", "host"):
            device = local_name(lane.device)
            predicted[device] = predicted.get(device, 0.0) + instruction.duration_s
    used = dict.fromkeys((*predicted, *counts))  # a dynamic policy uses others than the plan
    devices = tuple(DeviceTime(d, counts.get(d, 0), busy_s.get(d, 0.0), predicted.get(d, 0.0)) for d in used)
    return PartTime(machine, seconds, ends_s, replayed, devices)


def summed(times: Sequence[PartTime]) -> PartTime:
    """Return the time of a machine's parts in successive attempts of a run."""
    devices: dict[str, DeviceTime] = {}
    for each in (device for part in times for device in part.devices):
        before = devices.get(each.device, DeviceTime(each.device, 0, 0.0, 0.0))
        devices[each.device] = DeviceTime(
            each.device,
            before.tasks + each.tasks,
            before.busy_s + each.busy_s,
            before.predicted_s + each.predicted_s,
        )
    return PartTime(
        times[0].machine,
        sum(each.seconds for each in times),
        sum(each.predicted_s for each in times),
        all(each.replayed for each in times),
        tuple(devices.values()),
    )


def run_sections(
    plan: Plan, trace: Trace, seconds: float, parts: Sequence[PartTime], clock_error_s: float
) -> list[Section]:
    """Return a run's times as tables, of parts, devices and copies."""
    pairs = [
        ("measured", format_seconds(seconds)),
        ("predicted", format_seconds(plan.makespan_s)),
        ("clocks known within", format_seconds(clock_error_s)),
    ]
    pairs += [("recovered", str(recovery)) for recovery in trace.recoveries]
    machines = [
        (
            each.machine,
            format_seconds(each.seconds),
            format_seconds(each.predicted_s),
            "replayed" if each.replayed else "dispatched",
        )
        for each in parts
    ]
    devices = [
        (each.machine, d.device, str(d.tasks), format_seconds(d.busy_s), format_seconds(d.predicted_s))
        for each in parts
        for d in each.devices
    ]
    sections = [
        facts(f"Run of {plan.name!r} on {plural(len(parts), 'machine')}", pairs),
        table("Machines", ("machine", "measured", "predicted", "instructions"), machines, numbers=(1, 2)),
        table("Devices", ("machine", "device", "tasks", "busy", "predicted"), devices, numbers=(2, 3, 4)),
    ]
    if copies := _copies(plan, trace):
        headings = ("from", "to", "messages", "data", "predicted", "time", "predicted")
        sections.append(table("Network", headings, copies, numbers=(2, 3, 4, 5, 6)))
    return sections


def _copies(plan: Plan, trace: Trace) -> list[tuple[str, ...]]:
    """Return a row for each pair of machines: messages, bytes and the sum of their times, beside those of the plan."""
    planned = _totals(instruction for _, instruction in plan.instructions())
    seen = _totals(trace.spans)
    rows = []
    for pair in sorted(planned.keys() | seen.keys()):
        _, predicted_bytes, predicted_s = planned.get(pair, (0, 0, 0.0))
        messages, nbytes, copied_s = seen.get(pair, (0, 0, 0.0))
        data, times = map(format_bytes, (nbytes, predicted_bytes)), map(format_seconds, (copied_s, predicted_s))
        rows.append((*pair, str(messages), *data, *times))
    return rows


def _totals(steps: Iterable[Instruction | Span]) -> dict[tuple[str, str], tuple[int, int, float]]:
    """Return number, bytes and seconds of the copies between machines, by source and destination."""
    found: dict[tuple[str, str], tuple[int, int, float]] = {}
    for step in steps:
        source = {machine_of(use.space) for use in step.uses if not use.mode.writes}
        destination = {machine_of(use.space) for use in step.uses if use.mode.writes}
        pair = "".join(source), "".join(destination)
        if step.kind == "copy" and all(pair) and source != destination:
            count, nbytes, seconds = found.get(pair, (0, 0, 0.0))
            found[pair] = count + 1, nbytes + step.nbytes, seconds + step.duration_s
    return found
