# SPDX-License-Identifier: Apache-2.0
"""Summary of a trace: time per task family, utilisation, copied bytes, prediction error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from syclsched.model.plan import Plan
from syclsched.model.trace import Span, Trace
from syclsched.tracing.analysis.causes import StartCauses, find_start_causes
from syclsched.tracing.analysis.critical_path import CriticalPath, critical_path
from syclsched.tracing.analysis.deviation import deviates
from syclsched.tracing.analysis.idle import IdleTime, lane_idle, overlap_share
from syclsched.tracing.analysis.lanes import busy_seconds, lane_order


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """One family of tasks on one device with one implementation."""

    family: str
    device: str
    implementation: str  # empty for barriers
    tasks: int  # number of tasks that ran
    seconds: float  # sum of their durations on the device
    predicted_s: float  # the same sum as predicted


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """Use of one device."""

    device: str
    lanes: int  # number of compute lanes (or host lanes)
    tasks: int  # number of tasks run
    busy_s: float  # computing time, summed over lanes
    idle_s: float  # time without computing until the makespan, summed over lanes
    copying_s: float  # copying time on its queues, summed over lanes
    utilisation: float  # ``busy_s`` over ``lanes`` times makespan
    predicted_utilisation: float  # the same as planned
    idle: IdleTime = field(default_factory=IdleTime)  # ``idle_s`` by reason
    overlap: float | None = None  # share of the copying time in which kernels ran; None if nothing was copied


@dataclass(frozen=True, slots=True)
class _LaneRow:
    """Use of one lane."""

    lane: str
    device: str
    busy_s: float  # computing time
    utilisation: float  # ``busy_s`` over makespan
    idle: IdleTime  # the rest of the makespan by reason


@dataclass(frozen=True, slots=True)
class LinkRow:
    """Copies over one link."""

    link: str  # ``source -> destination`` if the plan is known, else the lane the copies ran on
    copies: int  # number of copies
    nbytes: int  # sum of their bytes
    seconds: float  # sum of their durations
    predicted_s: float  # the same sum as predicted

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Bytes per second while copying; 0 if no time was measured."""
        return self.nbytes / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class RunReport:
    """The numbers of one run."""

    name: str
    policy: str
    simulated: bool  # true if nothing was measured
    deviates: bool  # true if times differ from those predicted, as those of runs and of disturbed simulations do
    makespan_s: float  # measured or simulated
    predicted_makespan_s: float  # see `Plan.expected_s`
    families: tuple[FamilyRow, ...]  # the longest first
    devices: tuple[DeviceRow, ...]  # in the platform's order
    links: tuple[LinkRow, ...]  # the most bytes first
    dependencies: int | None  # of the graph; None if the plan is not known
    waits: int  # waits between lanes
    events: int
    barriers: int
    submissions: int
    host_waits: int
    # Kernels, host functions and barriers that failed or were cancelled.
    failed: int
    cancelled: int
    peak_bytes: Mapping[str, int]  # peak bytes of arrays, per space
    lower_bound_s: float = 0.0  # of the makespan; 0 if not known
    gap: float | None = None  # of the plan by simulation; see `Plan.gap`
    incomplete_copies: int = 0  # copies that failed or were cancelled
    held_bytes: Mapping[str, int] = field(default_factory=dict)
    planned_peak_bytes: Mapping[str, int] = field(default_factory=dict)
    constant_bytes: Mapping[str, int] = field(default_factory=dict)
    lanes: tuple[_LaneRow, ...] = ()  # compute and host lanes, in display order
    path: CriticalPath = field(default_factory=CriticalPath)  # with possible improvements

    @property
    def complete(self) -> bool:
        """True if nothing failed or was cancelled."""
        return not (self.failed or self.cancelled or self.incomplete_copies)

    @property
    def makespan_error(self) -> float:
        """Relative error of the prediction: (predicted - measured) / measured; 0 if nothing was measured."""
        return (self.predicted_makespan_s - self.makespan_s) / self.makespan_s if self.makespan_s > 0 else 0.0

    @property
    def copied_bytes(self) -> int:
        """Bytes moved between memory spaces."""
        return sum(row.nbytes for row in self.links)


def make_report(trace: Trace, plan: Plan | None = None) -> RunReport:
    """Return the report of a trace; a plan adds link names, dependencies, planned peaks and the lower bound."""
    work = [s.outcome for s in trace.spans if s.kind in ("launch", "host", "barrier")]
    ran = [s for s in trace.spans if s.outcome != "cancelled"]
    several = len({s.generation for s in trace.spans}) > 1  # the lower bound is for one instance of the plan
    causes = find_start_causes(trace, plan)
    lanes = _lane_rows(causes, trace)
    return RunReport(
        name=trace.name,
        policy=trace.policy,
        simulated=trace.simulated,
        deviates=not trace.simulated or deviates(trace),
        makespan_s=trace.makespan_s,
        predicted_makespan_s=trace.predicted_makespan_s,
        families=_families(ran),
        devices=_devices(ran, trace, plan, lanes),
        links=_links(ran),
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
        gap=None if plan is None or several else plan.gap,
        incomplete_copies=sum(1 for s in trace.spans if s.kind == "copy" and s.outcome != "done"),
        lanes=lanes,
        path=critical_path(causes, plan),
    )


def _families(spans: Iterable[Span]) -> tuple[FamilyRow, ...]:
    groups: dict[tuple[str, str, str], list[Span]] = {}
    for span in spans:
        if span.kind != "copy":
            groups.setdefault((span.family, span.device, span.implementation or ""), []).append(span)
    rows = [FamilyRow(*key, len(group), _measured_s(group), _predicted_s(group)) for key, group in groups.items()]
    return tuple(sorted(rows, key=lambda r: (-r.seconds, r.family, r.device, r.implementation)))


def _lane_rows(causes: StartCauses, trace: Trace) -> tuple[_LaneRow, ...]:
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
        found.append(_LaneRow(lane, device, busy_s, share, lane_idle(causes, lane, trace.makespan_s)))
    return tuple(found)


def _devices(spans: list[Span], trace: Trace, plan: Plan | None, rows: tuple[_LaneRow, ...]) -> tuple[DeviceRow, ...]:
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


def _device(name: str, lanes: int, spans: list[Span], trace: Trace, rows: tuple[_LaneRow, ...]) -> DeviceRow:
    device_spans = [s for s in spans if s.device == name]
    tasks = [s for s in device_spans if s.kind != "copy"]
    copies = [s for s in device_spans if s.kind == "copy"]
    busy_s, copying_s = _busy_on_lanes(tasks), _busy_on_lanes(copies)
    used = [row for row in rows if row.device == name]
    idle = IdleTime(no_task_s=(lanes - len(used)) * trace.makespan_s)
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
        predicted_utilisation=_predicted_s(tasks) / predicted_s if predicted_s > 0 else 0.0,
        idle=idle,
        overlap=overlap_share(copies, tasks),
    )


def _busy_on_lanes(spans: Iterable[Span]) -> float:
    """Return the busy seconds of each lane, summed."""
    lanes: dict[str, list[tuple[float, float]]] = {}
    for span in spans:
        lanes.setdefault(span.lane, []).append((span.start_s, span.finish_s))
    return sum(map(busy_seconds, lanes.values()))


def _links(spans: Iterable[Span]) -> tuple[LinkRow, ...]:
    groups: dict[str, list[Span]] = {}
    for span in spans:
        if span.kind == "copy":
            source = next((use.space for use in span.uses if not use.mode.writes), None)
            target = next((use.space for use in span.uses if use.mode.writes), None)
            groups.setdefault(f"{source} -> {target}" if span.uses else f"on {span.lane}", []).append(span)
    rows = [
        LinkRow(link, len(group), sum(s.nbytes for s in group), _measured_s(group), _predicted_s(group))
        for link, group in groups.items()
    ]
    return tuple(sorted(rows, key=lambda r: (-r.nbytes, r.link)))


def _measured_s(spans: Iterable[Span]) -> float:
    return sum(max(0.0, s.duration_s) for s in spans)


def _predicted_s(spans: Iterable[Span]) -> float:
    return sum(max(0.0, s.predicted_finish_s - s.predicted_start_s) for s in spans)
