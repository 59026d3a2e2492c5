# SPDX-License-Identifier: Apache-2.0
"""The critical path of a run as it really was, and what would have shortened the run. Pure.

The path is walked back from what ended last: to what ended last of all that it waited for, and so on to the start. What
lies between is the host's, if it submitted later than that, or the runtime's, if it started later than it could. What a
change would have saved is worked out by timing the trace again: every instruction as early as what it waited for
allows, with what it took and how late it was started as measured.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from syclsched.model.plan import Plan
from syclsched.model.trace import Span
from syclsched.model.units import format_seconds, plural
from syclsched.tracing.causes import Causes, Via

#: What saves less than this share of the makespan is not worth a line.
LEAST_SHARE = 0.01
#: So many waits are named.
MOST_WAITS = 3
#: A trace that takes so many times as long when it is timed again is not understood: shares of its times say nothing.
RETIMED_AT_MOST = 1.1


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction on the critical path, and what was before it."""

    span: Span  # which
    via: Via | None  # how it follows the step before: as in `syclsched.tracing.causes.Cause`; None for the first
    submission_s: float  # after the step before had ended: until the host had submitted this one
    starting_s: float  # after that: until the runtime had started it
    running_s: float  # after that: until it ended


@dataclass(frozen=True, slots=True)
class Change:
    """What would have been otherwise."""

    what: str  # in words
    saves_s: float  # the run would have ended so much earlier, by timing the trace again


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """Why a run did not end earlier."""

    steps: tuple[Step, ...] = ()  # from the start to the end; their seconds add up to the makespan
    #: What these did on the way.
    computing_s: float = 0.0
    copying_s: float = 0.0
    submission_s: float = 0.0
    starting_s: float = 0.0
    families: tuple[tuple[str, int, float], ...] = ()  # family, steps, seconds of what ran on it, the longest first
    waits: tuple[str, ...] = ()  # the longest waits on the way, in words
    changes: tuple[Change, ...] = ()  # what would have shortened the run, the best first


def critical_path(causes: Causes, plan: Plan | None = None) -> CriticalPath:
    """Return the critical path of a trace and what would have shortened it."""
    steps = path_steps(causes)
    copying_s = sum(step.running_s for step in steps if step.span.kind == "copy")
    families: dict[str, list[float]] = {}
    for step in steps:
        families.setdefault(step.span.family, []).append(step.running_s)
    sums = sorted(((name, len(each), sum(each)) for name, each in families.items()), key=lambda row: (-row[2], row[0]))
    return CriticalPath(
        tuple(steps),
        sum(step.running_s for step in steps) - copying_s,
        copying_s,
        sum(step.submission_s for step in steps),
        sum(step.starting_s for step in steps),
        tuple(sums),
        tuple(_waits(steps)),
        tuple(_changes(causes, plan, [name for name, _, _ in sums if name != "copy"][:1])),
    )


def path_steps(causes: Causes) -> list[Step]:
    """Return the steps of the critical path, from the start to the end."""
    span = max(causes.spans, key=lambda s: (s.finish_s, s.instruction), default=None)
    steps: list[Step] = []
    reached_s = 0.0 if span is None else span.finish_s
    while span is not None:
        last = causes.last(span)
        begin_s = min(span.start_s, reached_s)
        waited_s = 0.0 if last is None else min(last.span.finish_s, begin_s)
        ready_s = min(begin_s, max(waited_s, span.submit_s))
        via = None if last is None else last.via
        steps.append(Step(span, via, ready_s - waited_s, begin_s - ready_s, reached_s - begin_s))
        reached_s = waited_s
        span = None if last is None else last.span
    return steps[::-1]


def retimed_s(
    causes: Causes,
    *,
    submitted: bool = True,
    started: bool = True,
    copies: float = 1.0,
    memory: bool = True,
    factors: Mapping[str, float] | None = None,
) -> float:
    """Return when a run would have ended if something had been otherwise."""
    end_s: dict[int, float] = {}
    for span in causes.spans:
        before = causes.before[span.instruction]
        ready_s = max((end_s[c.span.instruction] for c in before if memory or c.via != "memory"), default=0.0)
        begin_s = max(ready_s, span.submit_s if submitted else 0.0) + (_late_s(causes, span) if started else 0.0)
        factor = copies if span.kind == "copy" else (factors or {}).get(span.family, 1.0)
        end_s[span.instruction] = begin_s + max(0.0, span.finish_s - span.start_s) * factor
    return max(end_s.values(), default=0.0)


def with_more_lanes_s(causes: Causes, plan: Plan, factor: int = 2) -> float:
    """Return when a run would have ended on devices with more lanes, by putting tasks on lanes as they become ready."""
    before = _dependencies(plan)
    lanes: dict[str, set[str]] = {}
    for span in causes.spans:
        lanes.setdefault(span.device, set()).add(span.lane)
    free = {device: [0.0] * (factor * len(names)) for device, names in lanes.items()}
    end_s: dict[int, float] = {}
    done_s: dict[tuple[int, str], float] = {}
    for span in causes.spans:
        causing = [c for c in causes.before[span.instruction] if c.via != "lane" or span.lane_kind == "copy"]
        ready_s = max([span.submit_s, *(end_s[c.span.instruction] for c in causing)])
        if span.kind == "copy":
            begin_s = ready_s + _late_s(causes, span)
        else:
            # A copy the task reads from is among its causes; the tasks it comes after need not be.
            earlier = (done_s.get((span.generation, name), 0.0) for name in before.get(span.task or "", ()))
            begin_s = max([ready_s, *earlier, heapq.heappop(free[span.device])]) + _late_s(causes, span)
        end_s[span.instruction] = begin_s + max(0.0, span.finish_s - span.start_s)
        if span.kind != "copy":
            heapq.heappush(free[span.device], end_s[span.instruction])
            done_s[span.generation, span.task or ""] = end_s[span.instruction]
    return max(end_s.values(), default=0.0)


# --- inside ---------------------------------------------------------------------------------------


def _late_s(causes: Causes, span: Span) -> float:
    """Return how long something was ready and submitted before it started."""
    last = causes.last(span)
    return max(0.0, span.start_s - max(span.submit_s, 0.0 if last is None else last.span.finish_s))


def _waits(steps: list[Step]) -> list[str]:
    """Name what held tasks on the path up the longest."""
    found: list[tuple[float, str]] = []
    copies: list[Step] = []
    for step in steps:
        if step.span.kind == "copy":
            copies.append(step)
            continue
        late = [*copies, step]
        reasons = {
            "for " + ("a copy" if len(copies) == 1 else plural(len(copies), "copy", "copies")): sum(
                c.running_s for c in copies
            ),
            "for the host to submit it" if not copies else "for the host to submit": sum(s.submission_s for s in late),
            "to be started": sum(s.starting_s for s in late),
        }
        total_s = sum(reasons.values())
        said = [f"{format_seconds(s)} {why}" for why, s in reasons.items() if s > 0.05 * total_s]
        if said:
            which = f" of generation {step.span.generation}" if step.span.generation else ""
            found.append((total_s, f"{step.span.task or step.span.kind}{which} waited {', '.join(said)}"))
        copies = []
    whole_s = sum(step.submission_s + step.starting_s + step.running_s for step in steps)
    found.sort(key=lambda each: -each[0])
    return [text for seconds, text in found[:MOST_WAITS] if seconds >= LEAST_SHARE * whole_s]


def _changes(causes: Causes, plan: Plan | None, slowest: list[str]) -> list[Change]:
    """Time the trace again with each thing otherwise, and keep what pays."""
    made_s = retimed_s(causes)
    # In streams it is known of a library's calls together when they began and ended: their spans can overlap on a lane.
    if made_s > RETIMED_AT_MOST * max((span.finish_s for span in causes.spans), default=0.0):
        return []
    tried = {
        "copies that take no time": retimed_s(causes, copies=0.0),
        "submissions that take no time": retimed_s(causes, submitted=False),
        "a runtime that starts at once what is ready": retimed_s(causes, started=False),
        "memory enough": retimed_s(causes, memory=False),
    }
    for family in slowest:
        tried[f"{family} in half the time"] = retimed_s(causes, factors={family: 0.5})
    if plan is not None:
        tried["twice the lanes"] = with_more_lanes_s(causes, plan)
    found = [Change(what, made_s - seconds) for what, seconds in tried.items()]
    return sorted((c for c in found if c.saves_s >= LEAST_SHARE * made_s > 0.0), key=lambda c: (-c.saves_s, c.what))


def _dependencies(plan: Plan) -> dict[str, set[str]]:
    """Return the tasks that each task comes after: by what it reads and writes, and by explicit edges."""
    writer: dict[str, str] = {}
    readers: dict[str, list[str]] = {}
    found: dict[str, set[str]] = {}
    for task in plan.tasks:
        before = found[task.name] = set(task.after)
        for access in task.accesses:
            if access.array in writer:
                before.add(writer[access.array])
            if access.mode.writes:
                before.update(readers.get(access.array, ()))
        for access in task.accesses:
            if access.mode.writes:
                writer[access.array], readers[access.array] = task.name, []
            else:
                readers.setdefault(access.array, []).append(task.name)
        before.discard(task.name)
    return found
