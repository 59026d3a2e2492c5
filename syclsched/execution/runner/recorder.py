# SPDX-License-Identifier: Apache-2.0
"""Bounded history of recorded runs, and their traces."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from syclsched.execution.core.clock import ClockMap
from syclsched.execution.core.execution_records import Counts, Outcome, Record, Times, make_trace
from syclsched.execution.handle.engine import Engine
from syclsched.execution.handle.trace_merging import EngineTrace, merge_traces
from syclsched.execution.replay.replay import Replay
from syclsched.execution.runner.span_ordering import order_spans
from syclsched.model.plan import Plan
from syclsched.model.recovery import Recovery
from syclsched.model.trace import Span, Trace

#: Default number of runs kept, and the most instructions of all of them together; the last run is always kept.
KEPT_RUNS, KEPT_INSTRUCTIONS = 16, 1_000_000


@dataclass(frozen=True, slots=True)
class _RunRecording:
    """The recorded times of one run; its trace is built on request."""

    plan: Plan  # the plan that ran
    counts: Counts
    clocks: Callable[[], Mapping[str, ClockMap]]  # returns the device clock maps by lane name
    times: Times | Mapping[int, Record]  # from the compiled loop, or from the dispatcher
    outcomes: Mapping[int, Outcome]  # of instructions that failed or were cancelled
    generation: int = 0  # index in its stream
    before: tuple[EngineTrace, ...] = ()  # traces of earlier engines, if the run was recovered
    recoveries: tuple[Recovery, ...] = ()  # the recoveries between these engines
    #: Waits added to those of the plan; see `Program.waiting_also`.
    further: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.times) + sum(len(course.trace.spans) for course in self.before)

    @property
    def origin_ns(self) -> int:
        """The host's clock at the first submission."""
        return min([self._own_origin_ns, *(course.origin_ns for course in self.before if course.trace.spans)])

    @property
    def _own_origin_ns(self) -> int:
        if isinstance(self.times, Times):
            return self.times.origin_ns
        return min((record.submit_ns for record in self.times.values()), default=1 << 62)

    def trace(self) -> Trace:
        """Return the trace of the run, including engines before a recovery."""
        records = self.times.records(self.outcomes) if isinstance(self.times, Times) else self.times
        own = make_trace(self.plan, records, self.clocks(), self.counts, self.further)
        return (
            merge_traces([*self.before, EngineTrace(own, self._own_origin_ns)], self.recoveries)
            if self.recoveries
            else own
        )


def _recording_of(engine: Engine, generation: int = 0) -> _RunRecording:
    """Return the recording of an engine whose run has ended, without keeping its buffers alive."""
    plan, counts, further = engine.program.plan, engine.counts, engine.program.further
    if isinstance(engine, Replay) and engine.times is not None:
        return _RunRecording(
            plan, counts, engine.clock_maps, engine.times, engine.outcomes, generation, further=further
        )
    records, clocks = engine.records, engine.clocks
    return _RunRecording(plan, counts, lambda: clocks, records, {}, generation, further=further)


class Recorder:
    """Bounded buffer of the last runs' recordings; thread-safe."""

    def __init__(self, keep: int = KEPT_RUNS) -> None:
        self.keep = keep
        self._kept: deque[_RunRecording] = deque()
        self._instructions = 0
        self._lock = threading.Lock()

    def add(
        self,
        engine: Engine,
        generation: int = 0,
        before: tuple[EngineTrace, ...] = (),
        recoveries: tuple[Recovery, ...] = (),
    ) -> None:
        """Add the recording of a run that has ended, by its last engine, and drop the oldest beyond the limits."""
        if not (self.keep and engine.recording):
            return
        recording = _recording_of(engine, generation)
        if recoveries:
            recording = replace(recording, before=before, recoveries=recoveries)
        with self._lock:
            self._kept.append(recording)
            self._instructions += len(recording)
            while len(self._kept) > self.keep or (self._instructions > KEPT_INSTRUCTIONS and len(self._kept) > 1):
                self._instructions -= len(self._kept.popleft())

    @property
    def recordings(self) -> tuple[_RunRecording, ...]:
        """The recordings kept, oldest first."""
        with self._lock:
            return tuple(self._kept)

    def clear(self) -> None:
        """Drop all recordings."""
        with self._lock:
            self._kept.clear()
            self._instructions = 0


def merge_recordings(
    recordings: Sequence[_RunRecording], predicted: Callable[[int, int], tuple[float, float] | None] | None = None
) -> Trace:
    """Return one trace of several instances of a plan, on one clock."""
    plan = recordings[0].plan
    traces = [recording.trace() for recording in recordings]
    numbers = [max((s.instruction for s in trace.spans), default=0) for trace in traces]
    step = 1 + max(*numbers, max((i.id for _, i in plan.instructions()), default=0))
    origin_ns = min(recording.origin_ns for recording in recordings)
    spans: list[Span] = []
    counts = Counts()
    predicted_s = 0.0
    for position, (recording, trace) in enumerate(zip(recordings, traces, strict=True)):
        offset_s = (recording.origin_ns - origin_ns) * 1e-9
        for span in trace.spans:
            times = None if predicted is None else predicted(span.instruction, position)
            shift_s = position * plan.makespan_s
            begin_s, end_s = times or (span.predicted_start_s + shift_s, span.predicted_finish_s + shift_s)
            predicted_s = max(predicted_s, end_s)
            spans.append(
                replace(
                    span,
                    instruction=span.instruction + position * step,
                    waits=tuple(w + position * step for w in span.waits),
                    submit_s=span.submit_s + offset_s,
                    start_s=span.start_s + offset_s,
                    finish_s=span.finish_s + offset_s,
                    predicted_start_s=begin_s,
                    predicted_finish_s=end_s,
                    generation=recording.generation,
                )
            )
        counts.host_waits += trace.host_waits
        counts.events += trace.events
        counts.barriers += trace.barriers
        counts.submissions += trace.submissions
        for space, nbytes in trace.peak_bytes.items():
            counts.peak_bytes[space] = max(nbytes, counts.peak_bytes.get(space, 0))
    spans = sorted(order_spans(spans), key=lambda s: (s.start_s, s.instruction))
    return Trace(
        name=plan.name,
        policy=plan.policy,
        spans=tuple(spans),
        makespan_s=max((s.finish_s for s in spans), default=0.0),
        predicted_makespan_s=predicted_s,
        host_waits=counts.host_waits,
        events=counts.events,
        barriers=counts.barriers,
        submissions=counts.submissions,
        peak_bytes=counts.peak_bytes,
        recoveries=tuple(recovery for recording in recordings for recovery in recording.recoveries),
    )
