# SPDX-License-Identifier: Apache-2.0
"""The ring buffer of recordings: bounded by runs and by instructions, oldest dropped first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.synthetic import two_devices

from syclsched.execution.core.execution_records import Counts, Record
from syclsched.execution.runner import recorder


def engine(instructions: int, begun_ns: int = 0) -> Any:
    plan = two_devices()
    numbers = [i.id for _, i in plan.instructions() if i.kind != "alloc"][:instructions]
    records = {
        number: Record(begun_ns, start_ns=begun_ns + 10 * n, finish_ns=begun_ns + 10 * n + 5)
        for n, number in enumerate(numbers)
    }
    return SimpleNamespace(
        program=SimpleNamespace(plan=plan, further={}), counts=Counts(), records=records, clocks={}, recording=True
    )


def test_the_last_runs_are_kept() -> None:
    ring = recorder.Recorder(2)
    for number in range(5):
        ring.add(engine(2), number)
    assert [each.generation for each in ring.recordings] == [3, 4]
    ring.clear()
    assert ring.recordings == ()


def test_long_runs_displace_others_and_the_last_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "KEPT_INSTRUCTIONS", 5)
    ring = recorder.Recorder(10)
    for number in range(4):
        ring.add(engine(2), number)
    assert [each.generation for each in ring.recordings] == [2, 3]
    monkeypatch.setattr(recorder, "KEPT_INSTRUCTIONS", 1)
    ring.add(engine(2), 9)
    assert [each.generation for each in ring.recordings] == [9]


def test_unrecorded_runs_are_not_kept() -> None:
    ring = recorder.Recorder(0)
    ring.add(engine(2))
    other = recorder.Recorder(3)
    silent = engine(2)
    silent.recording = False
    other.add(silent)
    assert ring.recordings == other.recordings == ()


def test_generations_have_one_clock_and_continuous_numbers() -> None:
    ring = recorder.Recorder()
    for number, begun_ns in ((4, 1_000), (5, 3_000)):
        ring.add(engine(2, begun_ns), number)
    trace = recorder.merge_recordings(ring.recordings, lambda number, later: (later * 1.0, later + 0.5))
    first, second = ([s for s in trace.spans if s.generation == g] for g in (4, 5))
    assert [s.start_s for s in first] == pytest.approx([0.0, 10e-9])
    assert [s.start_s for s in second] == pytest.approx([2_000e-9, 2_010e-9])
    assert {s.instruction for s in first}.isdisjoint({s.instruction for s in second})
    assert (second[0].predicted_start_s, trace.predicted_makespan_s) == (1.0, 1.5)
    assert trace.makespan_s == pytest.approx(2_015e-9)
