# SPDX-License-Identifier: Apache-2.0
"""Spans made from the records of a run; a sequence's span is from its first to its last submission."""

from __future__ import annotations

from dataclasses import dataclass

from support.synthetic import two_devices

from syclsched.execution.core.clock import Anchor, ClockMap
from syclsched.execution.core.execution_records import Counts, Record, make_trace


@dataclass
class Event:
    """A mock event with the attributes that records read."""

    profiling_info_start: int
    profiling_info_end: int


def test_a_sequence_begins_with_its_first_submission() -> None:
    plan = two_devices()
    same_clock = ClockMap(Anchor(0, 0, 0), Anchor(10**9, 10**9, 0))
    records = {
        1: Record(1000, event=Event(5000, 6000), first_event=Event(2000, 3000)),
        2: Record(1500, event=Event(4000, 4500)),
    }
    trace = make_trace(plan, records, {"cpu:0": same_clock, "gpu:0": same_clock}, Counts(submissions=7))
    spans = {s.instruction: (round(s.start_s * 1e9), round(s.finish_s * 1e9)) for s in trace.spans}
    assert spans == {1: (1000, 5000), 2: (3000, 3500)}
    assert trace.submissions == 7


def test_spans_are_clipped_to_submission_within_clock_uncertainty() -> None:
    plan = two_devices()
    records = {1: Record(1000, device_ns=(900, 950)), 2: Record(1500, device_ns=(1400, 1700))}
    for bracket_ns, expected in ((400, {1: (0, 50), 2: (500, 800)}), (100, {1: (0, 0), 2: (500, 750)})):
        clock = ClockMap(Anchor(0, 0, bracket_ns), Anchor(10**9, 10**9, bracket_ns))
        trace = make_trace(plan, records, {"cpu:0": clock, "gpu:0": clock}, Counts())
        spans = {s.instruction: (round(s.start_s * 1e9), round(s.finish_s * 1e9)) for s in trace.spans}
        assert spans == expected, bracket_ns
