# SPDX-License-Identifier: Apache-2.0
"""Per-instruction execution records, run counters, and the trace built from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from syclsched.devices.native.sycl_types import SyclEvent
from syclsched.execution.core.clock import Anchor, ClockMap
from syclsched.model.plan import Instruction, Lane, Plan
from syclsched.model.trace import Span, Trace

Outcome = Literal["done", "failed", "cancelled"]


@dataclass(slots=True)
class Record:
    """Execution record of one instruction."""

    submit_ns: int  # host's clock at submission
    outcome: Outcome = "done"
    event: SyclEvent | None = None  # of a device instruction submitted from Python
    first_event: SyclEvent | None = None  # of a sequence of submissions: the event of the first one
    #: Start and finish on the device's clock, if the compiled loop submitted it.
    device_ns: tuple[int, int] | None = None
    #: Host's clock; of host instructions only.
    start_ns: int | None = None
    finish_ns: int | None = None

    @property
    def seconds(self) -> float | None:
        """Duration of an executed instruction; None if it was not executed, or its times are not known."""
        if self.outcome != "done":
            return None
        found = _device_ns(self) or (self.start_ns, self.finish_ns)
        if found[0] is None or found[1] is None or found[1] <= found[0]:
            return None
        return (found[1] - found[0]) * 1e-9


Nanoseconds = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Times:
    """Times of a run submitted entirely by the compiled loop, as arrays: 32 bytes per instruction."""

    numbers: Nanoseconds  # `Instruction.id`
    submit_ns: Nanoseconds  # host's clock
    #: Device's clock.
    start_ns: Nanoseconds
    finish_ns: Nanoseconds
    on_host: Mapping[int, Record] = field(default_factory=dict)  # records of host instructions, by number

    def __len__(self) -> int:
        return len(self.numbers) + len(self.on_host)

    @property
    def origin_ns(self) -> int:
        """The host's clock at the first submission; 2^62 if there is none."""
        first_ns = min((record.submit_ns for record in self.on_host.values()), default=1 << 62)
        return min(first_ns, int(self.submit_ns.min(initial=1 << 62)))

    def seconds(self) -> dict[int, float]:
        """Return the duration of each instruction whose times are known, by number."""
        spans_s = ((self.finish_ns - self.start_ns) * 1e-9).tolist()
        found = {number: s for number, s in zip(self.numbers.tolist(), spans_s, strict=True) if s > 0.0}
        return found | record_seconds(self.on_host)

    def records(self, outcomes: Mapping[int, Outcome]) -> dict[int, Record]:
        """Return the record of each instruction; an instruction without an entry in ``outcomes`` is done."""
        columns = (self.numbers, self.submit_ns, self.start_ns, self.finish_ns)
        return {
            number: Record(submit_ns, outcomes.get(number, "done"), device_ns=(start_ns, finish_ns))
            for number, submit_ns, start_ns, finish_ns in zip(*(c.tolist() for c in columns), strict=True)
        } | dict(self.on_host)


def record_seconds(records: Mapping[int, Record]) -> dict[int, float]:
    """Return the duration of each executed instruction, by number."""
    return {number: s for number, record in records.items() if (s := record.seconds) is not None}


@dataclass(slots=True)
class Counts:
    """Counters of one run."""

    submissions: int = 0
    barriers: int = 0
    events: int = 0
    host_waits: int = 0
    submission_ns: int = 0
    #: CPU time of the dispatching thread, from the first instruction to the last.
    dispatch_ns: int = 0
    #: Of a run under a dynamic policy: from the first decision to the end of the last task.
    loop_ns: int = 0
    #: Peak bytes of arrays, by memory space.
    peak_bytes: dict[str, int] = field(default_factory=dict)
    #: Peak bytes held for arrays, by memory space: with padding, preallocated memory and gaps.
    held_bytes: dict[str, int] = field(default_factory=dict)
    #: Bytes of constants in the implementations' own format, by memory space.
    constant_bytes: dict[str, int] = field(default_factory=dict)
    #: Number of times the hybrid policy adopted a new plan of the remaining tasks.
    replanned: int = 0
    #: Tasks whose host function raised and was called again, one entry per retry.
    retried: list[str] = field(default_factory=list)


def make_trace(
    plan: Plan,
    records: Mapping[int, Record],
    clocks: Mapping[str, ClockMap],
    counts: Counts,
    further: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
) -> Trace:
    """Return the trace of a finished run."""
    origin_ns = min((r.submit_ns for r in records.values()), default=0)
    families = {t.name: t.family for t in plan.tasks}
    clocks = _corrected(plan, records, clocks)
    stretch = plan.expected_s / plan.makespan_s if plan.makespan_s > 0.0 else 1.0
    spans = [
        _span(
            lane,
            instruction,
            records[instruction.id],
            clocks.get(lane.name),
            origin_ns,
            families,
            further.get(instruction.id, ()),
            stretch,
        )
        for lane in plan.lanes
        for instruction in lane.instructions
        if instruction.id in records
    ]
    spans.sort(key=lambda s: (s.start_s, s.instruction))
    return Trace(
        name=plan.name,
        policy=plan.policy,
        spans=tuple(spans),
        makespan_s=max((s.finish_s for s in spans), default=0.0),
        predicted_makespan_s=plan.expected_s,
        host_waits=counts.host_waits,
        events=counts.events,
        barriers=counts.barriers,
        submissions=counts.submissions,
        peak_bytes=dict(counts.peak_bytes),
        held_bytes=dict(counts.held_bytes),
        constant_bytes=dict(counts.constant_bytes),
    )


def _corrected(plan: Plan, records: Mapping[int, Record], clocks: Mapping[str, ClockMap]) -> dict[str, ClockMap]:
    """Return the clock maps shifted, within their error, so that no instruction starts before its submission."""
    early_ns: dict[tuple[Anchor, Anchor], int] = {}
    for lane in plan.lanes:
        clock = clocks.get(lane.name)
        if clock is None:
            continue
        for instruction in lane.instructions:
            record = records.get(instruction.id)
            times = None if record is None else _device_ns(record)
            if record is not None and times is not None:
                early = record.submit_ns - clock.to_host_ns(times[0])
                early_ns[clock.first, clock.last] = max(early, early_ns.get((clock.first, clock.last), 0))
    return {
        name: clock.shifted(min(early_ns.get((clock.first, clock.last), 0), clock.error_ns))
        for name, clock in clocks.items()
    }


def _device_ns(record: Record) -> tuple[int, int] | None:
    """Return start and finish on the device's clock."""
    if record.device_ns is not None or record.event is None:
        return record.device_ns
    first = record.event if record.first_event is None else record.first_event
    return first.profiling_info_start, record.event.profiling_info_end


def _span(
    lane: Lane,
    instruction: Instruction,
    record: Record,
    clock: ClockMap | None,
    origin_ns: int,
    families: Mapping[str, str],
    further: tuple[int, ...],
    stretch: float,  # of the predicted times, to the makespan expected
) -> Span:
    start_ns, finish_ns = _times(record, clock)
    return Span(
        instruction=instruction.id,
        kind=instruction.kind,
        task=instruction.task,
        implementation=instruction.implementation,
        family="copy" if instruction.kind == "copy" else families.get(instruction.task or "", instruction.kind),
        lane=lane.name,
        device=lane.device,
        lane_kind=lane.kind,
        submit_s=(record.submit_ns - origin_ns) * 1e-9,
        start_s=(start_ns - origin_ns) * 1e-9,
        finish_s=(finish_ns - origin_ns) * 1e-9,
        predicted_start_s=instruction.start_s * stretch,
        predicted_finish_s=instruction.finish_s * stretch,
        waits=(*instruction.waits, *(n for n in further if n not in instruction.waits)),
        nbytes=instruction.nbytes,
        outcome=record.outcome,
        uses=instruction.uses,
    )


def _times(record: Record, clock: ClockMap | None) -> tuple[int, int]:
    """Return start and finish on the host's clock, clamped so that the start is not before the submission."""
    times = _device_ns(record)
    if times is not None and clock is not None:
        start = max(record.submit_ns, clock.to_host_ns(times[0]))
        return start, max(start, clock.to_host_ns(times[1]))
    start = record.submit_ns if record.start_ns is None else record.start_ns
    return start, start if record.finish_ns is None else record.finish_ns
