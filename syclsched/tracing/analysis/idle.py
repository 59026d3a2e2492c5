# SPDX-License-Identifier: Apache-2.0
"""Idle time of lanes by reason, and the overlap of copies with kernels. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple

from syclsched.model.trace import Span
from syclsched.tracing.analysis.causes import StartCauses
from syclsched.tracing.analysis.lanes import merged

#: Times closer than this count as equal.
_SAME_S = 1e-12
#: Number of causes to follow back for the reason of a gap.
_DEEPEST = 10_000

#: Labels of idle reasons, by field of `IdleTime` without its unit.
IDLE_LABELS = {
    "no_task": "nothing left to do",
    "copy": "waits for a copy",
    "lanes": "waits for another lane",
    "submission": "waits for the host to submit",
    "memory": "waits for memory",
    "starting": "ready, not started",
}


@dataclass(slots=True)
class IdleTime:
    """Seconds in which lanes did not compute, by reason."""

    no_task_s: float = 0.0  # no task was left for the lane
    copy_s: float = 0.0  # the next task waited for a copy, or the lane itself copied
    lanes_s: float = 0.0  # the next task waited for a task on another lane or the host
    submission_s: float = 0.0  # the host had not yet submitted the next task or its predecessor
    memory_s: float = 0.0  # memory to be reused was still in use
    starting_s: float = 0.0  # start latency of the runtime: ready and submitted, not started

    @property
    def total_s(self) -> float:
        """Sum over all reasons."""
        return float(sum(getattr(self, f.name) for f in fields(self)))

    def add(self, other: IdleTime) -> None:
        """Add the seconds of another record."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


class _IdleInterval(NamedTuple):
    """An interval in which a lane did not compute."""

    start_s: float
    finish_s: float
    reason: str  # a field of `IdleTime` without its unit


def lane_idle(causes: StartCauses, lane: str, makespan_s: float) -> IdleTime:
    """Return the idle time of a lane by reason."""
    found = IdleTime()
    for piece in idle_intervals(causes, lane, makespan_s):
        name = f"{piece.reason}_s"
        setattr(found, name, getattr(found, name) + piece.finish_s - piece.start_s)
    return found


def idle_intervals(causes: StartCauses, lane: str, makespan_s: float) -> list[_IdleInterval]:
    """Return the intervals in which a lane did not compute, with their reasons, in order of time."""
    found: list[_IdleInterval] = []
    reached_s = 0.0
    for span in causes.spans:
        if span.lane != lane:
            continue
        if span.start_s > reached_s:
            gap: list[_IdleInterval] = []
            _explain_gap(causes, span, reached_s, span.start_s, gap)
            found += gap[::-1]
            reached_s = span.start_s
        if span.kind == "copy" and span.finish_s > reached_s:
            found.append(_IdleInterval(reached_s, span.finish_s, "copy"))
        reached_s = max(reached_s, span.finish_s)
    if makespan_s > reached_s:
        found.append(_IdleInterval(reached_s, makespan_s, "no_task"))
    return found


def overlap_share(copies: Iterable[Span], kernels: Iterable[Span]) -> float | None:
    """Return the share of the copying time in which kernels ran; None if nothing was copied."""
    copying, computing = (merged((s.start_s, s.finish_s) for s in spans) for spans in (copies, kernels))
    copied_s = sum(end - start for start, end in copying)
    if copied_s <= 0.0:
        return None
    hidden_s, first = 0.0, 0
    for start, end in copying:
        while first < len(computing) and computing[first][1] <= start:
            first += 1
        i = first
        while i < len(computing) and computing[i][0] < end:
            hidden_s += min(end, computing[i][1]) - max(start, computing[i][0])
            i += 1
    return min(1.0, hidden_s / copied_s)


# --- inside ---------------------------------------------------------------------------------------


def _explain_gap(causes: StartCauses, span: Span, low_s: float, high_s: float, found: list[_IdleInterval]) -> None:
    """Append the reasons of a gap before an instruction, from its end backwards along the latest causes."""
    own_lane = False  # for `span` itself the lane was free: consider lane order only further back
    memory = False
    for _ in range(_DEEPEST):
        last = causes.last(span, lane=own_lane)
        waited_s = low_s if last is None else last.span.finish_s
        ready_s = max(waited_s, span.submit_s)
        high_s = _append_interval(found, "memory" if memory else "starting", ready_s, low_s, high_s)
        high_s = _append_interval(found, "memory" if memory else "submission", waited_s, low_s, high_s)
        if last is None or high_s <= low_s + _SAME_S:
            return
        memory = memory or last.via == "memory"
        span, own_lane = last.span, True
        reason = "memory" if memory else "copy" if span.kind == "copy" else "lanes"
        high_s = _append_interval(found, reason, span.start_s, low_s, high_s)
        if high_s <= low_s + _SAME_S:
            return
    _append_interval(found, "lanes", low_s, low_s, high_s)


def _append_interval(found: list[_IdleInterval], reason: str, since_s: float, low_s: float, high_s: float) -> float:
    """Append the part of a gap from ``since_s`` on, and return the end of the rest."""
    begin_s = max(low_s, min(since_s, high_s))
    if begin_s < high_s:
        found.append(_IdleInterval(begin_s, high_s, reason))
    return begin_s
