# SPDX-License-Identifier: Apache-2.0
"""The Chrome trace event format: the fields that a viewer needs."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.synthetic import random_trace, span, two_devices

from syclsched.errors import StorageError
from syclsched.model.trace import Trace
from syclsched.tracing import save_perfetto, to_perfetto

Events = list[dict[str, Any]]


def of(events: Events, phase: str, pid: int | None = None) -> Events:
    return [e for e in events if e["ph"] == phase and pid in (None, e["pid"])]


@given(st.integers(0, 60), st.integers(0, 5))
def test_slices_nest_and_arrows_stay_within_theirs(count: int, seed: int) -> None:
    trace = random_trace(count, seed)
    events: Events = to_perfetto(trace)["traceEvents"]
    assert json.loads(json.dumps(events, allow_nan=False)) == events
    slices: dict[tuple[int, int], list[tuple[int, int]]] = {}
    idle = [e for e in of(events, "X") if e["cat"] == "idle"]
    for event in of(events, "X"):
        start = round(event["ts"] * 1000)
        slices.setdefault((event["pid"], event["tid"]), []).append((start, start + round(event["dur"] * 1000)))
    assert sum(len(s) for s in slices.values()) == 2 * count + len(idle)
    for row in slices.values():
        row.sort()
        assert all(first[1] <= second[0] for first, second in pairwise(row))
    starts, ends = ({e["id"]: e for e in of(events, phase)} for phase in ("s", "f"))
    assert starts.keys() == ends.keys()
    assert len(starts) == 2 * sum(len(s.waits) for s in trace.spans)
    for key, start in starts.items():
        assert start["ts"] <= ends[key]["ts"]
        for event in (start, ends[key]):
            moment = round(event["ts"] * 1000)
            assert any(a <= moment < b for a, b in slices[event["pid"], event["tid"]])


def test_processes_and_threads_are_named() -> None:
    events: Events = to_perfetto(random_trace(80))["traceEvents"]
    names = {(e["pid"], e["tid"], e["name"]): e["args"] for e in of(events, "M")}
    assert names[1, 0, "process_name"] == {"name": "predicted: cholesky"}
    assert names[2, 0, "process_name"] == {"name": "measured: cholesky"}
    threads = {args["name"] for (pid, _, name), args in names.items() if name == "thread_name" and pid == 2}
    assert threads == {"cpu:0", "cpu:1", "emu:0", "emu:copy", "cpu:0 idle", "cpu:1 idle", "emu:0 idle"}


def test_a_slice_has_the_fields_of_its_span() -> None:
    trace = Trace("t", "p", (span(3, "cpu:0", 1e-3, 2e-3, predicted=(0.5e-3, 1e-3), waits=(9,), nbytes=5),), 2e-3, 1e-3)
    predicted, measured, *idle = of(to_perfetto(trace)["traceEvents"], "X")
    assert [(e["name"], e["ts"], e["dur"]) for e in idle] == [
        ("waits for the host to submit", 0.0, 990.0),
        ("ready, not started", 990.0, 10.0),
    ]
    assert (predicted["ts"], predicted["dur"]) == (500.0, 500.0)
    assert (measured["ts"], measured["dur"], measured["name"], measured["cat"]) == (1000.0, 1000.0, "gemm(3)", "gemm")
    assert measured["args"] == {
        "instruction": 3, "family": "gemm", "kind": "launch", "implementation": "python", "task": "gemm(3)",
        "bytes": 5, "waits": [9], "outcome": "done", "submitted_us": 990.0, "predicted_start_us": 500.0,
        "predicted_duration_us": 500.0, "critical_path": True,
    }  # fmt: skip


def test_slices_of_a_lane_that_overlap_get_rows_of_their_own() -> None:
    trace = Trace("t", "p", (span(1, "cpu:0", 0.0, 2e-6), span(2, "cpu:0", 1e-6, 3e-6)), 3e-6, 3e-6, simulated=True)
    events: Events = to_perfetto(trace)["traceEvents"]
    assert len({e["tid"] for e in of(events, "X")}) == 2
    assert {e["args"]["name"] for e in of(events, "M") if e["name"] == "thread_name"} == {"cpu:0", "cpu:0 +1"}


def test_an_arrow_that_would_point_back_in_time_is_left_out() -> None:
    spans = (
        span(1, "cpu:0", 5e-6, 6e-6),
        span(2, "gpu:0", 0.0, 1e-6, waits=(1,)),
        span(3, "gpu:0", 2e-6, 9e-6, waits=(1,)),
    )
    events: Events = to_perfetto(Trace("t", "p", spans, 9e-6, 9e-6, simulated=True))["traceEvents"]
    assert [e["id"] for e in of(events, "s")] == ["1.1.3"]


@given(st.integers(0, 40), st.integers(0, 5))
def test_counters_end_where_they_must(count: int, seed: int) -> None:
    trace = random_trace(count, seed)
    counters = of(to_perfetto(trace)["traceEvents"], "C", 2)
    running = [e["args"]["tasks"] for e in counters if e["name"] == "running tasks"]
    copied = [e["args"]["bytes"] for e in counters if e["name"] == "copied"]
    assert all(0 <= n <= 3 for n in running)
    assert running[-1:] in ([], [0])
    assert copied == sorted(copied)
    assert sum(copied[-1:]) == sum(s.nbytes for s in trace.spans)


def test_queue_depth_and_memory_in_use() -> None:
    plan = two_devices()
    spans = (
        span(1, "cpu:0", 1e-3, 2e-3),
        span(2, "gpu:0", 0.1e-3, 0.5e-3),
        span(3, "gpu:copy", 2e-3, 3e-3, kind="copy", waits=(1,), nbytes=2048),
        span(4, "gpu:0", 3e-3, 4e-3, waits=(3,)),
    )
    spans = tuple(replace(s, submit_s=0.0) for s in spans)
    events = of(to_perfetto(Trace("small", "", spans, 4e-3, 4e-3), plan)["traceEvents"], "C", 2)
    depth = [(e["ts"], e["args"]["instructions"]) for e in events if e["name"] == "queue depth gpu:0"]
    assert depth == [(0.0, 2), (500.0, 1), (4000.0, 0)]
    memory = [(e["ts"], e["args"]["bytes"]) for e in events if e["name"] == "memory in use cpu"]
    assert memory == [(1000.0, 2048), (3000.0, 0)]  # until the copy


def test_several_traces_are_several_processes() -> None:
    first, second = random_trace(5, 1), replace(random_trace(5, 2), policy="single:cpu", simulated=True)
    exact = replace(second, predicted_makespan_s=0.0, policy="unknown")
    document = to_perfetto([first, second, exact])
    names = [e["args"]["name"] for e in of(document["traceEvents"], "M") if e["name"] == "process_name"]
    assert names == [
        "predicted: cholesky (auto: heft)", "measured: cholesky (auto: heft)", "predicted: cholesky (single:cpu)",
        "simulated: cholesky (single:cpu)", "predicted: cholesky (unknown)",
    ]  # fmt: skip
    assert [run["policy"] for run in document["otherData"]["runs"]] == ["auto: heft", "single:cpu", "unknown"]


def test_files_plain_and_compressed(tmp_path: Path) -> None:
    trace = random_trace(9)
    save_perfetto(trace, tmp_path / "run.json")
    save_perfetto(trace, tmp_path / "run.json.gz")
    plain = (tmp_path / "run.json").read_bytes()
    assert json.loads(plain) == to_perfetto(trace)
    assert gzip.decompress((tmp_path / "run.json.gz").read_bytes()) == plain


def test_an_unwritable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"run\.json: cannot write the trace: No such file"):
        save_perfetto(random_trace(1), tmp_path / "nowhere" / "run.json")
