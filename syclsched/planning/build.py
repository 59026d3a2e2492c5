# SPDX-License-Identifier: Apache-2.0
"""Put the planning passes together: graph, platform and schedule in, plan out."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from syclsched.errors import IncompletePlanError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Counters, Instruction, Lane, Option, Plan
from syclsched.model.platform import Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning.hazards import hazards
from syclsched.planning.liveness import add_allocations, check_capacity, peak_bytes
from syclsched.planning.record import record_arrays, record_tasks
from syclsched.planning.reduction import reduce_waits
from syclsched.planning.steps import LaneKey, Step
from syclsched.planning.transfers import TransferPass

#: With more waits than this, one barrier is submitted for them instead of a long event list.
BARRIER_WAITS = 8


def build_plan(
    graph: TaskGraph,
    platform: Platform,
    schedule: Schedule,
    durations_s: Mapping[str, float],
    options: Sequence[Option] = (),
) -> Plan:
    """Make a schedule executable.

    Parameters
    ----------
    graph : TaskGraph
        What to run.
    platform : Platform
        Where.
    schedule : Schedule
        Which task on which lane with which implementation.
    durations_s : Mapping[str, float]
        Predicted seconds of each task where the schedule puts it.
    options : sequence of Option, optional
        What tasks would cost elsewhere, for `Plan.explain`.

    Returns
    -------
    Plan
        Without predicted times of instructions; `syclsched.simulation.predict` adds them.

    Raises
    ------
    CycleError
        If the graph has a cycle.
    IncompletePlanError
        If the schedule does not assign every task exactly once.
    MemoryLimitError
        If the plan needs more memory than a space has.
    """
    assignments = global_order(graph, schedule)
    transfers = TransferPass(graph, platform, durations_s)
    steps = add_allocations(transfers.run(assignments), graph, transfers.final_spaces())
    tasks = record_tasks(graph)
    predecessors = hazards(steps, {t.name: t.after for t in tasks})
    lane_keys = _lane_keys(platform, steps)
    index = {key: i for i, key in enumerate(lane_keys)}
    waits = reduce_waits(
        [index[s.lane] for s in steps], predecessors, [s.kind not in ("alloc", "free") for s in steps], len(index)
    )
    peak = peak_bytes(steps)
    check_capacity(peak, platform)
    return Plan(
        name=graph.name,
        fingerprint=graph.fingerprint(),
        policy=schedule.policy,
        platform=platform.without_profiles(),
        arrays=record_arrays(graph),
        tasks=tasks,
        schedule=schedule,
        lanes=_lanes(lane_keys, steps, waits),
        peak_bytes=peak,
        counters=_count(graph, steps, predecessors, waits),
        options=tuple(options),
    )


def global_order(graph: TaskGraph, schedule: Schedule) -> list[Assignment]:
    """Return the assignments by start time, adjusted so that every dependency points forward.

    Parameters
    ----------
    graph : TaskGraph
        The graph.
    schedule : Schedule
        Its schedule.

    Returns
    -------
    list of Assignment
        One per task.

    Raises
    ------
    IncompletePlanError
        If a task is missing, unknown or assigned twice.
    """
    place = {name: i for i, name in enumerate(graph.order())}
    by_task = {a.task: a for a in schedule.assignments}
    if len(by_task) != len(schedule.assignments) or by_task.keys() != place.keys():
        odd = sorted(by_task.keys() ^ place.keys())
        raise IncompletePlanError(
            f"the schedule does not assign every task exactly once: {', '.join(odd[:5]) or 'duplicates'}",
            where=f"policy {schedule.policy!r}",
        )
    successors: dict[str, set[str]] = {name: set() for name in place}
    waiting = dict.fromkeys(place, 0)
    for dependency in graph.dependencies():
        if dependency.after not in successors[dependency.before]:
            successors[dependency.before].add(dependency.after)
            waiting[dependency.after] += 1
    ready = [(by_task[t].start_s, place[t], t) for t, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, _, task = heapq.heappop(ready)
        order.append(by_task[task])
        for after in successors[task]:
            waiting[after] -= 1
            if waiting[after] == 0:
                heapq.heappush(ready, (by_task[after].start_s, place[after], after))
    return order


def _lane_keys(platform: Platform, steps: Sequence[Step]) -> list[LaneKey]:
    """Return the lanes in use, by device as on the platform: compute lanes, then the copy lane."""
    rank = {d.name: i for i, d in enumerate(platform.devices)}
    return sorted({s.lane for s in steps}, key=lambda k: (rank[k.device], k.kind == "copy", k.index))


def _lanes(keys: Sequence[LaneKey], steps: Sequence[Step], waits: Sequence[Sequence[int]]) -> tuple[Lane, ...]:
    instructions: dict[LaneKey, list[Instruction]] = {key: [] for key in keys}
    for number, step in enumerate(steps):
        instructions[step.lane].append(
            Instruction(
                id=number,
                kind=step.kind,
                task=step.task,
                implementation=step.implementation,
                uses=step.uses,
                waits=tuple(waits[number]),
                duration_s=step.duration_s,
                nbytes=step.nbytes,
            )
        )
    return tuple(Lane(key.name, key.device, key.kind, tuple(instructions[key])) for key in keys)


def _count(
    graph: TaskGraph, steps: Sequence[Step], predecessors: Sequence[Sequence[int]], waits: Sequence[Sequence[int]]
) -> Counters:
    copies = [s for s in steps if s.kind == "copy"]
    return Counters(
        dependencies=len(graph.dependencies()),
        edges=sum(len(p) for p in predecessors),
        waits=sum(len(w) for w in waits),
        events=len({w for wait in waits for w in wait}),
        barriers=sum(1 for w in waits if len(w) > BARRIER_WAITS),
        copies=len(copies),
        copied_bytes=sum(s.nbytes for s in copies),
    )
