# SPDX-License-Identifier: Apache-2.0
"""The story of a task in one run: when it became ready, what it waited for, where it ran, and who waited for it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from syclsched.errors import GraphError
from syclsched.model.trace import Span, Trace

#: Less than this between two times is not worth a word.
_NOTHING_S = 2e-6
_MOST_NAMES = 6


def tell_story(trace: Trace, task: str) -> str:
    """Say everything that happened to a task."""
    mine = [s for s in trace.spans if s.kind != "copy" and s.task == task]
    if not mine:
        mine = [s for s in trace.spans if s.kind != "copy" and s.task is not None and s.task.startswith(f"{task}[")]
    if not mine:
        mine = [s for s in trace.spans if s.kind != "copy" and s.task is not None and task in s.task.split("+")]
    if not mine:
        names = sorted({s.task for s in trace.spans if s.task is not None})
        near = difflib.get_close_matches(task, names, 3) or names[:3]
        raise GraphError(
            f"no task {task!r} ran", where=f"run of {trace.name!r}", hint=f"There are {', '.join(map(repr, near))}, ..."
        )
    history = _History(trace)
    return "\n\n".join("\n".join(history.tell(span)) for span in sorted(mine, key=lambda s: s.instruction))


class _History:
    """A trace, looked at by instruction and by lane."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._numbered = {(s.generation, s.instruction): s for s in trace.spans}
        self._in_order = sorted(trace.spans, key=lambda s: (s.generation, s.instruction))

    def tell(self, span: Span) -> list[str]:
        """Return the lines about one task that was done."""
        lines = [_headline(span)]
        lines += _arrays(span)
        before = self._before(span)
        ready_s = max((s.finish_s for s in before), default=0.0)
        if before:
            last = sorted(before, key=lambda s: s.finish_s, reverse=True)
            lines.append(f"  ready at     {_time(ready_s)}: {_list(last)}")
        else:
            lines.append(f"  ready at     {_time(0.0)}: it needs nothing that another task makes")
        if span.outcome == "cancelled":
            lines.append(f"  cancelled at {_time(span.submit_s)}: what it needs was missing, or the run was cancelled")
            return lines
        lines.append(f"  submitted at {_time(span.submit_s)}{self._why_submitted_late(span, ready_s)}")
        lines.append(f"  started at   {_time(span.start_s)}{self._why_started_late(span, ready_s)}")
        lines.append(f"  finished at  {_time(span.finish_s)}: {_durations(span)}")
        lines.append(
            f"  predicted    {_time(span.predicted_start_s)} to {_time(span.predicted_finish_s)}: "
            f"it ended {_difference(span.finish_s - span.predicted_finish_s)}"
        )
        after = self._after(span)
        lines.append(f"  then         {_next(after)}" if after else "  then         nothing waited for it")
        return lines

    def _before(self, span: Span) -> list[Span]:
        """Return what had to be done first: what it was told to wait for, and what touched its arrays on its lane."""
        found = {s.instruction: s for n in span.waits if (s := self._numbered.get((span.generation, n))) is not None}
        touched = {(u.array, u.space): u.mode for u in span.uses}
        for other in self._in_order:
            if other.generation != span.generation or other.instruction >= span.instruction or other.lane != span.lane:
                continue
            for use in other.uses:
                mine = touched.get((use.array, use.space))
                if mine is not None and (use.mode.writes or mine.writes):
                    found[other.instruction] = other
        return list(found.values())

    def _after(self, span: Span) -> list[Span]:
        """Return what was done with what it wrote, as far as the first that writes it anew."""
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
        if late_s <= _NOTHING_S:
            return f", {_duration(-late_s)} before it was ready" if late_s < -_NOTHING_S else ""
        why = "the host was busy, its lane had enough ahead, or memory was short"
        return f", {_duration(late_s)} after it was ready: {why}"

    def _why_started_late(self, span: Span, ready_s: float) -> str:
        could_s = max(ready_s, span.submit_s)
        late_s = span.start_s - could_s
        if late_s <= _NOTHING_S:
            return ""
        text = f", {_duration(late_s)} after it could"
        lane = [s for s in self._trace.spans if s.lane == span.lane and s is not span and s.start_s <= span.start_s]
        busy = [s for s in lane if s.finish_s > could_s + _NOTHING_S]
        if busy:
            last = max(busy, key=lambda s: s.finish_s)
            return f"{text}: {span.lane} was busy with {_list(busy[-_MOST_NAMES:])}, until {_time(last.finish_s)}"
        return f"{text}: what the device takes to start something"


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
        if abs(seconds) <= _NOTHING_S
        else f"{_duration(abs(seconds))} {'late' if seconds > 0 else 'early'}"
    )


def _next(after: Sequence[Span]) -> str:
    first = after[0]
    more = f"; then {_list(after[1:])}" if len(after) > 1 else ""
    return f"{_name(first)} on {first.lane} used it first, from {_time(first.start_s)}{more}"


def _list(spans: Iterable[Span]) -> str:
    found = [f"{_name(s)} on {s.lane} ended at {_time(s.finish_s)}" for s in spans]
    more = [f"and {len(found) - _MOST_NAMES} more"] if len(found) > _MOST_NAMES else []
    return ", ".join(found[:_MOST_NAMES] + more)


def _name(span: Span) -> str:
    if span.kind == "copy":
        arrays = list(dict.fromkeys(repr(u.array) for u in span.uses))
        return f"copy of {', '.join(arrays)}" if arrays else f"copy for {span.task!r}"
    return f"{span.task!r}" if span.task is not None else span.kind


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs" if abs(seconds) < 1e-3 else f"{seconds * 1e3:.3f} ms"
