# SPDX-License-Identifier: Apache-2.0
"""The history of a task: its dependencies, the reason for its start time, and its outcome."""

from __future__ import annotations

from typing import Any

import pytest

from syclsched.errors import GraphError
from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse
from syclsched.model.trace import Span, Trace
from syclsched.tracing.analysis.task_history import describe_task

READ, WRITE, UPDATE = AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE


def span(
    number: int, task: str, lane: str, times_ms: tuple[float, float, float], *uses: BufferUse, **more: Any
) -> Span:
    submit_s, start_s, finish_s = (t * 1e-3 for t in times_ms)
    kind = more.pop("kind", "launch")
    return Span(
        number, kind, task, "opencl-c", "gemm", lane, lane.split(":")[0], "compute", submit_s, start_s, finish_s,
        more.pop("predicted_start_s", 0.0), more.pop("predicted_finish_s", 1e-3), uses=uses, **more,
    )  # fmt: skip


def use(array: str, mode: AccessMode, space: str = "cpu") -> BufferUse:
    return BufferUse(array, space, mode)


def trace(*spans: Span) -> Trace:
    return Trace("sample", "by hand", spans, 10e-3, 9e-3)


SAMPLE = trace(
    span(0, "load", "cpu:0", (0.0, 0.1, 1.0), use("a", WRITE)),
    span(1, "other", "cpu:1", (0.0, 0.1, 2.5), use("z", WRITE)),
    span(2, "gemm", "cpu:copy", (0.0, 0.0, 2.0), use("b", READ, "host"), use("b", WRITE), kind="copy"),
    span(
        3, "gemm", "cpu:1", (0.5, 2.6, 4.6), use("a", READ), use("b", READ), use("c", UPDATE),
        waits=(0, 2), predicted_start_s=2e-3, predicted_finish_s=3e-3,
    ),
    span(4, "store", "cpu:0", (1.0, 5.0, 6.0), use("c", READ), waits=(3,)),
    span(5, "anew", "cpu:1", (1.0, 6.5, 7.0), use("c", WRITE), waits=(4,)),
    span(6, "late", "cpu:1", (1.0, 7.0, 7.5), use("c", READ)),
)  # fmt: skip


def test_a_story_has_everything() -> None:
    assert describe_task(SAMPLE, "gemm").splitlines() == [
        "task 'gemm' (gemm) by 'opencl-c' on lane cpu:1 of device 'cpu': done",
        "  reads        'a' in cpu, 'b' in cpu",
        "  updates      'c' in cpu",
        "  ready at     2.000 ms: copy of 'b' on cpu:copy ended at 2.000 ms, 'load' on cpu:0 ended at 1.000 ms",
        "  submitted at 0.500 ms, 1.500 ms before it was ready",
        "  started at   2.600 ms, 600.0 µs after it could: cpu:1 was busy with 'other' on cpu:1 ended at 2.500 ms, "
        "until 2.500 ms",
        "  finished at  4.600 ms: it took 2.000 ms, predicted 1.000 ms (2.00 times)",
        "  predicted    2.000 ms to 3.000 ms: it ended 1.600 ms late",
        "  then         'store' on cpu:0 used it first, from 5.000 ms",
    ]


def test_the_history_names_the_predecessor_on_the_same_lane() -> None:
    told = describe_task(SAMPLE, "late")
    assert "ready at     7.000 ms: 'anew' on cpu:1 ended at 7.000 ms" in told
    assert "nothing waited for it" in told


def test_writer_of_another_lane_without_explicit_wait() -> None:
    sample = trace(
        span(0, "first", "cpu:0", (0.0, 0.0, 1.0), use("x", WRITE)),
        span(1, "second", "cpu:0", (0.0, 1.0, 2.0), use("y", WRITE)),
        span(2, "host of second", "host:0", (0.0, 2.0, 3.0), use("y", READ), waits=(1,)),
        span(3, "host of first", "host:0", (0.0, 3.0, 4.0), use("x", READ)),
    )
    assert "ready at     1.000 ms: 'first' on cpu:0 ended at 1.000 ms" in describe_task(sample, "host of first")


def test_independent_tasks_are_ready_from_the_start() -> None:
    told = describe_task(SAMPLE, "other")
    assert "ready at     0.000 ms: it depends on no other task" in told
    assert "100.0 µs after it could: start latency of the device" in told


def test_all_chunks_of_a_task_are_described() -> None:
    parts = [span(n, f"blur[{n}:{n + 1}]", "cpu:0", (0.0, n * 1.0, n + 1.0)) for n in range(3)]
    assert describe_task(trace(*parts), "blur").count("task 'blur[") == 3


def test_a_merged_task_is_described_by_its_new_task() -> None:
    merged = trace(span(0, "gemm_1+scale_1", "cpu:0", (0.0, 0.0, 1.0)))
    assert "task 'gemm_1+scale_1'" in describe_task(merged, "gemm_1")
    assert describe_task(merged, "gemm_1") == describe_task(merged, "scale_1")


def test_cancelled_tasks_have_no_times() -> None:
    told = describe_task(trace(span(0, "gone", "cpu:0", (1.0, 1.0, 1.0), outcome="cancelled")), "gone")
    assert "cancelled at 1.000 ms" in told
    assert "finished" not in told


def test_an_unknown_task_name_gets_a_suggestion() -> None:
    with pytest.raises(GraphError, match=r"no task 'gem' ran.*'gemm'"):
        describe_task(SAMPLE, "gem")
