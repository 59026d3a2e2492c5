# SPDX-License-Identifier: Apache-2.0
"""History of one task in a run as text: predecessors, times, lane, delays, successors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from syclsched.errors import GraphError
from syclsched.model.trace import Span, Trace

#: Shorter delays are not mentioned.
_NEGLIGIBLE_S = 2e-6
_MAX_NAMES = 6


def describe_task(trace: Trace, task: str) -> str:
    """Return the history of a task, of its parts if divided, or of the task it was merged into."""
    spans = [s for s in trace.spans if s.kind != "copy" and s.task == task]
    if not spans:
        spans = [s for s in trace.spans if s.kind != "copy" and s.task is not None and s.task.startswith(f"{task}[")]
    if not spans:
        spans = [s for s in trace.spans if s.kind != "copy" and s.task is not None and task in s.task.split("+")]
    if not spans:
        names = sorted({s.task for s in trace.spans if s.task is not None})
        near = difflib.get_close_matches(task, names, 3) or names[:3]
        raise GraphError(
            f"no task {task!r} ran", where=f"run of {trace.name!r}", hint=f"There are {', '.join(map(repr, near))}, ..."
        )
    history = _TraceIndex(trace)
    return "\n\n".join("\n".join(history.describe(span)) for span in sorted(spans, key=lambda s: s.instruction))


class _TraceIndex:
    """A trace, indexed by instruction."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._numbered = {(s.generation, s.instruction): s for s in trace.spans}
        self._in_order = sorted(trace.spans, key=lambda s: (s.generation, s.instruction))

    def describe(self, span: Span) -> list[str]:
        """Return the lines about one task that ran or was cancelled."""
        lines = [_headline(span)]
        lines += _arrays(span)
        predecessors = self._predecessors(span)
        ready_s = max((s.finish_s for s in predecessors), default=0.0)
        if predecessors:
            last = sorted(predecessors, key=lambda s: s.finish_s, reverse=True)
            lines.append(f"  ready at     {_time(ready_s)}: {_endings_text(last)}")
        else:
            lines.append(f"  ready at     {_time(0.0)}: it depends on no other task")
        if span.outcome == "cancelled":
            lines.append(f"  cancelled at {_time(span.submit_s)}: an input was missing, or the run was cancelled")
            return lines
        lines.append(f"  submitted at {_time(span.submit_s)}{self._why_submitted_late(span, ready_s)}")
        lines.append(f"  started at   {_time(span.start_s)}{self._why_started_late(span, ready_s)}")
        lines.append(f"  finished at  {_time(span.finish_s)}: {_durations(span)}")
        lines.append(
            f"  predicted    {_time(span.predicted_start_s)} to {_time(span.predicted_finish_s)}: "
            f"it ended {_difference(span.finish_s - span.predicted_finish_s)}"
        )
        successors = self._successors(span)
        lines.append(
            f"  then         {_successor_text(successors)}" if successors else "  then         nothing waited for it"
        )
        return lines

    def _predecessors(self, span: Span) -> list[Span]:
        """Return the predecessors: instructions it waits for, and the conflicting accesses since the last write."""
        found = {s.instruction: s for n in span.waits if (s := self._numbered.get((span.generation, n))) is not None}
        touched = {(u.array, u.space): u.mode for u in span.uses}
        for other in reversed(self._in_order):
            if other.generation != span.generation or other.instruction >= span.instruction:
                continue
            for use in other.uses:
                mode = touched.get((use.array, use.space))
                if mode is not None and (use.mode.writes or mode.writes):
                    found[other.instruction] = other
                if use.mode.writes:
                    touched.pop((use.array, use.space), None)
        return list(found.values())

    def _successors(self, span: Span) -> list[Span]:
        """Return the successors: instructions that wait for it or use its outputs before they are overwritten."""
        written = {(u.array, u.space) for u in span.uses if u.mode.writes}
        found: dict[int, Span] = {}
        for other in self._in_order:
            if other.generation != span.generation or other.instruction <= span.instruction:
                continue
            if span.instruction in other.waits:
                found[other.instruction] = other
            for use in other.uses:
                buffer = (use.array, use.space)
                if buffer in written:
                    if use.mode.reads:
                        found[other.instruction] = other
                    if use.mode.writes:
                        written.discard(buffer)
        return sorted(found.values(), key=lambda s: s.start_s)

    def _why_submitted_late(self, span: Span, ready_s: float) -> str:
        late_s = span.submit_s - ready_s
        if late_s <= _NEGLIGIBLE_S:
            return f", {_duration(-late_s)} before it was ready" if late_s < -_NEGLIGIBLE_S else ""
        why = "the host was busy, its lane had enough work queued, or memory was short"
        return f", {_duration(late_s)} after it was ready: {why}"

    def _why_started_late(self, span: Span, ready_s: float) -> str:
        earliest_s = max(ready_s, span.submit_s)
        late_s = span.start_s - earliest_s
        if late_s <= _NEGLIGIBLE_S:
            return ""
        text = f", {_duration(late_s)} after it could"
        lane = [s for s in self._trace.spans if s.lane == span.lane and s is not span and s.start_s <= span.start_s]
        busy = [s for s in lane if s.finish_s > earliest_s + _NEGLIGIBLE_S]
        if busy:
            last = max(busy, key=lambda s: s.finish_s)
            return (
                f"{text}: {span.lane} was busy with {_endings_text(busy[-_MAX_NAMES:])}, until {_time(last.finish_s)}"
            )
        return f"{text}: start latency of the device"


def _headline(span: Span) -> str:
    by = f" by {span.implementation!r}" if span.implementation is not None else ""
    of = f", generation {span.generation}" if span.generation else ""
    return f"task {span.task!r} ({span.family}){by} on lane {span.lane} of device {span.device!r}{of}: {span.outcome}"


def _arrays(span: Span) -> list[str]:
    words = {"read": "reads", "write": "writes", "update": "updates", "reduce": "adds to"}
    by_mode: dict[str, list[str]] = {}
    for use in span.uses:
        by_mode.setdefault(words.get(use.mode.value, use.mode.value), []).append(f"{use.array!r} in {use.space}")
    return [f"  {word:<12} {', '.join(names)}" for word, names in by_mode.items()]


def _durations(span: Span) -> str:
    predicted_s = span.predicted_finish_s - span.predicted_start_s
    text = f"it took {_duration(span.duration_s)}, predicted {_duration(predicted_s)}"
    return f"{text} ({span.duration_s / predicted_s:.2f} times)" if predicted_s > 0.0 else text


def _difference(seconds: float) -> str:
    return (
        "when predicted"
        if abs(seconds) <= _NEGLIGIBLE_S
        else f"{_duration(abs(seconds))} {'late' if seconds > 0 else 'early'}"
    )


def _successor_text(successors: Sequence[Span]) -> str:
    first = successors[0]
    more = f"; then {_endings_text(successors[1:])}" if len(successors) > 1 else ""
    return f"{_name(first)} on {first.lane} used it first, from {_time(first.start_s)}{more}"


def _endings_text(spans: Iterable[Span]) -> str:
    texts = [f"{_name(s)} on {s.lane} ended at {_time(s.finish_s)}" for s in spans]
    more = [f"and {len(texts) - _MAX_NAMES} more"] if len(texts) > _MAX_NAMES else []
    return ", ".join(texts[:_MAX_NAMES] + more)


def _name(span: Span) -> str:
    if span.kind == "copy":
        arrays = list(dict.fromkeys(repr(u.array) for u in span.uses))
        return f"copy of {', '.join(arrays)}" if arrays else f"copy for {span.task!r}"
    return f"{span.task!r}" if span.task is not None else span.kind


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs" if abs(seconds) < 1e-3 else f"{seconds * 1e3:.3f} ms"
