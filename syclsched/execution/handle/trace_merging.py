# SPDX-License-Identifier: Apache-2.0
"""Merging of the traces and counters of successive engines of one run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from syclsched.execution.core.execution_records import Counts
from syclsched.model.recovery import Recovery
from syclsched.model.trace import Span, Trace


class EngineTrace(NamedTuple):
    """Trace of one engine, with its origin."""

    trace: Trace
    origin_ns: int  # host's clock at the start of the trace; 0 if the trace is empty


def merge_traces(courses: Sequence[EngineTrace], recoveries: Sequence[Recovery]) -> Trace:
    """Return one trace of successive engines."""
    first = courses[0].trace
    if len(courses) == 1:
        return replace(first, recoveries=tuple(recoveries))
    origin_ns = min((c.origin_ns for c in courses if c.trace.spans), default=0)
    spans: list[Span] = []
    for index, (trace, begun_ns) in enumerate(courses):
        later = {span.task for after in courses[index + 1 :] for span in after.trace.spans}
        offset_s, offset = (begun_ns - origin_ns) * 1e-9, max((s.instruction for s in spans), default=-1) + 1
        spans += [
            _shifted(span, offset_s, offset)
            for span in trace.spans
            if not (span.outcome == "cancelled" and (span.task in later or span.kind == "copy"))
        ]
    traces = [course.trace for course in courses]
    return replace(
        first,
        spans=tuple(sorted(spans, key=lambda s: (s.start_s, s.instruction))),
        makespan_s=max((s.finish_s for s in spans), default=0.0),
        host_waits=sum(t.host_waits for t in traces),
        events=sum(t.events for t in traces),
        barriers=sum(t.barriers for t in traces),
        submissions=sum(t.submissions for t in traces),
        peak_bytes=_maximum([t.peak_bytes for t in traces]),
        held_bytes=_maximum([t.held_bytes for t in traces]),
        constant_bytes=_maximum([t.constant_bytes for t in traces]),
        recoveries=tuple(recoveries),
    )


def sum_counts(counts: Sequence[Counts]) -> Counts:
    """Return the sum of successive engines' counters, and the maximum of their memory use."""
    peaks, held = _maximum([c.peak_bytes for c in counts]), _maximum([c.held_bytes for c in counts])
    return Counts(
        submissions=sum(c.submissions for c in counts),
        barriers=sum(c.barriers for c in counts),
        events=sum(c.events for c in counts),
        host_waits=sum(c.host_waits for c in counts),
        submission_ns=sum(c.submission_ns for c in counts),
        dispatch_ns=sum(c.dispatch_ns for c in counts),
        replanned=sum(c.replanned for c in counts),
        peak_bytes=peaks,
        held_bytes=held,
        constant_bytes=_maximum([c.constant_bytes for c in counts]),
        retried=[task for c in counts for task in c.retried],
    )


def _maximum(bytes_by_space: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in bytes_by_space:
        for space, nbytes in each.items():
            found[space] = max(nbytes, found.get(space, 0))
    return found


def _shifted(span: Span, offset_s: float, offset: int) -> Span:
    return replace(
        span,
        instruction=span.instruction + offset,
        waits=tuple(number + offset for number in span.waits),
        submit_s=span.submit_s + offset_s,
        start_s=span.start_s + offset_s,
        finish_s=span.finish_s + offset_s,
        predicted_start_s=span.predicted_start_s + offset_s,
        predicted_finish_s=span.predicted_finish_s + offset_s,
    )
