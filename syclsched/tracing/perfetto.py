# SPDX-License-Identifier: Apache-2.0
"""Export of traces in the Chrome trace event format, for https://ui.perfetto.dev and chrome://tracing.

Source of the format: "Trace Event Format", the Chromium project's document of that name. One process per run
("predicted", "measured" or "simulated"), one thread per lane, one complete event per instruction, a flow arrow for
each wait between lanes, and counters of running tasks, copied bytes, queue depth per lane and memory in use. Measured
runs and disturbed simulations also have a row of idle reasons per lane, and events on the critical path are marked.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from syclsched.atomic_write import write_atomically
from syclsched.errors import StorageError
from syclsched.model.plan import Plan
from syclsched.model.trace import Span, Trace
from syclsched.tracing.analysis.causes import StartCauses, find_start_causes
from syclsched.tracing.analysis.counter_tracks import TimedSpan, counter_steps
from syclsched.tracing.analysis.critical_path import path_steps
from syclsched.tracing.analysis.deviation import deviates
from syclsched.tracing.analysis.idle import IDLE_LABELS, idle_intervals
from syclsched.tracing.analysis.lanes import lane_order

Event = dict[str, Any]


def to_perfetto(traces: Trace | Iterable[Trace], plan: Plan | None = None) -> dict[str, Any]:
    """Return traces as one document in the Chrome trace event format."""
    listed = [traces] if isinstance(traces, Trace) else list(traces)
    events: list[Event] = []
    summary = []
    pid = 1
    for trace in listed:
        label = trace.name if len(listed) == 1 else f"{trace.name} ({trace.policy})"
        both = not trace.simulated or deviates(trace)
        kinds = ("predicted", "simulated" if trace.simulated else "measured") if both else ("predicted",)
        for kind in kinds:
            events += _process(trace, f"{kind}: {label}", pid, both and kind == "predicted", both, plan)
            pid += 1
        summary.append(_summary(trace))
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"runs": summary}}


def save_perfetto(traces: Trace | Iterable[Trace], path: str | Path, plan: Plan | None = None) -> None:
    """Write traces to a file for Perfetto; compressed if the path ends in ``.gz``."""
    text = json.dumps(to_perfetto(traces, plan), separators=(",", ":"), allow_nan=False).encode()
    try:
        write_atomically(Path(path), gzip.compress(text, mtime=0) if str(path).endswith(".gz") else text)
    except OSError as error:
        raise StorageError(
            f"cannot write the trace: {error.strerror or error}", where=str(path), hint="Give another path"
        ) from error


def _process(trace: Trace, name: str, pid: int, predicted: bool, idle_rows: bool, plan: Plan | None) -> Iterator[Event]:
    slices = [_slice(span, predicted) for span in trace.spans]
    rows = _rows(slices)
    yield _metadata(pid, 0, "process_name", name=name)
    yield _metadata(pid, 0, "process_sort_index", sort_index=pid)
    for tid, label in sorted(set(rows.values())):
        yield _metadata(pid, tid, "thread_name", name=label)
        yield _metadata(pid, tid, "thread_sort_index", sort_index=tid)
    causes = None if predicted else find_start_causes(trace, plan)
    critical = set() if causes is None else {s.span.instruction for s in path_steps(causes)}
    for item in slices:
        yield _span_event(item, pid, rows[item.span.instruction][0], predicted, item.span.instruction in critical)
    yield from _arrows(slices, rows, pid)
    for counter, unit, steps in counter_steps(slices, plan, submitted=not predicted):
        for moment, value in steps:
            yield {"ph": "C", "pid": pid, "tid": 0, "name": counter, "ts": moment / 1000, "args": {unit: value}}
    if causes is not None and idle_rows:
        yield from _idle_rows(causes, trace, pid, 1 + max((tid for tid, _ in rows.values()), default=0))


def _idle_rows(causes: StartCauses, trace: Trace, pid: int, tid: int) -> Iterator[Event]:
    """Yield a row of idle reasons for each compute and host lane."""
    kinds = {s.lane: s.lane_kind for s in trace.spans}
    for lane in lane_order(trace.spans):
        if kinds[lane] == "copy":
            continue
        yield _metadata(pid, tid, "thread_name", name=f"{lane} idle")
        yield _metadata(pid, tid, "thread_sort_index", sort_index=tid)
        for interval in idle_intervals(causes, lane, trace.makespan_s):
            start_ns, finish_ns = round(interval.start_s * 1e9), round(interval.finish_s * 1e9)
            if finish_ns > start_ns:
                yield _complete(pid, tid, IDLE_LABELS[interval.reason], "idle", start_ns, finish_ns, {})
        tid += 1


def _slice(span: Span, predicted: bool) -> TimedSpan:
    start_s = span.predicted_start_s if predicted else span.start_s
    finish_s = span.predicted_finish_s if predicted else span.finish_s
    start_ns = round(start_s * 1e9)
    return TimedSpan(span, start_ns, max(start_ns, round(finish_s * 1e9)))


def _rows(slices: Sequence[TimedSpan]) -> dict[int, tuple[int, str]]:
    """Return thread id and name of each instruction: its lane's, or an extra row where slices overlap."""
    # The format requires slices of one thread to nest. Spans of a lane can overlap where clocks disagree.
    ends: dict[tuple[str, int], int] = {}
    found: dict[int, tuple[str, int]] = {}
    for item in sorted(slices, key=lambda p: (p.start_ns, p.finish_ns, p.span.instruction)):
        level = 0
        while ends.get((item.span.lane, level), item.start_ns) > item.start_ns:
            level += 1
        ends[(item.span.lane, level)] = item.finish_ns
        found[item.span.instruction] = (item.span.lane, level)
    place = {lane: i for i, lane in enumerate(lane_order(p.span for p in slices))}
    tids = {key: n + 1 for n, key in enumerate(sorted(ends, key=lambda k: (place[k[0]], k[1])))}
    return {i: (tids[key], key[0] if key[1] == 0 else f"{key[0]} +{key[1]}") for i, key in found.items()}


def _metadata(pid: int, tid: int, name: str, /, **args: Any) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "name": name, "args": args}


def _complete(pid: int, tid: int, name: str, category: str, start_ns: int, finish_ns: int, args: Event) -> Event:
    times = {"ts": start_ns / 1000, "dur": (finish_ns - start_ns) / 1000}
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "cat": category, **times, "args": args}


def _span_event(item: TimedSpan, pid: int, tid: int, predicted: bool, critical: bool) -> Event:
    span = item.span
    args: dict[str, Any] = {"instruction": span.instruction, "family": span.family, "kind": span.kind}
    args |= {"implementation": span.implementation, "task": span.task} if span.task is not None else {}
    if span.nbytes:
        args["bytes"] = span.nbytes
    if span.waits:
        args["waits"] = list(span.waits)
    if not predicted:
        args |= {
            "outcome": span.outcome,
            "submitted_us": span.submit_s * 1e6,
            "predicted_start_us": span.predicted_start_s * 1e6,
            "predicted_duration_us": (span.predicted_finish_s - span.predicted_start_s) * 1e6,
        }
    if critical:
        args["critical_path"] = True
    if span.generation:
        args["generation"] = span.generation
    name = f"copy for {span.task}" if span.kind == "copy" else span.task or span.kind
    return _complete(pid, tid, name, span.family, item.start_ns, item.finish_ns, args)


def _arrows(slices: Sequence[TimedSpan], rows: dict[int, tuple[int, str]], pid: int) -> Iterator[Event]:
    """Yield a flow event pair for every wait between lanes."""
    by_id = {p.span.instruction: p for p in slices}
    for item in slices:
        for waited in item.span.waits:
            source = by_id.get(waited)
            if source is None:
                continue
            # The format wants an arrow to begin inside its slice and never to point back in time, also where the
            # clocks of two devices disagree slightly.
            begin = max(source.start_ns, min(source.finish_ns - 1, item.start_ns))
            end = max(begin, item.start_ns)
            if end > max(item.start_ns, item.finish_ns - 1):
                continue
            common = {"cat": "wait", "name": "wait", "id": f"{pid}.{waited}.{item.span.instruction}", "pid": pid}
            yield {"ph": "s", **common, "tid": rows[waited][0], "ts": begin / 1000}
            yield {"ph": "f", "bp": "e", **common, "tid": rows[item.span.instruction][0], "ts": end / 1000}


def _summary(trace: Trace) -> dict[str, Any]:
    names = ("name", "policy", "simulated", "makespan_s", "predicted_makespan_s")
    counters = ("events", "barriers", "submissions", "host_waits", "peak_bytes")
    return {name: getattr(trace, name) for name in (*names, *counters)}
