# SPDX-License-Identifier: Apache-2.0
"""History of one task in a run as text: predecessors, times, lane, delays, successors."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from syclsched.errors import GraphError, did_you_mean
from syclsched.model.text.units import format_bytes, listed
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
        hint = f"{did_you_mean(task, names)}There are {listed(names, _MAX_NAMES)}"
        raise GraphError(f"no task {task!r} ran", where=f"run of {trace.name!r}", hint=hint)
    history = _TraceIndex(trace)
    return "\n\n".join("\n".join(history.describe(span)) for span in sorted(spans, key=lambda s: s.instruction))


def describe_instructions(trace: Trace) -> dict[int, str]:
    """Return the history of every instruction of a trace, copies included, by instruction number."""
    history = _TraceIndex(trace)
    return {span.instruction: "\n".join(history.describe(span)) for span in trace.spans}


class _TraceIndex:
    """A trace, indexed by instruction, with the predecessors and successors of each."""

    def __init__(self, trace: Trace) -> None:
        self._simulated = trace.simulated
        self._numbered = {(s.generation, s.instruction): s for s in trace.spans}
        self._before: dict[int, dict[int, Span]] = {}
        self._after: dict[int, dict[int, Span]] = {}
        in_order = sorted(trace.spans, key=lambda s: (s.generation, s.instruction))
        for span in in_order:
            before = (self._numbered.get((span.generation, number)) for number in span.waits)
            self._before[span.instruction] = {each.instruction: each for each in before if each is not None}
            for number in span.waits:
                self._after.setdefault(number, {})[span.instruction] = span
        self._add_accesses(in_order)
        self._lanes: dict[str, _LaneHistory] = {}
        for span in sorted(trace.spans, key=lambda s: s.start_s):
            self._lanes.setdefault(span.lane, _LaneHistory()).add(span)

    def _add_accesses(self, in_order: Iterable[Span]) -> None:
        """Add predecessors, the conflicting accesses since the last write, and successors, the reads of a result."""
        buffers: dict[tuple[int, str, str], tuple[Span | None, list[Span]]] = {}  # the last writer, and readers since
        for span in in_order:
            modes = {(use.array, use.space): use.mode for use in span.uses}
            for (array, space), mode in modes.items():
                key = (span.generation, array, space)
                writer, readers = buffers.get(key, (None, []))
                found = [*([] if writer is None else [writer]), *(readers if mode.writes else ())]
                self._before[span.instruction].update((each.instruction, each) for each in found)
                if writer is not None and mode.reads:
                    self._after.setdefault(writer.instruction, {})[span.instruction] = span
                if mode.writes:
                    buffers[key] = (span, [])
                else:
                    readers.append(span)
                    buffers[key] = (writer, readers)

    def describe(self, span: Span) -> list[str]:
        """Return the lines about one instruction that ran or was cancelled."""
        lines = [_headline(span)]
        lines += _arrays(span)
        predecessors = self._before[span.instruction].values()
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
        as_predicted = self._simulated and _differs_by_s(span) <= _NEGLIGIBLE_S
        took = f"it took {_duration(span.duration_s)}" if as_predicted else _durations(span)
        lines.append(f"  finished at  {_time(span.finish_s)}: {took}")
        if not as_predicted:
            lines.append(
                f"  predicted    {_time(span.predicted_start_s)} to {_time(span.predicted_finish_s)}: "
                f"it ended {_difference(span.finish_s - span.predicted_finish_s)}"
            )
        successors = sorted(self._after.get(span.instruction, {}).values(), key=lambda s: s.start_s)
        lines.append(
            f"  then         {_successor_text(successors)}" if successors else "  then         nothing waited for it"
        )
        return lines

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
        busy = self._lanes[span.lane].unfinished(span, earliest_s + _NEGLIGIBLE_S)
        if busy:
            last = max(busy, key=lambda s: s.finish_s)
            return (
                f"{text}: {span.lane} was busy with {_endings_text(busy[-_MAX_NAMES:])}, until {_time(last.finish_s)}"
            )
        return f"{text}: start latency of the device"


class _LaneHistory:
    """The instructions of a lane in order of start, with the latest end so far."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._starts_s: list[float] = []
        self._latest_s: list[float] = []

    def add(self, span: Span) -> None:
        """Add an instruction that did not start before the others."""
        self._spans.append(span)
        self._starts_s.append(span.start_s)
        self._latest_s.append(max(span.finish_s, self._latest_s[-1] if self._latest_s else span.finish_s))

    def unfinished(self, span: Span, moment_s: float) -> list[Span]:
        """Return the instructions that started no later than a span and had not ended at a moment."""
        found = []
        place = bisect_right(self._starts_s, span.start_s) - 1
        while place >= 0 and self._latest_s[place] > moment_s:
            each = self._spans[place]
            if each is not span and each.finish_s > moment_s:
                found.append(each)
            place -= 1
        return found[::-1]


def _headline(span: Span) -> str:
    if span.kind == "copy":
        source = next((use.space for use in span.uses if not use.mode.writes), "")
        target = next((use.space for use in span.uses if use.mode.writes), "")
        way = f" from {source} to {target}" if source and target else ""
        size = f", {format_bytes(span.nbytes)}" if span.nbytes else ""
        return f"{_name(span)}{way}{size}, for task {span.task!r} on lane {span.lane}: {span.outcome}"
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


def _differs_by_s(span: Span) -> float:
    return max(abs(span.start_s - span.predicted_start_s), abs(span.finish_s - span.predicted_finish_s))


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
