# SPDX-License-Identifier: Apache-2.0
"""Put the planning passes together: graph, platform and schedule in, plan out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import BufferUse, Counters, Instruction, InstructionKind, Lane, Option, Plan
from syclsched.model.platform import Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning.fences import count_fences
from syclsched.planning.footprint import Footprint
from syclsched.planning.hazards import hazards
from syclsched.planning.liveness import add_allocations, check_capacity
from syclsched.planning.order import global_order
from syclsched.planning.prefetch import issue_early
from syclsched.planning.record import GraphRecord, record
from syclsched.planning.reduction import reduce_waits
from syclsched.planning.rows import ALLOC, WORK, Rows, Touches, touches
from syclsched.planning.steps import Draft, Ints, paused_collection
from syclsched.planning.transfers import TransferPass


def build_plan(
    graph: TaskGraph,
    platform: Platform,
    schedule: Schedule,
    durations_s: Mapping[str, float],
    options: Sequence[Option] = (),
) -> Plan:
    """Make a schedule executable.

    A plan that would not fit into a memory space is made again with arrays evicted to the host's memory and brought
    back as needed.

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
        If a single task needs more memory than a space has, or the host's memory is too small for the rest.
    """
    with paused_collection():
        return _build(record(graph), graph.name, platform, schedule, durations_s, options)


def _build(
    known: GraphRecord,
    name: str,
    platform: Platform,
    schedule: Schedule,
    durations_s: Mapping[str, float],
    options: Sequence[Option],
) -> Plan:
    nbytes = {a.name: a.nbytes for a in known.arrays}
    after = {t.name: t.after for t in known.tasks if t.after}
    draft, touched = _fitting(known, platform, global_order(known, schedule), durations_s, nbytes)
    draft, touched = issue_early(draft, touched, after, Footprint(draft, touched, platform, nbytes))
    rows = add_allocations(draft, touched)
    edge_starts, edges = hazards(rows, draft, after)
    used, lane_of_step = _lane_order(platform, draft)
    lane_of = lane_of_step[rows.step]
    wait_starts, waits = reduce_waits(lane_of, edge_starts, edges, rows.phase == WORK, len(used))
    peak = Footprint(draft, touched, platform, nbytes).peak_bytes()
    check_capacity(peak, platform)
    copied = [s.nbytes for s in draft.steps if s.kind == "copy"]
    return Plan(
        name=name,
        fingerprint=known.fingerprint,
        policy=schedule.policy,
        platform=platform.without_profiles(),
        arrays=known.arrays,
        tasks=known.tasks,
        schedule=schedule,
        lanes=_lanes(draft, rows, used, lane_of, wait_starts, waits, nbytes),
        peak_bytes=peak,
        counters=Counters(
            dependencies=known.dependencies,
            edges=len(edges),
            waits=len(waits),
            events=len(np.unique(waits)),
            barriers=count_fences(draft, rows, wait_starts, waits, platform, nbytes),
            copies=len(copied),
            copied_bytes=sum(copied),
        ),
        options=tuple(options),
    )


def _fitting(
    graph: GraphRecord,
    platform: Platform,
    assignments: Sequence[Assignment],
    durations_s: Mapping[str, float],
    nbytes: Mapping[str, int],
) -> tuple[Draft, Touches]:
    """Return the steps with copies right before their use; with evictions only if it does not fit without."""
    draft = TransferPass(graph, platform, durations_s).run(assignments)
    touched = touches(draft.steps)
    if Footprint(draft, touched, platform, nbytes).fits():
        return draft, touched
    draft = TransferPass(graph, platform, durations_s, limited=True).run(assignments)
    return draft, touches(draft.steps)


def _lane_order(platform: Platform, draft: Draft) -> tuple[list[int], Ints]:
    """Return the lanes' order in the plan, and each step's lane in that order.

    Lanes stand by device as on the platform: compute lanes, then the copy lane.
    """
    rank = {d.name: i for i, d in enumerate(platform.devices)}
    used = sorted(
        {s.lane for s in draft.steps},
        key=lambda n: (rank[draft.lanes[n].device], draft.lanes[n].kind == "copy", draft.lanes[n].number),
    )
    place = np.zeros(len(draft.lanes), np.int64)
    place[used] = np.arange(len(used))
    return used, place[[s.lane for s in draft.steps]]


def _lanes(
    draft: Draft,
    rows: Rows,
    used: Sequence[int],
    lane_of: Ints,
    wait_starts: Ints,
    waits: Ints,
    nbytes: Mapping[str, int],
) -> tuple[Lane, ...]:
    instructions: list[list[Instruction]] = [[] for _ in used]
    starts, waited = wait_starts.tolist(), waits.tolist()
    memory: dict[int, tuple[BufferUse, ...]] = {}
    columns = (lane_of.tolist(), rows.phase.tolist(), rows.step.tolist(), rows.block.tolist())
    for number, (lane, phase, step, block) in enumerate(zip(*columns, strict=True)):
        before = tuple(waited[starts[number] : starts[number + 1]])
        if phase == WORK:
            kind, _, task, uses, _, implementation, duration_s, size = draft.steps[step]
            made = Instruction(number, kind, task, implementation, uses, before, duration_s, 0.0, 0.0, size)
        else:
            array, space = draft.blocks[block]
            if block not in memory:
                memory[block] = (BufferUse(array, space, AccessMode.WRITE),)
            task = draft.steps[step].task
            change: InstructionKind = "alloc" if phase == ALLOC else "free"
            made = Instruction(number, change, task, None, memory[block], before, 0.0, 0.0, 0.0, nbytes[array])
        instructions[lane].append(made)
    keys = [draft.lanes[n] for n in used]
    return tuple(
        Lane(key.name, key.device, key.kind, tuple(mine)) for key, mine in zip(keys, instructions, strict=True)
    )
