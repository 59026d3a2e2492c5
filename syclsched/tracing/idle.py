# SPDX-License-Identifier: Apache-2.0
"""Where the time of lanes went in which they did not compute, and how much copying was hidden under kernels. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from syclsched.model.trace import Span
from syclsched.tracing.causes import Causes

#: Within this, times are the same.
_SAME_S = 1e-12
#: So many instructions back the reason of a gap is looked for.
_DEEPEST = 10_000


@dataclass(slots=True)
class Idle:
    """Seconds that lanes did not compute, by reason."""

    no_task_s: float = 0.0  # there was nothing left for the lane to do
    copy_s: float = 0.0  # the next task waited for a copy, or for the lane's own
    lanes_s: float = 0.0  # it waited for a task on another lane, or on the host
    submission_s: float = 0.0  # the host had not submitted it, or what it waited for
    memory_s: float = 0.0  # what it was to use was still in use by others
    starting_s: float = 0.0  # nothing was in its way any more: the runtime had not started it yet

    @property
    def total_s(self) -> float:
        """All of it."""
        return float(sum(getattr(self, f.name) for f in fields(self)))

    def add(self, other: Idle) -> None:
        """Add another's seconds."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


class Piece(NamedTuple):
    """A time in which a lane did not compute."""

    #: From when to when.
    start_s: float
    finish_s: float
    reason: str  # A field of `Idle` without its unit


def lane_idle(causes: Causes, lane: str, makespan_s: float) -> Idle:
    """Return why a lane did not compute, for all the time it did not."""
    found = Idle()
    for piece in idle_pieces(causes, lane, makespan_s):
        name = f"{piece.reason}_s"
        setattr(found, name, getattr(found, name) + piece.finish_s - piece.start_s)
    return found


def idle_pieces(causes: Causes, lane: str, makespan_s: float) -> list[Piece]:
    """Return the times in which a lane did not compute, each with its reason, in order."""
    found: list[Piece] = []
    reached_s = 0.0
    for span in causes.spans:
        if span.lane != lane:
            continue
        if span.start_s > reached_s:
            gap: list[Piece] = []
            _explain(causes, span, reached_s, span.start_s, gap)
            found += gap[::-1]
            reached_s = span.start_s
        if span.kind == "copy" and span.finish_s > reached_s:
            found.append(Piece(reached_s, span.finish_s, "copy"))
        reached_s = max(reached_s, span.finish_s)
    if makespan_s > reached_s:
        found.append(Piece(reached_s, makespan_s, "no_task"))
    return found


def overlap(copies: Iterable[Span], kernels: Iterable[Span]) -> float | None:
    """Return the share of the time in which something was copied that also something was computed."""
    copying, computing = _merged(copies), _merged(kernels)
    copied_s = sum(end - start for start, end in copying)
    if copied_s <= 0.0:
        return None
    hidden_s, at = 0.0, 0
    for start, end in copying:
        while at < len(computing) and computing[at][1] <= start:
            at += 1
        ahead = at
        while ahead < len(computing) and computing[ahead][0] < end:
            hidden_s += min(end, computing[ahead][1]) - max(start, computing[ahead][0])
            ahead += 1
    return min(1.0, hidden_s / copied_s)


# --- inside ---------------------------------------------------------------------------------------


def _explain(causes: Causes, span: Span, low_s: float, high_s: float, found: list[Piece]) -> None:
    """Say for each moment of a gap before an instruction, backwards, what it was that held it up then."""
    own_lane = False  # what was before on its own lane had ended
    memory = False
    for _ in range(_DEEPEST):
        last = causes.last(span, lane=own_lane)
        waited_s = low_s if last is None else last.span.finish_s
        ready_s = max(waited_s, span.submit_s)
        high_s = _take(found, "memory" if memory else "starting", ready_s, low_s, high_s)
        high_s = _take(found, "memory" if memory else "submission", waited_s, low_s, high_s)
        if last is None or high_s <= low_s + _SAME_S:
            return
        memory = memory or last.via == "memory"
        span, own_lane = last.span, True
        reason = "memory" if memory else "copy" if span.kind == "copy" else "lanes"
        high_s = _take(found, reason, span.start_s, low_s, high_s)
        if high_s <= low_s + _SAME_S:
            return
    _take(found, "lanes", low_s, low_s, high_s)


def _take(found: list[Piece], reason: str, since_s: float, low_s: float, high_s: float) -> float:
    """Note the part of a gap after a moment, and return where the rest ends."""
    begin_s = max(low_s, min(since_s, high_s))
    if begin_s < high_s:
        found.append(Piece(begin_s, high_s, reason))
    return begin_s


def _merged(spans: Iterable[Span]) -> Sequence[tuple[float, float]]:
    """Return the union of spans as intervals in order."""
    found: list[tuple[float, float]] = []
    for start_s, end_s in sorted((s.start_s, s.finish_s) for s in spans if s.finish_s > s.start_s):
        if found and start_s <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end_s))
        else:
            found.append((start_s, end_s))
    return found
