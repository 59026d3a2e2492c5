# SPDX-License-Identifier: Apache-2.0
"""Execution log of a dynamic run, and its conversion into a plan with a record per instruction. Pure.

The result is an ordinary plan: `syclsched.planning.verify` proves that the run had no data race, reports and charts
read it, and it can be executed again. Its predicted times are the estimates at the time of submission.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from syclsched.execution.core.execution_records import Record
from syclsched.execution.dynamic.data.coherence import Stamp
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse, Counters, Instruction, InstructionKind, Lane, Plan
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning.memory.constant_memory import constant_bytes, launched


@dataclass(slots=True)
class LogEntry:
    """One instruction as it was submitted."""

    kind: InstructionKind  # as in `Instruction`
    lane: int
    task: int  # the task, or the task that needs this copy or memory
    #: The accessed pieces and their spaces. Allocations and frees have the array in place of pieces, copies their
    #: source and destination space.
    pieces: tuple[int, ...]
    spaces: tuple[int, ...]
    stamp: Stamp | None = None  # None for allocations and frees
    waits: tuple[Stamp, ...] = ()  # dependencies
    #: Estimated times.
    start_s: float = 0.0
    finish_s: float = 0.0
    record: Record | None = None  # outcome and measured times
    device: int = -1  # index of the device of a task, -1 for none


@dataclass(slots=True)
class ExecutionLog:
    """Entries in the order of submission."""

    entries: list[LogEntry] = field(default_factory=list)

    def add(self, entry: LogEntry) -> LogEntry:
        """Append an entry, and return it."""
        self.entries.append(entry)
        return entry


def plan_from_log(
    log: ExecutionLog,
    layout: IndexedGraph,
    empty: Plan,
    instruction: Callable[[int, int, Sequence[int], int], Instruction],
) -> tuple[Plan, dict[int, Record]]:
    """Return the executed plan of a log, and its records by instruction number."""
    _place_allocations(log, layout)
    number_of: dict[Stamp, int] = {}
    freed: dict[tuple[int, int], int] = {}
    lanes: dict[int, list[Instruction]] = defaultdict(list)
    records: dict[int, Record] = {}
    assignments: list[Assignment] = []
    held: dict[str, int] = defaultdict(int)
    peak: dict[str, int] = {}
    for number, entry in enumerate(log.entries):
        if entry.stamp is not None:
            number_of[entry.stamp] = number
        made = instruction_of(entry, number, layout, instruction)
        earlier = {number_of[stamp] for stamp in entry.waits if stamp in number_of}
        if entry.kind in ("alloc", "free"):
            block = (entry.pieces[0], entry.spaces[0])
            if entry.kind == "free":
                freed[block] = number
            elif block in freed:
                earlier.add(freed[block])
        waits = tuple(sorted(earlier))
        made = replace(made, waits=waits, start_s=entry.start_s, finish_s=entry.finish_s)
        lanes[entry.lane].append(replace(made, duration_s=max(0.0, entry.finish_s - entry.start_s)))
        if entry.record is not None and entry.record.submit_ns:
            records[number] = entry.record
        if entry.kind in ("alloc", "free"):
            space = made.uses[0].space
            held[space] += made.nbytes if entry.kind == "alloc" else -made.nbytes
            peak[space] = max(peak.get(space, 0), held[space])
        elif entry.kind != "copy":
            lane = layout.lanes[entry.lane]
            place = 0 if lane.kind == "copy" else int(lane.name.rpartition(":")[2])
            assignments.append(
                Assignment(made.task or "", lane.device, place, made.implementation, entry.start_s, entry.finish_s)
            )
    plan = replace(
        empty,
        schedule=Schedule(empty.policy, tuple(assignments)),
        lanes=tuple(
            Lane(lane.name, lane.device, lane.kind, tuple(lanes[n])) for n, lane in enumerate(layout.lanes) if lanes[n]
        ),
        makespan_s=max((entry.finish_s for entry in log.entries), default=0.0),
        peak_bytes=peak,
        counters=_counters(layout, lanes),
    )
    taken = constant_bytes(layout.record.constants, launched(plan), plan.platform)
    return replace(plan, constant_bytes=taken), records


def _place_allocations(log: ExecutionLog, layout: IndexedGraph) -> None:
    """Move each allocation to the lane of the first access; drop allocations that are never accessed.

    An unused allocation that was freed is kept, with the free on the same lane.
    """
    fresh: dict[tuple[int, int], LogEntry] = {}
    for entry in log.entries:
        if entry.kind == "alloc":
            fresh[entry.pieces[0], entry.spaces[0]] = entry
        elif fresh and entry.kind == "free":
            unused = fresh.pop((entry.pieces[0], entry.spaces[0]), None)
            entry.lane = entry.lane if unused is None else unused.lane
        elif fresh:
            spaces = entry.spaces[1:] * len(entry.pieces) if entry.kind == "copy" else entry.spaces
            for piece, space in zip(entry.pieces, spaces, strict=False):
                found = fresh.pop((layout.array_of[piece], space), None)
                if found is not None:
                    found.lane = entry.lane
    if fresh:  # allocated for tasks that could have run there
        unused_ids = {id(each) for each in fresh.values()}
        log.entries = [each for each in log.entries if id(each) not in unused_ids]


def instruction_of(
    entry: LogEntry,
    number: int,
    layout: IndexedGraph,
    instruction: Callable[[int, int, Sequence[int], int], Instruction],
) -> Instruction:
    """Return a log entry as an instruction with a number, without waits and times."""
    task = layout.tasks[entry.task].name
    if entry.kind in ("alloc", "free"):
        array, space = layout.arrays[entry.pieces[0]], layout.spaces[entry.spaces[0]]
        mode = AccessMode.WRITE
        return Instruction(number, entry.kind, task, uses=(BufferUse(array.name, space, mode),), nbytes=array.nbytes)
    if entry.kind == "copy":
        source, destination = (layout.spaces[space] for space in entry.spaces)
        uses = [
            use
            for piece in entry.pieces
            for use in (
                BufferUse(layout.pieces[piece].name, source, AccessMode.READ),
                BufferUse(layout.pieces[piece].name, destination, AccessMode.WRITE),
            )
        ]
        nbytes = sum(layout.pieces[piece].nbytes for piece in entry.pieces)
        return Instruction(number, "copy", task, uses=tuple(uses), nbytes=nbytes)
    return instruction(entry.task, entry.device, entry.spaces, number)


def _counters(layout: IndexedGraph, lanes: dict[int, list[Instruction]]) -> Counters:
    every = [i for instructions in lanes.values() for i in instructions]
    waited = {n for i in every for n in i.waits}
    copies = [i for i in every if i.kind == "copy"]
    return Counters(
        dependencies=layout.record.dependencies,
        edges=sum(len(i.waits) for i in every),
        waits=sum(len(i.waits) for i in every),
        events=len(waited),
        copies=len(copies),
        copied_bytes=sum(i.nbytes for i in copies),
    )
