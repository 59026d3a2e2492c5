# SPDX-License-Identifier: Apache-2.0
"""The run as a plan: what was done on which lane in which order, and what waited for what; with a record of each. Pure.

It is an ordinary plan: `syclsched.planning.verify` proves of it that nothing raced, reports and charts read it, and it
can be run again. Its predicted times are what was believed when each task was submitted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from syclsched.execution.live.coherence import Stamp
from syclsched.execution.live.layout import Layout
from syclsched.execution.records import Record
from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse, Counters, Instruction, InstructionKind, Lane, Plan
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning.constants import constant_bytes, launched


@dataclass(slots=True)
class Entry:
    """One instruction as it was submitted."""

    kind: InstructionKind  # as in `Instruction`
    lane: int  # where
    task: int  # which, or for whose sake
    #: What was touched, in which spaces: of an allocation or a free the array instead of pieces, of a copy source and
    #: destination of each piece.
    pieces: tuple[int, ...]
    spaces: tuple[int, ...]
    stamp: Stamp | None = None  # lane and place; None for allocations and frees
    waits: tuple[Stamp, ...] = ()  # what it waited for
    #: When it was believed to run.
    start_s: float = 0.0
    finish_s: float = 0.0
    record: Record | None = None  # what became of it
    device: int = -1  # the device that ran a task, -1 for none


@dataclass(slots=True)
class Log:
    """Entries in the order of submission."""

    entries: list[Entry] = field(default_factory=list)

    def add(self, entry: Entry) -> Entry:
        """Put an entry behind the others, and return it."""
        self.entries.append(entry)
        return entry


def plan_of(
    log: Log, layout: Layout, empty: Plan, instruction: Callable[[int, int, Sequence[int], int], Instruction]
) -> tuple[Plan, dict[int, Record]]:
    """Return a log as a plan."""
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
        if entry.record is not None:
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


def _place_allocations(log: Log, layout: Layout) -> None:
    """Let each allocation stand on the lane of what touches it first; leave out those that nothing touches.

    Where it was given back nevertheless, that stands on its lane.
    """
    fresh: dict[tuple[int, int], Entry] = {}
    for entry in log.entries:
        if entry.kind == "alloc":
            fresh[entry.pieces[0], entry.spaces[0]] = entry
        elif fresh and entry.kind == "free":
            unused = fresh.pop((entry.pieces[0], entry.spaces[0]), None)
            entry.lane = entry.lane if unused is None else unused.lane
        elif fresh:
            spaces = entry.spaces[1:] * len(entry.pieces) if entry.kind == "copy" else entry.spaces
            for piece, space in zip(entry.pieces, spaces, strict=False):
                found = fresh.pop((layout.whole_of[piece], space), None)
                if found is not None:
                    found.lane = entry.lane
    if fresh:  # got for tasks that could have run there
        nobodys = {id(each) for each in fresh.values()}
        log.entries = [each for each in log.entries if id(each) not in nobodys]


def instruction_of(
    entry: Entry, number: int, layout: Layout, instruction: Callable[[int, int, Sequence[int], int], Instruction]
) -> Instruction:
    """Return an entry as an instruction with a number; `plan_of` says how."""
    task = layout.tasks[entry.task].name
    if entry.kind in ("alloc", "free"):
        array, space = layout.wholes[entry.pieces[0]], layout.spaces[entry.spaces[0]]
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


def _counters(layout: Layout, lanes: dict[int, list[Instruction]]) -> Counters:
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
