# SPDX-License-Identifier: Apache-2.0
"""The traces of engines that followed each other, as one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from syclsched.execution.records import Counts
from syclsched.model.recovery import Recovery
from syclsched.model.trace import Span, Trace


class Course(NamedTuple):
    """What one engine did."""

    trace: Trace  # its own
    origin_ns: int  # the host's clock where the trace begins; 0 if nothing is in it


def merge(courses: Sequence[Course], recoveries: Sequence[Recovery]) -> Trace:
    """Return one trace of engines that followed each other."""
    first = courses[0].trace
    if len(courses) == 1:
        return first
    origin_ns = min((c.origin_ns for c in courses if c.trace.spans), default=0)
    spans: list[Span] = []
    for at, (trace, begun_ns) in enumerate(courses):
        later = {span.task for after in courses[at + 1 :] for span in after.trace.spans}
        by_s, by_number = (begun_ns - origin_ns) * 1e-9, max((s.instruction for s in spans), default=-1) + 1
        spans += [
            _moved(span, by_s, by_number)
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
        peak_bytes=_most([t.peak_bytes for t in traces]),
        held_bytes=_most([t.held_bytes for t in traces]),
        constant_bytes=_most([t.constant_bytes for t in traces]),
        recoveries=tuple(recoveries),
    )


def total(counts: Sequence[Counts]) -> Counts:
    """Return counters of engines that followed each other, added up; of memory the most."""
    peaks, held = _most([c.peak_bytes for c in counts]), _most([c.held_bytes for c in counts])
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
        constant_bytes=_most([c.constant_bytes for c in counts]),
        retried=[task for c in counts for task in c.retried],
    )


def _most(bytes_by_space: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in bytes_by_space:
        for space, nbytes in each.items():
            found[space] = max(nbytes, found.get(space, 0))
    return found


def _moved(span: Span, by_s: float, by_number: int) -> Span:
    return replace(
        span,
        instruction=span.instruction + by_number,
        waits=tuple(number + by_number for number in span.waits),
        submit_s=span.submit_s + by_s,
        start_s=span.start_s + by_s,
        finish_s=span.finish_s + by_s,
        predicted_start_s=span.predicted_start_s + by_s,
        predicted_finish_s=span.predicted_finish_s + by_s,
    )
