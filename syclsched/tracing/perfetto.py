# SPDX-License-Identifier: Apache-2.0
"""Traces in the Chrome trace event format, which https://ui.perfetto.dev and chrome://tracing open.

Source of the format: "Trace Event Format", the Chromium project's document of that name. One process per run
("predicted", "measured"), one thread per lane, one complete event per instruction, an arrow wherever a lane
waits for another, and counters of running tasks and copied bytes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syclsched.errors import StorageError
from syclsched.model.trace import Span, Trace
from syclsched.tracing.lanes import lane_order

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Slice:
    """One span on one process's clock, in whole nanoseconds."""

    span: Span
    start_ns: int
    finish_ns: int


def to_perfetto(traces: Trace | Iterable[Trace]) -> dict[str, Any]:
    """Return traces as one document of the Chrome trace event format.

    Parameters
    ----------
    traces : Trace or iterable of Trace
        A measured trace becomes two processes, what the plan predicted and what was measured; a simulated one
        becomes one.

    Returns
    -------
    dict
        Ready for `json.dumps`. Times are microseconds, as the format demands, to the nanosecond.
    """
    listed = [traces] if isinstance(traces, Trace) else list(traces)
    events: list[Event] = []
    summary = []
    pid = 1
    for trace in listed:
        label = trace.name if len(listed) == 1 else f"{trace.name} ({trace.policy})"
        kinds = ("predicted",) if trace.simulated else ("predicted", "measured")
        for kind in kinds:
            events += _process(trace, f"{kind}: {label}", pid, kind == "predicted" and not trace.simulated)
            pid += 1
        summary.append(_summary(trace))
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"runs": summary}}


def save_perfetto(traces: Trace | Iterable[Trace], path: str | Path) -> None:
    """Write traces to a file that Perfetto opens.

    Parameters
    ----------
    traces : Trace or iterable of Trace
        See `to_perfetto`.
    path : str or Path
        A name that ends in ``.gz`` is compressed; Perfetto opens both.

    Raises
    ------
    StorageError
        If the file cannot be written.
    """
    text = json.dumps(to_perfetto(traces), separators=(",", ":"), allow_nan=False).encode()
    try:
        Path(path).write_bytes(gzip.compress(text, mtime=0) if str(path).endswith(".gz") else text)
    except OSError as error:
        raise StorageError(
            f"cannot write the trace: {error.strerror or error}", where=str(path), hint="Give another path"
        ) from error


def _process(trace: Trace, name: str, pid: int, predicted: bool) -> Iterator[Event]:
    slices = [_slice(span, predicted) for span in trace.spans]
    rows = _rows(slices)
    yield _metadata(pid, 0, "process_name", name=name)
    yield _metadata(pid, 0, "process_sort_index", sort_index=pid)
    for tid, label in sorted({(tid, label) for tid, label in rows.values()}):
        yield _metadata(pid, tid, "thread_name", name=label)
        yield _metadata(pid, tid, "thread_sort_index", sort_index=tid)
    for piece in slices:
        yield _complete(piece, pid, rows[piece.span.instruction][0], predicted)
    yield from _arrows(slices, rows, pid)
    yield from _counters(slices, pid)


def _slice(span: Span, predicted: bool) -> _Slice:
    start_s = span.predicted_start_s if predicted else span.start_s
    finish_s = span.predicted_finish_s if predicted else span.finish_s
    start_ns = round(start_s * 1e9)
    return _Slice(span, start_ns, max(start_ns, round(finish_s * 1e9)))


def _rows(slices: Sequence[_Slice]) -> dict[int, tuple[int, str]]:
    """Give every instruction a thread: its lane's, or an extra one where clocks made two of a lane overlap.

    The format demands that slices of one thread nest; two that overlap would be drawn wrong.
    """
    ends: dict[tuple[str, int], int] = {}
    found: dict[int, tuple[str, int]] = {}
    for piece in sorted(slices, key=lambda p: (p.start_ns, p.finish_ns, p.span.instruction)):
        level = 0
        while ends.get((piece.span.lane, level), piece.start_ns) > piece.start_ns:
            level += 1
        ends[(piece.span.lane, level)] = piece.finish_ns
        found[piece.span.instruction] = (piece.span.lane, level)
    place = {lane: i for i, lane in enumerate(lane_order(p.span for p in slices))}
    tids = {key: n + 1 for n, key in enumerate(sorted(ends, key=lambda k: (place[k[0]], k[1])))}
    return {i: (tids[key], key[0] if key[1] == 0 else f"{key[0]} +{key[1]}") for i, key in found.items()}


def _metadata(pid: int, tid: int, name: str, /, **args: Any) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "name": name, "args": args}


def _complete(piece: _Slice, pid: int, tid: int, predicted: bool) -> Event:
    span = piece.span
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
    name = f"copy for {span.task}" if span.kind == "copy" else span.task or span.kind
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "name": name,
        "cat": span.family,
        "ts": piece.start_ns / 1000,
        "dur": (piece.finish_ns - piece.start_ns) / 1000,
        "args": args,
    }


def _arrows(slices: Sequence[_Slice], rows: dict[int, tuple[int, str]], pid: int) -> Iterator[Event]:
    """Yield a flow for every wait between lanes: from inside the first slice to inside the second."""
    by_id = {p.span.instruction: p for p in slices}
    for piece in slices:
        for waited in piece.span.waits:
            source = by_id.get(waited)
            if source is None:
                continue
            # An arrow begins within its slice, never after it ends, and never points back in time, even where
            # two devices' clocks disagree by a little.
            begin = max(source.start_ns, min(source.finish_ns - 1, piece.start_ns))
            end = max(begin, piece.start_ns)
            if end > max(piece.start_ns, piece.finish_ns - 1):
                continue
            common = {"cat": "wait", "name": "wait", "id": f"{pid}.{waited}.{piece.span.instruction}", "pid": pid}
            yield {"ph": "s", **common, "tid": rows[waited][0], "ts": begin / 1000}
            yield {"ph": "f", "bp": "e", **common, "tid": rows[piece.span.instruction][0], "ts": end / 1000}


def _counters(slices: Sequence[_Slice], pid: int) -> Iterator[Event]:
    """Yield how many tasks run at each moment, and the bytes copied so far."""
    changes: dict[int, int] = {}
    copied: dict[int, int] = {}
    for piece in slices:
        if piece.span.kind == "copy":
            copied[piece.finish_ns] = copied.get(piece.finish_ns, 0) + piece.span.nbytes
        elif piece.finish_ns > piece.start_ns:
            changes[piece.start_ns] = changes.get(piece.start_ns, 0) + 1
            changes[piece.finish_ns] = changes.get(piece.finish_ns, 0) - 1
    for name, unit, steps in (("running tasks", "tasks", changes), ("copied", "bytes", copied)):
        value = 0
        for moment in sorted(steps):
            if steps[moment]:
                value += steps[moment]
                yield {"ph": "C", "pid": pid, "tid": 0, "name": name, "ts": moment / 1000, "args": {unit: value}}


def _summary(trace: Trace) -> dict[str, Any]:
    return {
        "name": trace.name,
        "policy": trace.policy,
        "simulated": trace.simulated,
        "makespan_s": trace.makespan_s,
        "predicted_makespan_s": trace.predicted_makespan_s,
        "events": trace.events,
        "barriers": trace.barriers,
        "submissions": trace.submissions,
        "host_waits": trace.host_waits,
        "peak_bytes": dict(trace.peak_bytes),
    }
