# SPDX-License-Identifier: Apache-2.0
"""What a trace says in numbers: where the work went, how busy each device was, what moved, how right the plan was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from syclsched.model.plan import Plan
from syclsched.model.trace import Span, Trace
from syclsched.tracing.causes import Causes, find_causes
from syclsched.tracing.critical import CriticalPath, critical_path
from syclsched.tracing.idle import Idle, lane_idle, overlap
from syclsched.tracing.lanes import lane_order


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """One family of tasks on one device with one implementation."""

    #: Which; ``implementation`` is empty for barriers.
    family: str
    device: str
    implementation: str
    tasks: int  # how many ran
    seconds: float  # sum of their durations, in device seconds
    predicted_s: float  # the same by the plan


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """How busy one device was."""

    device: str  # which
    lanes: int  # compute lanes (or host lanes) it has
    tasks: int  # tasks run on it
    busy_s: float  # seconds its lanes computed, summed over lanes
    idle_s: float  # seconds its lanes did not compute until the makespan, summed over lanes
    copying_s: float  # seconds copies ran on its queues, summed over lanes
    utilisation: float  # ``busy_s`` over ``lanes`` times makespan
    predicted_utilisation: float  # the same by the plan
    idle: Idle = field(default_factory=Idle)  # why its lanes did not compute, summed over them: adds up to ``idle_s``
    #: The share of its copying time in which its kernels ran, too; None if nothing was copied.
    overlap: float | None = None


@dataclass(frozen=True, slots=True)
class LaneRow:
    """How busy one lane was."""

    #: Which.
    lane: str
    device: str
    busy_s: float  # seconds it computed
    utilisation: float  # the same as a share of the makespan
    idle: Idle  # why it did not compute the rest of the time


@dataclass(frozen=True, slots=True)
class LinkRow:
    """What moved over one link."""

    link: str  # ``source -> destination`` if the plan is known, else the lane the copies ran on
    copies: int  # how many
    nbytes: int  # their bytes
    seconds: float  # sum of their durations
    predicted_s: float  # the same by the plan

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Bytes a second while copying; 0 if no time was measured."""
        return self.nbytes / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """A trace in numbers."""

    #: From the trace.
    name: str
    policy: str
    simulated: bool  # true if nothing was measured
    #: Measured and by the plan.
    makespan_s: float
    predicted_makespan_s: float
    families: tuple[FamilyRow, ...]  # the longest first
    devices: tuple[DeviceRow, ...]  # in the platform's order
    links: tuple[LinkRow, ...]  # the most bytes first
    dependencies: int | None  # of the graph; None if the plan is not known
    waits: int  # waits between lanes
    #: From the trace.
    events: int
    barriers: int
    submissions: int
    host_waits: int
    #: Kernels, host functions and barriers that did not end well.
    failed: int
    cancelled: int
    peak_bytes: Mapping[str, int]  # most bytes of arrays at once, per space
    lower_bound_s: float = 0.0  # of the plan's makespan; 0 if nothing is known
    copies_undone: int = 0  # copies that did not end well
    held_bytes: Mapping[str, int] = field(default_factory=dict)
    planned_peak_bytes: Mapping[str, int] = field(default_factory=dict)
    constant_bytes: Mapping[str, int] = field(default_factory=dict)
    lanes: tuple[LaneRow, ...] = ()  # those that compute, in the platform's order
    path: CriticalPath = field(default_factory=CriticalPath)  # why it did not end earlier

    @property
    def complete(self) -> bool:
        """Whether everything was done."""
        return not (self.failed or self.cancelled or self.copies_undone)

    @property
    def gap(self) -> float | None:
        """By what share of the lower bound the predicted makespan is above it; None if there is no bound."""
        return max(0.0, self.predicted_makespan_s / self.lower_bound_s - 1.0) if self.lower_bound_s > 0.0 else None

    @property
    def makespan_error(self) -> float:
        """How far the plan was off: (predicted - measured) / measured; 0 if nothing was measured."""
        return (self.predicted_makespan_s - self.makespan_s) / self.makespan_s if self.makespan_s > 0 else 0.0

    @property
    def copied_bytes(self) -> int:
        """Bytes moved between memory spaces."""
        return sum(row.nbytes for row in self.links)


def make_report(trace: Trace, plan: Plan | None = None) -> Report:
    """Return a trace in numbers."""
    work = [s.outcome for s in trace.spans if s.kind in ("launch", "host", "barrier")]
    ran = [s for s in trace.spans if s.outcome != "cancelled"]
    several = len({s.generation for s in trace.spans}) > 1  # the bound is that of one
    causes = find_causes(trace, plan)
    lanes = _lane_rows(causes, trace)
    return Report(
        name=trace.name,
        policy=trace.policy,
        simulated=trace.simulated,
        makespan_s=trace.makespan_s,
        predicted_makespan_s=trace.predicted_makespan_s,
        families=_families(ran),
        devices=_devices(ran, trace, plan, lanes),
        links=_links(ran, plan),
        dependencies=None if plan is None else plan.counters.dependencies,
        waits=sum(len(s.waits) for s in trace.spans),
        events=trace.events,
        barriers=trace.barriers,
        submissions=trace.submissions,
        host_waits=trace.host_waits,
        failed=work.count("failed"),
        cancelled=work.count("cancelled"),
        peak_bytes=dict(trace.peak_bytes),
        constant_bytes=dict(trace.constant_bytes),
        held_bytes=dict(trace.held_bytes),
        planned_peak_bytes={} if plan is None else dict(plan.peak_bytes),
        lower_bound_s=0.0 if plan is None or several else plan.lower_bound_s,
        copies_undone=sum(1 for s in trace.spans if s.kind == "copy" and s.outcome != "done"),
        lanes=lanes,
        path=critical_path(causes, plan),
    )


def busy_seconds(intervals: Iterable[tuple[float, float]]) -> float:
    """Return how long at least one of some intervals lasted, overlaps counted once."""
    total = 0.0
    reached = float("-inf")
    for start, finish in sorted(intervals):
        total += max(0.0, finish - max(start, reached))
        reached = max(reached, finish)
    return total


def _families(spans: Iterable[Span]) -> tuple[FamilyRow, ...]:
    groups: dict[tuple[str, str, str], list[Span]] = {}
    for span in spans:
        if span.kind != "copy":
            groups.setdefault((span.family, span.device, span.implementation or ""), []).append(span)
    rows = [FamilyRow(*key, len(group), _measured(group), _predicted(group)) for key, group in groups.items()]
    return tuple(sorted(rows, key=lambda r: (-r.seconds, r.family, r.device, r.implementation)))


def _lane_rows(causes: Causes, trace: Trace) -> tuple[LaneRow, ...]:
    found = []
    order = lane_order(trace.spans)
    kinds = {s.lane: (s.device, s.lane_kind) for s in trace.spans}
    for lane in order:
        device, kind = kinds[lane]
        if kind == "copy":
            continue
        tasks = [s for s in causes.spans if s.lane == lane and s.kind != "copy"]
        busy_s = busy_seconds((s.start_s, s.finish_s) for s in tasks)
        share = busy_s / trace.makespan_s if trace.makespan_s > 0 else 0.0
        found.append(LaneRow(lane, device, busy_s, share, lane_idle(causes, lane, trace.makespan_s)))
    return tuple(found)


def _devices(spans: list[Span], trace: Trace, plan: Plan | None, rows: tuple[LaneRow, ...]) -> tuple[DeviceRow, ...]:
    lanes: dict[str, int] = {}
    if plan is not None:
        lanes = {d.name: d.lanes for d in plan.platform.devices}
    seen: dict[str, set[str]] = {}
    for span in trace.spans:
        seen.setdefault(span.device, set())
        if span.lane_kind != "copy":
            seen[span.device].add(span.lane)
    for device, names in seen.items():
        lanes[device] = max(lanes.get(device, 1), len(names))
    return tuple(_device(name, count, spans, trace, rows) for name, count in lanes.items())


def _device(name: str, lanes: int, spans: list[Span], trace: Trace, rows: tuple[LaneRow, ...]) -> DeviceRow:
    mine = [s for s in spans if s.device == name]
    tasks = [s for s in mine if s.kind != "copy"]
    busy_s = sum(busy_seconds((s.start_s, s.finish_s) for s in lane) for lane in _by_lane(tasks))
    copying_s = sum(
        busy_seconds((s.start_s, s.finish_s) for s in lane) for lane in _by_lane(s for s in mine if s.kind == "copy")
    )
    used = [row for row in rows if row.device == name]
    idle = Idle(no_task_s=(lanes - len(used)) * trace.makespan_s)
    for row in used:
        idle.add(row.idle)
    capacity_s, predicted_s = lanes * trace.makespan_s, lanes * trace.predicted_makespan_s
    return DeviceRow(
        device=name,
        lanes=lanes,
        tasks=sum(1 for s in tasks if s.kind != "barrier"),
        busy_s=busy_s,
        idle_s=max(0.0, capacity_s - busy_s),
        copying_s=copying_s,
        utilisation=busy_s / capacity_s if capacity_s > 0 else 0.0,
        predicted_utilisation=_predicted(tasks) / predicted_s if predicted_s > 0 else 0.0,
        idle=idle,
        overlap=overlap((s for s in mine if s.kind == "copy"), tasks),
    )


def _by_lane(spans: Iterable[Span]) -> list[list[Span]]:
    groups: dict[str, list[Span]] = {}
    for span in spans:
        groups.setdefault(span.lane, []).append(span)
    return list(groups.values())


def _links(spans: Iterable[Span], plan: Plan | None) -> tuple[LinkRow, ...]:
    names: dict[int, str] = {}
    step = 1 + max((i.id for _, i in plan.instructions()), default=0) if plan is not None else 1
    for _, instruction in plan.instructions() if plan is not None else ():
        if instruction.kind == "copy":
            source = next((u.space for u in instruction.uses if not u.mode.writes), "?")
            target = next((u.space for u in instruction.uses if u.mode.writes), "?")
            names[instruction.id] = f"{source} -> {target}"
    groups: dict[str, list[Span]] = {}
    for span in spans:
        if span.kind == "copy":
            groups.setdefault(names.get(span.instruction % step, f"on {span.lane}"), []).append(span)
    rows = [
        LinkRow(link, len(group), sum(s.nbytes for s in group), _measured(group), _predicted(group))
        for link, group in groups.items()
    ]
    return tuple(sorted(rows, key=lambda r: (-r.nbytes, r.link)))


def _measured(spans: Iterable[Span]) -> float:
    return sum(max(0.0, s.duration_s) for s in spans)


def _predicted(spans: Iterable[Span]) -> float:
    return sum(max(0.0, s.predicted_finish_s - s.predicted_start_s) for s in spans)
