# SPDX-License-Identifier: Apache-2.0
"""Critical path of a measured run, and estimates of how much changes would have shortened the run. Pure.

The path is followed backwards from the instruction that ended last: each time to its latest cause. A gap on the path is
submission time (the host submitted later) or start latency (the runtime started later than possible). The effect of a
change is estimated by retiming the trace: each instruction starts as early as its causes allow, with its measured
duration and start latency.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from syclsched.model.plan import Plan
from syclsched.model.text.units import format_seconds, plural, short_family
from syclsched.model.trace import Span
from syclsched.tracing.analysis.causes import StartCauses, Via

#: Changes and waits below this share of the makespan are not reported.
MIN_SHARE = 0.01
#: Number of longest waits reported.
MAX_WAITS = 3
#: If retiming an unchanged trace gives more than this multiple of its makespan, no changes are estimated.
MAX_RETIMING_RATIO = 1.1


@dataclass(frozen=True, slots=True)
class _PathStep:
    """One instruction on the critical path, and the time since the step before it."""

    span: Span
    via: Via | None  # why it follows the step before, as in `StartCause`; None for the first
    submission_s: float  # from the end of the step before to this submission; 0 if submitted earlier
    starting_s: float  # from then to the start on the device
    running_s: float  # from the start to the end


@dataclass(frozen=True, slots=True)
class _Improvement:
    """A hypothetical change and its estimated effect."""

    what: str  # description for the user
    saved_s: float  # estimated reduction of the makespan


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The critical path with its totals, longest waits and possible improvements."""

    steps: tuple[_PathStep, ...] = ()  # in order of time; their seconds add up to the makespan
    # Totals over the steps.
    computing_s: float = 0.0
    copying_s: float = 0.0
    submission_s: float = 0.0
    starting_s: float = 0.0
    families: tuple[tuple[str, int, float], ...] = ()  # family, steps, seconds of them, the longest first
    waits: tuple[str, ...] = ()  # the longest waits on the path, as text
    changes: tuple[_Improvement, ...] = ()  # those that shorten the run, the best first


def critical_path(causes: StartCauses, plan: Plan | None = None) -> CriticalPath:
    """Return the critical path of a trace and the changes that would shorten it."""
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


def path_steps(causes: StartCauses) -> list[_PathStep]:
    """Return the steps of the critical path in order of time."""
    span = max(causes.spans, key=lambda s: (s.finish_s, s.instruction), default=None)
    steps: list[_PathStep] = []
    reached_s = 0.0 if span is None else span.finish_s
    while span is not None:
        last = causes.last(span)
        begin_s = min(span.start_s, reached_s)
        waited_s = 0.0 if last is None else min(last.span.finish_s, begin_s)
        ready_s = min(begin_s, max(waited_s, span.submit_s))
        via = None if last is None else last.via
        steps.append(_PathStep(span, via, ready_s - waited_s, begin_s - ready_s, reached_s - begin_s))
        reached_s = waited_s
        span = None if last is None else last.span
    return steps[::-1]


def retimed_makespan_s(
    causes: StartCauses,
    *,
    submitted: bool = True,
    started: bool = True,
    copies: float = 1.0,
    memory: bool = True,
    factors: Mapping[str, float] | None = None,
) -> float:
    """Return the makespan of the trace when retimed with some delays removed or durations scaled."""
    end_s: dict[int, float] = {}
    for span in causes.spans:
        before = causes.before[span.instruction]
        ready_s = max((end_s[c.span.instruction] for c in before if memory or c.via != "memory"), default=0.0)
        begin_s = max(ready_s, span.submit_s if submitted else 0.0) + (_latency_s(causes, span) if started else 0.0)
        factor = copies if span.kind == "copy" else (factors or {}).get(span.family, 1.0)
        end_s[span.instruction] = begin_s + max(0.0, span.finish_s - span.start_s) * factor
    return max(end_s.values(), default=0.0)


def makespan_with_twice_the_lanes_s(causes: StartCauses, plan: Plan) -> float:
    """Return the makespan of the trace when its tasks are list-scheduled on twice as many lanes."""
    predecessors = _dependencies(plan)
    lanes: dict[str, set[str]] = {}
    for span in causes.spans:
        lanes.setdefault(span.device, set()).add(span.lane)
    free = {device: [0.0] * (2 * len(names)) for device, names in lanes.items()}
    end_s: dict[int, float] = {}
    done_s: dict[tuple[int, str], float] = {}
    for span in causes.spans:
        causes_kept = [c for c in causes.before[span.instruction] if c.via != "lane" or span.lane_kind == "copy"]
        ready_s = max([span.submit_s, *(end_s[c.span.instruction] for c in causes_kept)])
        if span.kind == "copy":
            begin_s = ready_s + _latency_s(causes, span)
        else:
            # The causes include copies that the task reads from, but not all of its predecessor tasks.
            earlier = (done_s.get((span.generation, name), 0.0) for name in predecessors.get(span.task or "", ()))
            begin_s = max([ready_s, *earlier, heapq.heappop(free[span.device])]) + _latency_s(causes, span)
        end_s[span.instruction] = begin_s + max(0.0, span.finish_s - span.start_s)
        if span.kind != "copy":
            heapq.heappush(free[span.device], end_s[span.instruction])
            done_s[span.generation, span.task or ""] = end_s[span.instruction]
    return max(end_s.values(), default=0.0)


# --- inside ---------------------------------------------------------------------------------------


def _latency_s(causes: StartCauses, span: Span) -> float:
    """Return the start latency: time from being both ready and submitted to the start."""
    last = causes.last(span)
    return max(0.0, span.start_s - max(span.submit_s, 0.0 if last is None else last.span.finish_s))


def _waits(steps: list[_PathStep]) -> list[str]:
    """Describe the longest waits of tasks on the path."""
    found: list[tuple[float, str]] = []
    copies: list[_PathStep] = []
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
        texts = [f"{format_seconds(s)} {why}" for why, s in reasons.items() if s > 0.05 * total_s]
        if texts:
            instance = f" of generation {step.span.generation}" if step.span.generation else ""
            found.append((total_s, f"{step.span.task or step.span.kind}{instance} waited {', '.join(texts)}"))
        copies = []
    whole_s = sum(step.submission_s + step.starting_s + step.running_s for step in steps)
    found.sort(key=lambda each: -each[0])
    return [text for seconds, text in found[:MAX_WAITS] if seconds >= MIN_SHARE * whole_s]


def _changes(causes: StartCauses, plan: Plan | None, slowest: list[str]) -> list[_Improvement]:
    """Retime the trace with each change alone, and return the changes that pay."""
    base_s = retimed_makespan_s(causes)
    # In streams only the common start and end of a library's calls are known: their spans can overlap on a lane.
    if base_s > MAX_RETIMING_RATIO * max((span.finish_s for span in causes.spans), default=0.0):
        return []
    tried = {
        "copies that take no time": retimed_makespan_s(causes, copies=0.0),
        "submissions that take no time": retimed_makespan_s(causes, submitted=False),
        "a runtime that starts at once what is ready": retimed_makespan_s(causes, started=False),
        "memory enough": retimed_makespan_s(causes, memory=False),
    }
    for family in slowest:
        tried[f"{short_family(family)} in half the time"] = retimed_makespan_s(causes, factors={family: 0.5})
    if plan is not None:
        tried["twice the lanes"] = makespan_with_twice_the_lanes_s(causes, plan)
    found = [_Improvement(what, base_s - seconds) for what, seconds in tried.items()]
    return sorted((c for c in found if c.saved_s >= MIN_SHARE * base_s > 0.0), key=lambda c: (-c.saved_s, c.what))


def _dependencies(plan: Plan) -> dict[str, set[str]]:
    """Return the predecessors of each task: by data hazards and by explicit edges."""
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
